"""Downloads: models and datasets from the hub into a volume."""
