"""Single nodes: add, delete, reboot, replace, deep health checks, recovery, software."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from instantstart_sandbox.services.hyperpod import health

from .conftest import Account, code

STRANGER = "i-0123456789abcdef0"


def test_a_reboot_keeps_the_instance_and_a_replacement_changes_it(hyperpod_account: Account) -> None:
    hyperpod_account.hyperpod()
    one, two = hyperpod_account.nodes(IncludeNodeLogicalIds=True)
    sagemaker = hyperpod_account.sagemaker
    answer = sagemaker.batch_reboot_cluster_nodes(ClusterName="hp", NodeIds=[one["InstanceId"], STRANGER])
    assert answer["Successful"] == [one["InstanceId"]]
    assert [(f["NodeId"], f["ErrorCode"]) for f in answer["Failed"]] == [(STRANGER, "InstanceIdNotFound")]
    again = sagemaker.batch_reboot_cluster_nodes(ClusterName="hp", NodeIds=[one["InstanceId"]])
    assert again["Failed"][0]["ErrorCode"] == "InvalidInstanceStatus"
    replaced = sagemaker.batch_replace_cluster_nodes(ClusterName="hp", NodeLogicalIds=[two["NodeLogicalId"]])
    assert replaced["SuccessfulNodeLogicalIds"] == [two["NodeLogicalId"]]
    hyperpod_account.warp(600)
    after = {n["NodeLogicalId"]: n["InstanceId"] for n in hyperpod_account.nodes(IncludeNodeLogicalIds=True)}
    assert after[one["NodeLogicalId"]] == one["InstanceId"]
    assert after[two["NodeLogicalId"]] != two["InstanceId"]
    assert hyperpod_account.described_group()["CurrentCount"] == 2


def test_an_addition_is_repeated_by_its_token(hyperpod_account: Account) -> None:
    hyperpod_account.hyperpod()
    wish = [{"InstanceGroupName": "workers", "IncrementTargetCountBy": 2}, {"InstanceGroupName": "none", "IncrementTargetCountBy": 1}]
    sagemaker = hyperpod_account.sagemaker
    first = sagemaker.batch_add_cluster_nodes(ClusterName="hp", NodesToAdd=wish, ClientToken="t")
    second = sagemaker.batch_add_cluster_nodes(ClusterName="hp", NodesToAdd=wish, ClientToken="t")
    assert [n["NodeLogicalId"] for n in first["Successful"]] == [n["NodeLogicalId"] for n in second["Successful"]]
    assert first["Failed"][0]["ErrorCode"] == "InstanceGroupNotFound"
    assert hyperpod_account.described_group()["TargetCount"] == 4
    hyperpod_account.warp(400)
    assert hyperpod_account.described_group()["CurrentCount"] == 4
    gone = first["Successful"][0]["NodeLogicalId"]
    sagemaker.batch_delete_cluster_nodes(ClusterName="hp", NodeLogicalIds=[gone])
    hyperpod_account.warp(200)
    replay = sagemaker.batch_add_cluster_nodes(ClusterName="hp", NodesToAdd=wish, ClientToken="t")
    assert {n["NodeLogicalId"]: n["Status"] for n in replay["Successful"]}[gone] == "NotFound"


def test_a_deletion_lowers_the_target_and_fails_whole_only_when_all_fail(hyperpod_account: Account) -> None:
    hyperpod_account.hyperpod()
    node = hyperpod_account.nodes()[0]["InstanceId"]
    answer = hyperpod_account.sagemaker.batch_delete_cluster_nodes(ClusterName="hp", NodeIds=[node, STRANGER])
    assert answer["Successful"] == [node]
    assert answer["Failed"][0]["Code"] == "NodeIdNotFound"
    assert hyperpod_account.described_group()["TargetCount"] == 1
    with pytest.raises(ClientError) as refused:
        hyperpod_account.sagemaker.batch_delete_cluster_nodes(ClusterName="hp", NodeIds=[STRANGER])
    assert code(refused) == "ValidationException"
    hyperpod_account.warp(200)
    assert len(hyperpod_account.nodes()) == 1


def test_a_deep_health_check_takes_an_hour(hyperpod_account: Account) -> None:
    checked = hyperpod_account.group(count=1, OnStartDeepHealthChecks=["InstanceStress"])
    hyperpod_account.hyperpod(checked, hyperpod_account.group("cpu", "ml.m5.large", 1, OnStartDeepHealthChecks=["InstanceStress"]))
    states = {n["InstanceGroupName"]: n["InstanceStatus"]["Status"] for n in hyperpod_account.nodes()}
    assert states == {"workers": "DeepHealthCheckInProgress", "cpu": "Running"}
    assert hyperpod_account.described_group()["CurrentCount"] == 0
    hyperpod_account.warp(3600)
    assert hyperpod_account.described_group()["CurrentCount"] == 1


def test_a_failed_deep_check_gets_the_node_replaced(hyperpod_account: Account) -> None:
    hyperpod_account.hyperpod(hyperpod_account.group(count=1, OnStartDeepHealthChecks=["InstanceStress"]))
    before = hyperpod_account.nodes()[0]["InstanceId"]
    health.doom(hyperpod_account.world, before)
    hyperpod_account.warp(3600)
    assert "EFA health checks" in str(hyperpod_account.nodes()[0]["InstanceStatus"]) or hyperpod_account.nodes()[0]["InstanceId"] != before
    hyperpod_account.warp(3600 + 600)
    assert hyperpod_account.nodes()[0]["InstanceId"] != before
    assert hyperpod_account.described_group()["CurrentCount"] == 1


def test_a_check_on_demand_is_an_operation(hyperpod_account: Account) -> None:
    hyperpod_account.hyperpod()
    node = hyperpod_account.nodes()[0]["InstanceId"]
    wish = [{"InstanceGroupName": "workers", "InstanceIds": [node], "DeepHealthChecks": ["InstanceStress"]}]
    hyperpod_account.sagemaker.start_cluster_health_check(ClusterName="hp", DeepHealthCheckConfigurations=wish)
    listed = hyperpod_account.sagemaker.list_cluster_operations(ClusterName="hp", Type="DeepHealthCheck")["ClusterOperationSummaries"]
    assert listed[0]["Status"] == "InProgress"
    assert sorted(n["InstanceStatus"]["Status"] for n in hyperpod_account.nodes()) == ["DeepHealthCheckInProgress", "Running"]
    hyperpod_account.warp(3700)
    described = hyperpod_account.sagemaker.describe_cluster_operation(ClusterName="hp", OperationId=listed[0]["OperationId"])
    assert described["Status"] == "Done"
    assert described["DeepHealthCheckDetails"] == wish


@pytest.mark.parametrize(
    ("kind", "recovery", "replaced"),
    [("ml.g5.8xlarge", "Automatic", True), ("ml.m5.large", "Automatic", False), ("ml.g5.8xlarge", "None", False)],
)
def test_only_accelerated_nodes_recover_and_only_if_asked(hyperpod_account: Account, kind: str, recovery: str, replaced: bool) -> None:
    hyperpod_account.hyperpod(hyperpod_account.group(instance_type=kind, count=1), NodeRecovery=recovery)
    before = hyperpod_account.nodes()[0]["InstanceId"]
    health.injure(hyperpod_account.world, before)
    hyperpod_account.warp(700)
    assert (hyperpod_account.nodes()[0]["InstanceId"] != before) is replaced


def test_a_software_update_goes_in_batches(hyperpod_account: Account) -> None:
    hyperpod_account.hyperpod(hyperpod_account.group(ImageReleaseVersion="1.0.0"))
    policy = {"RollingUpdatePolicy": {"MaximumBatchSize": {"Type": "INSTANCE_COUNT", "Value": 1}}, "WaitIntervalInSeconds": 60}
    hyperpod_account.sagemaker.update_cluster_software(ClusterName="hp", DeploymentConfig=policy)
    assert hyperpod_account.describe()["ClusterStatus"] == "SystemUpdating"
    assert sorted(n["InstanceStatus"]["Status"] for n in hyperpod_account.nodes()) == ["Running", "SystemUpdating"]
    with pytest.raises(ClientError) as busy:
        hyperpod_account.sagemaker.update_cluster(ClusterName="hp", InstanceGroups=[hyperpod_account.group()])
    assert code(busy) == "ConflictException"
    hyperpod_account.warp(650)
    assert hyperpod_account.described_group()["SoftwareUpdateStatus"] == "InProgress"
    hyperpod_account.warp(700)
    group = hyperpod_account.described_group()
    assert (group["SoftwareUpdateStatus"], group["CurrentImageReleaseVersion"]) == ("Succeeded", "1.2.0")
    assert hyperpod_account.describe()["ClusterStatus"] == "InService"
    assert {n["CurrentImageReleaseVersion"] for n in hyperpod_account.nodes()} == {"1.2.0"}


def test_moved_nodes_change_group_and_both_targets_and_a_token_moves_once(hyperpod_account: Account) -> None:
    labels: dict[str, Any] = {"KubernetesConfig": {"Labels": {"team": "b"}}}
    groups = [hyperpod_account.group(), hyperpod_account.group("second", count=0, **labels)]
    arn = hyperpod_account.hyperpod(*groups, hyperpod_account.group("cpu", "ml.m5.xlarge", 0))
    node = hyperpod_account.nodes()[0]["InstanceId"]
    way = {"SourceClusterArn": arn, "TargetClusterArn": arn, "SourceInstanceGroupName": "workers"}
    move = hyperpod_account.sagemaker.move_cluster_nodes
    first = move(**way, TargetInstanceGroupName="second", NodeIds=[node, STRANGER], ClientToken="t")
    assert first["Successful"] == [node]
    assert [(f["NodeId"], f["Code"]) for f in first["Failed"]] == [(STRANGER, "NodeIdNotFound")]
    again = move(**way, TargetInstanceGroupName="second", NodeIds=[node, STRANGER], ClientToken="t")
    assert again["Successful"] == [node]
    assert [hyperpod_account.described_group(name)["TargetCount"] for name in ("workers", "second")] == [1, 1]
    told = hyperpod_account.sagemaker.describe_cluster_node(ClusterName="hp", NodeId=node)["NodeDetails"]
    assert (told["InstanceGroupName"], told["KubernetesConfig"]["CurrentLabels"]) == ("second", {"team": "b"})
    left = hyperpod_account.nodes(InstanceGroupNameContains="workers")[0]["InstanceId"]
    assert move(**way, TargetInstanceGroupName="cpu", NodeIds=[left])["Failed"][0]["Code"] == "NodeInstanceTypeMismatch"
    with pytest.raises(ClientError) as refused:
        move(**way, TargetInstanceGroupName="second", InstanceCount=1, NodeIds=[left])
    assert code(refused) == "ValidationException"
