"""The door of managed endpoints. A body has at most five statements: the rules are in rules.py, the reads in views.py."""

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
from instantstart.capabilities.inference.endpoints import plans, specs, views
from instantstart.capabilities.planning import Plan
from instantstart.capabilities.serving_doors import Contains, Cursor, Limit, NamePath, NamespacePath, OnlyNamespace
from instantstart.operations.record import Operation

router = APIRouter(tags=["inference"])

_BASE = "/clusters/{cluster}/inference-endpoints"
_ONE = _BASE + "/{namespace}/{name}"


@router.get(_BASE, operation_id="inference_endpoint_list", summary="List inference endpoints")
def list_inference_endpoints(
    room: RoomDep,
    _caller: Viewer,
    cluster: ClusterPath,
    namespace: OnlyNamespace = "",
    contains: Contains = "",
    limit: Limit = 50,
    cursor: Cursor = None,
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
    prepared = plans.prepare_create(room, activity.standing(room, cluster), ask)
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
    prepared = plans.prepare_update(room, activity.standing(room, cluster), (namespace, name), ask)
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
    approval: Approval = None, key: IdempotencyKey = None, dry_run: DryRun = False,
) -> Any:  # fmt: skip
    """End an endpoint with its replicas, load balancer and SageMaker endpoint. Ask for the plan first: it carries the approval."""
    prepared = plans.plan_delete(room, activity.standing(room, cluster), namespace, name)
    wish = Wish("inference_endpoint.delete", prepared.target, exact=prepared.exact)
    return end(Asking(room, caller, response, key, dry_run, approval), wish, lambda: prepared.plan)
