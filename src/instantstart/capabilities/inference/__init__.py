"""Inference: models that answer, managed by the operator or by us."""
