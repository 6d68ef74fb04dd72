"""Container images of this account, for forms."""
