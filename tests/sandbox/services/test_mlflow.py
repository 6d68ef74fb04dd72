"""MLflow on SageMaker: the states of servers and apps, who may use them, and a real server that keeps what it is told."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.exceptions import ClientError
from tests.sandbox.services.conftest import Account

from instantstart_sandbox.compose import Sandbox, build
from instantstart_sandbox.services.mlflow import processes
from instantstart_sandbox.world.null_kubernetes import NullKubernetes

REGION = "us-west-2"
needs_mlflow = pytest.mark.skipif(processes.interpreter() is None, reason=processes.ABSENT)


class Tracking:
    """An account with a role and a bucket for MLflow."""

    def __init__(self, sandbox: Sandbox, endpoint: str) -> None:
        self.account = Account(sandbox.world, endpoint, NullKubernetes())
        self.endpoint, self.world = endpoint, sandbox.world
        self.sagemaker: Any = self.account.sagemaker
        self.role = self.account.role("mlflow", "sagemaker.amazonaws.com")
        location = {"LocationConstraint": REGION}
        self.account.s3.create_bucket(Bucket="runs", CreateBucketConfiguration=location)
        self.account.warp(11)

    def server(self, name: str = "tracking", bucket: str = "runs") -> str:
        uri = f"s3://{bucket}/mlflow"
        made = self.sagemaker.create_mlflow_tracking_server(TrackingServerName=name, ArtifactStoreUri=uri, RoleArn=self.role)
        return str(made["TrackingServerArn"])

    def status(self, name: str = "tracking") -> str:
        return str(self.sagemaker.describe_mlflow_tracking_server(TrackingServerName=name)["TrackingServerStatus"])

    def until(self, wanted: str, name: str = "tracking") -> None:
        end = time.monotonic() + 90
        self.account.warp(1200)
        while self.status(name) != wanted and time.monotonic() < end:
            self.account.warp(10)
            time.sleep(0.1)
        assert self.status(name) == wanted

    def call(self, path: str, arn: str, body: Any, *, header: str = "x-mlflow-sm-tracking-server-arn", secret: str = "") -> httpx2.Response:
        keys = self.account.keys
        data, url = json.dumps(body).encode(), f"{self.endpoint}/api/2.0/mlflow/{path}"
        request = AWSRequest("POST", url, headers={header: arn, "content-type": "application/json"}, data=data)
        SigV4Auth(Credentials(keys["access_key_id"], secret or keys["secret_access_key"]), "sagemaker-mlflow", REGION).add_auth(request)
        return httpx2.post(url, content=data, headers=dict(request.headers), timeout=30)


def start(folder: Path | None, *, serves: bool) -> tuple[Sandbox, str]:
    sandbox = build(folder, rate=1)
    sandbox.world.settings.mlflow_serves = serves
    sandbox.world.kubernetes = NullKubernetes()
    return sandbox, sandbox.start()


@pytest.fixture(scope="module")
def tracking() -> Iterator[Tracking]:
    """Nothing real behind the servers: only what AWS's operations say is looked at."""
    sandbox, endpoint = start(None, serves=False)
    yield Tracking(sandbox, endpoint)
    assert sandbox.world.journal.crashes() == []
    sandbox.stop()


def refusal(call: Any, **params: Any) -> tuple[str, str]:
    with pytest.raises(ClientError) as refused:
        call(**params)
    error = refused.value.response["Error"]
    return error["Code"], error["Message"]


def test_a_server_comes_stops_starts_and_goes(tracking: Tracking) -> None:
    arn = tracking.server()
    assert tracking.status() == "Creating"
    tracking.account.warp(1000)
    assert tracking.status() == "Creating"
    tracking.until("Created")
    shown = tracking.sagemaker.describe_mlflow_tracking_server(TrackingServerName="tracking")
    assert (shown["TrackingServerArn"], shown["IsActive"], shown["TrackingServerSize"]) == (arn, "Active", "Small")
    assert shown["TrackingServerUrl"].startswith("http://127.0.0.1:")
    told = httpx2.get(f"{shown['TrackingServerUrl']}/health")
    assert (told.status_code, told.json()["message"]) == (503, processes.ABSENT)
    tracking.sagemaker.stop_mlflow_tracking_server(TrackingServerName="tracking")
    assert refusal(tracking.sagemaker.start_mlflow_tracking_server, TrackingServerName="tracking")[0] == "ConflictException"
    tracking.until("Stopped")
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(f"{shown['TrackingServerUrl']}/health")
    assert refusal(tracking.sagemaker.create_presigned_mlflow_tracking_server_url, TrackingServerName="tracking")[0] == "ConflictException"
    tracking.sagemaker.start_mlflow_tracking_server(TrackingServerName="tracking")
    tracking.until("Started")
    tracking.sagemaker.update_mlflow_tracking_server(TrackingServerName="tracking", TrackingServerSize="Large")
    tracking.until("Updated")
    listed = tracking.sagemaker.list_mlflow_tracking_servers(TrackingServerStatus="Updated")["TrackingServerSummaries"]
    assert [s["TrackingServerName"] for s in listed] == ["tracking"]
    tracking.sagemaker.delete_mlflow_tracking_server(TrackingServerName="tracking")
    tracking.account.warp(121)
    assert refusal(tracking.sagemaker.describe_mlflow_tracking_server, TrackingServerName="tracking")[0] == "ResourceNotFound"


def test_names_roles_and_buckets_are_checked(tracking: Tracking) -> None:
    tracking.server("twice")
    assert refusal(tracking.server, name="twice")[0] == "ConflictException"
    young = tracking.account.role("young", "sagemaker.amazonaws.com")
    create = tracking.sagemaker.create_mlflow_tracking_server
    code, message = refusal(create, TrackingServerName="x", ArtifactStoreUri="s3://runs", RoleArn=young)
    assert (code, message.startswith("Could not assume role")) == ("ValidationException", True)
    other = tracking.account.role("other", "ec2.amazonaws.com")
    tracking.account.warp(11)
    assert refusal(create, TrackingServerName="x", ArtifactStoreUri="s3://runs", RoleArn=other)[0] == "ValidationException"
    tracking.server("nowhere", bucket="not-there")
    tracking.until("CreateFailed", "nowhere")


def test_an_app_is_named_by_its_arn(tracking: Tracking) -> None:
    made = tracking.sagemaker.create_mlflow_app(
        Name="runs",
        ArtifactStoreUri="s3://runs/app",
        RoleArn=tracking.role,
        AccountDefaultStatus="ENABLED",
        Tags=[{"Key": "a", "Value": "b"}],
    )
    arn = made["Arn"]
    tracking.account.warp(181)
    shown = tracking.sagemaker.describe_mlflow_app(Arn=arn)
    assert (shown["Status"], shown["AccountDefaultStatus"], shown["Name"]) == ("Created", "ENABLED", "runs")
    assert tracking.sagemaker.list_tags(ResourceArn=arn)["Tags"] == [{"Key": "a", "Value": "b"}]
    tracking.sagemaker.create_mlflow_app(
        Name="more", ArtifactStoreUri="s3://runs/app", RoleArn=tracking.role, AccountDefaultStatus="ENABLED"
    )
    assert tracking.sagemaker.describe_mlflow_app(Arn=arn)["AccountDefaultStatus"] == "DISABLED"
    pages = tracking.sagemaker.get_paginator("list_mlflow_apps").paginate(PaginationConfig={"PageSize": 1})
    assert {s["Name"] for p in pages for s in p["Summaries"]} == {"runs", "more"}
    assert tracking.sagemaker.create_presigned_mlflow_app_url(Arn=arn)["AuthorizedUrl"].startswith(f"{tracking.endpoint}/_mlflow/auth?")
    tracking.sagemaker.update_mlflow_app(Arn=arn, Name="runs", ModelRegistrationMode="AutoModelRegistrationEnabled")
    assert tracking.sagemaker.describe_mlflow_app(Arn=arn)["Status"] == "Updating"
    tracking.account.warp(121)
    assert tracking.sagemaker.describe_mlflow_app(Arn=arn)["ModelRegistrationMode"] == "AutoModelRegistrationEnabled"
    tracking.sagemaker.delete_mlflow_app(Arn=arn)
    tracking.account.warp(121)
    assert refusal(tracking.sagemaker.describe_mlflow_app, Arn=arn)[0] == "ResourceNotFound"


def test_the_data_plane_asks_who_is_there(tracking: Tracking) -> None:
    arn = tracking.server("guarded")
    tracking.until("Created", "guarded")
    tracking.world.settings.iam_enforcement = True
    assert tracking.call("experiments/search", arn, {}).status_code == 503  # through to the responder
    wrong = tracking.call("experiments/search", arn, {}, secret="not-the-secret")
    assert (wrong.status_code, wrong.json()["error_code"]) == (403, "SignatureDoesNotMatch")
    assert tracking.call("experiments/search", f"{arn}x", {}).status_code == 404
    assert (
        httpx2.post(f"{tracking.endpoint}/api/2.0/mlflow/runs/search", headers={"x-mlflow-sm-tracking-server-arn": arn}).status_code == 403
    )
    tracking.account.iam.create_user(UserName="trainer")
    key = tracking.account.iam.create_access_key(UserName="trainer")["AccessKey"]
    tracking.account.keys = {"access_key_id": key["AccessKeyId"], "secret_access_key": key["SecretAccessKey"]}
    denied = tracking.call("runs/create", arn, {})
    assert (denied.status_code, denied.json()["error_code"]) == (403, "AccessDeniedException")
    assert "sagemaker-mlflow:CreateRun" in denied.json()["message"]
    statement = {"Effect": "Allow", "Action": "sagemaker-mlflow:CreateRun", "Resource": arn}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    tracking.account.iam.put_user_policy(UserName="trainer", PolicyName="runs", PolicyDocument=policy)
    assert tracking.call("runs/create", arn, {}).status_code == 503
    assert tracking.call("runs/delete", arn, {}).status_code == 403
    tracking.world.settings.iam_enforcement, tracking.account.keys = False, tracking.world.credentials()


def test_a_presigned_address_works_once(tracking: Tracking) -> None:
    tracking.server("opened")
    tracking.until("Created", "opened")
    url = tracking.sagemaker.create_presigned_mlflow_tracking_server_url(TrackingServerName="opened", ExpiresInSeconds=60)["AuthorizedUrl"]
    answer = httpx2.get(url)
    assert answer.status_code == 302
    assert answer.headers["location"].startswith("http://127.0.0.1:")
    assert httpx2.get(url).status_code == 403
    late = tracking.sagemaker.create_presigned_mlflow_tracking_server_url(TrackingServerName="opened", ExpiresInSeconds=60)["AuthorizedUrl"]
    tracking.account.warp(61)
    assert httpx2.get(late).status_code == 403


@needs_mlflow
@pytest.mark.slow
def test_a_real_server_keeps_runs_over_a_restart_of_the_sandbox(tmp_path: Path) -> None:
    sandbox, endpoint = start(tmp_path / "data", serves=True)
    tracking = Tracking(sandbox, endpoint)
    arn = tracking.server()
    tracking.until("Created")
    made = tracking.call("experiments/create", arn, {"name": "demo"})
    assert made.status_code == 200, made.text
    ident = made.json()["experiment_id"]
    run = tracking.call("runs/create", arn, {"experiment_id": ident, "start_time": 1}).json()["run"]["info"]["run_id"]
    for step, value in enumerate((3.0, 2.0)):
        body = {"run_id": run, "key": "loss", "value": value, "timestamp": step, "step": step}
        assert tracking.call("runs/log-metric", arn, body).status_code == 200
    url = tracking.sagemaker.describe_mlflow_tracking_server(TrackingServerName="tracking")["TrackingServerUrl"]
    assert httpx2.get(f"{url}/health").text == "OK"
    sandbox.stop()
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(f"{url}/health")
    sandbox, endpoint = start(tmp_path / "data", serves=True)
    tracking.endpoint, tracking.world = endpoint, sandbox.world
    end = time.monotonic() + 60
    while (found := tracking.call("runs/search", arn, {"experiment_ids": [ident]})).status_code == 503 and time.monotonic() < end:
        time.sleep(0.2)
    metrics = found.json()["runs"][0]["data"]["metrics"]
    assert [(m["key"], m["value"]) for m in metrics] == [("loss", 2.0)]
    sandbox.stop()
