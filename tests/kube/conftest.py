"""Fixtures of the Kubernetes tests."""

from tests.kube.scripted import wire  # noqa: F401 - a fixture
