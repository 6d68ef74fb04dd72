"""Volumes and claims, on a cluster with nodes."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.sandbox.kubernetes.loops_bench import Bench, on_bench
from tests.sandbox.kubernetes.test_loops_pods import RUN, Object, pod, real

from instantstart_sandbox.world.seams import Addon

# ---------------------------------------------------------------------- volumes


def s3(name: str = "data", bucket: str = "bucket", size: str = "1200Gi") -> tuple[Object, Object]:
    csi = {"driver": "s3.csi.aws.com", "volumeHandle": f"{name}-handle", "volumeAttributes": {"bucketName": bucket}}
    volume = {
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "",
            "mountOptions": ["region us-west-2"],
            "csi": csi,
        },
    }
    resources = {"requests": {"storage": "1200Gi"}}
    spec = {"accessModes": ["ReadWriteMany"], "storageClassName": "", "volumeName": name, "resources": resources}
    return volume, {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


async def create(bench: Bench, volume: Object, claim: Object) -> None:
    await bench.client.create("persistentvolumes", volume)
    await bench.client.create("persistentvolumeclaims", claim)
    await bench.settle()


def test_a_static_claim_is_bound_without_any_node(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await create(bench, *s3())
        claim, volume = bench.get("persistentvolumeclaims", "data", "default"), bench.get("persistentvolumes", "data")
        assert claim["status"]["phase"] == "Bound"
        assert claim["status"]["capacity"] == {"storage": "1200Gi"}
        assert volume["status"]["phase"] == "Bound"
        assert volume["spec"]["claimRef"]["uid"] == claim["metadata"]["uid"]
        assert "kubernetes.io/pvc-protection" in claim["metadata"]["finalizers"]
        await bench.client.delete("persistentvolumeclaims", "data", "default")
        await bench.settle()
        assert bench.cluster.read("persistentvolumeclaims", "data", "default") is None
        assert bench.get("persistentvolumes", "data")["status"]["phase"] == "Released"
        await bench.client.delete("persistentvolumes", "data")
        await bench.settle()
        assert bench.cluster.read("persistentvolumes", "data") is None

    on_bench(tmp_path, test)


@pytest.mark.parametrize(("change", "reason"), [("size", "VolumeMismatch"), ("absent", None), ("class", "VolumeMismatch")])
def test_a_claim_that_does_not_match_stays_pending(tmp_path: Path, change: str, reason: str | None) -> None:
    async def test(bench: Bench) -> None:
        volume, claim = s3(size="1Gi" if change == "size" else "1200Gi")
        if change == "class":
            claim["spec"]["storageClassName"] = "other"
        if change == "absent":
            claim["spec"]["volumeName"] = "elsewhere"
        await create(bench, volume, claim)
        assert bench.get("persistentvolumeclaims", "data", "default")["status"]["phase"] == "Pending"
        assert reason is None or reason in [r for r, _ in bench.events()]

    on_bench(tmp_path, test)


def test_a_pod_mounts_s3_only_with_driver_and_bucket(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.machine(kind="ml.m5.4xlarge")
        await create(bench, *s3())
        volumes = [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]
        run = {"command": ["sh", "-c", "echo shared >> /data/file"], "volumeMounts": [{"name": "d", "mountPath": "/data"}]}
        await bench.client.create("pods", pod("p", {RUN: "process"}, container=run, volumes=volumes, restartPolicy="Never"))
        await bench.wait(20)
        failed = [m for r, m in bench.events() if r == "FailedMount"]
        assert "driver name s3.csi.aws.com not found in the list of registered CSI drivers" in failed[0]
        bench.aws.installed = [Addon("aws-mountpoint-s3-csi-driver", "v2", "ACTIVE")]
        await bench.hear()
        await bench.wait(40)
        failed = [m for r, m in bench.events() if r == "FailedMount"]
        assert any('Could not mount "bucket"' in m for m in failed)
        assert bench.get("pods", "p", "default")["status"]["phase"] == "Pending"
        bench.aws.buckets.add("bucket")
        await bench.wait(60)
        await real(bench, "p", "Succeeded")
        assert (bench.cluster.data_dir.parent / "buckets" / "bucket" / "file").read_text() == "shared\n"
        await bench.client.delete("persistentvolumeclaims", "data", "default")
        await bench.settle()
        assert bench.cluster.read("persistentvolumeclaims", "data", "default") is None

    on_bench(tmp_path, test)


def test_a_claim_in_use_waits_for_its_pod(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.machine(kind="ml.m5.4xlarge")
        bench.aws.buckets.add("bucket")
        bench.aws.installed = [Addon("aws-mountpoint-s3-csi-driver", "v2", "ACTIVE")]
        await bench.hear()
        await create(bench, *s3())
        await bench.client.create("pods", pod("p", volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]))
        await bench.wait(40)
        assert bench.get("pods", "p", "default")["status"]["phase"] == "Running"
        await bench.client.delete("persistentvolumeclaims", "data", "default")
        await bench.settle()
        assert bench.get("persistentvolumeclaims", "data", "default")["metadata"]["deletionTimestamp"]
        await bench.client.delete("pods", "p", "default")
        await bench.wait(10)
        assert bench.cluster.read("persistentvolumeclaims", "data", "default") is None

    on_bench(tmp_path, test)


def test_fsx_is_provisioned_after_a_while(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        bench.aws.installed = [Addon("aws-fsx-csi-driver", "v1", "ACTIVE")]
        await bench.hear()
        fast = {
            "metadata": {"name": "fsx"},
            "provisioner": "fsx.csi.aws.com",
            "reclaimPolicy": "Retain",
            "parameters": {"subnetId": "subnet-1"},
        }
        await bench.client.create("storageclasses.storage.k8s.io", fast)
        spec = {"accessModes": ["ReadWriteMany"], "storageClassName": "fsx", "resources": {"requests": {"storage": "1200Gi"}}}
        await bench.client.create("persistentvolumeclaims", {"metadata": {"name": "lustre", "namespace": "default"}, "spec": spec})
        await bench.wait(300)
        assert bench.get("persistentvolumeclaims", "lustre", "default")["status"]["phase"] == "Pending"
        assert "ExternalProvisioning" in [r for r, _ in bench.events()]
        await bench.wait(200)
        claim = bench.get("persistentvolumeclaims", "lustre", "default")
        assert claim["status"]["phase"] == "Bound"
        volume = bench.get("persistentvolumes", claim["spec"]["volumeName"])
        assert volume["spec"]["csi"]["volumeHandle"].startswith("fs-0")
        assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"

    on_bench(tmp_path, test)
