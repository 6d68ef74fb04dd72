"""FSx for Lustre on a standing cluster: one file system for one claim, mounted, kept unless its end was asked for."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.clusters.worlds import REGION
from tests.storage.conftest import Standing

from instantstart.capabilities.features import specs as feature_specs
from instantstart.capabilities.features import workflows as features
from instantstart.capabilities.storage.volumes import plans, rules, specs, views, workflows
from instantstart.ensure.networking import network
from instantstart.ensure.storage import filesystems


@pytest.fixture
def driven(standing: Standing) -> Standing:
    """With the FSx driver."""
    made = standing.run(features.ENABLE, feature_specs.SwitchTarget, feature="fsx_csi")
    assert made.status == "succeeded", (made.stopped_at, made.problem)
    return standing


def pod(claim: str) -> dict[str, Any]:
    """Something that mounts the claim."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "reader", "namespace": "default"},
        "spec": {
            "containers": [{"name": "main", "image": "busybox", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}],
            "tolerations": [{"operator": "Exists"}],
        },
    }


def eventually(driven: Standing, seen: Callable[[], bool]) -> None:
    """Let the world's time pass until something is seen."""
    until = time.monotonic() + 60
    while not seen():
        assert time.monotonic() < until
        driven.sandbox.warp(5)


def test_a_new_file_system_is_made_once_mounted_and_kept_unless_asked(driven: Standing) -> None:
    driven.sandbox.fault("fsx:CreateFileSystem", when="after", count=1)  # made, and the answer lost
    made = driven.run(workflows.ADD_FSX_VOLUME, specs.FsxTarget, claim_name="scratch", size_gib=1200)
    assert made.status == "succeeded", (made.stopped_at, made.problem)
    (found,) = filesystems.list_all(driven.where.aws)
    assert (found.size_gib, found.status) == (1200, "AVAILABLE")
    seen = views.get_volume(driven.room, "demo", "default", "scratch")
    assert (seen.volume.shows, seen.volume.kind, seen.volume.size) == (found.dns_name, "fsx", "1200Gi")
    driven.kube.apply(pod("scratch"))
    eventually(driven, lambda: driven.kube.get("Pod", "reader", "default")["status"]["phase"] == "Running")
    driven.kube.delete("Pod", "reader", "default")
    eventually(driven, lambda: driven.kube.find("Pod", "reader", "default") is None)
    target = specs.RemoveTarget(tag="demo", region=REGION, namespace="default", claim_name="scratch")
    assert found.id in " ".join(plans.plan_remove(driven.room, driven.where, target).keep)
    gone = driven.run(workflows.REMOVE_VOLUME, specs.RemoveTarget, namespace="default", claim_name="scratch")
    assert gone.result["kept_file_system"] == found.id
    assert [f.id for f in filesystems.list_all(driven.where.aws)] == [found.id]
    last = driven.run(workflows.REMOVE_VOLUME, specs.RemoveTarget, namespace="default", claim_name="scratch", delete_file_system=True)
    assert last.status == "succeeded", last.problem
    assert filesystems.list_all(driven.where.aws) == []


def test_a_file_system_that_nodes_cannot_reach_is_refused_with_the_cure(driven: Standing) -> None:
    aws = driven.where.aws
    ec2, fsx = aws.client("ec2", write=True), aws.client("fsx", write=True)
    place = rules.find_place(driven.room, driven.where)
    subnet = next(s for s in network.list_subnets(aws, place.vpc_id))
    group = ec2.create_security_group(GroupName="lustre", Description="closed to the nodes", VpcId=place.vpc_id)["GroupId"]
    ec2.authorize_security_group_ingress(
        GroupId=group,
        IpPermissions=[{"IpProtocol": "tcp", "FromPort": 988, "ToPort": 1023, "UserIdGroupPairs": [{"GroupId": group}]}],
    )
    made = fsx.create_file_system(
        FileSystemType="LUSTRE",
        StorageCapacity=1200,
        SubnetIds=[subnet.subnet_id],
        SecurityGroupIds=[group],
        LustreConfiguration={"DeploymentType": "SCRATCH_2"},
        ClientRequestToken="f" * 63,
    )["FileSystem"]["FileSystemId"]
    ask = specs.AddFsxVolume(claim_name="theirs", file_system_id=made)
    found = {f.check: f for f in rules.findings(ask, rules.observe_fsx(driven.room, driven.where, ask), rules.FSX_RULES)}
    assert found["ports"].level == "fail"
    assert "988" in found["ports"].detail
    ec2.authorize_security_group_ingress(
        GroupId=group,
        IpPermissions=[
            {"IpProtocol": "tcp", "FromPort": 988, "ToPort": 1023, "UserIdGroupPairs": [{"GroupId": g} for g in place.group_ids]}
        ],
    )
    mounted = driven.run(workflows.ADD_FSX_VOLUME, specs.FsxTarget, claim_name="theirs", file_system_id=made)
    assert mounted.status == "succeeded", (mounted.stopped_at, mounted.problem)
    assert filesystems.find_made(aws, "default/theirs", "demo") is None
