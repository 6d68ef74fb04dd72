"""Pods that a disruption budget holds on a node, named with their budget (case 7): what keeps a node from being emptied."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from instantstart.ensure.installs.releases import Resource
from instantstart.kube.client import KubeCluster


@dataclass(frozen=True)
class Held:
    """One pod that may not be evicted now, and the budget that says so."""

    namespace: str
    pod: str
    node: str
    budget: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.pod} on {self.node} (budget {self.budget})"


def held(cluster: KubeCluster, nodes: Collection[str]) -> list[Held]:
    """The pods on ``nodes`` whose budget allows no disruption at present."""
    budgets = [b for b in cluster.list("PodDisruptionBudget") if not (b.get("status") or {}).get("disruptionsAllowed")]
    if not budgets:
        return []
    pods = [p for p in cluster.list("Pod") if p["spec"].get("nodeName") in nodes]
    return [_held(pod, budget) for pod in pods for budget in budgets if _covers(budget, pod)]


def _held(pod: Resource, budget: Resource) -> Held:
    metadata = pod["metadata"]
    return Held(metadata["namespace"], metadata["name"], pod["spec"]["nodeName"], budget["metadata"]["name"])


def _covers(budget: Resource, pod: Resource) -> bool:
    if budget["metadata"]["namespace"] != pod["metadata"]["namespace"]:
        return False
    return _selects(budget["spec"].get("selector"), pod["metadata"].get("labels") or {})


def _selects(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """A LabelSelector on labels; an empty selector selects all of a namespace (policy/v1), none at all selects nothing."""
    if selector is None:
        return False
    wanted = selector.get("matchLabels") or {}
    return wanted.items() <= labels.items() and all(_meets(e, labels) for e in selector.get("matchExpressions") or ())


def _meets(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    value, values = labels.get(expression["key"]), expression.get("values") or ()
    return {
        "In": value in values,
        "NotIn": value not in values,
        "Exists": value is not None,
        "DoesNotExist": value is None,
    }[expression["operator"]]
