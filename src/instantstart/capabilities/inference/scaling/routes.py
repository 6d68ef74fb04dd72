"""The door of the scaling slice."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Response

from instantstart.base import patterns
from instantstart.capabilities import activity
from instantstart.capabilities.doors import (
    AdminOrAgent,
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
from instantstart.capabilities.inference.scaling import plans, specs, views
from instantstart.capabilities.planning import Plan
from instantstart.capabilities.room import Room
from instantstart.ensure import sites
from instantstart.ensure.sites import Site
from instantstart.operations.record import Operation

router = APIRouter(tags=["inference"])

NamespacePath = Annotated[str, Path(max_length=63, pattern=patterns.KUBERNETES_NAME, description="Namespace of the target.")]
TargetPath = Annotated[str, Path(max_length=63, pattern=patterns.KUBERNETES_NAME, description="Deployment or pool that it scales.")]
Approval = Annotated[str | None, Query(max_length=128, description="The approval that the plan (dry_run) gave.")]
_BASE = "/clusters/{cluster}/autoscalers"
_ONE = _BASE + "/{namespace}/{target}"


@router.get(_BASE, operation_id="autoscaler_list", summary="List autoscalers")
def list_autoscalers(
    room: RoomDep,
    _caller: Viewer,
    cluster: ClusterPath,
    namespace: Annotated[str, Query(max_length=63, description="Only of this namespace.")] = "",
    limit: Annotated[int, Query(ge=1, le=200, description="Most to answer.")] = 50,
    cursor: Annotated[str | None, Query(max_length=200, description="The cursor of the page before.")] = None,
) -> views.AutoscalerPage:
    """Every autoscaler, whoever made it: target, bounds, query, and why it does not work."""
    return views.list_autoscalers(room, cluster, namespace, limit, cursor)


@router.get(_ONE, operation_id="autoscaler_get", summary="Get one autoscaler")
def get_autoscaler(
    room: RoomDep, _caller: Viewer, cluster: ClusterPath, namespace: NamespacePath, target: TargetPath
) -> views.AutoscalerItem:
    """The autoscaler of one deployment or pool."""
    return views.get_autoscaler(room, cluster, namespace, target)


@router.post(
    _BASE, operation_id="autoscaler_create", summary="Scale a model by its load", status_code=202,
    response_model=Operation | plans.AutoscalerPlan | views.AutoscalerItem,
)  # fmt: skip
def create_autoscaler(
    room: RoomDep, caller: Operator, cluster: ClusterPath, ask: specs.CreateAutoscaler, response: Response,
    key: IdempotencyKey = None, dry_run: DryRun = False,
) -> Any:  # fmt: skip
    """Let KEDA scale a deployment or pool. The plan shows the query with real names, and what it answers now."""
    target, plan, equal = plans.prepare_create(room, _standing(room, cluster), ask, strict=not dry_run)
    if dry_run:
        return promise(response, plan)
    if equal:
        return promise(response, views.get_autoscaler(room, cluster, target.namespace, target.target))
    return begin(room, caller, response, Wish("autoscaler.create", target, key))


@router.delete(_ONE, operation_id="autoscaler_delete", summary="Delete an autoscaler", status_code=202, response_model=Operation | Plan)
def delete_autoscaler(
    room: RoomDep, caller: AdminOrAgent, cluster: ClusterPath, namespace: NamespacePath, target: TargetPath, response: Response,
    approval: Approval = None, key: IdempotencyKey = None, dry_run: DryRun = False,
) -> Any:  # fmt: skip
    """Stop scaling by load; the pods stay. Ask for the plan first: it carries the approval."""
    where = _standing(room, cluster)
    wanted = specs.DeleteTarget(tag=cluster, region=where.aws.region, namespace=namespace, target=target)
    exact = f"autoscaler.delete {where.aws.region} {cluster} {namespace}/{target}"
    if dry_run:
        return promise(response, approve(room, caller, exact, plans.plan_delete(room, where, wanted)))
    return begin_approved(room, caller, response, Wish("autoscaler.delete", wanted, key, exact, approval))


def _standing(room: Room, cluster: str) -> Site:
    activity.check_not_deleting(room, cluster)
    return sites.find(room, cluster)
