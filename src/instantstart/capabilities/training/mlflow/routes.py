"""The door of the MLflow slice. A body has at most five statements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Response
from fastapi.responses import StreamingResponse
from pydantic import Field

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
    OperatorInPerson,
    RoomDep,
    Viewer,
    Wish,
    begin,
    end,
    promise,
)
from instantstart.capabilities.planning import Plan
from instantstart.capabilities.spending import exactly, spend
from instantstart.capabilities.training.mlflow import plans, rules, specs, told, views
from instantstart.ensure import sites
from instantstart.ensure.mlflow.tracking import TrackingKind
from instantstart.operations.record import Operation

router = APIRouter(tags=["training"])

KindPath = Annotated[TrackingKind, Path(description="tracking_server or app.")]
NamePath = Annotated[str, Path(max_length=256, pattern=patterns.TRAINING_PLAN_NAME, description="Name of the tracking server or app.")]
RunPath = Annotated[str, Path(max_length=64, pattern=patterns.MLFLOW_RUN, description="Id of the run.")]
RunIds = Annotated[
    list[Annotated[str, Field(max_length=64, pattern=patterns.MLFLOW_RUN)]],
    Query(alias="run", min_length=1, max_length=10, description="Id of a run; several times for several."),
]
Metrics = Annotated[
    list[Annotated[str, Field(max_length=250, pattern=patterns.PRINTABLE)]] | None,
    Query(alias="metric", max_length=10, description="Name of a metric; several times for several. Left out: all of the first run's."),
]
Cursor = Annotated[str | None, Query(max_length=4000, description="The cursor of the page before.")]


def tracking_of(
    tracking: Annotated[
        str | None,
        Query(
            max_length=300,
            pattern=patterns.PRINTABLE,
            description="Name or ARN of the tracking server or app; left out: the cluster's own.",
        ),
    ] = None,
    kind: Annotated[TrackingKind | None, Query(description="Which of the two, where both have the name.")] = None,
) -> views.Asked:
    """Whose history is meant."""
    return views.Asked(tracking, kind)


def runs_of(
    base: Annotated[views.Asked, Depends(tracking_of)],
    experiment: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=500, pattern=patterns.PRINTABLE)]] | None,
        Query(max_length=20, description="Name of an experiment; several times for several. Left out: all."),
    ] = None,
    filter: Annotated[  # noqa: A002 - the field's own noun
        str, Query(max_length=1000, pattern=patterns.ONE_LINE, description="In MLflow's words, such as metrics.loss < 0.5.")
    ] = "",
    order_by: Annotated[
        str | None, Query(max_length=300, pattern=patterns.PRINTABLE, description="In MLflow's words, such as metrics.loss ASC.")
    ] = None,
) -> views.Asked:
    """Which runs are meant."""
    return views.Asked(base.tracking, base.kind, tuple(experiment or ()), filter, (order_by,) if order_by else ())


Tracking = Annotated[views.Asked, Depends(tracking_of)]
Runs = Annotated[views.Asked, Depends(runs_of)]
Server = "/clusters/{cluster}/mlflow/{kind}/{name}"


@dataclass(frozen=True)
class SignInLink:
    """An address that signs in once, into MLflow's own pages. It is neither kept nor logged."""

    url: str
    expires_in_seconds: int


@router.get("/clusters/{cluster}/mlflow", operation_id="mlflow_list", summary="List tracking servers and apps")
def list_mlflow(room: RoomDep, _caller: Viewer, cluster: ClusterPath) -> views.MlflowList:
    """Every tracking server and MLflow app of the account in the cluster's region, and whether training pods reach them, link by link."""
    return views.list_mlflow(room, cluster)


@router.post(
    "/clusters/{cluster}/mlflow/tracking_server", operation_id="mlflow_server_create", summary="Create a tracking server", status_code=202,
    response_model=Operation | Plan,
)  # fmt: skip
def create_server(
    room: RoomDep, caller: Operator, cluster: ClusterPath, ask: specs.CreateMlflowServer, response: Response,
    approval: Approval = None, key: IdempotencyKey = None, dry_run: DryRun = False,
) -> Any:  # fmt: skip
    """Bucket folder, role, server, and the pods' way to it. Up to 25 minutes; paid by the hour: an agent passes its plan's approval."""
    where = activity.standing(room, cluster)
    target = rules.settled(where, TrackingKind.tracking_server, ask)
    asking = Asking(room, caller, response, key, dry_run, approval)
    wish = Wish("mlflow_server.create", target, exact=exactly("mlflow_server.create", ask, cluster))
    return spend(asking, wish, lambda: plans.plan_create(where, target), lambda: plans.checked(where, target))


@router.post(
    "/clusters/{cluster}/mlflow/app", operation_id="mlflow_app_create", summary="Create an MLflow app", status_code=202,
    response_model=Operation | Plan,
)  # fmt: skip
def create_app(
    room: RoomDep, caller: Operator, cluster: ClusterPath, ask: specs.CreateMlflowApp, response: Response,
    key: IdempotencyKey = None, dry_run: DryRun = False,
) -> Any:  # fmt: skip
    """Bucket folder, role, app, and the pods' way to it: the newer form of MLflow on SageMaker, ready in minutes."""
    where = activity.standing(room, cluster)
    target = rules.settled(where, TrackingKind.app, ask)
    if dry_run:
        return promise(response, plans.plan_create(where, target))
    return begin(room, caller, response, Wish("mlflow_app.create", plans.checked(where, target), key))


@router.get(Server, operation_id="mlflow_get", summary="Get a tracking server or app")
def get_mlflow(room: RoomDep, _caller: Viewer, cluster: ClusterPath, kind: KindPath, name: NamePath) -> views.MlflowItem:
    """One of them in full."""
    return views.get_mlflow(room, cluster, kind, name)


@router.delete(
    Server, operation_id="mlflow_delete", summary="Delete a tracking server or app", status_code=202, response_model=Operation | Plan
)
def delete_mlflow(
    room: RoomDep, caller: AdminOrAgent, cluster: ClusterPath, kind: KindPath, name: NamePath, response: Response,
    approval: Approval = None, key: IdempotencyKey = None, dry_run: DryRun = False,
) -> Any:  # fmt: skip
    """What was recorded in it is lost, artifacts stay. Needs the approval that the plan (dry_run) gave."""
    where, exact = sites.find(room, cluster), f"DELETE mlflow {cluster} {kind} {name}"
    target = plans.to_remove(where, kind, name)
    wish = Wish("mlflow.delete", target, exact=exact)
    return end(Asking(room, caller, response, key, dry_run, approval), wish, lambda: plans.plan_delete(where, target))


@router.post(f"{Server}/link", operation_id="mlflow_open", summary="Open MLflow's own pages")
def open_mlflow(
    room: RoomDep, _caller: OperatorInPerson, cluster: ClusterPath, kind: KindPath, name: NamePath, response: Response
) -> SignInLink:
    """A one-time address into MLflow's own pages, good for five minutes. Whoever has it is signed in."""
    response.headers["Cache-Control"] = "no-store"
    return SignInLink(*views.open_link(room, cluster, kind, name))


@router.post(
    f"{Server}/access", operation_id="mlflow_access_grant", summary="Let training pods log to it", status_code=202,
    response_model=Operation | Plan,
)  # fmt: skip
def grant_access(
    room: RoomDep, caller: Operator, cluster: ClusterPath, kind: KindPath, name: NamePath, ask: specs.GrantMlflow, response: Response,
    key: IdempotencyKey = None, dry_run: DryRun = False,
) -> Any:  # fmt: skip
    """Service account, role and policy for training pods of some namespaces: for this tracking server and its artifacts alone."""
    where = activity.standing(room, cluster)
    target = specs.GrantTarget(tag=cluster, region=where.aws.region, kind=kind, name=name, namespaces=ask.namespaces)
    plan = plans.plan_grant(where, target)
    return promise(response, plan) if dry_run else begin(room, caller, response, Wish("mlflow_access.grant", target, key))


@router.post(
    f"{Server}/shares", operation_id="mlflow_share", summary="Share runs with another account", status_code=202,
    response_model=Operation | Plan,
)  # fmt: skip
def share_mlflow(
    room: RoomDep, caller: Operator, cluster: ClusterPath, kind: KindPath, name: NamePath, ask: specs.ShareMlflow, response: Response,
    key: IdempotencyKey = None, dry_run: DryRun = False,
) -> Any:  # fmt: skip
    """Copy complete runs (parameters, tags, every point of every metric, times, status, nesting) as a role of the other account.

    Asked again, only what is new or has changed is copied. The plan (dry_run) shows the policy and the trust that the role needs.
    """
    where = sites.find(room, cluster)
    target = plans.to_share(room, where, (kind, name), ask)
    if dry_run:
        return promise(response, plans.plan_share(where, target))
    return begin(room, caller, response, Wish("mlflow.share", target, key))


@router.get("/clusters/{cluster}/training-experiments", operation_id="training_experiments", summary="List experiments")
def list_experiments(
    room: RoomDep, _caller: Viewer, cluster: ClusterPath, asked: Tracking,
    limit: Annotated[int, Query(ge=1, le=1000, description="Most experiments to answer.")] = 100, cursor: Cursor = None,
) -> views.ExperimentPage:  # fmt: skip
    """Experiments of a tracking server, newest change first."""
    return views.list_experiments(room, cluster, asked, limit, cursor)


@router.get("/clusters/{cluster}/training-runs", operation_id="training_runs", summary="List training runs")
def list_runs(
    room: RoomDep, _caller: Viewer, cluster: ClusterPath, asked: Runs,
    limit: Annotated[int, Query(ge=1, le=1000, description="Most runs to answer.")] = 50, cursor: Cursor = None,
) -> views.RunPage:  # fmt: skip
    """Runs recorded in MLflow with parameters, latest metrics and how fast they are, newest first; filter and order in MLflow's words."""
    return views.list_runs(room, cluster, asked, limit, cursor)


@router.get(
    "/clusters/{cluster}/training-runs/export", operation_id="training_runs_export", summary="Export training runs",
    response_class=StreamingResponse, responses={200: {"content": {"text/csv": {}}, "description": "Comma-separated values."}},
)  # fmt: skip
def export_runs(room: RoomDep, _caller: Viewer, cluster: ClusterPath, asked: Runs) -> StreamingResponse:
    """The same runs as comma-separated values, 10,000 at most: a column for each parameter and metric."""
    headers = {"Content-Disposition": f'attachment; filename="{cluster}-runs.csv"'}
    return StreamingResponse(views.export_runs(room, cluster, asked), media_type="text/csv", headers=headers)


@router.get("/clusters/{cluster}/training-runs/compare", operation_id="training_runs_compare", summary="Compare training runs")
def compare_runs(room: RoomDep, _caller: Viewer, cluster: ClusterPath, asked: Tracking, run_ids: RunIds) -> views.Comparison:
    """Parameters and latest metrics of up to ten runs side by side, what differs first."""
    return views.compare(room, cluster, asked, run_ids)


@router.get("/clusters/{cluster}/training-runs/metrics", operation_id="training_run_metrics", summary="Get metric histories")
def read_metrics(
    room: RoomDep, _caller: Viewer, cluster: ClusterPath, asked: Tracking, run_ids: RunIds, metrics: Metrics = None,
    points: Annotated[int, Query(ge=4, le=5000, description="Most points of each curve; the least and the greatest are kept.")] = 500,
) -> views.MetricHistory:  # fmt: skip
    """Metrics of up to ten runs over their steps, for a chart."""
    return views.read_history(room, cluster, asked, (run_ids, metrics or []), points)


@router.get("/clusters/{cluster}/training-runs/{run_id}", operation_id="training_run_get", summary="Get a training run")
def get_run(room: RoomDep, _caller: Viewer, cluster: ClusterPath, run_id: RunPath, asked: Tracking) -> told.RunItem:
    """One run with all its parameters, tags and latest metrics."""
    return views.get_run(room, cluster, asked, run_id)
