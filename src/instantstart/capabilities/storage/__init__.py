"""Storage: volumes that pods mount, what buckets hold, images, and downloads from the model hub. A slice for each noun."""
