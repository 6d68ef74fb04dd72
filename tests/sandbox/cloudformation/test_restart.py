"""The sandbox is killed in the middle of a stack's operation and started again: the operation goes on as if nothing had been."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from .templates import NETWORK_AND_EKS


class Program:
    """The sandbox as a process of its own, whose time passes only by warps."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "instantstart_sandbox", "serve", "--port", "0", "--data", str(self.data), "--rate", "0.001"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.endpoint = json.loads(self.process.stdout.readline())["endpoint"]

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(timeout=20)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def client(self, service: str) -> Any:
        keys = json.loads((self.data / "credentials.json").read_text())
        return boto3.client(
            service,
            "us-west-2",
            endpoint_url=self.endpoint,
            aws_access_key_id=keys["access_key_id"],
            aws_secret_access_key=keys["secret_access_key"],
        )

    def warp(self, seconds: float) -> None:
        request = urllib.request.Request(f"{self.endpoint}/_sandbox/warp", json.dumps({"seconds": seconds}).encode(), method="POST")
        request.add_header("Content-Type", "application/json")
        urllib.request.urlopen(request).read()

    def status(self, stack: str) -> str:
        return str(self.client("cloudformation").describe_stacks(StackName=stack)["Stacks"][0]["StackStatus"])

    def account(self) -> dict[str, int]:
        ec2 = self.client("ec2")
        return {
            "vpcs": len([v for v in ec2.describe_vpcs()["Vpcs"] if not v["IsDefault"]]),
            "roles": len(self.client("iam").list_roles(PathPrefix="/")["Roles"]),
            "clusters": len(self.client("eks").list_clusters()["clusters"]),
            "buckets": len(self.client("s3").list_buckets()["Buckets"]),
            "addresses": len(ec2.describe_addresses()["Addresses"]),
        }


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    made = Program(tmp_path)
    yield made
    made.kill()


@pytest.mark.slow
def test_a_stack_survives_a_kill_at_every_stage(program: Program) -> None:
    before = program.account()
    cloudformation = program.client("cloudformation")
    stack = cloudformation.create_stack(StackName="s", TemplateBody=NETWORK_AND_EKS, Capabilities=["CAPABILITY_NAMED_IAM"])["StackId"]
    for seconds in (0.0, 16.0, 260.0):
        program.warp(seconds)
        assert program.status("s") == "CREATE_IN_PROGRESS"
        program.kill()
        program.start()
    program.warp(1500)
    assert program.status("s") == "CREATE_COMPLETE"
    history = program.client("cloudformation").describe_stack_events(StackName="s")["StackEvents"]
    complete = [e["LogicalResourceId"] for e in history if e["ResourceStatus"] == "CREATE_COMPLETE"]
    assert len(complete) == len(set(complete)) == 22
    program.client("cloudformation").delete_stack(StackName="s")
    program.warp(60.0)
    program.kill()
    program.start()
    assert program.status(stack) == "DELETE_IN_PROGRESS"
    program.warp(1500.0)
    assert program.status(stack) == "DELETE_COMPLETE"
    assert program.account() == before
