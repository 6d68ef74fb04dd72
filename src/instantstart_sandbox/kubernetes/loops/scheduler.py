"""The scheduler: binds pods to nodes that fit, and says in kube-scheduler's words why none does."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from .engine import Controller, Engine
from .objects import (
    Object,
    annotations_of,
    condition_of,
    deleting,
    key_of,
    name_of,
    namespace_of,
    pod_finished,
    spec_of,
    status_of,
    with_condition,
)
from .placement import Place, node_selector_terms, obstacles, place_changed, sentence
from .quantity import requests_of

_CLAIMS, _VOLUMES, _CLASSES = "persistentvolumeclaims", "persistentvolumes", "storageclasses.storage.k8s.io"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
#: The scheduler tries unschedulable pods again after this time even when nothing happened.
_FLUSH_SECONDS = 300.0


class _RefusedError(Exception):
    """The pod cannot go anywhere, for a reason of its own."""


def _reaches(volume: Object, node: Object) -> bool:
    return node_selector_terms((spec_of(volume).get("nodeAffinity") or {}).get("required"), node)


def scheduled(pod: Object) -> bool:
    """Whether there is nothing to schedule: bound, over, or somebody else's."""
    own = spec_of(pod).get("schedulerName", "default-scheduler") == "default-scheduler"
    return bool(spec_of(pod).get("nodeName")) or deleting(pod) or pod_finished(pod) or not own


class Scheduler(Controller):
    """Filters as in ``placement``, then takes the node with the most room."""

    name = "default-scheduler"
    watched = ("pods", "nodes", _CLAIMS, _VOLUMES)

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._waiting: set[str] = set()
        #: by node and pod what is reserved, and by node the sum (made anew when a pod came or went)
        self._held: dict[str, dict[str, dict[str, Decimal]]] = {}
        self._sums: dict[str, dict[str, Decimal]] = {}

    def concerns(self, resource: str, before: Object | None, after: Object | None) -> bool:
        """Of nodes only what decides where pods may run."""
        return resource != "nodes" or place_changed(before, after)

    def keys(self, resource: str, obj: Object) -> Iterable[str]:
        """A pod without a node; and every waiting pod when room may have appeared."""
        if resource != "pods":
            return list(self._waiting)
        key, node = key_of(obj), spec_of(obj).get("nodeName")
        present = self.cache.get("pods", key)
        if node:
            held = self._held.setdefault(node, {})
            if present is None or pod_finished(present):
                # room appeared: whoever waits is looked at again
                self._sums.pop(node, None)
                return list(self._waiting) if held.pop(key, None) is not None else []
            if key not in held:
                held[key] = requests_of(present)
                self._sums.pop(node, None)
            return []
        return [] if present is None or scheduled(present) else [key]

    async def reconcile(self, key: str) -> None:
        """Bind one pod, or say why not."""
        pod = self.cache.get("pods", key)
        if pod is None or scheduled(pod):
            self._waiting.discard(key)
            return
        if spec_of(pod).get("schedulingGates"):
            await self._report(pod, "SchedulingGated", "Scheduling is blocked due to non-empty scheduling gates")
            return
        places = self._places()
        try:
            place = self._choose(pod, places)
        except _RefusedError as refusal:
            self._waiting.add(key)
            self.later(_FLUSH_SECONDS, key)
            if await self._report(pod, "Unschedulable", str(refusal)):
                await self.event(pod, "FailedScheduling", str(refusal), warning=True)
            return
        self._waiting.discard(key)
        await self._bind(pod, place)

    def _places(self) -> list[Place]:
        found = []
        for node in self.cache.all("nodes"):
            name = name_of(node)
            pods = [p for p in self.cache.pods_on(name) if not pod_finished(p)]
            found.append(Place(node, self._used(name), pods))
        return found

    def _used(self, node: str) -> dict[str, Decimal]:
        total = self._sums.get(node)
        if total is None:
            total = self._sums[node] = {}
            for asked in self._held.get(node, {}).values():
                for resource, value in asked.items():
                    total[resource] = total.get(resource, Decimal(0)) + value
        return total

    def _choose(self, pod: Object, places: list[Place]) -> Place:
        volumes, total = self._volumes(pod, len(places)), len(places)
        asked, best, reasons = requests_of(pod), [], []
        for place in places:
            found = obstacles(pod, asked, place, places)
            if not found and not all(_reaches(volume, place.node) for volume in volumes):
                found = ["node(s) had volume node affinity conflict"]
            if found:
                reasons.append(found)
            else:
                best.append(place)
        if not best:
            raise _RefusedError(sentence(total, reasons))
        # Pods that need no GPU keep off the nodes that have some to give.
        sign = 1 if "nvidia.com/gpu" in asked else -1
        return max(best, key=lambda p: (sign * p.free("nvidia.com/gpu"), p.free("cpu"), p.name))

    def _volumes(self, pod: Object, total: int) -> list[Object]:
        """The bound volumes of the pod's claims; refuses while a claim is missing or should be bound and is not."""
        found = []
        for volume in spec_of(pod).get("volumes") or []:
            source = volume.get("persistentVolumeClaim")
            ephemeral = volume.get("ephemeral")
            if source is None and ephemeral is None:
                continue
            name = source["claimName"] if source else f"{name_of(pod)}-{volume['name']}"
            bound = self._volume_of(f"{namespace_of(pod)}/{name}", name, total)
            if bound is not None:
                found.append(bound)
        return found

    def _volume_of(self, key: str, name: str, total: int) -> Object | None:
        head = f"0/{total} nodes are available: "
        claim = self.cache.get(_CLAIMS, key)
        tail = f". preemption: 0/{total} nodes are available: {total} Preemption is not helpful for scheduling."
        if claim is None:
            raise _RefusedError(f'{head}persistentvolumeclaim "{name}" not found{tail}')
        if deleting(claim):
            raise _RefusedError(f'{head}persistentvolumeclaim "{name}" is being deleted{tail}')
        bound_to = spec_of(claim).get("volumeName")
        if bound_to and status_of(claim).get("phase") == "Bound":
            return self.cache.get(_VOLUMES, bound_to)
        if self._binds_late(claim):
            return None
        raise _RefusedError(f"{head}pod has unbound immediate PersistentVolumeClaims{tail}")

    def _binds_late(self, claim: Object) -> bool:
        name = spec_of(claim).get("storageClassName")
        found = self.cluster.read(_CLASSES, name) if name else None
        return bool(found and found.get("volumeBindingMode") == "WaitForFirstConsumer")

    async def _bind(self, pod: Object, place: Place) -> None:
        await self._announce(pod, place)
        await self.client.bind(name_of(pod), namespace_of(pod), place.name)
        await self.event(pod, "Scheduled", f"Successfully assigned {key_of(pod)} to {place.name}")

    async def _announce(self, pod: Object, place: Place) -> None:
        """Tell claims that bind at their first consumer which node it is."""
        for volume in spec_of(pod).get("volumes") or []:
            name = (volume.get("persistentVolumeClaim") or {}).get("claimName")
            claim = self.cache.get(_CLAIMS, f"{namespace_of(pod)}/{name}") if name else None
            if claim is not None and not spec_of(claim).get("volumeName") and SELECTED_NODE not in annotations_of(claim):
                note = {"metadata": {"annotations": {SELECTED_NODE: place.name}}}
                await self.client.patch(_CLAIMS, name_of(claim), note, namespace_of(claim))

    async def _report(self, pod: Object, reason: str, message: str) -> bool:
        """Write PodScheduled=False; whether that is news."""
        old: dict[str, Any] = condition_of(pod, "PodScheduled") or {}
        if old.get("status") == "False" and old.get("message") == message:
            return False
        wanted = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
        conditions = with_condition(status_of(pod).get("conditions"), wanted, self.now())
        await self.client.status("pods", name_of(pod), {"conditions": conditions}, namespace_of(pod))
        return True
