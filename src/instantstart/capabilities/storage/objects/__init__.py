"""What buckets hold, read page by page."""
