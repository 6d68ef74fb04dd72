"""EKS clusters as boto3 sees them over HTTP."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from botocore.exceptions import ClientError

from .conftest import CREATED, Account, code


def _create(account: Account, role: str, name: str = "demo", **more: Any) -> dict[str, Any]:
    network = {"subnetIds": more.pop("subnets", account.subnets), "securityGroupIds": more.pop("groups", [])}
    made: dict[str, Any] = account.eks.create_cluster(name=name, roleArn=role, resourcesVpcConfig=network, **more)["cluster"]
    return made


@pytest.fixture
def role(account: Account) -> str:
    arn = account.role("eks", "eks.amazonaws.com")
    account.warp(11)
    return arn


def test_a_cluster_is_created_in_eight_to_twelve_minutes(account: Account, role: str) -> None:
    assert _create(account, role)["status"] == "CREATING"
    account.warp(8 * 60 - 1)
    before = account.eks.describe_cluster(name="demo")["cluster"]
    assert before["status"] == "CREATING"
    assert "endpoint" not in before
    account.warp(4 * 60 + 2)
    after = account.eks.describe_cluster(name="demo")["cluster"]
    assert after["status"] == "ACTIVE"
    assert after["endpoint"].startswith("https://127.0.0.1:")
    assert base64.b64decode(after["certificateAuthority"]["data"]).startswith(b"-----BEGIN CERTIFICATE-----")


def test_two_clusters_have_two_issuers(account: Account, role: str) -> None:
    for name in ("one", "two"):
        _create(account, role, name)
    account.warp(CREATED)
    issuers = {account.eks.describe_cluster(name=n)["cluster"]["identity"]["oidc"]["issuer"] for n in ("one", "two")}
    assert len(issuers) == 2


def test_the_control_plane_takes_addresses_and_has_a_security_group_until_it_is_gone(account: Account, role: str) -> None:
    def free() -> list[int]:
        return [s["AvailableIpAddressCount"] for s in account.ec2.describe_subnets(SubnetIds=account.subnets)["Subnets"]]

    before = free()
    _create(account, role)
    account.warp(CREATED)
    network = account.eks.describe_cluster(name="demo")["cluster"]["resourcesVpcConfig"]
    group = account.ec2.describe_security_groups(GroupIds=[network["clusterSecurityGroupId"]])["SecurityGroups"][0]
    assert {t["Key"] for t in group["Tags"]} >= {"kubernetes.io/cluster/demo"}
    assert free() == [n - 1 for n in before]
    with pytest.raises(ClientError) as held:
        account.ec2.delete_subnet(SubnetId=account.subnets[0])
    assert code(held) == "DependencyViolation"
    account.eks.delete_cluster(name="demo")
    account.warp(300)
    assert free() == before
    with pytest.raises(ClientError):
        account.ec2.describe_security_groups(GroupIds=[network["clusterSecurityGroupId"]])


def test_a_fresh_role_is_refused_and_accepted_ten_seconds_later(account: Account) -> None:
    fresh = account.role("fresh", "eks.amazonaws.com")
    with pytest.raises(ClientError) as refused:
        _create(account, fresh)
    assert code(refused) == "InvalidParameterException"
    assert "could not be assumed" in str(refused.value)
    account.warp(11)
    assert _create(account, fresh)["status"] == "CREATING"


def test_a_role_that_trusts_another_service_is_refused(account: Account) -> None:
    other = account.role("other", "ec2.amazonaws.com")
    account.warp(11)
    with pytest.raises(ClientError, match="could not be assumed"):
        _create(account, other)


def test_the_same_token_answers_the_same_cluster_and_another_is_in_use(account: Account, role: str) -> None:
    first = _create(account, role, clientRequestToken="t1")
    assert _create(account, role, clientRequestToken="t1")["createdAt"] == first["createdAt"]
    with pytest.raises(ClientError) as refused:
        _create(account, role, clientRequestToken="t2")
    assert code(refused) == "ResourceInUseException"
    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 409


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"subnets": ["subnet-0123456789abcdef0"]}, "does not exist"),
        ({"groups": ["sg-0123456789abcdef0"]}, "security group"),
        ({"version": "1.11"}, "unsupported Kubernetes version"),
    ],
)
def test_what_does_not_exist_is_an_invalid_parameter(account: Account, role: str, change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ClientError, match=sentence) as refused:
        _create(account, role, **change)
    assert code(refused) == "InvalidParameterException"


def test_one_zone_is_not_enough(account: Account, role: str) -> None:
    with pytest.raises(ClientError, match="at least two different AZs"):
        _create(account, role, subnets=[account.subnets[0]])


def test_an_unsupported_zone_answers_the_usable_ones(account: Account, role: str) -> None:
    ec2, eks = account.client("ec2", "us-east-1"), account.client("eks", "us-east-1")
    zones = {z["ZoneId"]: z["ZoneName"] for z in ec2.describe_availability_zones()["AvailabilityZones"]}
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    ids = ("use1-az3", "use1-az1")
    subnets = [
        ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.0.{n}.0/24", AvailabilityZone=zones[i])["Subnet"]["SubnetId"] for n, i in enumerate(ids)
    ]
    with pytest.raises(ClientError) as refused:
        eks.create_cluster(name="demo", roleArn=role, resourcesVpcConfig={"subnetIds": subnets})
    assert code(refused) == "UnsupportedAvailabilityZoneException"
    message = refused.value.response["Error"]["Message"]
    assert zones["use1-az3"] in message.split("Retry")[0]
    assert zones["use1-az3"] not in message.split("Retry")[1]
    assert zones["use1-az3"] not in refused.value.response["validZones"]


def test_deletion_protection_and_creation_hold_a_deletion_back(account: Account, role: str) -> None:
    _create(account, role, deletionProtection=True)
    with pytest.raises(ClientError) as refused:
        account.eks.delete_cluster(name="demo")
    assert code(refused) == "InvalidRequestException"
    account.warp(CREATED)
    account.eks.update_cluster_config(name="demo", deletionProtection=False)
    account.warp(400)
    assert account.eks.delete_cluster(name="demo")["cluster"]["status"] == "DELETING"
    account.warp(300)
    with pytest.raises(ClientError) as gone:
        account.eks.describe_cluster(name="demo")
    assert code(gone) == "ResourceNotFoundException"


def test_a_vanished_subnet_fails_the_creation(account: Account, role: str) -> None:
    _create(account, role)
    account.ec2.delete_subnet(SubnetId=account.subnets[1])
    account.warp(CREATED)
    cluster = account.eks.describe_cluster(name="demo")["cluster"]
    assert cluster["status"] == "FAILED"
    assert cluster["health"]["issues"][0]["code"] == "Ec2SubnetNotFound"


def test_one_update_at_a_time_and_one_minor_version_up(account: Account) -> None:
    account.eks_cluster(version="1.33")
    with pytest.raises(ClientError, match="Unsupported Kubernetes minor version update"):
        account.eks.update_cluster_version(name="demo", version="1.35")
    update = account.eks.update_cluster_version(name="demo", version="1.34")["update"]
    assert account.eks.describe_cluster(name="demo")["cluster"]["status"] == "UPDATING"
    with pytest.raises(ClientError) as busy:
        account.eks.update_cluster_config(name="demo", deletionProtection=True)
    assert code(busy) == "ResourceInUseException"
    account.warp(400)
    assert account.eks.describe_update(name="demo", updateId=update["id"])["update"]["status"] == "Successful"
    assert account.eks.describe_cluster(name="demo")["cluster"]["version"] == "1.34"
    assert account.kubernetes.created[account.eks.describe_cluster(name="demo")["cluster"]["arn"]] == "1.34"


def test_the_authentication_mode_only_goes_forward(account: Account) -> None:
    account.eks_cluster(mode="CONFIG_MAP")
    with pytest.raises(ClientError, match="authentication mode must be set to one of"):
        account.eks.list_access_entries(clusterName="demo")
    account.eks.update_cluster_config(name="demo", accessConfig={"authenticationMode": "API_AND_CONFIG_MAP"})
    account.warp(400)
    assert account.eks.list_access_entries(clusterName="demo")["accessEntries"] == []
    with pytest.raises(ClientError, match="Unsupported authentication mode update"):
        account.eks.update_cluster_config(name="demo", accessConfig={"authenticationMode": "CONFIG_MAP"})


def test_lists_have_pages(account: Account, role: str) -> None:
    for n in range(3):
        _create(account, role, f"c{n}")
    first = account.eks.list_clusters(maxResults=2)
    assert first["clusters"] == ["c0", "c1"]
    assert account.eks.list_clusters(nextToken=first["nextToken"])["clusters"] == ["c2"]
    assert [c for p in account.eks.get_paginator("list_clusters").paginate(PaginationConfig={"PageSize": 1}) for c in p["clusters"]] == [
        "c0",
        "c1",
        "c2",
    ]
    with pytest.raises(ClientError) as bad:
        account.eks.list_clusters(nextToken="nonsense")
    assert code(bad) == "InvalidParameterException"


def test_the_versions_have_one_default(account: Account) -> None:
    versions = account.eks.describe_cluster_versions()["clusterVersions"]
    assert [v["clusterVersion"] for v in versions if v["defaultVersion"]] == ["1.34"]
    assert {v["clusterVersion"] for v in versions} >= {"1.31", "1.33", "1.35"}
