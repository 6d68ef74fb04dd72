"""The door of the scaling slice."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Response

from instantstart.base import patterns
from instantstart.capabilities import activity
from instantstart.capabilities.doors import (
    AdminOrAgent,
    Approval,
    Asking,
    ClusterPath,
    DryRun,
    IdempotencyKey,
    Operator,
    RoomDep,
    Viewer,
    Wish,
    begin,
    end,
    promise,
)
from instantstart.capabilities.inference.scaling import plans, specs, views
from instantstart.capabilities.planning import Plan
from instantstart.capabilities.serving_doors import Cursor, Limit, NamespacePath, OnlyNamespace
from instantstart.operations.record import Operation

router = APIRouter(tags=["inference"])

TargetPath = Annotated[str, Path(max_length=63, pattern=patterns.KUBERNETES_NAME, description="Deployment or pool that it scales.")]
_BASE = "/clusters/{cluster}/autoscalers"
_ONE = _BASE + "/{namespace}/{target}"


@router.get(_BASE, operation_id="autoscaler_list", summary="List autoscalers")
def list_autoscalers(
    room: RoomDep,
    _caller: Viewer,
    cluster: ClusterPath,
    namespace: OnlyNamespace = "",
    limit: Limit = 50,
    cursor: Cursor = None,
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
    target, plan, equal = plans.prepare_create(room, activity.standing(room, cluster), ask, strict=not dry_run)
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
    where = activity.standing(room, cluster)
    wanted = specs.DeleteTarget(tag=cluster, region=where.aws.region, namespace=namespace, target=target)
    wish = Wish("autoscaler.delete", wanted, exact=f"autoscaler.delete {where.aws.region} {cluster} {namespace}/{target}")
    return end(Asking(room, caller, response, key, dry_run, approval), wish, lambda: plans.plan_delete(room, where, wanted))
