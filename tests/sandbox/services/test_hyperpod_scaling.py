"""Capacity, addresses, gates and rollbacks: how a group reaches its target, or does not."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from .conftest import Account, code

GPU = "ml.g5.8xlarge"
RETRIES = 1000.0


def _capacity(account: Account, a: int, b: int) -> None:
    account.world.capacity.set(GPU, "us-west-2a", a)
    account.world.capacity.set(GPU, "us-west-2b", b)


def _reasons(account: Account, **more: Any) -> list[dict[str, Any]]:
    events = account.sagemaker.list_cluster_events(ClusterName="hp", **more)["Events"]
    client = account.sagemaker
    return [
        client.describe_cluster_event(ClusterName="hp", EventId=e["EventId"])["EventDetails"] for e in events if e["EventLevel"] == "Error"
    ]


def test_three_of_eight_nodes_arrive_and_the_rest_is_tried_again(hyperpod_account: Account) -> None:
    _capacity(hyperpod_account, 1, 2)
    hyperpod_account.hyperpod(hyperpod_account.group(count=8), hyperpod_account.group("system", "ml.m5.2xlarge", 1))
    assert hyperpod_account.describe()["ClusterStatus"] == "InService"
    group = hyperpod_account.described_group()
    assert (group["Status"], group["CurrentCount"], group["TargetCount"]) == ("InService", 3, 8)
    assert group["ActiveOperations"] == {"Scaling": 1}
    assert hyperpod_account.described_group("system")["CurrentCount"] == 1
    assert len(hyperpod_account.nodes()) == 4
    waiting = [n for n in hyperpod_account.nodes(IncludeNodeLogicalIds=True) if not n["InstanceId"]]
    assert len(waiting) == 5
    assert "sufficient capacity" in waiting[0]["InstanceStatus"]["Message"]
    summaries = hyperpod_account.sagemaker.list_cluster_events(ClusterName="hp")["Events"]
    assert not any("sufficient capacity" in e["Description"] for e in summaries)
    assert {e["EventLevel"] for e in summaries} == {"Info", "Warn", "Error"}
    assert all("sufficient capacity" in str(e["EventDetails"]) for e in _reasons(hyperpod_account))
    _capacity(hyperpod_account, 9, 9)
    hyperpod_account.warp(RETRIES + 400)
    assert hyperpod_account.described_group()["CurrentCount"] == 8
    operation = hyperpod_account.sagemaker.list_cluster_operations(ClusterName="hp")["ClusterOperationSummaries"][0]
    assert operation["Status"] == "Done"


def test_a_type_that_no_zone_has_never_comes(hyperpod_account: Account) -> None:
    hyperpod_account.world.quotas.set("sagemaker", "ml.trn2.48xlarge for cluster usage", 4)
    hyperpod_account.hyperpod(hyperpod_account.group(instance_type="ml.trn2.48xlarge", count=1))
    assert hyperpod_account.described_group()["CurrentCount"] == 0
    assert "sufficient capacity" in str(_reasons(hyperpod_account)[0]["EventDetails"])


def test_a_full_subnet_holds_nodes_back(hyperpod_account: Account) -> None:
    small = hyperpod_account.ec2.create_subnet(VpcId=hyperpod_account.vpc, CidrBlock="10.0.240.0/28", AvailabilityZone="us-west-2a")
    network = {"SecurityGroupIds": [hyperpod_account.group_id], "Subnets": [small["Subnet"]["SubnetId"]]}
    hyperpod_account.world.quotas.set("sagemaker", "ml.g5.8xlarge for cluster usage", 20)
    hyperpod_account.hyperpod(hyperpod_account.group(count=12, OverrideVpcConfig=network))
    assert hyperpod_account.described_group()["CurrentCount"] == 11
    assert "not enough free addresses" in str(_reasons(hyperpod_account)[0]["EventDetails"])


def test_the_old_mode_is_all_or_nothing(hyperpod_account: Account) -> None:
    _capacity(hyperpod_account, 1, 2)
    hyperpod_account.hyperpod(hyperpod_account.group(count=8), NodeProvisioningMode=None)
    cluster = hyperpod_account.describe()
    assert cluster["ClusterStatus"] == "Failed"
    assert "sufficient capacity" in cluster["FailureMessage"]
    with pytest.raises(ClientError, match="only supported for clusters with NodeProvisioningMode Continuous"):
        hyperpod_account.sagemaker.list_cluster_events(ClusterName="hp")
    hyperpod_account.warp(200)
    assert hyperpod_account.nodes() == []
    hyperpod_account.sagemaker.delete_cluster(ClusterName="hp")


def test_the_old_mode_rolls_a_failed_update_back(hyperpod_account: Account) -> None:
    hyperpod_account.hyperpod(NodeProvisioningMode=None)
    assert hyperpod_account.describe()["ClusterStatus"] == "InService"
    _capacity(hyperpod_account, 1, 0)
    new = hyperpod_account.group("new", "ml.m5.2xlarge", 1)
    hyperpod_account.sagemaker.update_cluster(ClusterName="hp", InstanceGroups=[hyperpod_account.group(count=6), new])
    assert hyperpod_account.describe()["ClusterStatus"] == "Updating"
    with pytest.raises(ClientError) as busy:
        hyperpod_account.sagemaker.delete_cluster(ClusterName="hp")
    assert code(busy) == "ConflictException"
    hyperpod_account.warp(10)
    assert hyperpod_account.describe()["ClusterStatus"] == "RollingBack"
    hyperpod_account.warp(600)
    cluster = hyperpod_account.describe()
    assert cluster["ClusterStatus"] == "InService"
    assert [(g["InstanceGroupName"], g["CurrentCount"], g["TargetCount"]) for g in cluster["InstanceGroups"]] == [("workers", 2, 2)]


def test_a_minimum_holds_the_group_back_for_three_hours(hyperpod_account: Account) -> None:
    _capacity(hyperpod_account, 1, 0)
    hyperpod_account.hyperpod(hyperpod_account.group(count=4, MinInstanceCount=2))
    assert hyperpod_account.describe()["ClusterStatus"] == "Creating"
    assert hyperpod_account.described_group()["Status"] == "Creating"
    hyperpod_account.warp(3 * 3600)
    group = hyperpod_account.described_group()
    assert (group["Status"], group["TargetCount"]) == ("InService", 0)
    assert hyperpod_account.describe()["ClusterStatus"] == "InService"


def test_a_minimum_that_is_met_opens_the_gate(hyperpod_account: Account) -> None:
    _capacity(hyperpod_account, 1, 1)
    hyperpod_account.hyperpod(hyperpod_account.group(count=4, MinInstanceCount=2))
    assert hyperpod_account.describe()["ClusterStatus"] == "InService"
    hyperpod_account.warp(4 * 3600)
    assert hyperpod_account.described_group()["TargetCount"] == 4


def test_a_flexible_group_takes_the_next_type(hyperpod_account: Account) -> None:
    _capacity(hyperpod_account, 1, 0)
    types = {"InstanceTypes": [GPU, "ml.g5.12xlarge"]}
    hyperpod_account.hyperpod(hyperpod_account.group(InstanceType=None, count=3, InstanceRequirements=types))
    group = hyperpod_account.described_group()
    assert group["CurrentCount"] == 3
    assert {d["InstanceType"]: d["CurrentCount"] for d in group["InstanceTypeDetails"]} == {GPU: 1, "ml.g5.12xlarge": 2}
    assert group["InstanceRequirements"]["DesiredInstanceTypes"] == [GPU, "ml.g5.12xlarge"]


def test_many_nodes_can_be_listed_in_pages(hyperpod_account: Account) -> None:
    hyperpod_account.world.quotas.set("sagemaker", "ml.m5.large for cluster usage", 500)
    hyperpod_account.world.settings.default_capacity = 500
    hyperpod_account.hyperpod(hyperpod_account.group(instance_type="ml.m5.large", count=120))
    pages = hyperpod_account.sagemaker.get_paginator("list_cluster_nodes").paginate(ClusterName="hp", PaginationConfig={"PageSize": 50})
    sizes = [len(p["ClusterNodeSummaries"]) for p in pages]
    assert sizes == [50, 50, 20]
