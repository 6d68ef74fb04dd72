"""The door of training jobs. A body has at most five statements: the rules are in rules.py, the plans in plans.py."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Response

from instantstart.base import patterns
from instantstart.capabilities import activity
from instantstart.capabilities.doors import (
    Approval,
    Asking,
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
from instantstart.capabilities.planning import Plan
from instantstart.capabilities.training.jobs import details, judging, plans, specs, views
from instantstart.ensure import sites
from instantstart.ensure.sites import Site
from instantstart.ensure.training.job_states import Status
from instantstart.operations.record import Operation

router = APIRouter(tags=["training"])

KindPath = Annotated[specs.JobKind, Path(description="pytorch, ray_job or ray_cluster.")]
NamespacePath = Annotated[str, Path(max_length=63, pattern=patterns.KUBERNETES_NAME, description="Namespace of the job.")]
NamePath = Annotated[str, Path(max_length=63, pattern=patterns.KUBERNETES_NAME, description="Name of the job.")]
_BASE = "/clusters/{cluster}/training-jobs"
_ONE = _BASE + "/{kind}/{namespace}/{name}"


@router.get(_BASE, operation_id="training_job_list", summary="List training jobs")
def list_training_jobs(
    room: RoomDep,
    _caller: Viewer,
    cluster: ClusterPath,
    kind: Annotated[specs.JobKind | None, Query(description="Only of this kind.")] = None,
    namespace: Annotated[str | None, Query(max_length=63, pattern=patterns.KUBERNETES_NAME, description="Only of this namespace.")] = None,
    status: Annotated[Status | None, Query(description="Only in this status.")] = None,
    contains: Annotated[str, Query(max_length=63, description="Only jobs whose name or framework contains this.")] = "",
    sort: Annotated[views.Sort, Query(description="created: newest first.")] = "created",
    limit: Annotated[int, Query(ge=1, le=200, description="Most jobs to answer.")] = 50,
    cursor: Annotated[str | None, Query(max_length=400, description="The cursor of the page before.")] = None,
) -> views.TrainingJobPage:
    """Jobs of HyperPod's operator and of KubeRay, whoever made them, with why those that wait do."""
    return views.list_jobs(room, cluster, views.Filters(kind, namespace, status, contains, sort), limit, cursor)


@router.get(_ONE, operation_id="training_job_get", summary="Show one training job")
def get_training_job(
    room: RoomDep, _caller: Viewer, cluster: ClusterPath, kind: KindPath, namespace: NamespacePath, name: NamePath
) -> details.TrainingJobDetail:
    """One job in full: pods, recovery budget and what is used of it, events, why it does not run."""
    return details.get_job(room, cluster, kind, namespace, name)


@router.post(_BASE, operation_id="training_job_submit", summary="Submit a training job", status_code=202, response_model=Operation | Plan)
def submit_training_job(
    room: RoomDep, caller: Operator, cluster: ClusterPath, ask: specs.SubmitTrainingJob, response: Response,
    key: IdempotencyKey = None, dry_run: DryRun = False,
) -> Any:  # fmt: skip
    """Submit a job; the operation follows it until it runs, or says why it does not. The job's end is seen in the job."""
    where = activity.standing(room, cluster)
    target = specs.SubmitTarget(**dict(ask), tag=cluster, region=where.aws.region)
    return _submitted(Asking(room, caller, response, key, dry_run), where, target)


@router.post(_BASE + "/previews", operation_id="training_job_preview", summary="Preview a training job")
def preview_training_job(room: RoomDep, _caller: Viewer, cluster: ClusterPath, ask: specs.SubmitTrainingJob) -> plans.TrainingJobPreview:
    """The exact objects and the exact arguments of the container, with what the preflight finds. Changes nothing."""
    where = sites.find(room, cluster)
    return plans.preview(room, where, specs.SubmitTarget(**dict(ask), tag=cluster, region=where.aws.region))


@router.post(
    _ONE + "/resubmissions", operation_id="training_job_resubmit", summary="Submit a training job again", status_code=202,
    response_model=Operation | Plan,
)  # fmt: skip
def resubmit_training_job(
    room: RoomDep, caller: Operator, cluster: ClusterPath, kind: KindPath, namespace: NamespacePath, name: NamePath,
    ask: specs.ResubmitTrainingJob, response: Response, key: IdempotencyKey = None, dry_run: DryRun = False,
) -> Any:  # fmt: skip
    """The same job once more, under the next free name unless said otherwise."""
    where = activity.standing(room, cluster)
    told = specs.JobTarget(tag=cluster, region=where.aws.region, kind=kind, namespace=namespace, name=name, uid="")
    target = plans.again(where, where.kube(room), told, ask)
    return _submitted(Asking(room, caller, response, key, dry_run), where, target)


@router.delete(_ONE, operation_id="training_job_delete", summary="End a training job", status_code=202, response_model=Operation | Plan)
def delete_training_job(
    room: RoomDep, caller: Operator, cluster: ClusterPath, kind: KindPath, namespace: NamespacePath, name: NamePath, response: Response,
    approval: Approval = None, key: IdempotencyKey = None, dry_run: DryRun = False,
) -> Any:  # fmt: skip
    """End a job and its pods, and free what it holds. One that has not ended takes the approval of its plan."""
    where = activity.standing(room, cluster)
    target = specs.JobTarget(tag=cluster, region=where.aws.region, kind=kind, namespace=namespace, name=name, uid="")
    wish = plans.prepare_end(room, where, target)
    return _ended(Asking(room, caller, response, key, dry_run, approval), wish)


@router.post("/training-log-rule-trials", operation_id="training_log_rules_try", summary="Try log rules on sample text")
def try_log_rules(_room: RoomDep, _caller: Viewer, ask: specs.TryLogRules) -> judging.TrialResult:
    """What log rules would have said of a sample log: the lines that fit, the numbers, where the job would be called slow or hanging."""
    return plans.try_rules(ask)


def _submitted(asking: Asking, where: Site, target: specs.SubmitTarget) -> Operation | Plan:
    if asking.dry_run:
        return promise(asking.response, plans.plan_submit(asking.room, where, target))
    wish = Wish("training_job.submit", plans.checked(asking.room, where, target), asking.key)
    return begin(asking.room, asking.caller, asking.response, wish)


def _ended(asking: Asking, end: plans.Ending) -> Operation | Plan:
    room, caller, response = asking.room, asking.caller, asking.response
    if asking.dry_run:
        return promise(response, approve(room, caller, end.exact, end.plan) if end.needs_approval else end.plan)
    wish = Wish("training_job.delete", end.target, asking.key, end.exact, asking.approval)
    made = begin_approved(room, caller, response, wish) if end.needs_approval else begin(room, caller, response, wish)
    if end.follower:
        room.engine.cancel(end.follower, caller.id)
    return made
