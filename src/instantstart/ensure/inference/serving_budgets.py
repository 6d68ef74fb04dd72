"""The disruption budget of what serves a model: there for more than one replica, and only then; it follows each change of their number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from instantstart.ensure.inference import servers, serving
from instantstart.kube.client import KubeCluster


def keep(kube: KubeCluster, live: Mapping[str, Any], replicas: int) -> None:
    """Make or remove the budget of a Deployment of ours that is to have ``replicas``. One of somebody else's under its name stays."""
    marks, name, namespace = serving.marks(live), live["metadata"]["name"], live["metadata"]["namespace"]
    there = kube.find("PodDisruptionBudget", name, namespace)
    if replicas > 1 and there is None and marks is not None:
        kube.apply(servers.budget_of(name, namespace, marks))
    if replicas <= 1 and there is not None and serving.is_ours(there):
        kube.delete("PodDisruptionBudget", name, namespace)
