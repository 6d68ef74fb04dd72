"""A standing cluster with two MLflow apps: one where runs are recorded, one that stands for another account's. MLflow itself is real."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import Any

from tests.capacity.doors import Door, turn
from tests.clusters.conftest import Job
from tests.clusters.crank import Turned

from instantstart.capabilities.training.mlflow import rules, specs, workflows
from instantstart.ensure.mlflow import tracking
from instantstart.ensure.mlflow.mlflow_api import Mlflow, Point, Run
from instantstart.ensure.mlflow.tracking import TrackingKind
from instantstart.ensure.sites import Site

HERE, THERE = "here", "there"
_LOOK_SECONDS = 0.2


@dataclass
class Tracked:
    """The cluster ``standing``, its door, and the ARNs of the apps."""

    job: Job
    door: Door
    arns: dict[str, str] = field(default_factory=dict)
    #: MLflow's own process stands behind what is made: it takes real time to come up, whatever the virtual clock says
    serves: bool = True

    @property
    def where(self) -> Site:
        """Where the cluster lives."""
        return self.job.site

    def create(self, kind: TrackingKind, name: str, **more: Any) -> Turned:
        """Turn a creation to its end."""
        ask = specs.CreateMlflowApp(name=name, **more) if kind is TrackingKind.app else specs.CreateMlflowServer(name=name, **more)
        target = rules.settled(self.where, kind, ask)
        declared = workflows.CREATE_APP if kind is TrackingKind.app else workflows.CREATE_SERVER
        crank = self.job.crank
        crank.before_look = lambda turned, stage: time.sleep(_LOOK_SECONDS if self.serves and stage == "usable" else 0)
        try:
            return crank.run(declared, target)
        finally:
            crank.before_look = lambda turned, stage: None

    def app(self, name: str) -> Mlflow:
        """MLflow's API of an app, as the account's administrator."""
        return Mlflow(self.where.aws, self.arns[name])

    def turn(self, workflow: str, /, **spec: Any) -> Turned:
        """An operation turned by hand."""
        return turn(self.job.crank, workflow, **spec)

    def role(self, name: str, actions: list[str], resource: str) -> str:
        """A role of "the other account" that allows some actions on one ARN, and trusts this one."""
        iam = self.job.crank.sandbox.client("iam")
        account = self.where.names.account
        trust = {"Effect": "Allow", "Principal": {"AWS": f"arn:aws:iam::{account}:root"}, "Action": "sts:AssumeRole"}
        allow = {"Effect": "Allow", "Action": actions, "Resource": resource}
        made = iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [trust]}))
        if actions:
            document = json.dumps({"Version": "2012-10-17", "Statement": [allow]})
            iam.put_role_policy(RoleName=name, PolicyName="sharing", PolicyDocument=document)
        self.job.crank.sandbox.warp(60)
        return str(made["Role"]["Arn"])

    def find(self, kind: TrackingKind, name: str) -> tracking.Server | None:
        """What AWS says of one."""
        return tracking.find(self.where.aws, kind, name)


def record(api: Mlflow, experiment: str, name: str, curve: list[float], **more: Any) -> str:
    """A finished run with a curve; ``params``, ``tags``, ``status``, ``parent`` and ``started`` as asked."""
    have = api.experiment_named(experiment)
    place = have.id if have else api.create_experiment(experiment, {})
    started = more.get("started", 1_700_000_000_000)
    tags = {**more.get("tags", {}), **({"mlflow.parentRunId": more["parent"]} if "parent" in more else {})}
    run = api.create_run(place, name, started, "ann", tags)
    points = [Point("loss", value, started + step * 1000, step) for step, value in enumerate(curve)]
    for at in range(0, len(points), 1000):
        api.log(run, points=points[at : at + 1000])
    api.log(run, points=[Point("tokens_per_second", 1234.5, started, 0)])
    params = list(more.get("params", {}).items())
    for at in range(0, len(params), 100):
        api.log(run, params=dict(params[at : at + 100]))
    if more.get("status", "FINISHED") != "RUNNING":
        api.end_run(run, more.get("status", "FINISHED"), started + 60_000, name)
    return run


def whole(api: Mlflow, run: Run) -> dict[str, Any]:
    """All that a copy must have of a run, without what names one side."""
    kept = {key: value for key, value in run.tags.items() if not key.startswith(("instantstart.source_", "mlflow."))}
    curves = {key: [(p.step, p.timestamp, str(p.value)) for p in api.history(run.id, key)] for key in sorted(run.metrics)}
    told = {"name": run.name, "status": run.status, "times": (run.started, run.ended)}
    return {**told, "params": dict(run.params), "tags": kept, "curves": curves}
