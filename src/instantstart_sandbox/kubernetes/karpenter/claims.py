"""The life of a NodeClaim: launched, registered, initialized; and its end: drained, given up, gone. And nodes that nobody claims."""

from __future__ import annotations

from collections.abc import Iterable

from ...world.seams import AskedNode, ScalingRefusedError
from .. import eviction
from ..errors import ApiError
from ..loops.objects import (
    Object,
    annotations_of,
    deleting,
    is_true,
    key_of,
    labels_of,
    meta,
    name_of,
    namespace_of,
    seconds_of,
    spec_of,
    status_of,
)
from ..nodes import node_name
from .definitions import CLAIMS, CLASSES
from .offers import CAPACITY, CLASS, DISRUPTED, GROUP, LOGICAL, POOL, TYPE, ZONE, offers_of, seconds_in
from .provisioning import CLAIM_FINALIZER, on_node
from .standing import KarpenterLoop

DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
_ASK_AGAIN_SECONDS, _DRAIN_SECONDS = 60.0, 5.0
#: without capacity, another offer is tried after this time
_PATIENCE_SECONDS = 60.0
#: a node takes 15 to 30 minutes on AWS; past this the claim is given up
_REGISTER_SECONDS = 3600.0
_SHORTAGE = ("ResourceLimitExceeded", "InsufficientCapacity")
_READY_PARTS = ("Launched", "Registered", "Initialized")


def may_go(pod: Object) -> bool:
    """Whether the pod does not forbid that its node is disturbed."""
    return annotations_of(pod).get(DO_NOT_DISRUPT) != "true"


class ClaimLoop(KarpenterLoop):
    """Keys are names of claims."""

    name = "karpenter-nodeclaim"
    watched = ("nodes",)
    followed = (CLAIMS,)

    def keys(self, resource: str, obj: Object) -> Iterable[str]:
        """The claim, or the claims of a node's group."""
        if resource == CLAIMS:
            return [name_of(obj)]
        if POOL not in labels_of(obj) and self.standing.autoscaler is None:
            return []
        return [name_of(c) for c in self.standing.claims() if labels_of(c).get(GROUP) == labels_of(obj).get(GROUP)]

    async def reconcile(self, key: str) -> None:
        """One step of one claim."""
        claim = self.cache.get(CLAIMS, key)
        if claim is None or self.standing.autoscaler is None:
            return
        if deleting(claim):
            await self._terminate(claim)
        elif LOGICAL not in annotations_of(claim):
            await self._launch(claim)
        else:
            await self._follow(claim)

    # ------------------------------------------------------------------ coming

    async def _launch(self, claim: Object) -> None:
        own, aws = labels_of(claim), self.cluster.aws
        wish = (own[GROUP], own[TYPE], own[ZONE])
        try:
            logical = await self.cluster.ask_aws(aws.add_node, self.cluster.arn, wish, meta(claim)["uid"])  # type: ignore[attr-defined]
        except ScalingRefusedError as error:
            await self._short(claim, error.code, str(error))
            return
        self.standing.asked_now(name_of(claim))
        claim = await self.client.patch(CLAIMS, name_of(claim), {"metadata": {"annotations": {LOGICAL: logical}}})
        await self._requested(claim)

    async def _requested(self, claim: Object) -> None:
        told = {"type": "Launched", "status": "Unknown", "reason": "LaunchRequested", "message": "HyperPod was asked for it"}
        await self.tell(CLAIMS, claim, [told, self._unready(claim)])

    async def _follow(self, claim: Object) -> None:
        asked = self.standing.node(annotations_of(claim)[LOGICAL])
        if asked is None:
            await self._lost(claim)
        elif asked.instance_id:
            await self._join(claim, asked)
        elif asked.message:
            await self._short(claim, "InsufficientCapacity", asked.message)
        else:
            await self._requested(claim)

    async def _join(self, claim: Object, asked: AskedNode) -> None:
        node = self.cache.get("nodes", node_name(asked.instance_id))
        conditions: list[Object] = [{"type": "Launched", "status": "True"}]
        cluster = self.standing.autoscaler.cluster_name if self.standing.autoscaler else ""
        more: Object = {"providerID": f"aws:///{asked.zone_id}/sagemaker/cluster/hyperpod-{cluster}-{asked.instance_id}"}
        if node is None:
            text = "Node not registered with cluster"
            conditions.append({"type": "Registered", "status": "Unknown", "reason": "NodeNotFound", "message": text})
        else:
            more["nodeName"] = name_of(node)
            await self._register(claim, node)
            conditions += [{"type": "Registered", "status": "True"}, self._initialized(claim, node)]
        states = {c["type"]: c["status"] for c in conditions}
        ready = all(states.get(p) == "True" for p in _READY_PARTS)
        conditions.append({"type": "Ready", "status": "True"} if ready else self._unready(claim, conditions))
        await self.tell(CLAIMS, claim, conditions, **more)
        if node is None and self._age(claim) > _REGISTER_SECONDS:
            await self.event(claim, "RegistrationTimeout", "The node has not registered in time", warning=True)
            await self.client.delete(CLAIMS, name_of(claim))
        elif node is None:
            self.later(_ASK_AGAIN_SECONDS, name_of(claim))

    async def _register(self, claim: Object, node: Object) -> None:
        """The claim's labels and taints on the node; once, so that a person may change them afterwards."""
        if labels_of(node).get("karpenter.sh/registered") == "true":
            return
        present = spec_of(node).get("taints") or []
        added = [*(spec_of(claim).get("taints") or []), *(spec_of(claim).get("startupTaints") or [])]
        known = {(t["key"], t["effect"]) for t in present}
        taints = [*present, *(t for t in added if (t["key"], t["effect"]) not in known)]
        labels = {**labels_of(claim), "karpenter.sh/registered": "true"}
        await self.client.patch("nodes", name_of(node), {"metadata": {"labels": labels}, "spec": {"taints": taints}})

    def _initialized(self, claim: Object, node: Object) -> Object:
        told: Object = {"type": "Initialized", "status": "Unknown"}
        if not is_true(node, "Ready"):
            return {**told, "reason": "NodeNotReady", "message": "Node status is NotReady"}
        left = {(t["key"], t["effect"]) for t in spec_of(node).get("taints") or []}
        for taint in spec_of(claim).get("startupTaints") or []:
            if (taint["key"], taint["effect"]) in left:
                return {**told, "reason": "StartupTaintsExist", "message": f'StartupTaint "{taint["key"]}" still exists'}
        have = status_of(node).get("allocatable") or {}
        wanted = (spec_of(claim).get("resources") or {}).get("requests") or {}
        for resource in wanted:
            if resource not in have:
                return {**told, "reason": "ResourceNotRegistered", "message": f'Resource "{resource}" was requested but not registered'}
        return {"type": "Initialized", "status": "True"}

    def _unready(self, claim: Object, conditions: list[Object] | None = None) -> Object:
        states = {c["type"]: c["status"] for c in conditions or []}
        unmet = ", ".join(f"{p}={states.get(p, 'Unknown')}" for p in _READY_PARTS if states.get(p) != "True")
        return {"type": "Ready", "status": "Unknown", "reason": "ReconcilingDependents", "message": unmet}

    def _age(self, claim: Object) -> float:
        return self.now() - seconds_of(meta(claim).get("creationTimestamp"))

    # ------------------------------------------------------------------ not coming

    async def _short(self, claim: Object, code: str, message: str) -> None:
        """No capacity, no quota, no permission: told on the claim; another offer is tried when there is one."""
        own = labels_of(claim)
        told = {"type": "Launched", "status": "False", "reason": code, "message": message}
        fresh = not any(c.get("message") == message for c in status_of(claim).get("conditions") or [])
        await self.tell(
            CLAIMS, claim, [told, {"type": "Ready", "status": "False", "reason": "UnhealthyDependents", "message": "Launched=False"}]
        )
        if fresh:
            reason = "InsufficientCapacityError" if code in _SHORTAGE else "LaunchFailed"
            await self.event(claim, reason, f"NodeClaim {name_of(claim)} event: {message}", warning=True)
        self.later(_PATIENCE_SECONDS, name_of(claim))
        if self._age(claim) < _PATIENCE_SECONDS:
            return
        self.standing.out_of_stock(f"{own[GROUP]}/{own[TYPE]}")
        if self._alternative(claim):
            await self.client.delete(CLAIMS, name_of(claim))

    def _alternative(self, claim: Object) -> bool:
        own = labels_of(claim)
        pool = next((p for p in self.standing.ready_pools() if name_of(p) == own.get(POOL)), None)
        if pool is None:
            return False
        others = offers_of(self.standing.groups_for(pool), pool, self.cluster.region)
        same = next((o for o in others if (o.group.name, o.instance_type) == (own[GROUP], own[TYPE])), None)
        return any(o != same and self.standing.in_stock(o.key) and (same is None or o.order[1:] >= same.order[1:]) for o in others)

    async def _lost(self, claim: Object) -> None:
        """HyperPod does not have the node (any more): somebody took it away."""
        if self.standing.told_of(name_of(claim)):
            await self.event(claim, "Garbage", "The instance of this NodeClaim is gone")
            await self.client.delete(CLAIMS, name_of(claim))

    # ------------------------------------------------------------------ going

    async def _terminate(self, claim: Object) -> None:
        node = self.cache.get("nodes", status_of(claim).get("nodeName") or "")
        asked = self.standing.node(annotations_of(claim).get(LOGICAL))
        if asked is None:
            left = [f for f in meta(claim).get("finalizers") or [] if f != CLAIM_FINALIZER]
            await self.client.patch(CLAIMS, name_of(claim), {"metadata": {"finalizers": left}})
            return
        self.later(_DRAIN_SECONDS, name_of(claim))
        if node is not None and not await self._drain(claim, node):
            return
        if asked.status != "ShuttingDown":
            told = {"type": "InstanceTerminating", "status": "True"}
            await self.tell(CLAIMS, claim, [told])
            try:
                await self.cluster.ask_aws(self.cluster.aws.delete_node, self.cluster.arn, asked.logical_id)  # type: ignore[attr-defined]
            except ScalingRefusedError as error:
                await self.event(claim, "TerminationFailed", f"{error.code}: {error}", warning=True)

    async def _drain(self, claim: Object, node: Object) -> bool:
        """Move a step towards an empty node; whether it is."""
        taints = spec_of(node).get("taints") or []
        if not any(t["key"] == DISRUPTED["key"] for t in taints):
            await self.client.patch("nodes", name_of(node), {"spec": {"taints": [*taints, DISRUPTED]}})
        pods = on_node(self.cache.pods_on(name_of(node)))
        for pod in pods:
            if not may_go(pod):
                text = f'Cannot disrupt Node: Pod has "{DO_NOT_DISRUPT}" annotation (Pod={key_of(pod)})'
                await self.event(node, "DisruptionBlocked", text)
            elif not deleting(pod):
                await self._evict(claim, pod)
        drained = {"type": "Drained", "status": "True"} if not pods else {"type": "Drained", "status": "Unknown", "reason": "Draining"}
        await self.tell(CLAIMS, claim, [drained])
        return not pods

    async def _evict(self, claim: Object, pod: Object) -> None:
        try:
            eviction.check(self.cluster.pipeline, pod)
        except ApiError as error:
            await self.event(pod, "FailedDraining", f"Failed to drain node, {error.message}", warning=True)
            return
        await self.event(pod, "Evicted", "Evicted pod: Forceful Termination" if not may_go(pod) else "Evicted pod: Disrupted")
        await self.client.delete("pods", name_of(pod), namespace_of(pod))


class Garbage(KarpenterLoop):
    """Nodes in a class's groups that no claim asked for are given up: also those that were there first (facts A12, case 35)."""

    name = "karpenter-garbage"
    followed = (CLASSES, CLAIMS)
    #: so long an unclaimed node is left alone
    _GRACE_SECONDS = 30.0

    def all_keys(self) -> Iterable[str]:
        """One look at all."""
        return ["nodes"]

    def keys(self, resource: str, obj: Object) -> Iterable[str]:
        """The same."""
        return ["nodes"]

    async def reconcile(self, key: str) -> None:
        """Give up what nobody claims."""
        if self.standing.autoscaler is None:
            return
        owners = {g: name_of(c) for c in self.cache.all(CLASSES) if not deleting(c) for g in spec_of(c)["instanceGroups"]}
        claims = self.standing.claims()
        claimed = {annotations_of(c).get(LOGICAL) for c in claims}
        unsure = {labels_of(c).get(GROUP) for c in claims if LOGICAL not in annotations_of(c)}
        for node in self.standing.autoscaler.nodes:
            if node.group in owners and node.group not in unsure and node.logical_id not in claimed and node.status != "ShuttingDown":
                await self._give_up(node, owners[node.group])

    async def _give_up(self, asked: AskedNode, owner: str) -> None:
        since = self.engine.first_seen(("unclaimed", asked.logical_id))
        if self.now() - since < self._GRACE_SECONDS:
            self.later(self._GRACE_SECONDS - (self.now() - since), "nodes")
            return
        self.engine.forget(("unclaimed", asked.logical_id))
        node = self.cache.get("nodes", node_name(asked.instance_id)) if asked.instance_id else None
        if node is not None:
            text = f"Disrupting Node: instance group {asked.group} belongs to HyperpodNodeClass {owner} and no NodeClaim asked for it"
            await self.event(node, "DisruptionTerminating", text)
        try:
            await self.cluster.ask_aws(self.cluster.aws.delete_node, self.cluster.arn, asked.logical_id)  # type: ignore[attr-defined]
        except ScalingRefusedError:
            self.later(_ASK_AGAIN_SECONDS, "nodes")


def lifetime(claim: Object) -> float | None:
    """When the claim expires, in seconds since the epoch; None for never."""
    seconds = seconds_in(spec_of(claim).get("expireAfter"))
    return None if seconds is None else seconds_of(meta(claim).get("creationTimestamp")) + seconds


__all__ = ["CAPACITY", "CLASS", "ClaimLoop", "Garbage", "lifetime", "may_go"]
