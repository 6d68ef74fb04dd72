"""Managed MLflow: tracking servers and apps, the pods' way to them, the history of runs, sharing across accounts."""
