"""Managed MLflow: servers and apps made and taken away, the pods' way to them link by link, refusals with their fields."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.capacity.conftest import door, shared_room, shared_sandbox, standing
from tests.capacity.doors import Door
from tests.clusters.conftest import Job
from tests.training.tracked import Tracked

from instantstart.base import problems
from instantstart.capabilities.training.mlflow import plans, rules, specs, views, workflows
from instantstart.ensure.iam import identity
from instantstart.ensure.mlflow import tracking
from instantstart.ensure.mlflow.tracking import SERVICE_ACCOUNT, TrackingKind

__all__ = ["door", "shared_room", "shared_sandbox", "standing"]

MLFLOW = "/clusters/standing/mlflow"


@pytest.fixture(scope="module")
def tracked(standing: Job, door: Door) -> Tracked:
    """The cluster; nothing of MLflow needs to be recorded here."""
    quick: dict[str, Any] = {"mlflow_server_create_seconds": 120.0, "mlflow_app_create_seconds": 20.0, "mlflow_change_seconds": 20.0}
    standing.crank.sandbox.admin("settings", **quick)
    return Tracked(standing, door, serves=False)


def policy(tracked: Tracked) -> list[dict[str, Any]]:
    """What the pods' role may do."""
    document = identity.inline_policy(tracked.where.aws, tracked.where.names.mlflow_role, "mlflow")
    statements: list[dict[str, Any]] = document["Statement"] if document else []
    return statements


def test_a_server_is_made_with_its_way_for_the_pods_and_taken_away_again(tracked: Tracked) -> None:
    where = tracked.where
    made = tracked.create(TrackingKind.tracking_server, "team-a", namespaces=["default", "kube-public"])
    assert made.problem is None, made.problem
    assert "takes up to 25 minutes" in made.sentences("usable")
    arn = made.result["tracking_uri"]
    store = f"{where.names.data_bucket}/mlflow/team-a"
    granted = {(s["Action"][0], tuple(s["Resource"])) for s in policy(tracked)}
    assert ("sagemaker-mlflow:*", (arn,)) in granted
    assert ("s3:GetObject", (f"arn:aws:s3:::{store}/*",)) in granted
    assert not any("*" in resource[:-1] for _, resources in granted for resource in resources)
    for namespace in ("default", "kube-public"):
        account = where.kube(tracked.job.crank.room).get("ServiceAccount", SERVICE_ACCOUNT, namespace)
        assert where.names.mlflow_role in account["metadata"]["annotations"]["eks.amazonaws.com/role-arn"]

    told = tracked.door.get(MLFLOW)
    (item,) = told["items"]
    assert (item["name"], item["usable"], item["ours"], item["pods"]) == ("team-a", True, True, True)
    assert told["access"]["granted"] is True
    assert {"oidc_provider", "role", "trust", "policies", "service_account", "annotation"} <= {x["link"] for x in told["access"]["links"]}

    again = tracked.create(TrackingKind.tracking_server, "team-a")
    assert again.problem is None
    assert tracked.job.crank.sandbox.ask("received") is not None

    path = f"{MLFLOW}/tracking_server/team-a"
    plan = tracked.door.well(200, "DELETE", path, dry_run=True)
    assert any("cannot be brought back" in warning for warning in plan["warnings"])
    assert tracked.door.refusal(409, "DELETE", path)["code"] == "approval.missing"
    assert tracked.door.well(202, "DELETE", path, approval=plan["approval"])["workflow"] == "mlflow.delete"
    ended = tracked.turn("mlflow.delete", kind="tracking_server", name="team-a", arn=arn)
    assert ended.problem is None, ended.problem
    assert tracked.find(TrackingKind.tracking_server, "team-a") is None
    assert policy(tracked) == []
    assert identity.find_role(where.aws, where.names.mlflow_server_role) is None
    assert where.kube(tracked.job.crank.room).find("ServiceAccount", SERVICE_ACCOUNT, "default") is None


def test_each_server_has_its_own_share_of_the_pods_role(tracked: Tracked) -> None:
    for name in ("one", "two"):
        assert tracked.create(TrackingKind.app, name).problem is None
    arns = {name: (tracked.find(TrackingKind.app, name) or pytest.fail(name)).arn for name in ("one", "two")}
    assert set(policy(tracked)[0]["Resource"]) == set(arns.values())
    assert policy(tracked)[1]["Action"] == ["sagemaker:CallMlflowAppApi"]
    granted = tracked.turn("mlflow_access.grant", kind="app", name="one", namespaces=["kube-public"])
    assert granted.result["service_accounts"] == [f"default/{SERVICE_ACCOUNT}", f"kube-public/{SERVICE_ACCOUNT}"]
    assert tracked.turn("mlflow.delete", kind="app", name="one", arn=arns["one"]).problem is None
    assert policy(tracked)[0]["Resource"] == [arns["two"]]
    assert tracked.turn("mlflow.delete", kind="app", name="two", arn=arns["two"]).problem is None


def test_a_lost_answer_makes_no_second_one(tracked: Tracked) -> None:
    sandbox = tracked.job.crank.sandbox
    since = sandbox.last_call()
    sandbox.fault("sagemaker:CreateMlflowApp", when="after")
    made = tracked.create(TrackingKind.app, "lost")
    sandbox.clear()
    assert made.problem is None, made.problem
    assert len([s for s in tracking.list_all(tracked.where.aws) if s.name == "lost"]) == 1
    assert len([c for c in sandbox.calls(since) if c["operation"] == "CreateMlflowApp" and not c["error"]]) <= 1
    assert tracked.turn("mlflow.delete", kind="app", name="lost", arn=made.result["tracking_uri"]).problem is None


def test_what_others_made_is_never_taken_over_or_away(tracked: Tracked) -> None:
    where, sagemaker = tracked.where, tracked.job.crank.sandbox.client("sagemaker")
    role = tracked.job.crank.sandbox.client("iam").get_role(RoleName=where.names.execution_role)["Role"]["Arn"]
    sagemaker.create_mlflow_app(Name="theirs", ArtifactStoreUri=f"s3://{where.names.data_bucket}/x", RoleArn=role)
    refused = tracked.door.refusal(422, "POST", f"{MLFLOW}/app", {"name": "theirs"})
    assert [f["pointer"] for f in refused["fields"]] == ["/name"]
    with pytest.raises(problems.Conflict) as conflict:
        plans.to_remove(where, TrackingKind.app, "theirs")
    assert conflict.value.code == "mlflow.not_ours"
    assert tracked.door.refusal(409, "DELETE", f"{MLFLOW}/app/theirs", dry_run=True)["code"] == "mlflow.not_ours"


@pytest.mark.parametrize(
    ("path", "body", "pointers"),
    [
        ("tracking_server", {"name": "-a", "size": "Huge", "version": "three"}, {"name", "size", "version"}),
        ("tracking_server", {"maintenance": "Someday", "colour": "red"}, {"maintenance", "colour"}),
        ("tracking_server", {"artifact_store": "s3://no-such-bucket-of-ours/x"}, {"artifact_store"}),
        ("app", {"namespaces": [], "size": "Small", "artifact_store": "ftp://x"}, {"namespaces", "size", "artifact_store"}),
        ("app", {"name": "a b", "register_models": "yes"}, {"name", "register_models"}),
    ],
)  # fmt: skip
def test_every_wrong_field_is_told(tracked: Tracked, path: str, body: dict[str, object], pointers: set[str]) -> None:
    assert tracked.door.pointers("POST", f"{MLFLOW}/{path}", body) == {f"/{name}" for name in pointers}


def test_a_plan_says_what_would_be_made_and_paid(tracked: Tracked) -> None:
    plan = tracked.door.well(200, "POST", f"{MLFLOW}/tracking_server", {}, dry_run=True)
    assert any(tracked.where.names.mlflow in line for line in plan["make"])
    assert plan["warnings"] == ["A tracking server is paid by the hour until it is stopped or deleted."]
    assert {f["check"] for f in plan["findings"]} == {"name", "artifact_store"}


def test_a_failed_creation_is_told_with_what_to_do(tracked: Tracked) -> None:
    where = tracked.where
    target = rules.settled(where, TrackingKind.app, specs.CreateMlflowApp(name="bad", artifact_store="s3://gone-meanwhile/x"))
    turned = tracked.job.crank.run(workflows.CREATE_APP, target)
    assert turned.problem is not None
    assert turned.problem.code == "mlflow.no_bucket"


def test_an_unreadable_cluster_is_told_in_the_list(tracked: Tracked) -> None:
    sandbox = tracked.job.crank.sandbox
    sandbox.fault("eks:DescribeCluster", code="AccessDeniedException", message="no", status=403, count=None)
    tracked.where.aws._kept.clear()
    told = views.list_mlflow(tracked.job.crank.room, "standing")
    sandbox.clear()
    assert told.access.granted is False
    assert told.access.unread
    assert json.dumps([item.name for item in told.items])
