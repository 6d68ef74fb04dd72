"""The door of managed endpoints. A body has at most five statements: the rules are in rules.py, the reads in views.py."""

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
)
from instantstart.capabilities.inference.endpoints import plans, specs, views
from instantstart.capabilities.planning import Plan
from instantstart.capabilities.room import Room
from instantstart.ensure import sites
from instantstart.ensure.sites import Site
from instantstart.operations.record import Operation

router = APIRouter(tags=["inference"])

NamespacePath = Annotated[str, Path(max_length=63, pattern=patterns.KUBERNETES_NAME, description="Namespace of the endpoint.")]
NamePath = Annotated[str, Path(max_length=63, pattern=patterns.KUBERNETES_NAME, description="Name of the endpoint.")]
_BASE = "/clusters/{cluster}/inference-endpoints"
_ONE = _BASE + "/{namespace}/{name}"


@router.get(_BASE, operation_id="inference_endpoint_list", summary="List inference endpoints")
def list_inference_endpoints(
    room: RoomDep,
    _caller: Viewer,
    cluster: ClusterPath,
    namespace: Annotated[str, Query(max_length=63, description="Only of this namespace.")] = "",
    contains: Annotated[str, Query(max_length=100, description="Only names that contain this.")] = "",
    limit: Annotated[int, Query(ge=1, le=200, description="Most endpoints to answer.")] = 50,
    cursor: Annotated[str | None, Query(max_length=200, description="The cursor of the page before.")] = None,
) -> views.EndpointPage:
    """Managed endpoints with their replicas, and in one sentence why one is not ready."""
    return views.list_endpoints(room, cluster, views.Filter(namespace, contains), limit, cursor)


@router.get(_ONE, operation_id="inference_endpoint_get", summary="Get an inference endpoint")
def get_inference_endpoint(
    room: RoomDep, _caller: Viewer, cluster: ClusterPath, namespace: NamespacePath, name: NamePath
) -> views.EndpointDetail:
    """One endpoint: each link (operator, replicas, load balancer, certificate, SageMaker endpoint), its settings, replicas and events."""
    return views.get_endpoint(room, cluster, namespace, name)


@router.post(
    _BASE, operation_id="inference_endpoint_create", summary="Create an inference endpoint", status_code=202,
    response_model=Operation | Plan | views.EndpointDetail,
)  # fmt: skip
def create_inference_endpoint(
    room: RoomDep, caller: Operator, cluster: ClusterPath, ask: specs.CreateInferenceEndpoint, response: Response,
    key: IdempotencyKey = None, dry_run: DryRun = False,
) -> Any:  # fmt: skip
    """Serve a model by the HyperPod inference operator. Complete when the model has answered a first token."""
    prepared = plans.prepare_create(room, _open(room, cluster), ask)
    if dry_run:
        return promise(response, prepared.plan)
    if prepared.equal:
        return promise(response, views.get_endpoint(room, cluster, ask.namespace, ask.name))
    return begin(room, caller, response, Wish("inference_endpoint.create", prepared.checked(), key))


@router.patch(
    _ONE, operation_id="inference_endpoint_update", summary="Change an inference endpoint", status_code=202,
    response_model=Operation | Plan | views.EndpointDetail,
)  # fmt: skip
def update_inference_endpoint(
    room: RoomDep, caller: Operator, cluster: ClusterPath, namespace: NamespacePath, name: NamePath, ask: specs.UpdateInferenceEndpoint,
    response: Response, key: IdempotencyKey = None, dry_run: DryRun = False,
) -> Any:  # fmt: skip
    """Change settings; what is left out stays. It succeeds only when what runs is what was asked: a silent rollback is a failure."""
    prepared = plans.prepare_update(room, _open(room, cluster), (namespace, name), ask)
    if dry_run:
        return promise(response, prepared.plan)
    if prepared.checked() and prepared.equal:
        return promise(response, views.get_endpoint(room, cluster, namespace, name))
    return begin(room, caller, response, Wish("inference_endpoint.update", prepared.target, key))


@router.delete(
    _ONE, operation_id="inference_endpoint_delete", summary="Delete an inference endpoint", status_code=202,
    response_model=Operation | Plan,
)  # fmt: skip
def delete_inference_endpoint(
    room: RoomDep, caller: AdminOrAgent, cluster: ClusterPath, namespace: NamespacePath, name: NamePath, response: Response,
    approval: Annotated[str | None, Query(max_length=128, description="The approval that the plan (dry_run) gave.")] = None,
    key: IdempotencyKey = None, dry_run: DryRun = False,
) -> Any:  # fmt: skip
    """End an endpoint with its replicas, load balancer and SageMaker endpoint. Ask for the plan first: it carries the approval."""
    prepared = plans.plan_delete(room, _open(room, cluster), namespace, name)
    if dry_run:
        return promise(response, approve(room, caller, str(prepared.exact), prepared.plan))
    return begin_approved(room, caller, response, Wish("inference_endpoint.delete", prepared.target, key, prepared.exact, approval))


def _open(room: Room, cluster: str) -> Site:
    """The cluster, unless it is being deleted."""
    activity.check_not_deleting(room, cluster)
    return sites.find(room, cluster)
