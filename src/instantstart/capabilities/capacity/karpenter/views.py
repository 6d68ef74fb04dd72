"""What can be read of managed Karpenter: where it stands, its pools, the nodes they asked for, and in one sentence why not."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from instantstart.base import problems
from instantstart.capabilities.capacity.karpenter import rules
from instantstart.capabilities.room import Room
from instantstart.ensure import sites
from instantstart.ensure.capacity import karpenter, node_pools, nodes
from instantstart.ensure.capacity.karpenter import NODE_CLAIM, NODE_CLASS, NODE_POOL, autoscaling_status
from instantstart.ensure.findings import Finding
from instantstart.kube.client import KubeCluster, Resource

#: claims shown of one pool; the count tells of more
_SHOWN_CLAIMS, _SHOWN_WAITING = 100, 5


@dataclass(frozen=True)
class NodeClaim:
    """One node that a pool asked for. ``state``: requested, launched, ready, leaving or refused; ``because`` where it is not ready."""

    name: str
    state: str
    because: str | None
    instance_group: str | None
    instance_type: str | None
    zone: str | None
    capacity_type: str | None
    node: str | None
    created_at: dt.datetime | None


@dataclass(frozen=True)
class NodePool:
    """A node pool: what it may make, what it made. ``because`` is why it makes none, or why a node is late; None: all is well."""

    name: str
    node_class: str
    instance_groups: tuple[str, ...]
    instance_types: tuple[str, ...]
    zones: tuple[str, ...]
    requirements: tuple[dict[str, Any], ...]
    labels: dict[str, str]
    taints: tuple[str, ...]
    limits: dict[str, str]
    weight: int | None
    consolidation_policy: str | None
    consolidate_after: str | None
    budgets: tuple[dict[str, Any], ...]
    expire_after: str | None
    ready: bool
    because: str | None
    nodes: int
    resources: dict[str, str]
    claims: tuple[NodeClaim, ...]
    waiting: tuple[str, ...]
    made_by_us: bool


@dataclass(frozen=True)
class NodePoolList:
    """The node pools by name."""

    items: tuple[NodePool, ...]


@dataclass(frozen=True)
class Karpenter:
    """Where managed Karpenter stands. ``groups``: the node class that owns each group; ``findings`` while it is not in service."""

    cluster: str
    status: str
    because: str | None
    role_arn: str | None
    groups: dict[str, str]
    pools: tuple[NodePool, ...]
    nodes: int
    findings: tuple[Finding, ...]


def get_karpenter(room: Room, tag: str) -> Karpenter:
    """Where it stands, from AWS and Kubernetes. Raises NotFound without a HyperPod cluster."""
    where = sites.find(room, tag)
    facts = rules.observe(room, where, None)
    status = autoscaling_status(dict(facts.cluster))
    pools, owners, unread = _read(room, where)
    found = tuple(rules.findings(facts)) if status != "InService" else ()
    return Karpenter(
        cluster=tag,
        status=status,
        because=unread or _because(status, facts.cluster, found, pools),
        role_arn=facts.cluster.get("ClusterRole"),
        groups=owners,
        pools=pools,
        nodes=sum(p.nodes for p in pools),
        findings=found,
    )


def _read(room: Room, where: sites.Site) -> tuple[tuple[NodePool, ...], dict[str, str], str | None]:
    try:
        kube = where.kube(room)
        return _pools(kube), karpenter.karpenter_owners(kube), None
    except problems.Problem as problem:
        return (), {}, f"Kubernetes could not be asked: {problem.detail}"


def _because(status: str, cluster: Mapping[str, Any], found: Sequence[Finding], pools: Sequence[NodePool]) -> str | None:
    if status == "Creating":
        return "SageMaker is setting Karpenter up."
    if status == "Deleting":
        return "SageMaker is taking Karpenter down."
    if status == "Failed":
        return str((cluster.get("AutoScaling") or {}).get("FailureMessage") or "SageMaker could not set Karpenter up.")
    if status != "InService":
        failing = next((f for f in found if f.level == "fail"), None)
        return f"It is off, and cannot be switched on: {failing.detail}" if failing else "It is off."
    if not pools:
        return "It is on, but there is no node pool, so it makes no node."
    return next((f"Node pool {p.name}: {p.because}" for p in pools if p.because), None)


def list_pools(room: Room, tag: str) -> NodePoolList:
    """Every node pool."""
    return NodePoolList(_pools(sites.find(room, tag).kube(room)))


def get_pool(room: Room, tag: str, name: str) -> NodePool:
    """One node pool. Raises NotFound naming those there are."""
    found = _pools(sites.find(room, tag).kube(room))
    pool = next((p for p in found if p.name == name), None)
    if pool is None:
        have = ", ".join(p.name for p in found) or "none"
        raise problems.NotFound("node_pool.unknown", f"There is no node pool {name}; there are: {have}.", hint="List the node pools.")
    return pool


def _pools(kube: KubeCluster) -> tuple[NodePool, ...]:
    pools = [p for p in karpenter.list_served(kube, NODE_POOL) if node_pools.class_of(p)]
    if not pools:
        return ()
    classes = {c["metadata"]["name"]: c for c in karpenter.list_served(kube, NODE_CLASS)}
    claims = karpenter.list_served(kube, NODE_CLAIM)
    waiting = _waiting(kube)
    return tuple(_pool(p, classes.get(node_pools.class_of(p)), claims, waiting) for p in sorted(pools, key=lambda p: p["metadata"]["name"]))


def _pool(pool: Resource, owner: Resource | None, claims: Sequence[Resource], waiting: Sequence[str]) -> NodePool:
    name = pool["metadata"]["name"]
    mine = [claim_view(c) for c in claims if (c["metadata"].get("labels") or {}).get(karpenter.POOL_LABEL) == name]
    told = tuple(w for w in waiting if f'"{name}"' in w or "no NodePool" in w)[:_SHOWN_WAITING]
    fields: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in node_pools.read(pool).items()}
    status = pool.get("status") or {}
    ready = node_pools.conditions(pool).get("Ready", {}).get("status") == "True"
    return NodePool(
        name=name,
        node_class=node_pools.class_of(pool),
        instance_groups=karpenter.groups_of(owner) if owner else (),
        made_by_us=node_pools.is_ours(pool),
        ready=ready,
        because=_why_not(pool, owner, mine, told),
        nodes=int(status.get("nodes") or len(mine)),
        resources={k: str(v) for k, v in (status.get("resources") or {}).items()},
        claims=tuple(mine[:_SHOWN_CLAIMS]),
        waiting=told,
        **fields,
    )


def _why_not(pool: Resource, owner: Resource | None, claims: Sequence[NodeClaim], waiting: Sequence[str]) -> str | None:
    if pool["metadata"].get("deletionTimestamp"):
        return "It is being deleted; its nodes go first."
    if owner is None:
        return f"Its node class {node_pools.class_of(pool)} is not there."
    why = node_pools.unready(owner) or node_pools.unready(pool)
    if why:
        return f"{why}."
    refused = [c for c in claims if c.state == "refused"]
    if refused:
        return f"{_nodes(len(refused))} cannot be had now: {refused[0].because}"
    coming = [c for c in claims if c.state in ("requested", "launched")]
    if coming:
        return f"{_nodes(len(coming))} on the way: {coming[0].because}"
    return waiting[0] if waiting else None


def _nodes(count: int) -> str:
    return f"{count} node" if count == 1 else f"{count} nodes"


def _waiting(kube: KubeCluster) -> list[str]:
    """What Karpenter last said of pods for which it makes no node, newest first, while they wait."""
    pending = {p["metadata"].get("uid") for p in kube.list("Pod", fields="status.phase=Pending")}
    events = kube.list("Event", fields="reason=FailedScheduling") if pending else []
    mine = [e for e in events if "karpenter" in (e.get("reportingComponent"), (e.get("source") or {}).get("component"))]
    fresh = [e for e in mine if e["involvedObject"].get("uid") in pending]
    fresh.sort(key=lambda e: str(e.get("lastTimestamp") or e.get("eventTime") or ""), reverse=True)
    return [f"Pod {e['involvedObject'].get('namespace')}/{e['involvedObject']['name']}: {e['message']}" for e in fresh]


def claim_view(claim: Resource) -> NodeClaim:
    """One claim, read."""
    labels = claim["metadata"].get("labels") or {}
    known = node_pools.conditions(claim)
    state, because = _state(claim, known)
    made = claim["metadata"].get("creationTimestamp")
    return NodeClaim(
        name=claim["metadata"]["name"],
        state=state,
        because=because,
        instance_group=labels.get(nodes.GROUP),
        instance_type=labels.get(nodes.INSTANCE_TYPE),
        zone=labels.get(nodes.ZONE),
        capacity_type=labels.get(node_pools.CAPACITY_TYPE),
        node=(claim.get("status") or {}).get("nodeName"),
        created_at=dt.datetime.fromisoformat(made.replace("Z", "+00:00")) if made else None,
    )


def _state(claim: Resource, known: Mapping[str, Resource]) -> tuple[str, str | None]:
    if claim["metadata"].get("deletionTimestamp"):
        going = known.get("InstanceTerminating", {}).get("status") == "True"
        return "leaving", "Its instance is being terminated." if going else "Its pods are leaving."
    if known.get("Ready", {}).get("status") == "True":
        return "ready", None
    launched = known.get("Launched", {})
    if launched.get("status") == "False":
        return "refused", str(launched.get("message") or launched.get("reason"))
    unmet = next((c for t in ("Launched", "Registered", "Initialized") if (c := known.get(t, {})).get("status") != "True" and c), None)
    told = str((unmet or {}).get("message") or (unmet or {}).get("reason") or "Karpenter has not looked at it yet") + "."
    return ("launched" if launched.get("status") == "True" else "requested"), told
