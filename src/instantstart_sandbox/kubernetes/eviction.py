"""Evicting a Pod: allowed only while its PodDisruptionBudgets are kept."""

from __future__ import annotations

import math
from typing import Any

from instantstart_sandbox.kubernetes.admission import Reader
from instantstart_sandbox.kubernetes.errors import ApiError
from instantstart_sandbox.kubernetes.selectors import selector_matches

Object = dict[str, Any]


def _count(value: Any, whole: int) -> int:
    text = str(value)
    return math.ceil(whole * int(text[:-1]) / 100) if text.endswith("%") else int(text)


def _healthy(pod: Object) -> bool:
    if pod["metadata"].get("deletionTimestamp"):
        return False
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in (pod.get("status") or {}).get("conditions") or ())


def allowed_disruptions(reader: Reader, budget: Object) -> int:
    """How many of the budget's pods may go now."""
    spec, namespace = budget.get("spec") or {}, budget["metadata"]["namespace"]
    pods = [p for p in reader.read_all("pods", namespace) if selector_matches(spec.get("selector"), p["metadata"].get("labels") or {})]
    live = [p for p in pods if (p.get("status") or {}).get("phase") not in ("Succeeded", "Failed")]
    healthy = sum(_healthy(p) for p in live)
    if "maxUnavailable" in spec:
        return healthy - (len(live) - _count(spec["maxUnavailable"], len(live)))
    return healthy - _count(spec.get("minAvailable", 1), len(live))


def check(reader: Reader, pod: Object) -> None:
    """429 when a budget does not allow it. Pods that have ended or never started may always go."""
    if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed", "Pending") or pod["metadata"].get("deletionTimestamp"):
        return
    labels = pod["metadata"].get("labels") or {}
    for budget in reader.read_all("poddisruptionbudgets.policy", pod["metadata"]["namespace"]):
        if selector_matches((budget.get("spec") or {}).get("selector"), labels) and allowed_disruptions(reader, budget) <= 0:
            name = budget["metadata"]["name"]
            status = budget.get("status") or {}
            needs = f"needs {status.get('desiredHealthy', 0)} healthy pods and has {status.get('currentHealthy', 0)} currently"
            causes = [{"reason": "DisruptionBudget", "message": f"The disruption budget {name} {needs}"}]
            raise ApiError(429, "TooManyRequests", "Cannot evict pod as it would violate the pod's disruption budget.", {"causes": causes})
