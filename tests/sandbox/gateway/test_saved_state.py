"""A restart, even after kill -9, loses nothing; the program and its command line."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import boto3
import pytest

TRUST = json.dumps(
    {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": {"Service": "eks.amazonaws.com"}, "Action": "sts:AssumeRole"}]}
)


def test_two_sandboxes_do_not_share_a_folder(tmp_path: Path) -> None:
    first = Program(tmp_path)
    second = subprocess.run(
        [sys.executable, "-m", "instantstart_sandbox", "serve", "--port", "0", "--data", str(tmp_path)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (second.returncode, first.end(signal.SIGTERM)) == (1, 0)
    assert "another sandbox runs with the data in" in second.stderr


class Program:
    """The sandbox as a process of its own."""

    def __init__(self, data: Path) -> None:
        self.data = data
        command = [sys.executable, "-m", "instantstart_sandbox", "serve", "--port", "0", "--data", str(data)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        line = json.loads(self.process.stdout.readline())
        assert line["ready"]
        self.endpoint = line["endpoint"]

    def client(self, service: str) -> Any:
        keys = json.loads((self.data / "credentials.json").read_text())
        return boto3.client(
            service,
            "us-west-2",
            endpoint_url=self.endpoint,
            aws_access_key_id=keys["access_key_id"],
            aws_secret_access_key=keys["secret_access_key"],
        )

    def end(self, number: int) -> int:
        self.process.send_signal(number)
        return self.process.wait(timeout=120)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_is_lost(tmp_path: Any, number: Any) -> None:
    program = Program(tmp_path)
    try:
        ec2 = program.client("ec2")
        vpc = ec2.create_vpc(CidrBlock="10.1.0.0/16")["Vpc"]["VpcId"]
        default = {v["VpcId"] for v in ec2.describe_vpcs()["Vpcs"]}
        program.client("s3").create_bucket(Bucket="kept-bucket", CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
        program.client("s3").put_object(Bucket="kept-bucket", Key="on_create.sh", Body=b"#!/bin/sh\n" * 9)
        program.client("service-quotas").request_service_quota_increase(ServiceCode="vpc", QuotaCode="L-F678F1CE", DesiredValue=9)
        program.client("iam").create_role(RoleName="kept", AssumeRolePolicyDocument=TRUST)
    finally:
        status = program.end(number)
    assert status == (0 if number == signal.SIGTERM else -number)
    assert (tmp_path / "state.snapshot").stat().st_mode & 0o077 == 0
    assert (tmp_path / "credentials.json").stat().st_mode & 0o077 == 0
    again = Program(tmp_path)
    try:
        assert {v["VpcId"] for v in again.client("ec2").describe_vpcs()["Vpcs"]} == default
        assert again.client("ec2").describe_vpcs(VpcIds=[vpc])["Vpcs"][0]["CidrBlock"] == "10.1.0.0/16"
        assert again.client("s3").get_object(Bucket="kept-bucket", Key="on_create.sh")["Body"].read() == b"#!/bin/sh\n" * 9
        assert again.client("iam").get_role(RoleName="kept")["Role"]["RoleName"] == "kept"
        body = json.dumps({"seconds": 8000}).encode()
        urllib.request.urlopen(urllib.request.Request(f"{again.endpoint}/_sandbox/warp", data=body, method="POST"), timeout=10)
        assert again.client("service-quotas").get_service_quota(ServiceCode="vpc", QuotaCode="L-F678F1CE")["Quota"]["Value"] == 9.0
    finally:
        again.end(signal.SIGTERM)


def test_the_clock_stands_still_while_the_sandbox_is_down(open_sandbox: Any, tmp_path: Any) -> None:
    first = open_sandbox(tmp_path)
    first.admin("warp", seconds=86400)
    at = first.admin("now")["now"]
    again = open_sandbox(tmp_path)
    assert 0 <= again.admin("now")["now"] - at < 60


def test_a_reset_empties_the_account_and_leaves_the_keys(sandbox: Any, vpc: Any) -> None:
    sandbox.admin("reset", really=True)
    assert [v["IsDefault"] for v in sandbox.client("ec2").describe_vpcs()["Vpcs"]] == [True]
    assert sandbox.client("sts").get_caller_identity()["Account"] == "123456789012"


def test_a_foreign_snapshot_is_refused(tmp_path: Any) -> None:
    from instantstart_sandbox.compose import build

    (tmp_path / "state.snapshot").write_bytes(b"cos\nsystem\n(S'echo'\ntR.")
    with pytest.raises(ValueError, match="not a snapshot"):
        build(tmp_path)


def test_a_folder_may_be_named_from_where_one_stands(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pods' processes work in folders of their own: a place that is named from here would not be found there."""
    from instantstart_sandbox.compose import build

    monkeypatch.chdir(tmp_path)
    made = build(Path("state"))
    assert made.world.data_dir == tmp_path / "state"
    assert made.kubernetes.data_dir == tmp_path / "state" / "kubernetes"


def test_settings_come_from_a_file_and_are_checked(tmp_path: Any) -> None:
    from instantstart_sandbox.compose import build

    (tmp_path / "s.json").write_text('{"iam_delay": 60}')
    assert build(settings_file=tmp_path / "s.json").world.settings.iam_delay == 60.0
    (tmp_path / "s.json").write_text('{"iam_delai": 60}')
    with pytest.raises(ValueError, match="iam_delai"):
        build(settings_file=tmp_path / "s.json")


def test_the_admin_command_steers_a_running_sandbox(sandbox: Any, capsys: Any) -> None:
    from instantstart_sandbox.main import main

    assert main(["admin", "--endpoint", sandbox.endpoint, "warp", "seconds=60"]) == 0
    assert json.loads(capsys.readouterr().out)["rate"] == 1.0
    assert main(["admin", "--endpoint", sandbox.endpoint, "fault", "match=ec2:.*", "code=Throttling", "count=null"]) == 0
    assert main(["admin", "--endpoint", sandbox.endpoint, "fault"]) == 0
    assert '"Throttling"' in capsys.readouterr().out
    assert main(["admin", "--endpoint", sandbox.endpoint, "fault", "match=("]) == 1
    assert main(["admin", "--endpoint", "http://127.0.0.1:9", "now"]) == 1


@pytest.mark.skipif(shutil.which("aws") is None, reason="the aws command line is not on this machine")
def test_the_aws_command_line_works(sandbox: Any, vpc: Any) -> None:
    environment = {
        **os.environ,
        "AWS_ENDPOINT_URL": sandbox.endpoint,
        "AWS_ACCESS_KEY_ID": sandbox.keys["access_key_id"],
        "AWS_SECRET_ACCESS_KEY": sandbox.keys["secret_access_key"],
        "AWS_DEFAULT_REGION": "us-west-2",
    }

    def aws(*words: str) -> str:
        done = subprocess.run(["aws", *words], env=environment, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert vpc["vpc"] in aws("ec2", "describe-vpcs", "--query", "Vpcs[].VpcId", "--output", "text")
    assert json.loads(aws("eks", "list-clusters")) == {"clusters": []}
    aws("s3", "mb", "s3://cli-bucket")
    aws("s3", "cp", __file__, "s3://cli-bucket/a/test.py")
    assert "cli-bucket" in aws("s3", "ls")
    assert "test.py" in aws("s3", "ls", "s3://cli-bucket/a/")


def test_an_eks_cluster_has_the_same_endpoint_after_a_restart(open_sandbox: Any, tmp_path: Path) -> None:
    first = open_sandbox(tmp_path)
    role = first.client("iam").create_role(RoleName="eks", AssumeRolePolicyDocument=TRUST)["Role"]["Arn"]
    subnets = [s["SubnetId"] for s in first.client("ec2").describe_subnets()["Subnets"]][:2]
    first.admin("warp", seconds=11)
    first.client("eks").create_cluster(name="kept", roleArn=role, resourcesVpcConfig={"subnetIds": subnets})
    first.admin("warp", seconds=900)
    before = first.client("eks").describe_cluster(name="kept")["cluster"]
    again = open_sandbox(tmp_path)
    assert again.client("eks").describe_cluster(name="kept")["cluster"] == before
    assert [c.name for c in again.sandbox.kubernetes.clusters()] == ["kept"]
    again.admin("reset", really=True)
    assert again.sandbox.kubernetes.clusters() == []
