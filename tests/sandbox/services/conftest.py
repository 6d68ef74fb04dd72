"""An account in a running sandbox: boto3 over HTTP, a network, roles, an EKS cluster, lifecycle scripts.

Kubernetes is a NullKubernetes whose readiness a test sets; the real one has tests of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from instantstart_sandbox.compose import build
from instantstart_sandbox.world.null_kubernetes import NullKubernetes
from instantstart_sandbox.world.settings import Settings
from instantstart_sandbox.world.state import World

REGION = "us-west-2"
CREATED = 13 * 60


class Account:
    """What a test needs of an account; every helper waits, in virtual time, until the thing is usable."""

    def __init__(self, world: World, endpoint: str, kubernetes: NullKubernetes) -> None:
        self.world, self.endpoint, self.kubernetes = world, endpoint, kubernetes
        self.keys = world.credentials()
        self.ec2, self.iam, self.s3 = self.client("ec2"), self.client("iam"), self.client("s3")
        self.eks, self.sagemaker = self.client("eks"), self.client("sagemaker")
        self.vpc = ""
        self.subnets: list[str] = []

    def client(self, service: str, region: str = REGION) -> Any:
        """A boto3 client of the admin."""
        return boto3.client(
            service,
            region_name=region,
            endpoint_url=self.endpoint,
            aws_access_key_id=self.keys["access_key_id"],
            aws_secret_access_key=self.keys["secret_access_key"],
            config=Config(retries={"max_attempts": 0}, read_timeout=30, s3={"addressing_style": "path"}),
        )

    def warp(self, seconds: float) -> None:
        """Let virtual time pass."""
        self.world.clock.warp(seconds)

    def role(self, name: str, service: str) -> str:
        """A role that a service may assume; not yet visible."""
        statement = {"Effect": "Allow", "Principal": {"Service": service}, "Action": ["sts:AssumeRole", "sts:TagSession"]}
        trust = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
        arn: str = self.iam.create_role(RoleName=name, AssumeRolePolicyDocument=trust)["Role"]["Arn"]
        return arn

    def subnet(self, number: int, zone: str, **more: Any) -> str:
        """A /20 of the VPC in a zone (``a``, ``b``...)."""
        block = f"10.0.{16 * number}.0/20"
        made = self.ec2.create_subnet(VpcId=self.vpc, CidrBlock=block, AvailabilityZone=f"{REGION}{zone}", **more)
        found: str = made["Subnet"]["SubnetId"]
        return found

    def network(self) -> None:
        """A VPC with two private subnets and a security group."""
        self.vpc = self.ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
        self.subnets = [self.subnet(0, "a"), self.subnet(1, "b")]
        self.group_id = self.ec2.create_security_group(GroupName="nodes", Description="nodes", VpcId=self.vpc)["GroupId"]

    def eks_cluster(self, name: str = "demo", mode: str = "API", **more: Any) -> str:
        """An ACTIVE EKS cluster; its ARN."""
        role = self.role(f"{name}-eks", "eks.amazonaws.com")
        self.warp(11)
        more.setdefault("bootstrapSelfManagedAddons", False)
        made = self.eks.create_cluster(
            name=name, roleArn=role, resourcesVpcConfig={"subnetIds": self.subnets}, accessConfig={"authenticationMode": mode}, **more
        )
        self.warp(CREATED)
        arn: str = made["cluster"]["arn"]
        return arn

    def prepare_hyperpod(self) -> None:
        """The execution role and the lifecycle script, and an EKS cluster ``demo``."""
        self.node_role = self.role("nodes", "sagemaker.amazonaws.com")
        self.s3.create_bucket(Bucket="sagemaker-scripts", CreateBucketConfiguration={"LocationConstraint": REGION})
        self.s3.put_object(Bucket="sagemaker-scripts", Key="lcs/on_create.sh", Body=b"#!/bin/bash\n")
        self.eks_arn = self.eks_cluster()

    def group(self, name: str = "workers", instance_type: str = "ml.g5.8xlarge", count: int = 2, **more: Any) -> dict[str, Any]:
        """A valid instance group; ``more`` overrides, None leaves out."""
        spec = {
            "InstanceGroupName": name,
            "InstanceType": instance_type,
            "InstanceCount": count,
            "ExecutionRole": self.node_role,
            "LifeCycleConfig": {"SourceS3Uri": "s3://sagemaker-scripts/lcs/", "OnCreate": "on_create.sh"},
        }
        return {k: v for k, v in (spec | more).items() if v is not None}

    def request(self, *groups: dict[str, Any], **more: Any) -> dict[str, Any]:
        """A valid CreateCluster request; ``more`` overrides, None leaves out."""
        body = {
            "ClusterName": "hp",
            "InstanceGroups": list(groups) or [self.group()],
            "VpcConfig": {"SecurityGroupIds": [self.group_id], "Subnets": self.subnets},
            "Orchestrator": {"Eks": {"ClusterArn": self.eks_arn}},
            "NodeProvisioningMode": "Continuous",
            "NodeRecovery": "Automatic",
        }
        return {k: v for k, v in (body | more).items() if v is not None}

    def hyperpod(self, *groups: dict[str, Any], **more: Any) -> str:
        """A HyperPod cluster ``hp`` after its creation time; its ARN."""
        arn: str = self.sagemaker.create_cluster(**self.request(*groups, **more))["ClusterArn"]
        self.warp(400)
        return arn

    def describe(self) -> dict[str, Any]:
        """DescribeCluster of ``hp``."""
        found: dict[str, Any] = self.sagemaker.describe_cluster(ClusterName="hp")
        return found

    def described_group(self, name: str = "workers") -> dict[str, Any]:
        """One group of it."""
        return next(g for g in self.describe()["InstanceGroups"] if g["InstanceGroupName"] == name)

    def nodes(self, **more: Any) -> list[dict[str, Any]]:
        """ListClusterNodes of ``hp``, first page."""
        found: list[dict[str, Any]] = self.sagemaker.list_cluster_nodes(ClusterName="hp", **more)["ClusterNodeSummaries"]
        return found


@pytest.fixture(scope="session")
def shared() -> Iterator[Account]:
    """One running sandbox for all tests: to start one, and its boto3 clients, takes longer than most tests."""
    sandbox = build(None, rate=1.0)
    endpoint = sandbox.start(0)
    yield Account(sandbox.world, endpoint, NullKubernetes())
    sandbox.stop()


@pytest.fixture
def account(shared: Account) -> Iterator[Account]:
    """An empty account with a network. No call of the test may crash the sandbox or break the service model."""
    world = shared.world
    world.reset()
    world.settings.update(Settings().dump())
    world.kubernetes = shared.kubernetes = NullKubernetes()
    shared.network()
    yield shared
    assert world.journal.crashes() == []


@pytest.fixture
def hyperpod_account(account: Account) -> Account:
    """The same with everything a HyperPod cluster needs."""
    account.prepare_hyperpod()
    return account


def code(error: pytest.ExceptionInfo[ClientError]) -> str:
    """The AWS error code."""
    return str(error.value.response["Error"]["Code"])
