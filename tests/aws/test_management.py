"""The management stack: made and removed in the sandbox in every partition; closed, encrypted, and with the generated rights."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.sandbox.cloudformation.conftest import Bench

ROOT = Path(__file__).parents[2]
POLICIES = ROOT / "deploy/iam"
TEMPLATE = ROOT / "deploy/cloudformation/management.yaml"
NAME = "instantstart"


@pytest.fixture(params=["us-west-2", "us-gov-west-1", "cn-north-1"])
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    made = Bench(request.param)
    yield made
    assert made.world.journal.crashes() == []
    made.world.reset()


def made(bench: Bench, **more: str) -> dict[str, str]:
    """The stack's outputs, once it stands in the account's default network."""
    subnet = bench.client("ec2").describe_subnets()["Subnets"][0]
    values = {"VpcId": subnet["VpcId"], "SubnetId": subnet["SubnetId"], "ContainerImage": "registry.example/instantstart:0.1.0", **more}
    bench.cfn.create_stack(
        StackName=NAME,
        TemplateBody=TEMPLATE.read_text(),
        Parameters=[{"ParameterKey": key, "ParameterValue": value} for key, value in values.items()],
        Capabilities=["CAPABILITY_IAM"],
    )
    assert bench.run(NAME) == "CREATE_COMPLETE", bench.first_failure(NAME)["ResourceStatusReason"]
    found = bench.cfn.describe_stacks(StackName=NAME)["Stacks"][0]["Outputs"]
    return {output["OutputKey"]: output["OutputValue"] for output in found}


def granted(bench: Bench, role: str) -> list[dict[str, Any]]:
    """The statements of the policies attached to the role that are not AWS's."""
    iam, found = bench.client("iam"), []
    for policy in iam.list_attached_role_policies(RoleName=role)["AttachedPolicies"]:
        if ":iam::aws:" not in policy["PolicyArn"]:
            version = iam.get_policy(PolicyArn=policy["PolicyArn"])["Policy"]["DefaultVersionId"]
            document = iam.get_policy_version(PolicyArn=policy["PolicyArn"], VersionId=version)["PolicyVersion"]["Document"]
            found += document["Statement"]
    return found


def test_the_stack_is_closed_and_leaves_only_its_bucket(bench: Bench) -> None:
    before = bench.leftovers()
    outputs = made(bench)
    ec2, s3 = bench.client("ec2"), bench.client("s3")
    host = ec2.describe_instances(InstanceIds=[outputs["HostId"]])["Reservations"][0]["Instances"][0]
    group = ec2.describe_security_groups(GroupIds=[host["SecurityGroups"][0]["GroupId"]])["SecurityGroups"][0]
    assert group["IpPermissions"] == []
    assert [(r["FromPort"], r["ToPort"]) for r in group["IpPermissionsEgress"]] == [(443, 443)]
    assert host["MetadataOptions"]["HttpTokens"] == "required"
    volumes = [mapping["Ebs"]["VolumeId"] for mapping in host["BlockDeviceMappings"]]
    assert [v["Encrypted"] for v in ec2.describe_volumes(VolumeIds=volumes)["Volumes"]] == [True]
    bucket = outputs["BucketName"]
    assert "TlsOnly" in s3.get_bucket_policy(Bucket=bucket)["Policy"]
    assert all(s3.get_public_access_block(Bucket=bucket)["PublicAccessBlockConfiguration"].values())
    check_rights(bench, outputs["RoleArn"])
    check_user_data(bench, outputs["HostId"])
    stack = bench.cfn.describe_stacks(StackName=NAME)["Stacks"][0]["StackId"]
    bench.cfn.delete_stack(StackName=NAME)
    assert bench.run(stack) == "DELETE_COMPLETE", bench.first_failure(stack)["ResourceStatusReason"]
    left = bench.leftovers()
    assert left.pop("bucket", []) == [*before.pop("bucket", []), bucket]
    assert left == before


def check_rights(bench: Bench, role: str) -> None:
    """The generated policies, filled in for this partition and region, and nothing else of ours."""
    partition, account = role.split(":")[1], role.split(":")[4]
    wanted = []
    for path in sorted(POLICIES.glob("*.json")):
        if path.stem != "instantstart-purchase":
            text = path.read_text().replace("${Partition}", partition).replace("${Account}", account).replace("${Region}", bench.region)
            wanted += json.loads(text)["Statement"]
    assert sorted(granted(bench, role.rpartition("/")[2]), key=str) == sorted(wanted, key=str)


def check_user_data(bench: Bench, host: str) -> None:
    """The host starts what the image carries, and every place in the script is filled in."""
    answer = bench.client("ec2").describe_instance_attribute(InstanceId=host, Attribute="userData")
    script = base64.b64decode(answer["UserData"]["Value"]).decode()
    assert "${" not in script
    carried = (ROOT / "deploy/container/Dockerfile").read_text()
    for name in ("start-prod.sh", "instantstart-container.service", "instantstart-backup.service", "instantstart-backup.timer"):
        assert name in script
        assert f"/{name}" in carried


@pytest.mark.parametrize("bench", ["us-west-2"], indirect=True)
def test_purchases_and_other_regions_are_asked_for(bench: Bench) -> None:
    role = made(bench, MayBuyTrainingPlans="true", RegionScope="*")["RoleArn"].rpartition("/")[2]
    statements = {statement["Sid"]: statement for statement in granted(bench, role)}
    assert statements["BuyTrainingPlans"]["Condition"] == {"StringLike": {"aws:RequestedRegion": "*"}}
