"""What MLflow is asked for: pages opened, histories read, runs copied. Nobody answers behind the server; IAM is asked all the same."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.weather import scenarios

from instantstart.base import problems
from instantstart.capabilities.training.mlflow import rules, specs, stages, views
from instantstart.ensure.mlflow import tracking
from instantstart.ensure.mlflow.mlflow_api import Mlflow, Point
from instantstart.ensure.mlflow.tracking import TrackingKind

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tests.aws.everything import Everything

#: what the product asks of its own servers only, and this run of both
_READ_AT_HOME = ("sagemaker-mlflow:GetMetricHistory", "sagemaker-mlflow:GetExperiment")


def recorded(run: Everything) -> None:
    """Everything about the tracking server that the journey has left."""
    run.tell(
        views.list_mlflow(run.room, run.tag),
        views.get_mlflow(run.room, run.tag, TrackingKind.tracking_server, scenarios.MLFLOW),
        views.open_link(run.room, run.tag, TrackingKind.tracking_server, scenarios.MLFLOW)[1],
    )
    server = tracking.get(run.site.aws, TrackingKind.tracking_server, scenarios.MLFLOW)
    asked = specs.ShareTarget(tag=run.tag, region=run.region, source=server.arn, destination=server.arn, role_arn=_role(run, server.arn))
    run.sandbox.warp(60)
    way = stages.share_way(run.room, asked, "everything")
    for api in (way.source, way.target):
        for call in _calls(api):
            try:
                call()
            except problems.Denied:
                raise
            except problems.Problem:
                continue  # no such run, or no server where MLflow is not installed: IAM had let it through


def _calls(api: Mlflow) -> list[Callable[[], Any]]:
    """Every verb of the API once."""
    return [
        lambda: api.experiments(),
        lambda: api.experiment_named("x"),
        lambda: api.experiment("0"),
        lambda: list(api.each_run(["0"])),
        lambda: api.run("x"),
        lambda: api.history("x", "loss"),
        lambda: api.create_experiment("x", {}),
        lambda: api.create_run("0", "x", None, "ann", {}),
        lambda: api.log("x", points=[Point("loss", 1.0, 0, 0)]),
        lambda: api.end_run("x", "FINISHED", None, "x"),
    ]


def _role(run: Everything, arn: str) -> str:
    """A role as the other account makes it: for exactly what sharing asks."""
    iam = run.sandbox.client("iam", run.region)
    trust = {"Effect": "Allow", "Principal": {"AWS": run.site.aws.identity().principal_arn}, "Action": "sts:AssumeRole"}
    allowed = {"Effect": "Allow", "Action": [*rules.sharing_actions(arn), *_READ_AT_HOME], "Resource": arn}
    name = f"sharing-{run.region}"
    made = iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [trust]}))
    iam.put_role_policy(RoleName=name, PolicyName="sharing", PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [allowed]}))
    return str(made["Role"]["Arn"])
