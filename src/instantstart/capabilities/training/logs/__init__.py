"""What pods write: read once, downloaded, or followed while it is written."""
