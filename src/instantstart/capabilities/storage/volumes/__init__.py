"""Volumes: S3 buckets and FSx for Lustre file systems as claims that pods name."""
