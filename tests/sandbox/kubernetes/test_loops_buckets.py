"""A process that mounts a bucket reads its objects, and what it writes becomes objects."""

# ruff: noqa: N803 - boto3 names its parameters so
from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.sandbox.kubernetes.loops_bench import Bench, FakeAws, on_bench, pod_spec
from tests.sandbox.kubernetes.test_loops_pods import RUN, real
from tests.sandbox.kubernetes.test_loops_volumes import create, s3

from instantstart_sandbox.kubernetes.kubelet.buckets import BucketFolder
from instantstart_sandbox.world.seams import Addon, BucketWorld


class Shelf:
    """As much of an S3 client as a mount needs."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.writes = 0

    def put_object(self, Bucket: str, Key: str, Body: bytes) -> dict[str, Any]:
        self.objects[Key] = Body
        self.writes += 1
        return {"ETag": str(hash(Body))}

    def get_object(self, Bucket: str, Key: str) -> dict[str, Any]:
        return {"Body": io.BytesIO(self.objects[Key])}

    def delete_object(self, Bucket: str, Key: str) -> None:
        del self.objects[Key]

    def get_paginator(self, operation: str) -> Shelf:
        return self

    def paginate(self, Bucket: str, Prefix: str) -> Iterator[dict[str, Any]]:
        for key, body in sorted(self.objects.items()):
            if key.startswith(Prefix):
                yield {"Contents": [{"Key": key, "ETag": str(hash(body))}]}


class AwsWithS3(FakeAws):
    """AWS whose buckets have contents."""

    def __init__(self) -> None:
        super().__init__()
        self.shelf = Shelf()
        self.buckets.add("bucket")
        self.installed = [Addon("aws-mountpoint-s3-csi-driver", "v2", "ACTIVE")]

    def bucket_client(self) -> Any:
        return self.shelf


def test_both_sides_are_carried_over_once(tmp_path: Path) -> None:
    shelf = Shelf()
    shelf.objects = {"run/a": b"1", "run/deep/b": b"2", "run/dir/": b"", "other": b"x", "run/../../evil": b"x"}
    folder = BucketFolder("bucket", "run/", tmp_path / "files", tmp_path / "index.json")
    folder.sync(shelf)
    assert (tmp_path / "files" / "deep" / "b").read_bytes() == b"2"
    assert not (tmp_path.parent / "evil").exists()
    assert shelf.writes == 0
    (tmp_path / "files" / "new").write_bytes(b"3")
    (tmp_path / "files" / "a").unlink()
    shelf.objects["run/deep/b"] = b"changed"
    folder.sync(shelf)
    assert shelf.objects["run/new"] == b"3"
    assert "run/a" not in shelf.objects
    assert (tmp_path / "files" / "deep" / "b").read_bytes() == b"changed"
    del shelf.objects["run/new"]
    folder.sync(shelf)
    assert not (tmp_path / "files" / "new").exists()
    folder.sync(shelf)
    assert shelf.writes == 1


def test_a_process_works_on_a_bucket(tmp_path: Path) -> None:
    aws = AwsWithS3()
    aws.shelf.objects["in.txt"] = b"from S3\n"
    assert isinstance(aws, BucketWorld)

    async def test(bench: Bench) -> None:
        await bench.machine(kind="ml.m5.4xlarge")
        await create(bench, *s3())
        volumes = [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]
        command = ["sh", "-c", "cat /data/in.txt; mkdir /data/ckpt; echo weights > /data/ckpt/1"]
        run = {"command": command, "volumeMounts": [{"name": "d", "mountPath": "/data"}]}
        made = {"metadata": {"name": "p", "namespace": "default", "annotations": {RUN: "process"}}}
        await bench.client.create("pods", {**made, "spec": pod_spec(container=run, volumes=volumes, restartPolicy="Never")})
        await bench.wait(40)
        await real(bench, "p", "Succeeded")
        assert bench.cluster.log_path("default", "p", "main").read_text().split(" ", 1)[1] == "from S3\n"
        assert aws.shelf.objects["ckpt/1"] == b"weights\n"

    on_bench(tmp_path, test, aws)
