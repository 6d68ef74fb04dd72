"""The door of instance groups. A body has at most five statements: the rules are in rules.py, the dry runs in plans.py."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Response

from instantstart.base import patterns
from instantstart.capabilities.capacity.groups import plans, specs, views
from instantstart.capabilities.doors import (
    AdminOrAgent,
    Asking,
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
from instantstart.capabilities.spending import exactly, spend
from instantstart.ensure import sites
from instantstart.operations.record import Operation

router = APIRouter(tags=["capacity"])

GroupPath = Annotated[str, Path(max_length=63, pattern=patterns.INSTANCE_GROUP, description="Name of the instance group.")]
Approval = Annotated[str | None, Query(max_length=128, description="The approval that the plan (dry_run) gave.")]
Answer = Operation | Plan | views.GroupDetail


@router.get("/clusters/{cluster}/instance-groups", operation_id="instance_group_list", summary="List instance groups")
def list_groups(room: RoomDep, _caller: Viewer, cluster: ClusterPath) -> views.GroupList:
    """Every group with its count, type, zone, capacity type, settings, owner, and the operation that works on it."""
    return views.list_groups(room, sites.find(room, cluster))


@router.get("/clusters/{cluster}/instance-groups/{group}", operation_id="instance_group_get", summary="Get one instance group")
def get_group(room: RoomDep, _caller: Viewer, cluster: ClusterPath, group: GroupPath) -> views.GroupDetail:
    """One group, with its nodes by status and the reason for those that are late."""
    return views.get_group(room, sites.find(room, cluster), group)


@router.post(
    "/clusters/{cluster}/instance-groups", operation_id="instance_group_add", summary="Add an instance group", status_code=202,
    response_model=Answer,
)  # fmt: skip
def add_group(
    room: RoomDep, caller: Operator, cluster: ClusterPath, ask: specs.AddInstanceGroup, response: Response,
    approval: Approval = None, key: IdempotencyKey = None, dry_run: DryRun = False,
) -> Any:  # fmt: skip
    """A new group: type, count, zone, how it is paid for, network mode, subnet. Most of it is for the life of the group.

    The operation succeeds when all wanted nodes run and Kubernetes calls them ready. An agent passes its plan's approval.
    """
    step = plans.add(room, sites.find(room, cluster), ask)
    wish = Wish("instance_group.add", step.target, exact=exactly("instance_group.add", ask, cluster))
    return _grown(Asking(room, caller, response, key, dry_run, approval), step, wish)


@router.patch(
    "/clusters/{cluster}/instance-groups/{group}", operation_id="instance_group_update", summary="Change an instance group",
    status_code=202, response_model=Answer,
)  # fmt: skip
def update_group(
    room: RoomDep, caller: Operator, cluster: ClusterPath, group: GroupPath, ask: specs.UpdateInstanceGroup, response: Response,
    key: IdempotencyKey = None, dry_run: DryRun = False,
) -> Any:  # fmt: skip
    """Labels, taints, deep health checks, minimum, lifecycle scripts. What is left out stays; what is fixed for life is refused."""
    step = plans.update(room, sites.find(room, cluster), group, ask)
    if dry_run:
        return promise(response, step.plan)
    return _go(room, caller, response, plans.checked(step), Wish("instance_group.update", step.target, key))


@router.post(
    "/clusters/{cluster}/instance-groups/{group}/scale", operation_id="instance_group_scale", summary="Scale an instance group",
    status_code=202, response_model=Answer,
)  # fmt: skip
def scale_group(
    room: RoomDep, caller: Operator, cluster: ClusterPath, group: GroupPath, ask: specs.ScaleInstanceGroup, response: Response,
    approval: Approval = None, key: IdempotencyKey = None, dry_run: DryRun = False,
) -> Any:  # fmt: skip
    """Another number of nodes. Idle nodes go first; where busy ones must go, the plan (dry_run) names their jobs, with an approval.

    An agent passes its plan's approval for more nodes, too.
    """
    step = plans.scale(room, sites.find(room, cluster), group, ask)
    if step.plan.make:
        wish = Wish("instance_group.scale", step.target, exact=exactly("instance_group.scale", ask, cluster, *step.plan.make))
        return _grown(Asking(room, caller, response, key, dry_run, approval), step, wish)
    if dry_run:
        return promise(response, approve(room, caller, step.exact, step.plan) if step.exact else step.plan)
    wish = Wish("instance_group.scale", step.target, key, step.exact, approval)
    return _go(room, caller, response, plans.checked(step), wish)


@router.delete(
    "/clusters/{cluster}/instance-groups/{group}", operation_id="instance_group_delete", summary="Delete an instance group",
    status_code=202, response_model=Operation | Plan,
)  # fmt: skip
def delete_group(
    room: RoomDep, caller: AdminOrAgent, cluster: ClusterPath, group: GroupPath, response: Response,
    drain_minutes: Annotated[int, Query(ge=0, le=1440, description="How long pods get to leave; 0: they end with the nodes.")] = 60,
    approval: Approval = None, key: IdempotencyKey = None, dry_run: DryRun = False,
) -> Any:  # fmt: skip
    """Empty and delete a group. Ask for the plan first: it names the work that ends and carries the approval.

    A dedicated subnet stays for a successor. What an agent asks for waits until an administrator, a person, says yes.
    """
    step = plans.delete(room, sites.find(room, cluster), group, drain_minutes)
    if dry_run:
        return promise(response, approve(room, caller, str(step.exact), step.plan))
    return begin_approved(room, caller, response, Wish("instance_group.delete", step.target, key, step.exact, approval))


def _grown(asking: Asking, step: plans.Step, wish: Wish) -> Any:
    """Nodes more: say that they are asked for already, plan, or begin."""
    if step.already and not asking.dry_run:
        return promise(asking.response, views.get_group(asking.room, sites.site(asking.room, step.target), specs.group_of(step.target)))
    return spend(asking, wish, lambda: step.plan, lambda: plans.checked(step).target)


def _go(room: Room, caller: Caller, response: Response, step: plans.Step, wish: Wish) -> Any:
    """Say that it is so already, or begin: with the approval where the plan asked for one."""
    if step.already:
        return promise(response, views.get_group(room, sites.site(room, step.target), specs.group_of(step.target)))
    return begin_approved(room, caller, response, wish) if step.exact else begin(room, caller, response, wish)
