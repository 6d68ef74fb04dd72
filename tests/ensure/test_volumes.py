"""S3 volumes in a real (sandbox) cluster."""

from __future__ import annotations

import dataclasses

import pytest
from tests.ensure.test_manifests import settled

from instantstart.base import problems
from instantstart.base.outcome import Done, Wait
from instantstart.ensure.storage import volumes
from instantstart.ensure.storage.volumes import S3Volume
from instantstart.kube.client import KubeCluster

DATA = S3Volume("data", "default", "bucket-a", "eu-west-1", prefix="team/")


def test_a_volume_is_made_bound_and_then_already_there(kube: KubeCluster) -> None:
    settled(lambda: volumes.ensure(kube, DATA))
    assert volumes.observe(kube, DATA).bound
    assert settled(lambda: volumes.ensure(kube, DATA)).already
    claim = kube.get("PersistentVolumeClaim", "data", "default")
    spec = kube.get("PersistentVolume", claim["spec"]["volumeName"])["spec"]
    assert spec["mountOptions"] == ["allow-delete", "allow-overwrite", "region eu-west-1", "allow-other", "prefix team/"]
    assert spec["csi"] == {"driver": "s3.csi.aws.com", "volumeHandle": DATA.volume, "volumeAttributes": {"bucketName": "bucket-a"}}
    assert (spec["accessModes"], claim["spec"]["storageClassName"]) == (["ReadWriteMany"], "")


def test_two_volumes_never_share_a_handle() -> None:
    pairs = [
        S3Volume("c", "a-b", "x", "r"),
        S3Volume("b-c", "a", "x", "r"),
        S3Volume("c", "a", "x", "r"),
        S3Volume("d" * 63, "e" * 63, "x", "r"),
    ]
    names = {v.volume for v in pairs}
    assert len(names) == len(pairs)
    assert all(len(name) <= 63 for name in names)


def test_a_read_only_volume_may_change_nothing() -> None:
    options = dataclasses.replace(DATA, read_only=True, uid=1000, gid=100).mount_options
    assert "read-only" in options
    assert {"uid=1000", "gid=100"} <= set(options)
    assert not {"allow-delete", "allow-overwrite"} & set(options)


def test_a_volume_cannot_be_pointed_elsewhere(kube: KubeCluster) -> None:
    settled(lambda: volumes.ensure(kube, DATA))
    with pytest.raises(problems.Conflict) as found:
        volumes.ensure(kube, dataclasses.replace(DATA, bucket="bucket-b"))
    assert found.value.code == "volume.source_differs"
    assert found.value.evidence["live"]["csi"]["volumeAttributes"] == {"bucketName": "bucket-a"}


def test_a_handle_that_somebody_else_has_is_refused(kube: KubeCluster) -> None:
    other = dict(DATA.release().resources[0])
    other["metadata"] = {"name": "theirs"}
    other["spec"] = {key: value for key, value in other["spec"].items() if key != "claimRef"}
    kube.create(other)
    with pytest.raises(problems.Conflict) as found:
        volumes.ensure(kube, DATA)
    assert found.value.code == "volume.handle_taken"


def test_a_volume_in_use_is_not_removed(kube: KubeCluster) -> None:
    settled(lambda: volumes.ensure(kube, DATA))
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "user", "namespace": "default"},
        "spec": {
            "containers": [{"name": "c", "image": "busybox:1", "command": ["sleep", "1000"]}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
        },
    }
    kube.create(pod)
    with pytest.raises(problems.Conflict, match="is used by user"):
        volumes.remove(kube, DATA)
    assert volumes.observe(kube, DATA).users == ("user",)
    kube.delete("Pod", "user", "default")
    settled(lambda: Wait(1, "going") if kube.find("Pod", "user", "default") else Done())
    settled(lambda: volumes.remove(kube, DATA))


def test_removal_leaves_neither_claim_nor_volume(kube: KubeCluster) -> None:
    settled(lambda: volumes.ensure(kube, DATA))
    settled(lambda: volumes.remove(kube, DATA))
    assert kube.list("PersistentVolume") == kube.list("PersistentVolumeClaim", "default") == []
    assert volumes.observe(kube, DATA).phase == "absent"
    settled(lambda: volumes.ensure(kube, DATA))
    assert volumes.observe(kube, DATA).bound


def test_a_volume_that_an_earlier_claim_holds_is_lost_and_says_so(kube: KubeCluster) -> None:
    settled(lambda: volumes.ensure(kube, DATA))
    kube.delete("PersistentVolumeClaim", "data", "default")
    settled(lambda: Wait(1, "going") if kube.find("PersistentVolumeClaim", "data", "default") else Done())
    with pytest.raises(problems.Blocked) as found:
        settled(lambda: volumes.ensure(kube, DATA))
    assert found.value.code == "volume.claim_lost"
