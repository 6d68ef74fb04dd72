"""Managed Karpenter as SageMaker runs it: switched on and off, its preconditions, and what its controller may do by the cluster role."""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from instantstart_sandbox.services.hyperpod import autoscaling
from instantstart_sandbox.world.seams import ScalingRefusedError

from .conftest import Account, code

ENABLE = {"Mode": "Enable", "AutoScalerType": "Karpenter"}


def cluster_role(account: Account, *actions: str, name: str = "karpenter") -> str:
    """A visible role that HyperPod may assume, with those actions."""
    arn = account.role(name, "hyperpod.sagemaker.amazonaws.com")
    if actions:
        document = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": list(actions), "Resource": "*"}]}
        account.iam.put_role_policy(RoleName=name, PolicyName="scale", PolicyDocument=json.dumps(document))
    account.warp(11)
    return arn


def update(account: Account, **fields: Any) -> None:
    account.sagemaker.update_cluster(ClusterName="hp", **fields)


@pytest.fixture
def scaled(hyperpod_account: Account) -> Account:
    """A cluster with an empty group, AutoScaling in service."""
    account = hyperpod_account
    account.hyperpod(account.group(count=1), account.group("gpu", count=0))
    role = cluster_role(account, "sagemaker:BatchAddClusterNodes", "sagemaker:BatchDeleteClusterNodes")
    update(account, AutoScaling=ENABLE, ClusterRole=role)
    assert account.describe()["AutoScaling"]["Status"] == "Creating"
    account.warp(70)
    assert account.describe()["AutoScaling"] == {**ENABLE, "Status": "InService"}
    return account


def test_no_group_is_touched_and_off_is_off(scaled: Account) -> None:
    assert [g["TargetCount"] for g in scaled.describe()["InstanceGroups"]] == [1, 0]
    update(scaled, AutoScaling={"Mode": "Disable"})
    assert scaled.describe()["AutoScaling"]["Status"] == "Deleting"
    with pytest.raises(ClientError) as early:
        update(scaled, AutoScaling=ENABLE)
    assert code(early) == "ConflictException"
    scaled.warp(70)
    assert "AutoScaling" not in scaled.describe()
    assert scaled.describe()["ClusterRole"]


def test_the_role_does_not_change_while_it_is_on(scaled: Account) -> None:
    other = cluster_role(scaled, name="other")
    with pytest.raises(ClientError, match="ClusterRole cannot be changed"):
        update(scaled, ClusterRole=other)


@pytest.mark.parametrize(
    ("more", "sentence"), [({"NodeRecovery": "None"}, "NodeRecovery Automatic"), ({"NodeProvisioningMode": None}, "Continuous")]
)
def test_preconditions(hyperpod_account: Account, more: dict[str, Any], sentence: str) -> None:
    account = hyperpod_account
    account.hyperpod(account.group(count=0) if "NodeRecovery" in more else account.group(), **more)
    role = cluster_role(account, "sagemaker:*")
    with pytest.raises(ClientError, match=sentence):
        update(account, AutoScaling=ENABLE, ClusterRole=role)


def test_a_role_without_the_actions_makes_it_failed_and_may_be_mended(hyperpod_account: Account) -> None:
    account = hyperpod_account
    account.hyperpod(account.group(count=0))
    role = cluster_role(account, "sagemaker:BatchAddClusterNodes")
    update(account, AutoScaling=ENABLE, ClusterRole=role)
    account.warp(70)
    told = account.describe()["AutoScaling"]
    assert told["Status"] == "Failed"
    assert "not authorized to perform: sagemaker:BatchDeleteClusterNodes" in told["FailureMessage"]
    document = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "sagemaker:*", "Resource": "*"}]}
    account.iam.put_role_policy(RoleName="karpenter", PolicyName="scale", PolicyDocument=json.dumps(document))
    update(account, AutoScaling=ENABLE, ClusterRole=role)
    account.warp(70)
    assert account.describe()["AutoScaling"]["Status"] == "InService"


def test_the_controller_sees_groups_and_scales_by_the_role(scaled: Account) -> None:
    world = scaled.world
    view = autoscaling.view(world, scaled.eks_arn)
    assert view is not None
    groups = {g.name: g for g in view.groups}
    assert (groups["gpu"].capacity_type, groups["gpu"].obstacle) == ("OnDemand", "")
    assert {zone for _, zone, _ in groups["gpu"].subnets} == {"us-west-2a", "us-west-2b"}
    wish = ("gpu", "ml.g5.8xlarge", "us-west-2a")
    logical = autoscaling.add_node(world, scaled.eks_arn, wish, "token")
    assert autoscaling.add_node(world, scaled.eks_arn, wish, "token") == logical
    assert scaled.described_group("gpu")["TargetCount"] == 1
    scaled.warp(400)
    seen = next(n for n in autoscaling.view(world, scaled.eks_arn).nodes if n.logical_id == logical)  # type: ignore[union-attr]
    assert (seen.zone, seen.status) == ("us-west-2a", "Running")
    autoscaling.delete_node(world, scaled.eks_arn, logical)
    autoscaling.delete_node(world, scaled.eks_arn, logical)
    assert scaled.described_group("gpu")["TargetCount"] == 0


def test_quota_and_a_role_that_lost_its_rights_are_refusals(scaled: Account) -> None:
    wish = ("gpu", "ml.g5.8xlarge", "us-west-2a")
    scaled.world.quotas.set("sagemaker", "ml.g5.8xlarge for cluster usage", 1, "us-west-2")
    with pytest.raises(ScalingRefusedError, match="service limit") as refused:
        autoscaling.add_node(scaled.world, scaled.eks_arn, wish, "a")
    assert refused.value.code == "ResourceLimitExceeded"
    scaled.iam.delete_role_policy(RoleName="karpenter", PolicyName="scale")
    with pytest.raises(ScalingRefusedError) as denied:
        autoscaling.add_node(scaled.world, scaled.eks_arn, wish, "b")
    assert denied.value.code == "AccessDeniedException"
    update(scaled, AutoScaling={"Mode": "Disable"})
    assert autoscaling.view(scaled.world, scaled.eks_arn) is None
