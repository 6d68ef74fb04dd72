"""Fixtures of the tests of ensure/ that need a cluster."""

from tests.ensure.clusters import kube, sandbox  # noqa: F401 - fixtures
