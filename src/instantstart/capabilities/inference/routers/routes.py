"""The door of the routers slice."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Response

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
from instantstart.capabilities.inference.routers import plans, specs, views
from instantstart.capabilities.planning import Plan
from instantstart.capabilities.serving_doors import Cursor, Limit, NamePath, NamespacePath, OnlyNamespace
from instantstart.operations.record import Operation

router = APIRouter(tags=["inference"])

_BASE = "/clusters/{cluster}/sglang-routers"
_ONE = _BASE + "/{namespace}/{name}"


@router.get(_BASE, operation_id="sglang_router_list", summary="List routers")
def list_routers(
    room: RoomDep,
    _caller: Viewer,
    cluster: ClusterPath,
    namespace: OnlyNamespace = "",
    limit: Limit = 20,
    cursor: Cursor = None,
) -> views.RouterPage:
    """Every router, with the workers it knows beside those that there are."""
    return views.list_routers(room, cluster, namespace, limit, cursor)


@router.get(_ONE, operation_id="sglang_router_get", summary="Get one router")
def get_router(room: RoomDep, _caller: Viewer, cluster: ClusterPath, namespace: NamespacePath, name: NamePath) -> views.RouterItem:
    """One router: what it leads to, which workers it misses or still has, why it is not ready."""
    return views.get_router(room, cluster, namespace, name)


@router.post(
    _BASE, operation_id="sglang_router_create", summary="Make a router", status_code=202,
    response_model=Operation | plans.RouterPlan | views.RouterItem,
)  # fmt: skip
def create_router(
    room: RoomDep, caller: Operator, cluster: ClusterPath, ask: specs.CreateSglangRouter, response: Response,
    key: IdempotencyKey = None, dry_run: DryRun = False,
) -> Any:  # fmt: skip
    """One router before the workers of one deployment, or of one business of a pool. It finds them by their labels."""
    target, plan, equal = plans.prepare_create(room, activity.standing(room, cluster), ask, strict=not dry_run)
    if dry_run:
        return promise(response, plan)
    if equal:
        return promise(response, views.get_router(room, cluster, target.namespace, str(target.name)))
    return begin(room, caller, response, Wish("sglang_router.create", target, key))


@router.delete(_ONE, operation_id="sglang_router_delete", summary="Delete a router", status_code=202, response_model=Operation | Plan)
def delete_router(
    room: RoomDep, caller: AdminOrAgent, cluster: ClusterPath, namespace: NamespacePath, name: NamePath, response: Response,
    approval: Approval = None, key: IdempotencyKey = None, dry_run: DryRun = False,
) -> Any:  # fmt: skip
    """Delete a router; its workers stay. Ask for the plan first: it carries the approval."""
    where = activity.standing(room, cluster)
    target = specs.DeleteTarget(tag=cluster, region=where.aws.region, namespace=namespace, name=name)
    wish = Wish("sglang_router.delete", target, exact=f"sglang_router.delete {where.aws.region} {cluster} {namespace}/{name}")
    return end(Asking(room, caller, response, key, dry_run, approval), wish, lambda: plans.plan_delete(room, where, target))
