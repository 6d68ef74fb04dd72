"""Two MLflow apps that really serve: runs are recorded in the one, the other stands for another account's. What a copy must have."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.training import tracked

from instantstart.base import problems
from instantstart.capabilities.training.mlflow import rules, specs, workflows
from instantstart.ensure.mlflow import tracking
from instantstart.ensure.mlflow.mlflow_api import Mlflow
from instantstart.ensure.mlflow.tracking import TrackingKind
from instantstart_sandbox.services.mlflow import processes

if TYPE_CHECKING:
    from tests.weather.ground import Ground

HERE, THERE, ROLE = "here", "there", "sharing"
_LOOK_SECONDS = 0.2


def lacks() -> str:
    """Why runs cannot be kept on this machine; empty: they can."""
    return "" if processes.interpreter() else processes.ABSENT


def serve_two(ground: Ground) -> None:
    """Both apps, three runs in the first, and the role of the second's owner."""
    ground.sandbox.admin("settings", mlflow_serves=True)
    ground.crank.real_pause_seconds = _LOOK_SECONDS
    for name in (HERE, THERE):
        target = rules.settled(ground.site, TrackingKind.app, specs.CreateMlflowApp(name=name))
        made = ground.crank.run(workflows.CREATE_APP, target)
        assert made.problem is None, (made.stopped_at, made.problem)
    api = Mlflow(ground.site.aws, arn(ground, HERE))
    parent = tracked.record(api, "alpha", "parent", [1.0, 0.5], params={"lr": "0.1"})
    tracked.record(api, "alpha", "child", [0.4], parent=parent)
    tracked.record(api, "beta", "failed", [2.0], status="FAILED")
    _make_role(ground)


def _make_role(ground: Ground) -> None:
    iam, account = ground.sandbox.client("iam"), ground.site.names.account
    trust = {"Effect": "Allow", "Principal": {"AWS": f"arn:aws:iam::{account}:root"}, "Action": "sts:AssumeRole"}
    allow = {"Effect": "Allow", "Action": ["sagemaker:CallMlflowAppApi"], "Resource": arn(ground, THERE)}
    iam.create_role(RoleName=ROLE, AssumeRolePolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [trust]}))
    iam.put_role_policy(RoleName=ROLE, PolicyName=ROLE, PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [allow]}))
    ground.sandbox.warp(90)


def take_down(ground: Ground) -> None:
    """The other account's part goes, as its owner would take it."""
    iam = ground.sandbox.client("iam")
    iam.delete_role_policy(RoleName=ROLE, PolicyName=ROLE)
    iam.delete_role(RoleName=ROLE)


def arn(ground: Ground, name: str) -> str:
    """The ARN of one of the apps. Raises AssertionError when it is not there."""
    found = tracking.find(ground.site.aws, TrackingKind.app, name)
    assert found is not None, name
    return found.arn


def asked(ground: Ground) -> dict[str, Any]:
    """All runs from here to there."""
    role = ground.sandbox.client("iam").get_role(RoleName=ROLE)["Role"]["Arn"]
    return {"source": arn(ground, HERE), "destination": arn(ground, THERE), "role_arn": role}


def copies(ground: Ground) -> list[str]:
    """Every run there, with all that it must have: a run that is there twice is two lines."""
    try:
        api = Mlflow(ground.site.aws, arn(ground, THERE))
        there = {e.id: e.name for e in api.all_experiments()}
        return sorted(
            f"copied {experiment} {json.dumps(tracked.whole(api, run), sort_keys=True, default=str)}"
            for place, experiment in there.items()
            for run in api.each_run([place])
        )
    except problems.Problem as problem:
        return [f"copies cannot be read: {problem.detail}"]
