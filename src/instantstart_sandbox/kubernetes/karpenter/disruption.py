"""Nodes that are not needed go: idle ones after the pool's wait and within its budgets, old ones when they expire."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from ..loops.objects import (
    Object,
    condition_of,
    deleting,
    int_or_percent,
    is_true,
    key_of,
    labels_of,
    name_of,
    pod_finished,
    seconds_of,
    spec_of,
    stamp,
    status_of,
)
from ..loops.placement import Place, obstacles
from ..loops.quantity import requests_of
from .claims import DO_NOT_DISRUPT, lifetime, may_go
from .definitions import CLAIMS, POOLS
from .offers import POOL, seconds_in
from .provisioning import on_node, waiting
from .standing import KarpenterLoop

_LOOK_AGAIN_SECONDS = 15.0


class DisruptionLoop(KarpenterLoop):
    """Keys are names of claims."""

    name = "karpenter-disruption"
    watched = ("pods",)
    followed = (CLAIMS, POOLS)

    def keys(self, resource: str, obj: Object) -> Iterable[str]:
        """The claim; the claims of a pool; the claim under a pod."""
        if resource == CLAIMS:
            return [name_of(obj)]
        if self.standing.autoscaler is None:
            return []
        if resource == POOLS:
            return [name_of(c) for c in self.standing.claims(name_of(obj))]
        node = spec_of(obj).get("nodeName")
        return [name_of(c) for c in self.standing.claims() if node and status_of(c).get("nodeName") == node]

    async def reconcile(self, key: str) -> None:
        """One claim: too old, or of no use?"""
        claim = self.cache.get(CLAIMS, key)
        if claim is None or deleting(claim) or self.standing.autoscaler is None:
            return
        expires = lifetime(claim)
        if expires is not None and expires <= self.now():
            await self.event(claim, "DisruptionTerminating", "Disrupting NodeClaim: Expired")
            await self.client.delete(CLAIMS, key)
            return
        if expires is not None:
            self.later(expires - self.now(), key)
        pool = self.cache.get(POOLS, labels_of(claim).get(POOL, ""))
        if is_true(claim, "Initialized") and pool is not None:
            await self._consolidate(claim, pool)

    async def _consolidate(self, claim: Object, pool: Object) -> None:
        pods = on_node(self.cache.pods_on(status_of(claim)["nodeName"]))
        claim = await self._note_pods(claim, pods)
        after = seconds_in((spec_of(pool).get("disruption") or {}).get("consolidateAfter"))
        if after is None:
            await self._block(claim, "Unconsolidatable", f'NodePool "{name_of(pool)}" has consolidation disabled')
            return
        quiet = max(seconds_of(status_of(claim).get("lastPodEventTime")), self._since(claim)) + after
        if quiet > self.now():
            await self._unmark(claim)
            self.later(quiet - self.now(), name_of(claim))
            return
        claim = await self.tell(CLAIMS, claim, [{"type": "Consolidatable", "status": "True"}])
        self.later(_LOOK_AGAIN_SECONDS, name_of(claim))
        reason = self._reason(claim, pool, pods)
        if reason in ("Empty", "Underutilized"):
            await self._disrupt(claim, pool, reason)
        else:
            await self._block(claim, *reason.split("|", 1))

    def _since(self, claim: Object) -> float:
        return seconds_of((condition_of(claim, "Initialized") or {}).get("lastTransitionTime"))

    async def _note_pods(self, claim: Object, pods: list[Object]) -> Object:
        """``lastPodEventTime`` moves when a pod came or went: their keys are kept in an annotation, so that a restart counts on."""
        now = ",".join(sorted(key_of(p) for p in pods))
        note = "sandbox.instantstart.dev/pods"
        before = (claim["metadata"].get("annotations") or {}).get(note)
        if before == now:
            return claim
        await self.client.patch(CLAIMS, name_of(claim), {"metadata": {"annotations": {note: now}}})
        return await self.client.status(CLAIMS, name_of(claim), {"lastPodEventTime": stamp(self.now())})

    async def _unmark(self, claim: Object) -> None:
        conditions = status_of(claim).get("conditions") or []
        left = [c for c in conditions if c["type"] != "Consolidatable"]
        if len(left) != len(conditions):
            await self.client.status(CLAIMS, name_of(claim), {"conditions": left})

    def _reason(self, claim: Object, pool: Object, pods: list[Object]) -> str:
        """``Empty``, ``Underutilized``, or ``<event reason>|<message>`` of what keeps the node."""
        node = self.cache.get("nodes", status_of(claim)["nodeName"])
        held = next((p for p in pods if not may_go(p)), None)
        if node is not None and not may_go(node):
            return f'DisruptionBlocked|Disruption is blocked through the "{DO_NOT_DISRUPT}" annotation'
        if held is not None:
            return f'DisruptionBlocked|Pod has "{DO_NOT_DISRUPT}" annotation (Pod={key_of(held)})'
        if not pods:
            return "Empty"
        if (spec_of(pool).get("disruption") or {}).get("consolidationPolicy") == "WhenEmpty":
            return f'Unconsolidatable|NodePool "{name_of(pool)}" has non-empty consolidation disabled'
        if any(waiting(p) for p in self.cache.all("pods")):
            return "DisruptionBlocked|Pods are waiting for nodes"
        return "Underutilized" if self._fit_elsewhere(claim, pods) else "Unconsolidatable|Can't remove without creating 1 candidates"

    def _fit_elsewhere(self, claim: Object, pods: list[Object]) -> bool:
        places = []
        for node in self.cache.all("nodes"):
            if name_of(node) == status_of(claim)["nodeName"]:
                continue
            present = [p for p in self.cache.pods_on(name_of(node)) if not pod_finished(p)]
            used: dict[str, Decimal] = {}
            for pod in present:
                _add(used, requests_of(pod))
            places.append(Place(node, used, present))
        for pod in pods:
            asked = requests_of(pod)
            place = next((p for p in places if not obstacles(pod, asked, p, places)), None)
            if place is None:
                return False
            place.pods.append(pod)
            _add(place.used, asked)
        return True

    async def _disrupt(self, claim: Object, pool: Object, reason: str) -> None:
        claims = self.standing.claims(name_of(pool))
        going = sum(1 for c in claims if deleting(c))
        if going >= allowance(pool, len(claims), reason):
            text = f"No allowed disruptions for disruption reason {reason} due to blocking budget"
            await self.event(pool, "DisruptionBlocked", text)
            return
        node = self.cache.get("nodes", status_of(claim)["nodeName"])
        for obj in (claim, node):
            if obj is not None:
                await self.event(obj, "DisruptionTerminating", f"Disrupting {obj['kind']}: {reason}")
        await self.client.delete(CLAIMS, name_of(claim))

    async def _block(self, claim: Object, reason: str, message: str) -> None:
        node = self.cache.get("nodes", status_of(claim)["nodeName"])
        for obj in (claim, node):
            if obj is not None:
                await self.event(obj, reason, message)


def allowance(pool: Object, count: int, reason: str) -> int:
    """How many nodes may go at once for that reason: the strictest budget. One with a schedule counts always (simple)."""
    budgets = (spec_of(pool).get("disruption") or {}).get("budgets") or []
    mine = [b for b in budgets if not b.get("reasons") or reason in b["reasons"]]
    return min((int_or_percent(_plain(b["nodes"]), count, round_up=True) for b in mine), default=count)


def _plain(nodes: str) -> str | int:
    return nodes if nodes.endswith("%") else int(nodes)


def _add(used: dict[str, Decimal], more: dict[str, Decimal]) -> None:
    for resource, value in more.items():
        used[resource] = used.get(resource, Decimal(0)) + value
