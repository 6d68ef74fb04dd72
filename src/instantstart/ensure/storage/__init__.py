"""Buckets, file systems, container images, and volumes on them."""
