"""Clusters as a whole: every one of a region, what is remembered of one, what of it is ours, its summary."""
