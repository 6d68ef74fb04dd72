"""DaemonSets: one pod on every node that its selectors, affinity and tolerations allow."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ..errors import ApiError
from .engine import Controller
from .objects import (
    Object,
    controller_of,
    deleting,
    int_or_percent,
    key_of,
    labels_of,
    meta,
    name_of,
    namespace_of,
    pod_finished,
    pod_ready,
    spec_of,
    status_of,
    uid_of,
)
from .placement import place_changed, untolerated, wanted_node
from .replicaset import available, pod_from
from .revisions import HASH, keep_revisions, template_hash

_TOLERATED = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)


def daemon_pod(owner: Object, node: str) -> Object:
    """The pod for one node, as the controller makes it: affinity by node name and the standing tolerations."""
    template = spec_of(owner)["template"]
    mark = template_hash(owner)
    pod = pod_from(template, owner)
    generation = str(meta(owner).get("generation", 1))
    pod["metadata"]["labels"] = {**pod["metadata"]["labels"], HASH: mark, "pod-template-generation": generation}
    spec = pod["spec"]
    standing = [{"key": k, "operator": "Exists", "effect": e} for k, e in _TOLERATED]
    if spec.get("hostNetwork"):
        standing.append({"key": "node.kubernetes.io/network-unavailable", "operator": "Exists", "effect": "NoSchedule"})
    given = spec.get("tolerations") or []
    spec["tolerations"] = [*given, *(t for t in standing if t not in given)]
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    affinity = dict(spec.get("affinity") or {})
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    affinity["nodeAffinity"] = {**(affinity.get("nodeAffinity") or {}), **required}
    spec["affinity"] = affinity
    return pod


def target_of(pod: Object) -> str:
    """The node a daemon pod runs on, or waits for."""
    spec = spec_of(pod)
    if spec.get("nodeName"):
        return str(spec["nodeName"])
    affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    for term in affinity.get("nodeSelectorTerms") or []:
        for wanted in term.get("matchFields") or []:
            if wanted.get("key") == "metadata.name":
                return str((wanted.get("values") or [""])[0])
    return ""


def suits(owner: Object, node: Object) -> tuple[bool, bool]:
    """(should run there, may go on running there)."""
    spec = spec_of(spec_of(owner)["template"])
    standing = [{"key": k, "operator": "Exists", "effect": e} for k, e in _TOLERATED]
    imagined = {"spec": {**spec, "tolerations": [*(spec.get("tolerations") or []), *standing]}}
    fits = wanted_node(imagined, node)
    stays = fits and untolerated(imagined, node, ("NoExecute",)) is None
    return stays and untolerated(imagined, node, ("NoSchedule",)) is None, stays


@dataclass
class _Plan:
    create: list[str] = field(default_factory=list)
    delete: list[Object] = field(default_factory=list)
    running: dict[str, Object] = field(default_factory=dict)
    wanted: set[str] = field(default_factory=set)
    misplaced: int = 0


class DaemonSetController(Controller):
    """Keeps one pod on each suitable node."""

    name = "daemonset-controller"
    watched = ("daemonsets.apps", "pods", "nodes")

    def concerns(self, resource: str, before: Object | None, after: Object | None) -> bool:
        """Of nodes only what decides where pods may run."""
        return resource != "nodes" or place_changed(before, after)

    def keys(self, resource: str, obj: Object) -> Iterable[str]:
        """The set, the set of a pod, or every set when a node changed."""
        if resource == "daemonsets.apps":
            return [key_of(obj)]
        if resource == "nodes":
            return [key_of(owner) for owner in self.cache.all("daemonsets.apps")]
        owner = controller_of(obj)
        return [f"{namespace_of(obj)}/{owner['name']}"] if owner and owner["kind"] == "DaemonSet" else []

    async def reconcile(self, key: str) -> None:
        """One look at one set."""
        owner = self.cache.get("daemonsets.apps", key)
        if owner is None or deleting(owner):
            return
        await keep_revisions(self, owner)
        plan = self._plan(owner)
        self._roll(owner, plan)
        for pod in plan.delete:
            await self.client.delete("pods", name_of(pod), namespace_of(pod))
            await self.event(owner, "SuccessfulDelete", f"Deleted pod: {name_of(pod)}")
        for node in plan.create:
            try:
                pod = await self.client.create("pods", daemon_pod(owner, node))
            except ApiError as error:
                await self.event(owner, "FailedCreate", f"Error creating: {error.message}", warning=True)
                raise
            await self.event(owner, "SuccessfulCreate", f"Created pod: {name_of(pod)}")
        await self._report(key)

    def _plan(self, owner: Object) -> _Plan:
        plan = _Plan()
        by_node: dict[str, list[Object]] = {}
        for pod in self.cache.owned("pods", uid_of(owner)):
            by_node.setdefault(target_of(pod), []).append(pod)
        nodes = self.cache.all("nodes")
        for node in nodes:
            should, stays = suits(owner, node)
            pods = by_node.pop(name_of(node), [])
            live = [p for p in pods if not deleting(p) and not pod_finished(p)]
            plan.delete += [p for p in pods if pod_finished(p) and not deleting(p)]
            if should:
                plan.wanted.add(name_of(node))
            if should and not pods:
                plan.create.append(name_of(node))
            if not stays:
                plan.delete += live
            elif live:
                plan.running[name_of(node)] = live[0]
                plan.delete += live[1:]
            plan.misplaced += int(bool(live) and not should)
        # A pod whose node is gone is the pod collector's; one that waits for a node that is gone is removed here.
        plan.delete += [p for pods in by_node.values() for p in pods if not spec_of(p).get("nodeName") and not deleting(p)]
        return plan

    def _roll(self, owner: Object, plan: _Plan) -> None:
        strategy = spec_of(owner).get("updateStrategy") or {}
        if strategy.get("type") == "OnDelete":
            return
        mark = template_hash(owner)
        limit = int_or_percent((strategy.get("rollingUpdate") or {}).get("maxUnavailable", 1), len(plan.wanted), round_up=True)
        down = sum(1 for node in plan.wanted if node not in plan.running or not pod_ready(plan.running[node]))
        for pod in plan.running.values():
            if labels_of(pod).get(HASH) == mark or pod in plan.delete:
                continue
            if not pod_ready(pod):
                plan.delete.append(pod)
            elif down < max(limit, 1):
                plan.delete.append(pod)
                down += 1

    async def _report(self, key: str) -> None:
        owner = self.cache.get("daemonsets.apps", key)
        if owner is None:
            return
        plan, now = self._plan(owner), self.now()
        mark, wait = template_hash(owner), int(spec_of(owner).get("minReadySeconds") or 0)
        placed = [plan.running[n] for n in plan.wanted if n in plan.running]
        serving = sum(1 for p in placed if available(p, wait, now))
        status = {
            "currentNumberScheduled": len(placed),
            "desiredNumberScheduled": len(plan.wanted),
            "numberMisscheduled": plan.misplaced,
            "numberReady": sum(1 for p in placed if pod_ready(p)),
            "numberAvailable": serving or None,
            "numberUnavailable": len(plan.wanted) - serving or None,
            "updatedNumberScheduled": sum(1 for p in placed if labels_of(p).get(HASH) == mark) or None,
            "observedGeneration": meta(owner).get("generation"),
        }
        await self.engine.write_status("daemonsets.apps", owner, status, self.client)
        if wait and serving < len(placed):
            self.later(wait, key)


def daemon_ready(owner: Object) -> bool:
    """Whether every wanted pod is ready; no node counts as ready."""
    status = status_of(owner)
    if status.get("observedGeneration") != meta(owner).get("generation"):
        return False
    return int(status.get("numberReady") or 0) >= int(status.get("desiredNumberScheduled") or 0)
