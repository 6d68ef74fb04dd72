"""Calls: asking a served model."""
