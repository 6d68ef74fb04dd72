"""Volumes of S3 and FSx on a standing cluster: made once, refused with reasons, removed without their data."""

from __future__ import annotations

from typing import Any

import pytest
from tests.clusters.worlds import REGION
from tests.storage.conftest import Standing

from instantstart.base import problems
from instantstart.capabilities.storage.volumes import plans, rules, specs, views, workflows
from instantstart.ensure.storage import filesystems

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "reader", "namespace": "default"},
    "spec": {
        "containers": [{"name": "main", "image": "busybox", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
        "tolerations": [{"operator": "Exists"}],
    },
}


def test_a_folder_of_a_bucket_becomes_a_claim_and_goes_again_without_its_objects(standing: Standing) -> None:
    s3 = standing.where.aws.client("s3", write=True)
    s3.create_bucket(Bucket="corpus", CreateBucketConfiguration={"LocationConstraint": REGION})
    s3.put_object(Bucket="corpus", Key="text/a.txt", Body=b"a")
    asked = {"claim_name": "data", "bucket": "corpus", "prefix": "text/", "read_only": True, "uid": 1000, "cache_gib": 20}
    made = standing.run(workflows.ADD_S3_VOLUME, specs.S3Target, **asked)
    assert made.status == "succeeded", (made.stopped_at, made.problem)
    seen = views.get_volume(standing.room, "demo", "default", "data")
    assert (seen.volume.shows, seen.volume.bound, seen.volume.read_only, seen.volume.ours) == ("s3://corpus/text/", True, True, True)
    assert {"read-only", f"region {REGION}", "prefix text/", "uid=1000"} <= set(seen.mount_options)
    assert seen.attributes["cache"] == "emptyDir"
    again = standing.run(workflows.ADD_S3_VOLUME, specs.S3Target, **asked)
    assert again.status == "succeeded"
    assert len([v for v in views.list_volumes(standing.room, "demo", views.Filter(), 50, None).items if v.claim == "data"]) == 1
    target = specs.RemoveTarget(tag="demo", region=REGION, namespace="default", claim_name="data")
    assert plans.plan_remove(standing.room, standing.where, target).keep == ("what the volume shows: s3://corpus/text/",)
    gone = standing.run(workflows.REMOVE_VOLUME, specs.RemoveTarget, namespace="default", claim_name="data")
    assert gone.status == "succeeded", gone.problem
    assert standing.kube.find("PersistentVolumeClaim", "data", "default") is None
    assert s3.get_object(Bucket="corpus", Key="text/a.txt")["Body"].read() == b"a"


def test_a_volume_in_use_is_not_removed_and_its_pods_are_named(standing: Standing) -> None:
    assert standing.run(workflows.ADD_S3_VOLUME, specs.S3Target, claim_name="data").status == "succeeded"
    standing.kube.apply(POD)
    target = specs.RemoveTarget(tag="demo", region=REGION, namespace="default", claim_name="data")
    with pytest.raises(problems.Conflict, match="reader") as refused:
        plans.plan_remove(standing.room, standing.where, target)
    assert refused.value.code == "volume.in_use"
    gone = standing.run(workflows.REMOVE_VOLUME, specs.RemoveTarget, namespace="default", claim_name="data")
    assert gone.status == "failed"
    assert gone.problem is not None
    assert gone.problem.code == "volume.in_use"


def test_every_wrong_answer_is_told_at_once_each_at_its_field(standing: Standing) -> None:
    ask = specs.AddS3Volume(claim_name="s3-claim", bucket="no-such-bucket", read_only=True, allow_delete=True)
    standing.kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}})
    standing.kube.apply(claim("s3-claim", "team-a", "elsewhere"))
    ask = ask.model_copy(update={"namespace": "team-a"})
    with pytest.raises(problems.Invalid) as refused:
        plans.checked_s3(standing.room, standing.where, ask)
    assert {f.pointer for f in refused.value.fields} == {"/bucket", "/allow_delete", "/claim_name"}
    fsx = specs.AddFsxVolume(claim_name="scratch", size_gib=1000)
    with pytest.raises(problems.Invalid, match="1200 GiB or a multiple of 2400") as wrong:
        plans.checked_fsx(standing.room, standing.where, fsx)
    assert {f.pointer for f in wrong.value.fields} == {"/driver", "/size_gib"}


@pytest.mark.parametrize("prefix", ["../", "a/../../b/", "./", "a/./b/"])
def test_a_folder_does_not_lead_out_of_its_bucket(prefix: str) -> None:
    with pytest.raises(ValueError, match="would lead out of"):
        specs.AddS3Volume(claim_name="s3-claim", prefix=prefix)
    assert specs.AddS3Volume(claim_name="s3-claim", prefix="a..b/.c/").prefix == "a..b/.c/"


def claim(name: str, namespace: str, volume: str) -> dict[str, Any]:
    """A claim of somebody else."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "",
            "volumeName": volume,
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }


@pytest.mark.parametrize(("size", "right"), [(1000, False), (1200, True), (2400, True), (3600, False), (4800, True), (0, False)])
def test_sizes_are_those_that_fsx_takes(size: int, right: bool) -> None:
    assert (filesystems.check_size(size) is None) is right


def test_a_bucket_of_another_region_is_warned_of_and_still_mounted(standing: Standing) -> None:
    s3 = standing.room.aws.region("eu-west-1").client("s3", write=True)
    s3.create_bucket(Bucket="far-away", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    ask = specs.AddS3Volume(claim_name="far", bucket="far-away")
    found = rules.findings(ask, rules.observe_s3(standing.room, standing.where, ask), rules.S3_RULES)
    assert [f.level for f in found if f.check == "bucket"] == ["warn"]
    assert standing.run(workflows.ADD_S3_VOLUME, specs.S3Target, claim_name="far", bucket="far-away").status == "succeeded"
    seen = views.get_volume(standing.room, "demo", "default", "far")
    assert "region eu-west-1" in seen.mount_options
