"""The door of the deployments slice. A body has at most five statements: the rules are in rules.py, the plans in plans.py."""

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
    Kind,
    Operator,
    Role,
    RoomDep,
    Viewer,
    Wish,
    approve,
    begin,
    begin_approved,
    end,
    promise,
)
from instantstart.capabilities.inference.deployments import plans, specs, views
from instantstart.capabilities.planning import Plan
from instantstart.capabilities.serving_doors import Contains, Cursor, Limit, NamePath, NamespacePath, OnlyNamespace
from instantstart.operations.record import Operation

router = APIRouter(tags=["inference"])

_BASE = "/clusters/{cluster}/model-deployments"
_ONE = _BASE + "/{namespace}/{name}"


@router.get(_BASE, operation_id="model_deployment_list", summary="List model deployments")
def list_deployments(
    room: RoomDep,
    _caller: Viewer,
    cluster: ClusterPath,
    namespace: OnlyNamespace = "",
    contains: Contains = "",
    limit: Limit = 50,
    cursor: Cursor = None,
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
    prepared = plans.prepare_create(room, activity.standing(room, cluster), ask, strict=not dry_run)
    return _begin("model_deployment.create", prepared, Asking(room, caller, response, key, dry_run, approval))


@router.patch(
    _ONE, operation_id="model_deployment_update", summary="Change a model deployment", status_code=202,
    response_model=Operation | plans.DeploymentPlan | views.DeploymentDetail,
)  # fmt: skip
def update_deployment(
    room: RoomDep, caller: Operator, cluster: ClusterPath, namespace: NamespacePath, name: NamePath, ask: specs.UpdateModelDeployment,
    response: Response, approval: Approval = None, key: IdempotencyKey = None, dry_run: DryRun = False,
) -> Any:  # fmt: skip
    """Change a deployment: what is left out stays. The plan shows each difference. Pods are changed without losing requests."""
    prepared = plans.prepare_update(room, activity.standing(room, cluster), (namespace, name), ask, strict=not dry_run)
    return _begin("model_deployment.update", prepared, Asking(room, caller, response, key, dry_run, approval))


@router.post(
    _ONE + "/scale", operation_id="model_deployment_scale", summary="Scale a model deployment", status_code=202,
    response_model=Operation | Plan | views.DeploymentDetail,
)  # fmt: skip
def scale_deployment(
    room: RoomDep, caller: Operator, cluster: ClusterPath, namespace: NamespacePath, name: NamePath, ask: specs.ScaleModelDeployment,
    response: Response, key: IdempotencyKey = None, dry_run: DryRun = False,
) -> Any:  # fmt: skip
    """Another number of pods. Refused while an autoscaler owns the number."""
    target, plan, equal = plans.prepare_scale(room, activity.standing(room, cluster), (namespace, name), ask.replicas)
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
    where = activity.standing(room, cluster)
    target = specs.DeleteTarget(tag=cluster, region=where.aws.region, namespace=namespace, name=name)
    wish = Wish("model_deployment.delete", target, exact=f"model_deployment.delete {where.aws.region} {cluster} {namespace}/{name}")
    return end(Asking(room, caller, response, key, dry_run, approval), wish, lambda: plans.plan_delete(room, where, target))


def _begin(workflow: str, prepared: plans.Prepared, asking: Asking) -> Any:
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
