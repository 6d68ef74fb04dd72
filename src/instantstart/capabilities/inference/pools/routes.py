"""The door of the pools slice. Giving a worker away is one write, answered at once; what takes time is an operation."""

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
from instantstart.capabilities.inference.pools import plans, rules, specs, views
from instantstart.capabilities.planning import Plan
from instantstart.capabilities.room import Room
from instantstart.capabilities.serving_doors import Cursor, Limit, NamePath, NamespacePath, OnlyNamespace
from instantstart.ensure.inference import pools, serving
from instantstart.kube.client import KubeCluster
from instantstart.operations.record import Operation

router = APIRouter(tags=["inference"])

BusinessPath = Annotated[str, Path(max_length=40, pattern=patterns.KUBERNETES_NAME, description="The business.")]
_BASE = "/clusters/{cluster}/model-pools"
_ONE = _BASE + "/{namespace}/{name}"


@router.get(_BASE, operation_id="model_pool_list", summary="List model pools")
def list_pools(
    room: RoomDep,
    _caller: Viewer,
    cluster: ClusterPath,
    namespace: OnlyNamespace = "",
    limit: Limit = 20,
    cursor: Cursor = None,
) -> views.PoolPage:
    """Every pool: its workers by whom they work for, its bindings, and what is not as it should be."""
    return views.list_pools(room, cluster, namespace, limit, cursor)


@router.get(_ONE, operation_id="model_pool_get", summary="Get one model pool")
def get_pool(room: RoomDep, _caller: Viewer, cluster: ClusterPath, namespace: NamespacePath, name: NamePath) -> views.PoolDetail:
    """One pool with its workers, its bindings, and how it was asked."""
    return views.get_pool(room, cluster, namespace, name)


@router.post(
    _BASE, operation_id="model_pool_create", summary="Make a model pool", status_code=202,
    response_model=Operation | plans.PoolPlan | views.PoolDetail,
)  # fmt: skip
def create_pool(
    room: RoomDep, caller: Operator, cluster: ClusterPath, ask: specs.CreateModelPool, response: Response,
    key: IdempotencyKey = None, dry_run: DryRun = False,
) -> Any:  # fmt: skip
    """Warm workers of one model, all free: each is given to a business later, in a moment."""
    target, plan, equal = plans.prepare_create(room, activity.standing(room, cluster), ask, strict=not dry_run)
    if dry_run:
        return promise(response, plan)
    if equal:
        return promise(response, views.get_pool(room, cluster, target.namespace, str(target.name)))
    return begin(room, caller, response, Wish("model_pool.create", target, key))


@router.post(
    _ONE + "/scale", operation_id="model_pool_scale", summary="Scale a model pool", status_code=202,
    response_model=Operation | Plan | views.PoolDetail,
)  # fmt: skip
def scale_pool(
    room: RoomDep, caller: Operator, cluster: ClusterPath, namespace: NamespacePath, name: NamePath, ask: specs.ScaleModelPool,
    response: Response, key: IdempotencyKey = None, dry_run: DryRun = False,
) -> Any:  # fmt: skip
    """Another number of workers. Only free ones go: a number below those that are bound is refused."""
    target, plan, equal = plans.prepare_scale(room, activity.standing(room, cluster), (namespace, name), ask.workers)
    if dry_run:
        return promise(response, plan)
    if equal:
        return promise(response, views.get_pool(room, cluster, namespace, name))
    return begin(room, caller, response, Wish("model_pool.scale", target, key))


@router.delete(_ONE, operation_id="model_pool_delete", summary="Delete a model pool", status_code=202, response_model=Operation | Plan)
def delete_pool(
    room: RoomDep, caller: AdminOrAgent, cluster: ClusterPath, namespace: NamespacePath, name: NamePath, response: Response,
    approval: Approval = None, key: IdempotencyKey = None, dry_run: DryRun = False,
) -> Any:  # fmt: skip
    """Delete a pool that nobody is bound to. Ask for the plan first: it carries the approval."""
    where = activity.standing(room, cluster)
    target = specs.DeleteTarget(tag=cluster, region=where.aws.region, namespace=namespace, name=name)
    wish = Wish("model_pool.delete", target, exact=f"model_pool.delete {where.aws.region} {cluster} {namespace}/{name}")
    return end(Asking(room, caller, response, key, dry_run, approval), wish, lambda: plans.plan_delete(room, where, target))


@router.post(_ONE + "/assign", operation_id="model_pool_assign", summary="Give a worker to a business")
def assign_worker(
    room: RoomDep, _caller: Operator, cluster: ClusterPath, namespace: NamespacePath, name: NamePath, ask: specs.AssignWorker
) -> views.Relabelled:
    """One label changes, at once: a ready worker then answers for the business. Refused when it works for another than expected."""
    rules.check_business(ask.business)
    wish = pools.Relabel(namespace, name, ask.worker, ask.business, ask.expected)
    worker, changed = pools.assign(_near(room, cluster), wish)
    return views.Relabelled(worker.name, worker.business, changed)


@router.post(_ONE + "/release", operation_id="model_pool_release", summary="Take a worker back")
def release_worker(
    room: RoomDep, _caller: Operator, cluster: ClusterPath, namespace: NamespacePath, name: NamePath, ask: specs.ReleaseWorker
) -> views.Relabelled:
    """The worker works for nobody again, at once. Refused when it works for another."""
    wish = pools.Relabel(namespace, name, ask.worker, serving.UNASSIGNED, ask.business)
    worker, changed = pools.release(_near(room, cluster), wish)
    return views.Relabelled(worker.name, worker.business, changed)


@router.post(
    _ONE + "/bindings", operation_id="model_binding_create", summary="Bind a business to a pool", status_code=202,
    response_model=Operation | Plan,
)  # fmt: skip
def create_binding(
    room: RoomDep, caller: Operator, cluster: ClusterPath, namespace: NamespacePath, name: NamePath, ask: specs.CreateModelBinding,
    response: Response, key: IdempotencyKey = None, dry_run: DryRun = False,
) -> Any:  # fmt: skip
    """A Service that leads to the workers of one business, and free workers for it."""
    target, plan = plans.prepare_bind(room, activity.standing(room, cluster), (namespace, name), ask)
    if dry_run:
        return promise(response, plan)
    return begin(room, caller, response, Wish("model_binding.create", target, key))


@router.delete(
    _ONE + "/bindings/{business}", operation_id="model_binding_delete", summary="Take a business off a pool", status_code=202,
    response_model=Operation | Plan,
)  # fmt: skip
def delete_binding(
    room: RoomDep, caller: AdminOrAgent, cluster: ClusterPath, namespace: NamespacePath, name: NamePath, business: BusinessPath,
    response: Response, approval: Approval = None, key: IdempotencyKey = None, dry_run: DryRun = False,
) -> Any:  # fmt: skip
    """Release the workers of a business and remove its Service. Ask for the plan first: it carries the approval."""
    where = activity.standing(room, cluster)
    target = specs.UnbindTarget(tag=cluster, region=where.aws.region, namespace=namespace, name=name, business=business)
    exact = f"model_binding.delete {where.aws.region} {cluster} {namespace}/{name} {business}"
    asking = Asking(room, caller, response, key, dry_run, approval)
    return end(asking, Wish("model_binding.delete", target, exact=exact), lambda: plans.plan_unbind(room, where, target))


def _near(room: Room, cluster: str) -> KubeCluster:
    return pools.near(room, activity.standing(room, cluster))
