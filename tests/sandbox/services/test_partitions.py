"""The same in GovCloud and China: partition in every ARN, suffix in the issuer."""

from __future__ import annotations

import json

import pytest

from .conftest import CREATED, Account


@pytest.mark.parametrize(
    ("region", "partition", "suffix"), [("us-gov-west-1", "aws-us-gov", "amazonaws.com"), ("cn-north-1", "aws-cn", "amazonaws.com.cn")]
)
def test_a_cluster_in_another_partition(account: Account, region: str, partition: str, suffix: str) -> None:
    ec2, iam, s3 = (account.client(service, region) for service in ("ec2", "iam", "s3"))
    eks, sagemaker = account.client("eks", region), account.client("sagemaker", region)
    roles = {}
    for service in ("eks", "sagemaker"):
        statement = {"Effect": "Allow", "Principal": {"Service": f"{service}.amazonaws.com"}, "Action": "sts:AssumeRole"}
        trust = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
        roles[service] = iam.create_role(RoleName=service, AssumeRolePolicyDocument=trust)["Role"]["Arn"]
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    zones = [z["ZoneName"] for z in ec2.describe_availability_zones()["AvailabilityZones"]][:2]
    subnets = [
        ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.0.{16 * n}.0/20", AvailabilityZone=z)["Subnet"]["SubnetId"] for n, z in enumerate(zones)
    ]
    group = ec2.create_security_group(GroupName="nodes", Description="nodes", VpcId=vpc)["GroupId"]
    s3.create_bucket(Bucket=f"scripts-{region}", CreateBucketConfiguration={"LocationConstraint": region})
    s3.put_object(Bucket=f"scripts-{region}", Key="on_create.sh", Body=b"")
    account.warp(11)
    mode = {"authenticationMode": "API"}
    arn = eks.create_cluster(name="demo", roleArn=roles["eks"], resourcesVpcConfig={"subnetIds": subnets}, accessConfig=mode)["cluster"][
        "arn"
    ]
    account.warp(CREATED)
    assert arn.startswith(f"arn:{partition}:eks:{region}:")
    issuer = eks.describe_cluster(name="demo")["cluster"]["identity"]["oidc"]["issuer"]
    assert issuer.startswith(f"https://oidc.eks.{region}.{suffix}/id/")
    workers = {
        "InstanceGroupName": "workers",
        "InstanceType": "ml.m5.large",
        "InstanceCount": 1,
        "ExecutionRole": roles["sagemaker"],
        "LifeCycleConfig": {"SourceS3Uri": f"s3://scripts-{region}", "OnCreate": "on_create.sh"},
    }
    made = sagemaker.create_cluster(
        ClusterName="hp",
        InstanceGroups=[workers],
        VpcConfig={"SecurityGroupIds": [group], "Subnets": subnets},
        Orchestrator={"Eks": {"ClusterArn": arn}},
        NodeProvisioningMode="Continuous",
    )
    account.warp(400)
    assert made["ClusterArn"].startswith(f"arn:{partition}:sagemaker:{region}:")
    assert sagemaker.describe_cluster(ClusterName="hp")["InstanceGroups"][0]["CurrentCount"] == 1
    entries = eks.list_access_entries(clusterName="demo")["accessEntries"]
    assert all(e.startswith(f"arn:{partition}:iam::") for e in entries)
