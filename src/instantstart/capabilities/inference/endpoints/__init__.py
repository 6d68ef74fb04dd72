"""Managed endpoints: models that the HyperPod inference operator serves."""
