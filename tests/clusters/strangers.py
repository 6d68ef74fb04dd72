"""A cluster that others made: by plain boto3 and under names of their own, its HyperPod dependencies by Helm."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import Any

from tests.clusters.conftest import TYPE
from tests.clusters.worlds import REGION, SandboxProcess

from instantstart.base import problems
from instantstart.ensure import eks, sites
from instantstart.ensure.capacity import nodes
from instantstart.kube.client import KubeCluster
from instantstart.store.records import ClusterRow

#: real seconds that the controllers of a fresh cluster may take
_PATIENCE_SECONDS = 30.0
HELM = {"meta.helm.sh/release-name": "hyperpod-dependencies", "meta.helm.sh/release-namespace": "kube-system"}


@dataclass
class Stranger:
    """Whoever made it, in one region of the sandbox's account."""

    room: Any
    sandbox: SandboxProcess
    region: str = REGION
    name: str = "research"
    pod: str = "gpu-farm"
    number: int = 60
    vpc: str = ""
    subnets: list[str] = field(default_factory=list)

    def client(self, service: str) -> Any:
        """Their boto3."""
        return self.sandbox.client(service, self.region)

    def network(self) -> None:
        """A VPC with a way out and two private subnets."""
        ec2 = self.client("ec2")
        zones = [z["ZoneId"] for z in ec2.describe_availability_zones()["AvailabilityZones"]]
        self.vpc = ec2.create_vpc(CidrBlock=f"10.{self.number}.0.0/16")["Vpc"]["VpcId"]
        ec2.modify_vpc_attribute(VpcId=self.vpc, EnableDnsHostnames={"Value": True})
        gateway = ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
        ec2.attach_internet_gateway(InternetGatewayId=gateway, VpcId=self.vpc)
        public, *self.subnets = (
            ec2.create_subnet(VpcId=self.vpc, CidrBlock=f"10.{self.number}.{i}.0/24", AvailabilityZoneId=zone)["Subnet"]["SubnetId"]
            for i, zone in enumerate([zones[0], *zones[:2]])
        )
        table = ec2.create_route_table(VpcId=self.vpc)["RouteTable"]["RouteTableId"]
        ec2.create_route(RouteTableId=table, DestinationCidrBlock="0.0.0.0/0", GatewayId=gateway)
        ec2.associate_route_table(RouteTableId=table, SubnetId=public)
        ec2.create_nat_gateway(SubnetId=public, AllocationId=ec2.allocate_address(Domain="vpc")["AllocationId"])
        self.sandbox.warp(60)

    def role(self, name: str, service: str, *managed: str) -> str:
        """A role that a service may assume."""
        iam = self.client("iam")
        statement = {"Effect": "Allow", "Principal": {"Service": service}, "Action": ["sts:AssumeRole", "sts:TagSession"]}
        trust = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
        made = iam.create_role(RoleName=name, AssumeRolePolicyDocument=trust)["Role"]
        for policy in managed:
            iam.attach_role_policy(RoleName=name, PolicyArn=f"arn:{made['Arn'].split(':')[1]}:iam::aws:policy/{policy}")
        self.sandbox.warp(30)
        return str(made["Arn"])

    def eks(self, mode: str = "API", *, admitted: bool = True, plugin: str | None = None, **more: Any) -> str:
        """An ACTIVE EKS cluster; its ARN. ``plugin``: the version of vpc-cni as an add-on; else a self-managed one of the newest."""
        if not self.vpc:
            self.network()
        role, client = self.role(f"{self.name}-{self.region}-eks", "eks.amazonaws.com"), self.client("eks")
        made = client.create_cluster(
            name=self.name,
            roleArn=role,
            resourcesVpcConfig={"subnetIds": self.subnets},
            accessConfig={"authenticationMode": mode, "bootstrapClusterCreatorAdminPermissions": admitted},
            bootstrapSelfManagedAddons=plugin is None,
            **more,
        )
        self.sandbox.warp(120)
        for _ in range(20):
            told = client.describe_cluster(name=self.name)["cluster"]
            if told["status"] != "CREATING":
                break
            self.sandbox.warp(120)
        assert told["status"] == "ACTIVE", (told, self.sandbox.ask("crashes"))
        if plugin:
            client.create_addon(clusterName=self.name, addonName="vpc-cni", addonVersion=plugin)
            client.create_addon(clusterName=self.name, addonName="kube-proxy")
            self.sandbox.warp(60)
        until = time.monotonic() + _PATIENCE_SECONDS
        while not self._plugin_is_there() and time.monotonic() < until:
            time.sleep(0.05)
        return str(made["cluster"]["arn"])

    def _plugin_is_there(self) -> bool:
        """What EKS installs itself comes a moment after ACTIVE; whoever is not let in does not wait for it."""
        try:
            return self.kube.find("DaemonSet", "aws-node", "kube-system") is not None
        except problems.Denied:
            return True

    @property
    def site(self) -> sites.Site:
        """Where it is, by its own name."""
        return sites.placed(self.room, ClusterRow(tag="whatever", region=self.region, eks_name=self.name, origin="imported"))

    @property
    def kube(self) -> KubeCluster:
        """Its Kubernetes."""
        aws = self.room.aws.region(self.region)
        found: KubeCluster = self.room.kube.cluster(eks.ref(eks.get_cluster(aws, self.name), self.region))
        return found

    def helm(self) -> None:
        """The HyperPod dependency chart, installed by Helm in their own way."""
        for release in self.site.dependencies(self.room):
            for _, resources in release.waves():
                for stamped in resources:
                    plain = {**stamped, "metadata": {**stamped["metadata"]}}
                    plain["metadata"]["labels"] = {"app.kubernetes.io/managed-by": "Helm"}
                    plain["metadata"]["annotations"] = HELM
                    self.kube.apply(plain)

    def hyperpod(self, count: int = 1) -> str:
        """A HyperPod cluster on it, InService with its nodes; its ARN."""
        s3, sagemaker = self.client("s3"), self.client("sagemaker")
        bucket = f"sagemaker-{self.name}-scripts"
        s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": self.region})
        s3.put_object(Bucket=bucket, Key="lcs/on_create.sh", Body=b"#!/bin/bash\n")
        role = self.role(
            f"{self.name}-nodes", "sagemaker.amazonaws.com", "AmazonSageMakerClusterInstanceRolePolicy", "AmazonEKS_CNI_Policy"
        )
        group = self.client("eks").describe_cluster(name=self.name)["cluster"]["resourcesVpcConfig"]["clusterSecurityGroupId"]
        made = sagemaker.create_cluster(
            ClusterName=self.pod,
            InstanceGroups=[
                {
                    "InstanceGroupName": "farm",
                    "InstanceType": TYPE,
                    "InstanceCount": count,
                    "ExecutionRole": role,
                    "LifeCycleConfig": {"SourceS3Uri": f"s3://{bucket}/lcs/", "OnCreate": "on_create.sh"},
                }
            ],
            VpcConfig={"SecurityGroupIds": [group], "Subnets": self.subnets[:1]},
            Orchestrator={"Eks": {"ClusterArn": self.client("eks").describe_cluster(name=self.name)["cluster"]["arn"]}},
            NodeProvisioningMode="Continuous",
            NodeRecovery="Automatic",
        )
        for _ in range(120):
            self.sandbox.warp(10)
            if sum(n.usable for n in nodes.read(self.kube)) >= count:
                return str(made["ClusterArn"])
        raise AssertionError(nodes.read(self.kube))
