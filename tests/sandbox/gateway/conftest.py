"""A sandbox of its own for each test, on a free port, and boto3 clients that reach it over HTTP."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

from instantstart_sandbox.compose import Sandbox, build

REGION = "us-west-2"


class Reached:
    """A running sandbox as a client sees it."""

    def __init__(self, sandbox: Sandbox, endpoint: str) -> None:
        self.sandbox, self.world, self.endpoint = sandbox, sandbox.world, endpoint
        self.keys = self.world.credentials()

    def client(self, service: str, region: str = REGION, **keys: str) -> Any:
        """A boto3 client with the admin's keys, or others (aws_access_key_id=..., aws_secret_access_key=...)."""
        keys = keys or {"aws_access_key_id": self.keys["access_key_id"], "aws_secret_access_key": self.keys["secret_access_key"]}
        config = Config(
            retries={"max_attempts": 0},
            read_timeout=20,
            s3={"addressing_style": "path"},
            signature_version="s3v4" if service == "s3" else None,
        )
        return boto3.client(service, region_name=region, endpoint_url=self.endpoint, config=config, **keys)

    def admin(self, verb: str, **body: Any) -> Any:
        """POST a verb of the admin door, or GET it when there is no body."""
        request = urllib.request.Request(
            f"{self.endpoint}/_sandbox/{verb}", data=json.dumps(body).encode() if body else None, method="POST" if body else "GET"
        )
        with urllib.request.urlopen(request, timeout=30) as reply:
            return json.load(reply)


@pytest.fixture
def open_sandbox() -> Iterator[Callable[[Path | None], Reached]]:
    """Starts sandboxes, one at a time (moto's state is the process's); all are stopped at the end."""
    running: list[Sandbox] = []

    def start(data: Path | None = None) -> Reached:
        for other in running:
            other.stop()
        running.clear()
        sandbox = build(data, rate=1.0)
        running.append(sandbox)
        return Reached(sandbox, sandbox.start(0))

    yield start
    for sandbox in running:
        sandbox.stop()


@pytest.fixture
def sandbox(open_sandbox: Callable[[Path | None], Reached]) -> Iterator[Reached]:
    """A sandbox with an empty account; whatever the test did must not have crashed it."""
    reached = open_sandbox(None)
    yield reached
    assert reached.world.journal.crashes() == []


@pytest.fixture
def vpc(sandbox: Reached) -> dict[str, str]:
    """A VPC with an internet gateway, two subnets in two zones, and a route table."""
    ec2 = sandbox.client("ec2")
    vpc_id = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    zones = [z["ZoneName"] for z in ec2.describe_availability_zones()["AvailabilityZones"]][:2]
    a, b = (
        ec2.create_subnet(VpcId=vpc_id, CidrBlock=f"10.0.{16 * n}.0/20", AvailabilityZone=zone)["Subnet"]["SubnetId"]
        for n, zone in enumerate(zones)
    )
    gateway = ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
    ec2.attach_internet_gateway(InternetGatewayId=gateway, VpcId=vpc_id)
    table = ec2.create_route_table(VpcId=vpc_id)["RouteTable"]["RouteTableId"]
    return {"vpc": vpc_id, "subnet": a, "other_subnet": b, "gateway": gateway, "table": table}


@pytest.fixture
def refused() -> Callable[..., str]:
    """Calls something and answers the error's code."""

    def call(function: Callable[..., Any], **params: Any) -> str:
        from botocore.exceptions import ClientError

        with pytest.raises(ClientError) as caught:
            function(**params)
        return str(caught.value.response["Error"]["Code"])

    return call
