"""Managed MLflow on SageMaker: its servers and apps, its REST API, runs copied from one to another."""
