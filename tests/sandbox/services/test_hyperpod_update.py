"""UpdateCluster, DeleteCluster, and clusters that somebody else made."""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from instantstart_sandbox.services.hyperpod import foreign_cluster

from .conftest import Account, code

LABELS = {"Labels": {"team": "a"}}


def _update(account: Account, *groups: dict[str, Any], **more: Any) -> None:
    account.sagemaker.update_cluster(ClusterName="hp", **({"InstanceGroups": list(groups)} if groups else {}), **more)


def test_a_group_resent_without_a_field_loses_it(hyperpod_account: Account) -> None:
    full = hyperpod_account.group(
        KubernetesConfig=LABELS, OnStartDeepHealthChecks=["InstanceStress"], NetworkInterface={"InterfaceType": "efa"}, MinInstanceCount=1
    )
    other = hyperpod_account.group("other", "ml.m5.large", 1, KubernetesConfig=LABELS)
    hyperpod_account.hyperpod(full, other)
    hyperpod_account.warp(4000)
    _update(hyperpod_account, hyperpod_account.group(count=3))
    group = hyperpod_account.described_group()
    assert group["TargetCount"] == 3
    assert not {"OnStartDeepHealthChecks", "NetworkInterface", "MinCount"} & set(group)
    assert group["KubernetesConfig"] == {"CurrentLabels": {"team": "a"}}
    hyperpod_account.warp(100)
    assert "KubernetesConfig" not in hyperpod_account.described_group()
    assert hyperpod_account.described_group("other")["KubernetesConfig"]["DesiredLabels"] == {"team": "a"}


@pytest.mark.parametrize(
    ("before", "after", "field"),
    [
        ({}, {"InstanceType": "ml.g5.4xlarge"}, "InstanceType"),
        ({"ThreadsPerCore": 1}, {"ThreadsPerCore": 2}, "ThreadsPerCore"),
        ({"ThreadsPerCore": 1}, {}, "ThreadsPerCore"),
        ({"CapacityRequirements": {"OnDemand": {}}}, {"CapacityRequirements": {"Spot": {}}}, "CapacityRequirements"),
        ({"NetworkInterface": {"InterfaceType": "efa"}}, {"NetworkInterface": {"InterfaceType": "efa-only"}}, "NetworkInterface"),
    ],
)
def test_fixed_fields_cannot_change(hyperpod_account: Account, before: dict[str, Any], after: dict[str, Any], field: str) -> None:
    hyperpod_account.hyperpod(hyperpod_account.group(**before))
    with pytest.raises(ClientError, match=f"{field} cannot be changed") as refused:
        _update(hyperpod_account, hyperpod_account.group(**after))
    assert code(refused) == "ValidationException"


def test_groups_come_and_go_but_one_must_stay(hyperpod_account: Account) -> None:
    hyperpod_account.hyperpod()
    _update(hyperpod_account, hyperpod_account.group("more", "ml.m5.large", 1))
    assert hyperpod_account.describe()["ClusterStatus"] == "InService"
    hyperpod_account.warp(400)
    assert hyperpod_account.described_group("more")["CurrentCount"] == 1
    with pytest.raises(ClientError, match="both in InstanceGroups and in InstanceGroupsToDelete"):
        _update(hyperpod_account, hyperpod_account.group("more", "ml.m5.large", 1), InstanceGroupsToDelete=["more"])
    with pytest.raises(ClientError, match="at least one instance group"):
        _update(hyperpod_account, InstanceGroupsToDelete=["more", "workers"])
    _update(hyperpod_account, InstanceGroupsToDelete=["workers"])
    assert hyperpod_account.described_group()["Status"] == "Deleting"
    hyperpod_account.warp(200)
    assert [g["InstanceGroupName"] for g in hyperpod_account.describe()["InstanceGroups"]] == ["more"]


def test_describe_sent_back_is_no_change(hyperpod_account: Account) -> None:
    hyperpod_account.hyperpod(hyperpod_account.group(KubernetesConfig=LABELS))
    before = hyperpod_account.described_group()
    _update(hyperpod_account, hyperpod_account.group(KubernetesConfig={"Labels": before["KubernetesConfig"]["DesiredLabels"]}))
    hyperpod_account.warp(100)
    assert hyperpod_account.described_group() == before


def test_a_second_scaling_supersedes_the_first(hyperpod_account: Account) -> None:
    hyperpod_account.hyperpod()
    _update(hyperpod_account, hyperpod_account.group(count=4))
    _update(hyperpod_account, hyperpod_account.group(count=3))
    statuses = [o["Status"] for o in hyperpod_account.sagemaker.list_cluster_operations(ClusterName="hp")["ClusterOperationSummaries"]]
    assert statuses == ["InProgress", "Superseded", "Done"]
    hyperpod_account.warp(400)
    assert hyperpod_account.described_group()["CurrentCount"] == 3


def test_the_autoscaler_needs_a_cluster_role(hyperpod_account: Account) -> None:
    hyperpod_account.hyperpod()
    scaling = {"Mode": "Enable", "AutoScalerType": "Karpenter"}
    with pytest.raises(ClientError, match="AutoScaling requires ClusterRole"):
        _update(hyperpod_account, AutoScaling=scaling)
    role = hyperpod_account.role("karpenter", "hyperpod.sagemaker.amazonaws.com")
    actions = ["sagemaker:BatchAddClusterNodes", "sagemaker:BatchDeleteClusterNodes"]
    document = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": actions, "Resource": "*"}]}
    hyperpod_account.iam.put_role_policy(RoleName="karpenter", PolicyName="scale", PolicyDocument=json.dumps(document))
    hyperpod_account.warp(11)
    _update(hyperpod_account, AutoScaling=scaling, ClusterRole=role)
    assert hyperpod_account.describe()["AutoScaling"]["Status"] == "Creating"
    hyperpod_account.warp(100)
    assert hyperpod_account.describe()["AutoScaling"]["Status"] == "InService"
    with pytest.raises(ClientError, match="ClusterRole cannot be changed"):
        _update(hyperpod_account, ClusterRole=hyperpod_account.role("other", "hyperpod.sagemaker.amazonaws.com"))


def test_a_cluster_in_creation_cannot_be_changed_or_deleted(hyperpod_account: Account) -> None:
    hyperpod_account.sagemaker.create_cluster(**hyperpod_account.request())
    for act in (hyperpod_account.sagemaker.delete_cluster, hyperpod_account.sagemaker.update_cluster):
        with pytest.raises(ClientError) as refused:
            act(ClusterName="hp", **({} if act == hyperpod_account.sagemaker.delete_cluster else {"NodeRecovery": "None"}))
        assert code(refused) == "ConflictException"


def test_a_deleted_cluster_gives_everything_back(hyperpod_account: Account) -> None:
    before = hyperpod_account.ec2.describe_subnets(SubnetIds=hyperpod_account.subnets)["Subnets"]
    hyperpod_account.hyperpod()
    with pytest.raises(ClientError) as held:
        hyperpod_account.ec2.delete_security_group(GroupId=hyperpod_account.group_id)
    assert code(held) == "DependencyViolation"
    hyperpod_account.sagemaker.delete_cluster(ClusterName="hp")
    assert hyperpod_account.describe()["ClusterStatus"] == "Deleting"
    hyperpod_account.warp(300)
    with pytest.raises(ClientError) as gone:
        hyperpod_account.describe()
    assert code(gone) == "ResourceNotFound"
    assert hyperpod_account.ec2.describe_subnets(SubnetIds=hyperpod_account.subnets)["Subnets"] == before
    hyperpod_account.ec2.delete_security_group(GroupId=hyperpod_account.group_id)


def test_without_its_role_a_cluster_hangs_in_deleting_until_the_role_is_back(hyperpod_account: Account) -> None:
    hyperpod_account.hyperpod()
    hyperpod_account.iam.delete_role(RoleName="nodes")
    hyperpod_account.sagemaker.delete_cluster(ClusterName="hp")
    hyperpod_account.warp(7200)
    assert hyperpod_account.describe()["ClusterStatus"] == "Deleting"
    assert "does not have permission to perform" in hyperpod_account.nodes()[0]["InstanceStatus"]["Message"]
    hyperpod_account.role("nodes", "sagemaker.amazonaws.com")
    hyperpod_account.warp(200)
    with pytest.raises(ClientError):
        hyperpod_account.describe()


def test_a_foreign_slurm_cluster_is_listed_and_described(account: Account) -> None:
    foreign_cluster(account.world, "slurm", status="Failed", failure="somebody's lifecycle script failed")
    listed = account.sagemaker.list_clusters()["ClusterSummaries"]
    assert [(c["ClusterName"], c["ClusterStatus"]) for c in listed] == [("slurm", "Failed")]
    cluster = account.sagemaker.describe_cluster(ClusterName="slurm")
    assert "Orchestrator" not in cluster
    assert "NodeProvisioningMode" not in cluster
    account.sagemaker.delete_cluster(ClusterName="slurm")
    account.warp(200)
    assert account.sagemaker.list_clusters()["ClusterSummaries"] == []


def test_tags_of_clusters_are_ours_and_others_are_motos(hyperpod_account: Account) -> None:
    arn = hyperpod_account.hyperpod()
    sagemaker = hyperpod_account.sagemaker
    sagemaker.add_tags(ResourceArn=arn, Tags=[{"Key": "a", "Value": "1"}, {"Key": "b", "Value": "2"}])
    sagemaker.delete_tags(ResourceArn=arn, TagKeys=["a"])
    assert sagemaker.list_tags(ResourceArn=arn)["Tags"] == [{"Key": "b", "Value": "2"}]
    container = {"Image": "123456789012.dkr.ecr.us-west-2.amazonaws.com/x:1"}
    model = sagemaker.create_model(ModelName="m", PrimaryContainer=container, ExecutionRoleArn=hyperpod_account.node_role)["ModelArn"]
    sagemaker.add_tags(ResourceArn=model, Tags=[{"Key": "m", "Value": "1"}])
    assert sagemaker.list_tags(ResourceArn=model)["Tags"] == [{"Key": "m", "Value": "1"}]
