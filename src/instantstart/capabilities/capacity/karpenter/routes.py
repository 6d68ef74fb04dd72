"""The door of managed Karpenter. A body has at most five statements: the rules are in rules.py, the reads in views.py."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Response

from instantstart.base import patterns
from instantstart.capabilities import activity
from instantstart.capabilities.capacity.karpenter import plans, specs, views
from instantstart.capabilities.doors import (
    AdminOrAgent,
    Approval,
    Asking,
    ClusterPath,
    DryRun,
    IdempotencyKey,
    Kind,
    Operator,
    Role,
    RoomDep,
    Viewer,
    Wish,
    approve,
    begin,
    begin_approved,
    check_role,
    promise,
)
from instantstart.capabilities.planning import Plan
from instantstart.capabilities.room import Room
from instantstart.capabilities.spending import exactly, spend
from instantstart.ensure import sites
from instantstart.ensure.sites import Site
from instantstart.operations.record import Operation

router = APIRouter(tags=["capacity"])

PoolPath = Annotated[str, Path(max_length=63, pattern=patterns.KUBERNETES_NAME, description="Name of the node pool.")]
_BASE = "/clusters/{cluster}/karpenter"
#: what lets Karpenter make nodes by itself
_SCALES = frozenset({"node_pool.add", "node_pool.update"})


@router.get(_BASE, operation_id="karpenter_get", summary="Get managed Karpenter")
def get_karpenter(room: RoomDep, _caller: Viewer, cluster: ClusterPath) -> views.Karpenter:
    """Where it stands, its pools and the nodes they asked for; while it is off, what stands in its way."""
    return views.get_karpenter(room, cluster)


@router.put(
    _BASE, operation_id="karpenter_enable", summary="Enable managed Karpenter", status_code=202,
    response_model=Operation | Plan | views.Karpenter,
)  # fmt: skip
def enable_karpenter(
    room: RoomDep, caller: Operator, cluster: ClusterPath, ask: specs.EnableKarpenter, response: Response,
    key: IdempotencyKey = None, dry_run: DryRun = False,
) -> Any:  # fmt: skip
    """Let HyperPod's own Karpenter run. It scales nothing before a node pool names instance groups."""
    prepared = plans.prepare_enable(room, _open(room, cluster), ask)
    if prepared.equal and not dry_run:
        return promise(response, views.get_karpenter(room, cluster))
    if dry_run:
        return promise(response, prepared.plan)
    return begin(room, caller, response, Wish("karpenter.enable", plans.check_prerequisites(prepared), key))


@router.delete(
    _BASE, operation_id="karpenter_disable", summary="Disable managed Karpenter", status_code=202,
    response_model=Operation | Plan | views.Karpenter,
)  # fmt: skip
def disable_karpenter(
    room: RoomDep, caller: AdminOrAgent, cluster: ClusterPath, response: Response,
    approval: Approval = None, key: IdempotencyKey = None, dry_run: DryRun = False,
) -> Any:  # fmt: skip
    """Remove the node pools with their nodes, switch Karpenter off, and put the groups back to what they were.

    Ask for the plan first: it carries the approval. What an agent asks for waits until an administrator, a person, says yes.
    """
    asking = Asking(room, caller, response, key, dry_run, approval)
    prepared = plans.plan_disable(room, _open(room, cluster))
    if prepared.equal and not dry_run:
        return promise(response, views.get_karpenter(room, cluster))
    return _begin("karpenter.disable", prepared, asking)


@router.get(_BASE + "/node-pools", operation_id="node_pool_list", summary="List node pools")
def list_node_pools(room: RoomDep, _caller: Viewer, cluster: ClusterPath) -> views.NodePoolList:
    """Every node pool: settings, readiness, nodes asked for, and in one sentence why one is late."""
    return views.list_pools(room, cluster)


@router.get(_BASE + "/node-pools/{pool}", operation_id="node_pool_get", summary="Get a node pool")
def get_node_pool(room: RoomDep, _caller: Viewer, cluster: ClusterPath, pool: PoolPath) -> views.NodePool:
    """One node pool: settings, readiness, nodes asked for, and in one sentence why one is late."""
    return views.get_pool(room, cluster, pool)


@router.post(
    _BASE + "/node-pools", operation_id="node_pool_add", summary="Add a node pool", status_code=202,
    response_model=Operation | Plan | views.NodePool,
)  # fmt: skip
def add_node_pool(
    room: RoomDep, caller: Operator, cluster: ClusterPath, ask: specs.AddNodePool, response: Response,
    approval: Approval = None, key: IdempotencyKey = None, dry_run: DryRun = False,
) -> Any:  # fmt: skip
    """Let Karpenter make nodes of some instance groups. An agent passes its plan's approval; so does who takes nodes from groups."""
    asking = Asking(room, caller, response, key, dry_run, approval)
    prepared = plans.prepare_add(room, _open(room, cluster), ask)
    if prepared.equal and not dry_run:
        return promise(response, views.get_pool(room, cluster, ask.name))
    return _begin("node_pool.add", prepared, asking)


@router.patch(
    _BASE + "/node-pools/{pool}", operation_id="node_pool_update", summary="Update a node pool", status_code=202,
    response_model=Operation | Plan | views.NodePool,
)  # fmt: skip
def update_node_pool(
    room: RoomDep, caller: Operator, cluster: ClusterPath, pool: PoolPath, ask: specs.UpdateNodePool, response: Response,
    approval: Approval = None, key: IdempotencyKey = None, dry_run: DryRun = False,
) -> Any:  # fmt: skip
    """Change a node pool: what is left out stays. An agent passes its plan's approval; so does who takes nodes from groups."""
    asking = Asking(room, caller, response, key, dry_run, approval)
    prepared = plans.prepare_update(room, _open(room, cluster), pool, ask)
    if prepared.equal and not dry_run:
        return promise(response, views.get_pool(room, cluster, pool))
    return _begin("node_pool.update", prepared, asking)


@router.delete(
    _BASE + "/node-pools/{pool}", operation_id="node_pool_delete", summary="Delete a node pool", status_code=202,
    response_model=Operation | Plan,
)  # fmt: skip
def delete_node_pool(
    room: RoomDep, caller: AdminOrAgent, cluster: ClusterPath, pool: PoolPath, response: Response,
    approval: Approval = None, key: IdempotencyKey = None, dry_run: DryRun = False,
) -> Any:  # fmt: skip
    """Delete a node pool: its nodes are drained and go, its node class too. Its instance groups stay, at 0 nodes."""
    asking = Asking(room, caller, response, key, dry_run, approval)
    return _begin("node_pool.delete", plans.plan_delete(room, _open(room, cluster), pool), asking)


def _open(room: Room, cluster: str) -> Site:
    """The cluster, unless it is being deleted."""
    where = sites.find(room, cluster)
    activity.check_not_deleting(room, where.tag)
    return where


def _begin(workflow: str, prepared: plans.Prepared, asking: Asking) -> Any:
    """The plan, or the operation. What destroys takes an administrator (or an agent, who waits for one) and the plan's approval."""
    room, caller, exact = asking.room, asking.caller, prepared.exact
    if exact is None and workflow in _SCALES:
        return spend(asking, Wish(workflow, prepared.target, exact=exactly(workflow, prepared.target)), lambda: prepared.plan)
    if asking.dry_run:
        return promise(asking.response, approve(room, caller, exact, prepared.plan) if exact else prepared.plan)
    wish = Wish(workflow, prepared.target, asking.key, exact, asking.approval)
    if caller.kind is Kind.person:
        check_role(caller, Role.admin)
    return begin_approved(room, caller, asking.response, wish)
