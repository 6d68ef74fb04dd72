"""Instance groups: add, change, scale, delete, without losing a setting or a running job."""
