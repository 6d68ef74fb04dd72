"""The door of the nodes slice. A body has at most five statements: the rules are in rules.py, the plans in plans.py."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Path, Query, Response

from instantstart.base import patterns
from instantstart.capabilities.capacity.nodes import details, plans, specs, told, views
from instantstart.capabilities.capacity.nodes.plans import Prepared
from instantstart.capabilities.capacity.nodes.rules import Action
from instantstart.capabilities.doors import (
    Caller,
    ClusterPath,
    DryRun,
    IdempotencyKey,
    Operator,
    RoomDep,
    Viewer,
    Wish,
    approve,
    begin,
    begin_approved,
    promise,
)  # fmt: skip
from instantstart.capabilities.planning import Plan
from instantstart.capabilities.room import Room
from instantstart.operations.record import Operation

router = APIRouter(tags=["nodes"])

NodePath = Annotated[
    str, Path(max_length=140, description="The node: instance id (i-...), Kubernetes name (hyperpod-i-...) or logical id.")
]
Approval = Annotated[str | None, Query(max_length=128, description="The approval that the plan (dry_run) gave, where it gave one.")]
GroupQuery = Annotated[str | None, Query(pattern=patterns.INSTANCE_GROUP, max_length=63, description="Only this instance group.")]
Status = Literal["Running", "Failure", "Pending", "ShuttingDown", "SystemUpdating", "DeepHealthCheckInProgress"]
#: HyperPod's own cursors
Token = Annotated[str | None, Query(max_length=8192, description="The cursor of the page before.")]


def filters(
    group: GroupQuery = None,
    instance_type: Annotated[str | None, Query(pattern=patterns.INSTANCE_TYPE, description="Only this instance type.")] = None,
    status: Annotated[Status | None, Query(description="Only SageMaker's status.")] = None,
    health: Annotated[views.Health | None, Query(description="Only this state of health.")] = None,
    contains: Annotated[str, Query(max_length=100, description="Only nodes with this text in an id, name, zone or reason.")] = "",
    sort: Annotated[views.Sort, Query(description="What to sort by.")] = "name",
    descending: Annotated[bool, Query(description="The last first.")] = False,
) -> views.Filters:
    """The filters of a list, as one argument."""
    return views.Filters(group, instance_type, status, health, contains, sort, descending)


@router.get("/clusters/{cluster}/nodes", operation_id="node_list", summary="List nodes")
def list_nodes(
    room: RoomDep, _caller: Viewer, cluster: ClusterPath, wanted: Annotated[views.Filters, Depends(filters)],
    limit: Annotated[int, Query(ge=1, le=1000, description="Most nodes to answer.")] = 100,
    cursor: Annotated[str | None, Query(max_length=400, description="The cursor of the page before.")] = None,
) -> views.NodePage:  # fmt: skip
    """Nodes with type, capacity type, health and readiness, and how many there are of each state."""
    return views.list_nodes(room, cluster, wanted, limit, cursor)


@router.get("/clusters/{cluster}/nodes/{node}", operation_id="node_get", summary="Get one node")
def get_node(room: RoomDep, _caller: Viewer, cluster: ClusterPath, node: NodePath) -> details.NodeDetail:
    """One node in full: health, faults, addresses, its pods and whose work they are, events with reasons, HyperPod's operations."""
    return details.get_node(room, cluster, node)


@router.get("/clusters/{cluster}/node-health", operation_id="node_health", summary="Report the nodes' health")
def report_health(room: RoomDep, _caller: Viewer, cluster: ClusterPath) -> views.HealthReport:
    """Every node that is not healthy, with its faults and what to do: look, then reboot, then replace."""
    return views.report_health(room, cluster)


@router.get("/clusters/{cluster}/hyperpod-events", operation_id="hyperpod_events", summary="List HyperPod events")
def list_events(
    room: RoomDep, _caller: Viewer, cluster: ClusterPath, group: GroupQuery = None,
    node: Annotated[str | None, Query(max_length=140, description="Only this node: any name of it.")] = None,
    limit: Annotated[int, Query(ge=1, le=100, description="Most events to answer.")] = 50, cursor: Token = None,
) -> told.HyperPodEventPage:  # fmt: skip
    """What HyperPod did and what failed, newest first, with the reason of each failure; its automatic recovery shows here."""
    return told.list_events(room, cluster, told.EventFilters(node, group), limit, cursor)


@router.get("/clusters/{cluster}/hyperpod-operations", operation_id="hyperpod_operations", summary="List HyperPod operations")
def list_operations(
    room: RoomDep, _caller: Viewer, cluster: ClusterPath,
    limit: Annotated[int, Query(ge=1, le=100, description="Most operations to answer.")] = 20, cursor: Token = None,
) -> told.HyperPodOperationPage:  # fmt: skip
    """HyperPod's own scalings and deep health checks, whoever asked for them."""
    return told.list_hyperpod_operations(room, cluster, limit, cursor)


@router.post(
    "/clusters/{cluster}/node-reboots", operation_id="node_reboot", summary="Reboot nodes", status_code=202, response_model=Operation | Plan
)
def reboot_nodes(
    room: RoomDep, caller: Operator, cluster: ClusterPath, ask: specs.RebootNodes, response: Response,
    approval: Approval = None, key: IdempotencyKey = None, dry_run: DryRun = False,
) -> Any:  # fmt: skip
    """Reboot nodes. Busy ones need the approval of the plan, which names the work on them."""
    wish = plans.prepare(room, cluster, Action.reboot, ask)
    return _planned(room, caller, response, wish) if dry_run else _begun(room, caller, response, wish, key, approval)


@router.post(
    "/clusters/{cluster}/node-replacements", operation_id="node_replace", summary="Replace nodes", status_code=202,
    response_model=Operation | Plan,
)  # fmt: skip
def replace_nodes(
    room: RoomDep, caller: Operator, cluster: ClusterPath, ask: specs.ReplaceNodes, response: Response,
    approval: Approval = None, key: IdempotencyKey = None, dry_run: DryRun = False,
) -> Any:  # fmt: skip
    """Give nodes other instances; what is on their volumes is lost. Ask for the plan first: it carries the approval."""
    wish = plans.prepare(room, cluster, Action.replace, ask)
    return _planned(room, caller, response, wish) if dry_run else _begun(room, caller, response, wish, key, approval)


@router.post(
    "/clusters/{cluster}/node-deletions", operation_id="node_delete", summary="Delete nodes", status_code=202,
    response_model=Operation | Plan,
)  # fmt: skip
def delete_nodes(
    room: RoomDep, caller: Operator, cluster: ClusterPath, ask: specs.DeleteNodes, response: Response,
    approval: Approval = None, key: IdempotencyKey = None, dry_run: DryRun = False,
) -> Any:  # fmt: skip
    """Delete just these nodes; their groups' target counts go down. Ask for the plan first: it carries the approval."""
    wish = plans.prepare(room, cluster, Action.delete, ask)
    return _planned(room, caller, response, wish) if dry_run else _begun(room, caller, response, wish, key, approval)


@router.post(
    "/clusters/{cluster}/node-moves", operation_id="node_move", summary="Move nodes", status_code=202, response_model=Operation | Plan
)
def move_nodes(
    room: RoomDep, caller: Operator, cluster: ClusterPath, ask: specs.MoveNodes, response: Response,
    approval: Approval = None, key: IdempotencyKey = None, dry_run: DryRun = False,
) -> Any:  # fmt: skip
    """Let nodes belong to another instance group of the same type. Busy ones need the approval of the plan."""
    wish = plans.prepare(room, cluster, Action.move, ask)
    return _planned(room, caller, response, wish) if dry_run else _begun(room, caller, response, wish, key, approval)


@router.post(
    "/clusters/{cluster}/node-checks", operation_id="node_check", summary="Check nodes deeply", status_code=202,
    response_model=Operation | Plan,
)  # fmt: skip
def check_nodes(
    room: RoomDep, caller: Operator, cluster: ClusterPath, ask: specs.CheckNodes, response: Response,
    approval: Approval = None, key: IdempotencyKey = None, dry_run: DryRun = False,
) -> Any:  # fmt: skip
    """Start deep health checks; the nodes take no pods for one to two hours. Busy ones need the approval of the plan."""
    wish = plans.prepare(room, cluster, Action.check, ask)
    return _planned(room, caller, response, wish) if dry_run else _begun(room, caller, response, wish, key, approval)


@router.post(
    "/clusters/{cluster}/software-updates", operation_id="software_update", summary="Update the nodes' software", status_code=202,
    response_model=Operation | Plan,
)  # fmt: skip
def update_software(
    room: RoomDep, caller: Operator, cluster: ClusterPath, ask: specs.UpdateSoftware, response: Response,
    approval: Approval = None, key: IdempotencyKey = None, dry_run: DryRun = False,
) -> Any:  # fmt: skip
    """Newer HyperPod software for groups, in batches if asked. 200 with the plan when they run it already."""
    wish = plans.prepare_software(room, cluster, ask)
    if not wish.plan.change:
        return promise(response, wish.plan)
    return _planned(room, caller, response, wish) if dry_run else _begun(room, caller, response, wish, key, approval)


@router.post("/clusters/{cluster}/node-uncordons", operation_id="node_uncordon", summary="Let nodes take pods again")
def uncordon_nodes(room: RoomDep, _caller: Operator, cluster: ClusterPath, ask: specs.UncordonNodes) -> plans.Uncordoned:
    """Nodes that an operation of ours cordoned and left so, because it was cancelled. What others cordoned stays, and is named."""
    return plans.uncordon(room, cluster, ask)


def _planned(room: Room, caller: Caller, response: Response, wish: Prepared) -> Plan:
    return promise(response, approve(room, caller, wish.exact, wish.plan) if wish.needs_approval else wish.plan)


def _begun(room: Room, caller: Caller, response: Response, wish: Prepared, key: str | None, approval: str | None) -> Operation:
    if wish.needs_approval:
        return begin_approved(room, caller, response, Wish(wish.workflow, wish.target, key, wish.exact, approval))
    return begin(room, caller, response, Wish(wish.workflow, wish.target, key))
