"""Pods that no node can hold become NodeClaims. Stateless: what is on its way is packed anew each time, so nothing is asked for twice."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from ..loops.daemonset import suits
from ..loops.objects import (
    Object,
    condition_of,
    controller_of,
    deleting,
    is_true,
    key_of,
    labels_of,
    meta,
    name_of,
    owner_reference,
    pod_active,
    pod_finished,
    spec_of,
    status_of,
)
from ..loops.placement import Place, obstacles
from ..loops.quantity import requests_of
from .definitions import CLAIMS, CLASS_GROUP, CLASSES, POOLS
from .offers import CAPACITY, POOL, TYPE, ZONE, Offer, imagined_node, node_labels, node_taints, offers_of, room_in, sizes, total
from .standing import KarpenterLoop

#: pods that arrive within this time are looked at together
_BATCH_SECONDS = 1.0
#: without news, waiting pods are looked at again: an offer may be in stock again
_AGAIN_SECONDS = 60.0
CLAIM_FINALIZER = "karpenter.sh/termination"


def waiting(pod: Object) -> bool:
    """Whether the scheduler found no place for the pod, and a new node might be one."""
    told, owner = condition_of(pod, "PodScheduled") or {}, controller_of(pod)
    daemon = owner is not None and owner["kind"] == "DaemonSet"
    return told.get("reason") == "Unschedulable" and not spec_of(pod).get("nodeName") and pod_active(pod) and not daemon


def on_node(pods: Iterable[Object]) -> list[Object]:
    """The pods that make a node busy: not those of DaemonSets, not what is over."""
    return [p for p in pods if not pod_finished(p) and (controller_of(p) or {}).get("kind") != "DaemonSet"]


@dataclass
class _Draft:
    """A machine on its way, or about to be asked for, and the pods it is for."""

    place: Place
    claim: Object | None = None
    pool: Object = field(default_factory=dict)
    offer: Offer | None = None
    pods: list[Object] = field(default_factory=list)
    requests: dict[str, Decimal] = field(default_factory=dict)

    def take(self, pod: Object, asked: dict[str, Decimal]) -> None:
        """Reserve room for a pod."""
        self.pods.append(pod)
        self.place.pods.append(pod)
        for resource, value in asked.items():
            self.place.used[resource] = self.place.used.get(resource, Decimal(0)) + value
            self.requests[resource] = self.requests.get(resource, Decimal(0)) + value


class Provisioner(KarpenterLoop):
    """Keys: ``news`` begins a batch, ``batch`` is looked at when it is complete."""

    name = "karpenter-provisioner"
    watched = ("pods",)
    followed = (POOLS, CLASSES, CLAIMS)

    def all_keys(self) -> Iterable[str]:
        """One batch."""
        return ["news"]

    def keys(self, resource: str, obj: Object) -> Iterable[str]:
        """A pod that waits, or a change of what could be made."""
        return ["news"] if resource != "pods" or (self.standing.autoscaler is not None and waiting(obj)) else []

    async def reconcile(self, key: str) -> None:
        """Look at every waiting pod."""
        if self.standing.autoscaler is None:
            return
        if key == "news":
            self.later(_BATCH_SECONDS, "batch")
            return
        pods = [p for p in self.cache.all("pods") if waiting(p)]
        drafts = [self._on_its_way(c) for c in self.standing.claims() if not is_true(c, "Initialized") and not deleting(c)]
        if pods:
            self.later(_AGAIN_SECONDS, "batch")
            await self._fit(pods, drafts)
        for draft in drafts:
            if draft.claim is not None and not draft.pods and not is_true(draft.claim, "Launched") and labels_of(draft.claim):
                await self.event(draft.claim, "Unneeded", "No pod waits for this NodeClaim any more")
                await self.client.delete(CLAIMS, name_of(draft.claim))

    async def _fit(self, pods: list[Object], drafts: list[_Draft]) -> None:
        taken = {status_of(d.claim or {}).get("nodeName") for d in drafts}
        real = [self._real(n) for n in self.cache.all("nodes") if name_of(n) not in taken]
        for pod in sorted(pods, key=_biggest_first):
            asked = requests_of(pod)
            places = [*real, *(d.place for d in drafts)]
            if any(not obstacles(pod, asked, place, places) for place in real):
                continue  # the scheduler's own business
            draft = next((d for d in drafts if not obstacles(pod, asked, d.place, places)), None)
            if draft is None:
                draft, reasons = self._open(pod, asked, places, drafts)
                if draft is None:
                    await self.event(pod, "FailedScheduling", f"Failed to schedule pod, {'; '.join(reasons)}", warning=True)
                    continue
                drafts.append(draft)
            draft.take(pod, asked)
        for draft in drafts:
            if draft.claim is None:
                await self._claim(draft)

    def _real(self, node: Object) -> Place:
        pods = [p for p in self.cache.pods_on(name_of(node)) if not pod_finished(p)]
        used: dict[str, Decimal] = {}
        for pod in pods:
            _add(used, requests_of(pod))
        return Place(node, used, pods)

    def _on_its_way(self, claim: Object) -> _Draft:
        node = imagined_node(name_of(claim), labels_of(claim)[TYPE], labels_of(claim), spec_of(claim).get("taints") or [])
        place = self._imagined(node)
        present = status_of(claim).get("nodeName")
        for pod in on_node(self.cache.pods_on(present)) if present else []:
            place.pods.append(pod)
            _add(place.used, requests_of(pod))
        return _Draft(place, claim)

    def _imagined(self, node: Object) -> Place:
        """An empty machine with room kept for the DaemonSets that will run there."""
        used: dict[str, Decimal] = {}
        for owner in self.cache.all("daemonsets.apps"):
            if suits(owner, node)[0]:
                _add(used, requests_of(spec_of(owner)["template"]))
        return Place(node, used, [])

    def _open(self, pod: Object, asked: dict[str, Decimal], places: list[Place], drafts: list[_Draft]) -> tuple[_Draft | None, list[str]]:
        """The best offer that holds the pod; or why there is none, a reason for each pool."""
        reasons = []
        for pool in self.standing.ready_pools():
            used = total([*self.standing.claims(name_of(pool)), *(_fresh(d) for d in drafts if d.claim is None and d.pool == pool)])
            fitting, found = 0, []
            for offer in offers_of(self.standing.groups_for(pool), pool, self.cluster.region):
                node = imagined_node("new", offer.instance_type, node_labels(offer, pool, self.cluster.region), node_taints(offer, pool))
                place = self._imagined(node)
                obstacle = obstacles(pod, asked, place, [*places, place])
                if obstacle:
                    found += obstacle
                    continue
                fitting += 1
                if self.standing.in_stock(offer.key) and room_in(pool, used, offer.instance_type):
                    return _Draft(place, None, pool, offer), []
            reasons.append(self._why(pool, used, fitting, found))
        return None, reasons or ["no NodePool is ready"]

    def _why(self, pool: Object, used: dict[str, Decimal], fitting: int, found: list[str]) -> str:
        name = f'nodepool "{name_of(pool)}"'
        if not fitting:
            return f"incompatible with {name}: {', '.join(dict.fromkeys(found)) or 'no instance type meets its requirements'}"
        types = {o.instance_type for o in offers_of(self.standing.groups_for(pool), pool, self.cluster.region)}
        if any(room_in(pool, used, t) for t in types):
            return f"no capacity for {name}: every fitting instance group was out of capacity a moment ago"
        return f"all available instance types exceed limits for {name}"

    async def _claim(self, draft: _Draft) -> None:
        assert draft.offer is not None
        pool, offer = draft.pool, draft.offer
        spec = spec_of(spec_of(pool)["template"])
        own = node_labels(offer, pool, self.cluster.region)
        fixed = {TYPE: offer.instance_type, ZONE: offer.zone, CAPACITY: offer.capacity_type, POOL: name_of(pool)}
        requirements = [{"key": k, "operator": "In", "values": [v]} for k, v in fixed.items()]
        requests = {r: f"{v.normalize():f}" for r, v in sorted(draft.requests.items())}
        body: Object = {
            "nodeClassRef": {"group": CLASS_GROUP, "kind": "HyperpodNodeClass", "name": spec["nodeClassRef"]["name"]},
            "requirements": requirements,
            "taints": node_taints(offer, pool),
            "startupTaints": spec.get("startupTaints") or [],
            "expireAfter": spec.get("expireAfter", "720h"),
            "resources": {"requests": requests},
        }
        owner = {k: v for k, v in owner_reference(pool).items() if k != "controller"}
        metadata = {"generateName": f"{name_of(pool)}-", "labels": own, "ownerReferences": [owner], "finalizers": [CLAIM_FINALIZER]}
        made = await self.client.create(CLAIMS, {"metadata": metadata, "spec": body})
        whole, usable = sizes(offer.instance_type)
        await self.client.status(CLAIMS, name_of(made), {"capacity": whole, "allocatable": usable})
        for pod in draft.pods:
            await self.event(pod, "Nominated", f"Pod should schedule on: nodeclaim/{name_of(made)}")


def _fresh(draft: _Draft) -> Object:
    assert draft.offer is not None
    return {"metadata": {"labels": {TYPE: draft.offer.instance_type}}}


def _add(used: dict[str, Decimal], more: dict[str, Decimal]) -> None:
    for resource, value in more.items():
        used[resource] = used.get(resource, Decimal(0)) + value


def _biggest_first(pod: Object) -> tuple[Any, ...]:
    asked = requests_of(pod)
    sizes_asked = [-asked.get(r, Decimal(0)) for r in ("nvidia.com/gpu", "aws.amazon.com/neuron", "cpu", "memory")]
    return (*sizes_asked, str(meta(pod).get("creationTimestamp")), key_of(pod))
