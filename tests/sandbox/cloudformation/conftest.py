"""A world with CloudFormation and EKS, and a client that goes into its gateway without a socket."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from instantstart_sandbox.gateway import guards
from instantstart_sandbox.services import cloudformation, eks, hyperpod, quotas
from instantstart_sandbox.world.clock import Clock
from instantstart_sandbox.world.settings import Settings
from instantstart_sandbox.world.state import World


class Bench:
    """A world whose time stands still unless it is warped."""

    def __init__(self, region: str = "us-west-2") -> None:
        self.world = World(clock=Clock(rate=1e-9), settings=Settings(), region=region)
        self.region = region
        guards.install(self.world)
        for service in (quotas, eks, hyperpod, cloudformation):
            service.install(self.world)
        self.world.reset()
        self.cfn = self.client("cloudformation")

    def client(self, service: str) -> Any:
        """An in-process client of the world's region."""
        return self.world.client(service, self.region)

    def run(self, stack: str, seconds: float = 7200.0, step: float = 10.0) -> str:
        """Let time pass until nothing runs on the stack; its last status."""
        for _ in range(int(seconds / step)):
            status = self.status(stack)
            if not status.endswith("_IN_PROGRESS"):
                return status
            self.world.clock.warp(step)
        raise AssertionError(f"{stack} is still {self.status(stack)} after {seconds} virtual seconds")

    def status(self, stack: str) -> str:
        """The status of a stack, by name or id."""
        return str(self.cfn.describe_stacks(StackName=stack)["Stacks"][0]["StackStatus"])

    def events(self, stack: str) -> list[dict[str, Any]]:
        """All events, oldest first."""
        pages = self.cfn.get_paginator("describe_stack_events").paginate(StackName=stack)
        return [event for page in pages for event in page["StackEvents"]][::-1]

    def first_failure(self, stack: str) -> dict[str, Any]:
        """The event that says why a stack failed."""
        return next(e for e in self.events(stack) if e["ResourceStatus"].endswith("_FAILED"))

    def leftovers(self) -> dict[str, list[str]]:
        """Everything in the account that a stack could have left behind."""
        ec2, iam = self.client("ec2"), self.client("iam")
        mine = [{"Name": "tag-key", "Values": ["aws:cloudformation:stack-id"]}]
        found = {
            "vpc": [v["VpcId"] for v in ec2.describe_vpcs()["Vpcs"] if not v["IsDefault"]],
            "subnet": [s["SubnetId"] for s in ec2.describe_subnets(Filters=mine)["Subnets"]],
            "address": [a["PublicIp"] for a in ec2.describe_addresses()["Addresses"]],
            "nat": [n["NatGatewayId"] for n in ec2.describe_nat_gateways(Filters=mine)["NatGateways"] if n["State"] != "deleted"],
            "gateway": [g["InternetGatewayId"] for g in ec2.describe_internet_gateways(Filters=mine)["InternetGateways"]],
            "endpoint": [e["VpcEndpointId"] for e in ec2.describe_vpc_endpoints()["VpcEndpoints"] if e["State"].lower() != "deleted"],
            "group": [g["GroupId"] for g in ec2.describe_security_groups(Filters=mine)["SecurityGroups"]],
            "role": [r["RoleName"] for r in iam.list_roles()["Roles"] if "service-role" not in r["Path"]],
            "policy": [p["PolicyName"] for p in iam.list_policies(Scope="Local")["Policies"]],
            "profile": [p["InstanceProfileName"] for p in iam.list_instance_profiles()["InstanceProfiles"]],
            "provider": [p["Arn"] for p in iam.list_open_id_connect_providers()["OpenIDConnectProviderList"]],
            "bucket": [b["Name"] for b in self.client("s3").list_buckets()["Buckets"]],
            "cluster": self.client("eks").list_clusters()["clusters"],
            # SageMaker's and EKS's own groups (/aws/...) outlive their cluster, as on AWS
            "log group": [
                n for g in self.client("logs").describe_log_groups()["logGroups"] if not (n := g["logGroupName"]).startswith("/aws/")
            ],
            # moto lists AWS's public ones, too
            "parameter": [n for p in self.client("ssm").describe_parameters()["Parameters"] if not (n := p["Name"]).startswith("/aws/")],
        }
        return {kind: ids for kind, ids in found.items() if ids}


@pytest.fixture
def bench() -> Iterator[Bench]:
    """A fresh account in us-west-2; the crash ledger must be empty afterwards."""
    made = Bench()
    yield made
    assert made.world.journal.crashes() == []
    made.world.reset()
