"""The door of the pools slice. Giving a worker away is one write, answered at once; what takes time is an operation."""

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
from instantstart.capabilities.inference.pools import plans, rules, specs, views
from instantstart.capabilities.planning import Plan
from instantstart.capabilities.room import Room
from instantstart.ensure import pools, serving, sites
from instantstart.ensure.sites import Site
from instantstart.kube.client import KubeCluster
from instantstart.operations.record import Operation

router = APIRouter(tags=["inference"])

NamespacePath = Annotated[str, Path(max_length=63, pattern=patterns.KUBERNETES_NAME, description="Namespace of the pool.")]
NamePath = Annotated[str, Path(max_length=63, pattern=patterns.KUBERNETES_NAME, description="Name of the pool.")]
BusinessPath = Annotated[str, Path(max_length=40, pattern=patterns.KUBERNETES_NAME, description="The business.")]
Approval = Annotated[str | None, Query(max_length=128, description="The approval that the plan (dry_run) gave.")]
_BASE = "/clusters/{cluster}/model-pools"
_ONE = _BASE + "/{namespace}/{name}"


@router.get(_BASE, operation_id="model_pool_list", summary="List model pools")
def list_pools(
    room: RoomDep,
    _caller: Viewer,
    cluster: ClusterPath,
    namespace: Annotated[str, Query(max_length=63, description="Only of this namespace.")] = "",
    limit: Annotated[int, Query(ge=1, le=100, description="Most to answer.")] = 20,
    cursor: Annotated[str | None, Query(max_length=200, description="The cursor of the page before.")] = None,
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
    target, plan, equal = plans.prepare_create(room, _standing(room, cluster), ask, strict=not dry_run)
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
    target, plan, equal = plans.prepare_scale(room, _standing(room, cluster), (namespace, name), ask.workers)
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
    where = _standing(room, cluster)
    target = specs.DeleteTarget(tag=cluster, region=where.aws.region, namespace=namespace, name=name)
    exact = f"model_pool.delete {where.aws.region} {cluster} {namespace}/{name}"
    if dry_run:
        return promise(response, approve(room, caller, exact, plans.plan_delete(room, where, target)))
    return begin_approved(room, caller, response, Wish("model_pool.delete", target, key, exact, approval))


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
    target, plan = plans.prepare_bind(room, _standing(room, cluster), (namespace, name), ask)
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
    where = _standing(room, cluster)
    target = specs.UnbindTarget(tag=cluster, region=where.aws.region, namespace=namespace, name=name, business=business)
    exact = f"model_binding.delete {where.aws.region} {cluster} {namespace}/{name} {business}"
    if dry_run:
        return promise(response, approve(room, caller, exact, plans.plan_unbind(room, where, target)))
    return begin_approved(room, caller, response, Wish("model_binding.delete", target, key, exact, approval))


def _standing(room: Room, cluster: str) -> Site:
    activity.check_not_deleting(room, cluster)
    return sites.find(room, cluster)


def _near(room: Room, cluster: str) -> KubeCluster:
    activity.check_not_deleting(room, cluster)
    return pools.near(room, sites.find(room, cluster))
