"""The door of the deployments slice. A body has at most five statements: the rules are in rules.py, the plans in plans.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Response

from instantstart.base import patterns
from instantstart.capabilities import activity
from instantstart.capabilities.doors import (
    AdminOrAgent,
    Caller,
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
    promise,
)  # fmt: skip
from instantstart.capabilities.inference.deployments import plans, specs, views
from instantstart.capabilities.planning import Plan
from instantstart.capabilities.room import Room
from instantstart.ensure import sites
from instantstart.ensure.sites import Site
from instantstart.operations.record import Operation

router = APIRouter(tags=["inference"])

NamespacePath = Annotated[str, Path(max_length=63, pattern=patterns.KUBERNETES_NAME, description="Namespace of the deployment.")]
NamePath = Annotated[str, Path(max_length=63, pattern=patterns.KUBERNETES_NAME, description="Name of the deployment.")]
Approval = Annotated[str | None, Query(max_length=128, description="The approval that the plan (dry_run) gave, where it gave one.")]
_BASE = "/clusters/{cluster}/model-deployments"
_ONE = _BASE + "/{namespace}/{name}"


@dataclass(frozen=True)
class _Asking:
    """Who asks, and how."""

    room: Room
    caller: Caller
    response: Response
    key: str | None
    dry_run: bool
    approval: str | None


@router.get(_BASE, operation_id="model_deployment_list", summary="List model deployments")
def list_deployments(
    room: RoomDep,
    _caller: Viewer,
    cluster: ClusterPath,
    namespace: Annotated[str, Query(max_length=63, description="Only of this namespace.")] = "",
    contains: Annotated[str, Query(max_length=100, description="Only with this in name or model.")] = "",
    limit: Annotated[int, Query(ge=1, le=200, description="Most to answer.")] = 50,
    cursor: Annotated[str | None, Query(max_length=200, description="The cursor of the page before.")] = None,
) -> views.DeploymentPage:
    """Every deployment with model, pods, why it is not ready, and its address."""
    return views.list_deployments(room, cluster, namespace, contains, limit, cursor)


@router.get(_ONE, operation_id="model_deployment_get", summary="Get one model deployment")
def get_deployment(
    room: RoomDep, _caller: Viewer, cluster: ClusterPath, namespace: NamespacePath, name: NamePath
) -> views.DeploymentDetail:
    """One deployment in full: how it was asked, its argv, its pods, why it is not ready and what to do."""
    return views.get_deployment(room, cluster, namespace, name)


@router.post(
    _BASE, operation_id="model_deployment_create", summary="Deploy a model", status_code=202,
    response_model=Operation | plans.DeploymentPlan | views.DeploymentDetail,
)  # fmt: skip
def create_deployment(
    room: RoomDep, caller: Operator, cluster: ClusterPath, ask: specs.CreateModelDeployment, response: Response,
    approval: Approval = None, key: IdempotencyKey = None, dry_run: DryRun = False,
) -> Any:  # fmt: skip
    """Serve a model by a container. The plan shows the argv and every object. An internet-facing address needs an administrator."""
    prepared = plans.prepare_create(room, _standing(room, cluster), ask, strict=not dry_run)
    return _begin("model_deployment.create", prepared, _Asking(room, caller, response, key, dry_run, approval))


@router.patch(
    _ONE, operation_id="model_deployment_update", summary="Change a model deployment", status_code=202,
    response_model=Operation | plans.DeploymentPlan | views.DeploymentDetail,
)  # fmt: skip
def update_deployment(
    room: RoomDep, caller: Operator, cluster: ClusterPath, namespace: NamespacePath, name: NamePath, ask: specs.UpdateModelDeployment,
    response: Response, approval: Approval = None, key: IdempotencyKey = None, dry_run: DryRun = False,
) -> Any:  # fmt: skip
    """Change a deployment: what is left out stays. The plan shows each difference. Pods are changed without losing requests."""
    prepared = plans.prepare_update(room, _standing(room, cluster), (namespace, name), ask, strict=not dry_run)
    return _begin("model_deployment.update", prepared, _Asking(room, caller, response, key, dry_run, approval))


@router.post(
    _ONE + "/scale", operation_id="model_deployment_scale", summary="Scale a model deployment", status_code=202,
    response_model=Operation | Plan | views.DeploymentDetail,
)  # fmt: skip
def scale_deployment(
    room: RoomDep, caller: Operator, cluster: ClusterPath, namespace: NamespacePath, name: NamePath, ask: specs.ScaleModelDeployment,
    response: Response, key: IdempotencyKey = None, dry_run: DryRun = False,
) -> Any:  # fmt: skip
    """Another number of pods. Refused while an autoscaler owns the number."""
    target, plan, equal = plans.prepare_scale(room, _standing(room, cluster), (namespace, name), ask.replicas)
    if dry_run:
        return promise(response, plan)
    if equal:
        return promise(response, views.get_deployment(room, cluster, namespace, name))
    return begin(room, caller, response, Wish("model_deployment.scale", target, key))


@router.delete(
    _ONE, operation_id="model_deployment_delete", summary="Delete a model deployment", status_code=202, response_model=Operation | Plan
)
def delete_deployment(
    room: RoomDep, caller: AdminOrAgent, cluster: ClusterPath, namespace: NamespacePath, name: NamePath, response: Response,
    approval: Approval = None, key: IdempotencyKey = None, dry_run: DryRun = False,
) -> Any:  # fmt: skip
    """Delete a deployment with its address. Ask for the plan first: it carries the approval."""
    where = _standing(room, cluster)
    target = specs.DeleteTarget(tag=cluster, region=where.aws.region, namespace=namespace, name=name)
    exact = f"model_deployment.delete {where.aws.region} {cluster} {namespace}/{name}"
    if dry_run:
        return promise(response, approve(room, caller, exact, plans.plan_delete(room, where, target)))
    return begin_approved(room, caller, response, Wish("model_deployment.delete", target, key, exact, approval))


def _begin(workflow: str, prepared: plans.Prepared, asking: _Asking) -> Any:
    """The plan, or what is already so, or the operation. What opens an address to the internet is an administrator's to allow."""
    room, caller, response = asking.room, asking.caller, asking.response
    if asking.dry_run:
        plan = prepared.plan
        return promise(response, approve(room, caller, prepared.exact, plan) if prepared.exact else plan)
    target = prepared.target
    if prepared.equal:
        return promise(response, views.get_deployment(room, target.tag, target.namespace, str(target.name)))
    if prepared.exact is None:
        return begin(room, caller, response, Wish(workflow, target, asking.key))
    if caller.role is not Role.admin and caller.kind is Kind.person:
        return begin(room, caller, response, Wish(workflow, target, asking.key), waits=True)
    return begin_approved(room, caller, response, Wish(workflow, target, asking.key, prepared.exact, asking.approval))


def _standing(room: Room, cluster: str) -> Site:
    activity.check_not_deleting(room, cluster)
    return sites.find(room, cluster)
