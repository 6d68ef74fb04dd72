"""What UpdateCluster receives, field by field, for groups that carry every optional setting; and what others do between read and write."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from tests.capacity.doors import GROUPS, Door, counted, turn
from tests.clusters.conftest import Job
from tests.clusters.crank import Crank
from tests.clusters.worlds import SandboxProcess

from instantstart.base.outcome import Wait
from instantstart.ensure.capacity import scaling

ROLLING = {
    "RollingUpdatePolicy": {
        "MaximumBatchSize": {"Type": "CAPACITY_PERCENTAGE", "Value": 20},
        "RollbackMaximumBatchSize": {"Type": "INSTANCE_COUNT", "Value": 1},
    },
    "WaitIntervalInSeconds": 60,
    "AutoRollbackConfiguration": [{"AlarmName": "too-many-faults"}],
}


@pytest.fixture(scope="module")
def rich(standing: Job, shared_sandbox: SandboxProcess) -> Iterator[dict[str, dict[str, Any]]]:
    """Two groups that somebody made with every setting there is, as they asked for them: one of a type, one flexible."""
    sagemaker = shared_sandbox.client("sagemaker")
    name = standing.site.hyperpod_cluster
    cluster = sagemaker.describe_cluster(ClusterName=name)
    model = cluster["InstanceGroups"][0]
    common = {
        "ExecutionRole": model["ExecutionRole"],
        "LifeCycleConfig": model["LifeCycleConfig"],
        "ThreadsPerCore": 1,
        "InstanceStorageConfigs": [
            {"EbsVolumeConfig": {"VolumeSizeInGB": 300, "VolumeKmsKeyId": "alias/volumes"}},
            {"EbsVolumeConfig": {"VolumeSizeInGB": 200, "RootVolume": True}},
        ],
        "OverrideVpcConfig": cluster["VpcConfig"],
        "ScheduledUpdateConfig": {"ScheduleExpression": "cron(0 3 ? * SUN *)", "DeploymentConfig": ROLLING},
        "ImageReleaseVersion": "1.1.0",
        "KubernetesConfig": {
            "Labels": {"team": "research", "example.com/tier": "gold"},
            "Taints": [{"Key": "team", "Value": "research", "Effect": "NoSchedule"}, {"Key": "x", "Effect": "PreferNoSchedule"}],
        },
        "AutoPatchConfig": {
            "PatchingStrategy": "DrainFirst",
            "PatchSchedule": {"NextPatchDate": "2027-01-01T03:00:00+00:00"},
            "DeploymentConfig": ROLLING,
            "IdleWaitWindowInSeconds": 7200,
            "DrainPolicy": {"DrainTimeoutInSeconds": 600, "OnDrainTimeout": "Skip"},
        },
        "MinInstanceCount": 1,
    }
    typed = common | {
        "InstanceGroupName": "rich",
        "InstanceType": "ml.p5.48xlarge",
        "InstanceCount": 2,
        "CapacityRequirements": {"Spot": {}},
        "NetworkInterface": {"InterfaceType": "efa-only"},
    }
    flexible = common | {
        "InstanceGroupName": "flexible",
        "InstanceRequirements": {"InstanceTypes": ["ml.g5.8xlarge", "ml.m5.2xlarge"]},
        "InstanceCount": 1,
        "OnStartDeepHealthChecks": ["InstanceStress", "InstanceConnectivity"],
        "KubernetesConfig": {"Labels": {"team": "research"}},
    }
    asked = {"rich": typed, "flexible": flexible}
    sagemaker.update_cluster(ClusterName=name, InstanceGroups=list(copy.deepcopy(asked).values()))
    shared_sandbox.warp(9000)
    yield asked
    sagemaker.update_cluster(ClusterName=name, InstanceGroupsToDelete=list(asked))
    shared_sandbox.warp(600)


def same_moments(request: dict[str, Any]) -> dict[str, Any]:
    """With moments spelt one way: the sandbox keeps them in UTC, without saying so."""
    told = copy.deepcopy(request)
    schedule = told.get("AutoPatchConfig", {}).get("PatchSchedule")
    if schedule:
        schedule["NextPatchDate"] = str(schedule["NextPatchDate"]).replace(" ", "T").removesuffix("+00:00").removesuffix("Z")
    return told


def target(sandbox: SandboxProcess, standing: Job) -> int:
    """The count that is wished of the group ``rich``."""
    cluster = sandbox.client("sagemaker").describe_cluster(ClusterName=standing.site.hyperpod_cluster)
    return next(int(g["TargetCount"]) for g in cluster["InstanceGroups"] if g["InstanceGroupName"] == "rich")


@pytest.mark.parametrize("name", ["rich", "flexible"])
def test_a_change_of_labels_sends_everything_else_as_it_was(
    rich: dict[str, Any], crank: Crank, shared_sandbox: SandboxProcess, name: str
) -> None:
    with counted(shared_sandbox, "UpdateCluster") as sent:
        done = turn(crank, "instance_group.update", group=name, labels={"team": "ops"})
    assert done.status == "succeeded", done.problem
    assert len(sent) == 1
    assert set(sent[0]) == {"ClusterName", "InstanceGroups"}
    wanted = copy.deepcopy(rich[name])
    wanted["KubernetesConfig"]["Labels"] = {"team": "ops"}
    assert [same_moments(g) for g in sent[0]["InstanceGroups"]] == [same_moments(wanted)]
    rich[name]["KubernetesConfig"]["Labels"] = {"team": "ops"}


def test_scaling_sends_no_group_at_all(rich: dict[str, Any], door: Door, crank: Crank, shared_sandbox: SandboxProcess) -> None:
    before = door.get(f"{GROUPS}/rich")["settings"]
    with counted(shared_sandbox, "UpdateCluster") as sent:
        assert turn(crank, "instance_group.scale", group="rich", instance_count=4).status == "succeeded"
        assert turn(crank, "instance_group.scale", group="rich", instance_count=3).status == "succeeded"
    assert sent == []
    assert door.get(f"{GROUPS}/rich")["settings"] == before | {"InstanceCount": 3}
    rich["rich"]["InstanceCount"] = 3


def test_fewer_nodes_than_the_minimum_are_refused(rich: dict[str, Any], door: Door, crank: Crank) -> None:
    told = door.refusal(422, "POST", f"{GROUPS}/rich/scale", {"instance_count": 0})
    assert [f["pointer"] for f in told["fields"]] == ["/instance_count"]
    assert "min_instance_count" in told["detail"]


def test_a_count_that_was_seen_and_is_another_now_is_a_conflict(rich: dict[str, Any], door: Door, crank: Crank) -> None:
    told = door.refusal(409, "POST", f"{GROUPS}/rich/scale", {"instance_count": 9, "expected_count": 5})
    assert told["code"] == "instance_group.count_changed"
    assert told["evidence"]["found"] == rich["rich"]["InstanceCount"]


def test_a_count_that_somebody_changes_while_an_update_is_sent_is_put_back(
    rich: dict[str, Any], standing: Job, crank: Crank, shared_sandbox: SandboxProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    sagemaker, send = shared_sandbox.client("sagemaker"), scaling.update
    theirs: list[dict[str, Any]] = [{"InstanceGroupName": "rich", "IncrementTargetCountBy": 2}]

    def late(*given: Any, **fields: Any) -> Wait | None:
        if theirs:
            sagemaker.batch_add_cluster_nodes(ClusterName=standing.site.hyperpod_cluster, NodesToAdd=[theirs.pop()])
        return send(*given, **fields)

    monkeypatch.setattr(scaling, "update", late)
    have = target(shared_sandbox, standing)
    with counted(shared_sandbox, "UpdateCluster") as sent:
        done = turn(crank, "instance_group.update", group="rich", labels={"team": "late"})
    assert done.status == "succeeded", done.problem
    assert [g["InstanceCount"] for r in sent for g in r["InstanceGroups"]] == [have, have + 2]
    assert "their count was put back" in done.sentences("settled")
    cluster = sagemaker.describe_cluster(ClusterName=standing.site.hyperpod_cluster)
    group = next(g for g in cluster["InstanceGroups"] if g["InstanceGroupName"] == "rich")
    assert group["TargetCount"] == have + 2
    assert group["KubernetesConfig"]["DesiredLabels"] == {"team": "late"}
    rich["rich"]["InstanceCount"] = have + 2


def test_a_count_that_somebody_changes_while_nodes_are_added_is_told_and_kept(
    rich: dict[str, Any], standing: Job, crank: Crank, shared_sandbox: SandboxProcess
) -> None:
    sagemaker, name = shared_sandbox.client("sagemaker"), standing.site.hyperpod_cluster
    have = target(shared_sandbox, standing)
    begun = turn(crank, "instance_group.scale", until="survey", group="rich", instance_count=have + 2)
    sagemaker.batch_add_cluster_nodes(ClusterName=name, NodesToAdd=[{"InstanceGroupName": "rich", "IncrementTargetCountBy": 1}])
    with counted(shared_sandbox, "BatchAddClusterNodes") as added:
        stopped = crank.turn(begun)
    assert (stopped.status, stopped.problem and stopped.problem.code) == ("failed", "instance_group.count_changed")
    assert added == []
    assert target(shared_sandbox, standing) == have + 1


def test_a_lost_answer_adds_the_same_nodes_once(rich: dict[str, Any], standing: Job, crank: Crank, shared_sandbox: SandboxProcess) -> None:
    shared_sandbox.fault("sagemaker:BatchAddClusterNodes", when="after")
    wanted = target(shared_sandbox, standing) + 1
    done = turn(crank, "instance_group.scale", group="rich", instance_count=wanted)
    assert done.status == "succeeded", done.problem
    assert target(shared_sandbox, standing) == wanted


def test_an_update_is_sent_once_however_its_answer_is_lost(rich: dict[str, Any], crank: Crank, shared_sandbox: SandboxProcess) -> None:
    shared_sandbox.fault("sagemaker:UpdateCluster", when="after")
    with counted(shared_sandbox, "UpdateCluster") as sent:
        done = turn(crank, "instance_group.update", group="rich", labels={"team": "once"})
    assert done.status == "succeeded", done.problem
    assert len(sent) == 1


def test_a_group_that_waits_for_its_minimum_is_scaled_by_number_with_every_setting(
    rich: dict[str, Any], standing: Job, door: Door, crank: Crank, shared_sandbox: SandboxProcess
) -> None:
    have = target(shared_sandbox, standing)
    shared_sandbox.admin("capacity", instance_type="ml.p5.48xlarge", zone="us-west-2a", available=0)
    stands = same_moments(door.get(f"{GROUPS}/rich")["settings"]) | {"InstanceCount": have + 1, "MinInstanceCount": have + 1}
    shared_sandbox.client("sagemaker").update_cluster(ClusterName=standing.site.hyperpod_cluster, InstanceGroups=[stands])
    shared_sandbox.warp(120)
    with counted(shared_sandbox, "UpdateCluster") as sent, counted(shared_sandbox, "BatchAddClusterNodes") as added:
        begun = turn(crank, "instance_group.scale", until="grow", group="rich", instance_count=have + 2)
    assert begun.status == "cancelled", begun.problem
    assert added == [], "SageMaker takes no nodes by name then"
    assert [same_moments(g) for r in sent for g in r["InstanceGroups"]] == [same_moments(stands) | {"InstanceCount": have + 2}]
    shared_sandbox.admin("capacity", instance_type="ml.p5.48xlarge", zone="us-west-2a", available=100)
    assert crank.turn(begun).status == "succeeded", begun.problem


def test_a_busy_cluster_is_waited_for(rich: dict[str, Any], crank: Crank, shared_sandbox: SandboxProcess) -> None:
    shared_sandbox.fault("sagemaker:UpdateCluster", code="ConflictException", message="The cluster is in status Updating.", count=2)
    done = turn(crank, "instance_group.update", group="rich", labels={"team": "patient"})
    assert done.status == "succeeded", done.problem
    assert "SageMaker is busy" in done.sentences("request")
