"""Who scales a workload: HorizontalPodAutoscalers and KEDA's ScaledObjects of anybody. Two on one workload undo one another (case 65)."""

from __future__ import annotations

from typing import Any

from instantstart.base import problems
from instantstart.kube.client import KubeCluster

SCALED_OBJECT = "keda.sh/v1alpha1/ScaledObject"
TRIGGER_AUTHENTICATION = "keda.sh/v1alpha1/TriggerAuthentication"


def owners(kube: KubeCluster, namespace: str, kind: str, name: str) -> list[str]:
    """``ScaledObject name`` or ``HorizontalPodAutoscaler name`` of each that scales it. An HPA of KEDA's counts as its ScaledObject."""
    found = []
    scaled = [s for s in _of(kube, SCALED_OBJECT, namespace) if _aims(s["spec"].get("scaleTargetRef") or {}, kind, name)]
    found += [f"ScaledObject {s['metadata']['name']}" for s in scaled]
    made = {str((s.get("status") or {}).get("hpaName") or f"keda-hpa-{s['metadata']['name']}") for s in scaled}
    for each in _of(kube, "HorizontalPodAutoscaler", namespace):
        if each["metadata"]["name"] not in made and _aims(each["spec"].get("scaleTargetRef") or {}, kind, name):
            found.append(f"HorizontalPodAutoscaler {each['metadata']['name']}")
    return found


def owner(kube: KubeCluster, namespace: str, kind: str, name: str) -> str | None:
    """The first of them, or None."""
    return next(iter(owners(kube, namespace, kind, name)), None)


def _of(kube: KubeCluster, kind: str, namespace: str) -> list[dict[str, Any]]:
    try:
        return kube.list(kind, namespace)
    except problems.NotFound:  # KEDA is not there
        return []


def _aims(reference: dict[str, Any], kind: str, name: str) -> bool:
    return reference.get("name") == name and reference.get("kind", "Deployment") == kind
