"""Disruption: the counts of PodDisruptionBudgets, and eviction by NoExecute taints."""

from __future__ import annotations

from collections.abc import Iterable

from .engine import Controller
from .objects import (
    Object,
    deleting,
    int_or_percent,
    key_of,
    labels_of,
    meta,
    name_of,
    namespace_of,
    pod_active,
    pod_finished,
    pod_ready,
    seconds_of,
    selects,
    spec_of,
    status_of,
    with_condition,
)
from .placement import tolerates

BUDGETS = "poddisruptionbudgets.policy"
_TAINTED = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "DeletionByTaintManager",
    "message": "Taint manager: deleting due to NoExecute taint",
}


def budget_status(budget: Object, pods: list[Object], expected: int) -> Object:
    """The counts of a budget over the pods it selects; ``expected`` is what their controllers want."""
    spec = spec_of(budget)
    healthy = sum(1 for p in pods if pod_ready(p))
    if spec.get("maxUnavailable") is not None:
        wanted = max(expected - int_or_percent(spec["maxUnavailable"], expected, round_up=True), 0)
    else:
        wanted = int_or_percent(spec.get("minAvailable", 1), expected, round_up=True)
    return {
        "currentHealthy": healthy,
        "desiredHealthy": wanted,
        "expectedPods": expected,
        "disruptionsAllowed": max(healthy - wanted, 0) if expected else 0,
        "observedGeneration": meta(budget).get("generation"),
    }


class BudgetController(Controller):
    """Keeps the counts of every PodDisruptionBudget."""

    name = "disruption-controller"
    watched = (BUDGETS, "pods")

    def keys(self, resource: str, obj: Object) -> Iterable[str]:
        """The budget, or those that select a pod."""
        if resource == BUDGETS:
            return [key_of(obj)]
        return [key_of(b) for b in self.cache.all(BUDGETS, namespace_of(obj)) if selects(spec_of(b).get("selector"), labels_of(obj))]

    async def reconcile(self, key: str) -> None:
        """Count and write."""
        budget = self.cache.get(BUDGETS, key)
        if budget is None or deleting(budget):
            return
        selector = spec_of(budget).get("selector")
        pods = [p for p in self.cache.all("pods", namespace_of(budget)) if pod_active(p) and selects(selector, labels_of(p))]
        status = budget_status(budget, pods, len(pods))
        enough = status["disruptionsAllowed"] > 0
        wanted = {
            "type": "DisruptionAllowed",
            "status": str(enough),
            "reason": "SufficientPods" if enough else "InsufficientPods",
            "message": "",
            "observedGeneration": status["observedGeneration"],
        }
        status["conditions"] = with_condition(status_of(budget).get("conditions"), wanted, self.now())
        await self.engine.write_status(BUDGETS, budget, status, self.client)


class TaintEviction(Controller):
    """Removes pods from nodes with NoExecute taints that they do not tolerate, or no longer."""

    name = "taint-eviction-controller"
    watched = ("nodes", "pods")

    def keys(self, resource: str, obj: Object) -> Iterable[str]:
        """The pods of a node that has such taints."""
        if resource == "nodes":
            return [key_of(p) for p in self.cache.pods_on(name_of(obj))] if _evicting(obj) else []
        node = self.cache.get("nodes", spec_of(obj).get("nodeName") or "")
        return [key_of(obj)] if node is not None and _evicting(node) else []

    async def reconcile(self, key: str) -> None:
        """Delete the pod when its time on the node is up."""
        pod = self.cache.get("pods", key)
        if pod is None or deleting(pod) or pod_finished(pod):
            return
        node = self.cache.get("nodes", spec_of(pod).get("nodeName") or "")
        if node is None:
            return
        left = self._left(pod, _evicting(node))
        if left is None:
            return
        if left > 0:
            self.later(left, key)
            return
        conditions = with_condition(status_of(pod).get("conditions"), _TAINTED, self.now())
        await self.client.status("pods", name_of(pod), {"conditions": conditions}, namespace_of(pod))
        await self.event(pod, "TaintManagerEviction", f"Marking for deletion Pod {key_of(pod)}")
        await self.client.delete("pods", name_of(pod), namespace_of(pod))

    def _left(self, pod: Object, taints: list[Object]) -> float | None:
        """Seconds until eviction; None for never."""
        ends = []
        for taint in taints:
            matching = [t for t in spec_of(pod).get("tolerations") or [] if tolerates([t], taint)]
            if not matching:
                return 0.0
            limits = [float(t["tolerationSeconds"]) for t in matching if t.get("tolerationSeconds") is not None]
            if len(limits) == len(matching):
                ends.append(seconds_of(taint.get("timeAdded")) + min(limits) - self.now())
        return max(min(ends), 0.0) if ends else None


def _evicting(node: Object) -> list[Object]:
    return [t for t in spec_of(node).get("taints") or [] if t.get("effect") == "NoExecute"]
