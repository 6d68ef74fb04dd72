"""KubeRay: clusters with heads and workers, jobs whose entrypoint runs, what is refused, and what gets stuck."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.sandbox.kubernetes.loops_bench import Bench, on_bench

from instantstart_sandbox.kubernetes.loops.objects import condition_of

Object = dict[str, Any]
CLUSTERS, JOBS = "rayclusters.ray.io", "rayjobs.ray.io"
RUN = "sandbox.instantstart.dev/run"
BUNDLE = Path(__file__).parents[3] / "src" / "instantstart_sandbox" / "bundles" / "kuberay-operator"


def group(image: str = "rayproject/ray:2.49.0", **container: Any) -> Object:
    return {"template": {"spec": {"containers": [{"name": "ray", "image": image, **container}]}}}


def ray(replicas: int = 2, **worker: Any) -> Object:
    workers = {"groupName": "gpu", "replicas": replicas, "minReplicas": 0, "maxReplicas": 8, "rayStartParams": {}, **group(**worker)}
    return {"rayVersion": "2.49.0", "headGroupSpec": {"rayStartParams": {}, **group()}, "workerGroupSpecs": [workers]}


def job(name: str = "tune", annotations: Object | None = None, **spec: Any) -> Object:
    spec = {"entrypoint": "python /app/train.py", "rayClusterSpec": ray(1), **spec}
    return {"metadata": {"name": name, "namespace": "default", "annotations": annotations or {}}, "spec": spec}


async def install(bench: Bench) -> None:
    await bench.machine(kind="ml.m5.4xlarge")
    for path in sorted(BUNDLE.glob("*.yaml")):
        for obj in yaml.safe_load_all(path.read_text()):
            kind = bench.cluster.catalog.of_kind(obj["apiVersion"], obj["kind"])
            assert kind is not None
            await bench.client.apply(kind.qualified, obj)
    await bench.wait(30)


def status(bench: Bench, name: str = "tune", kind: str = JOBS) -> Object:
    found: Object = bench.get(kind, name, "default").get("status") or {}
    return found


def names(bench: Bench) -> list[str]:
    return sorted(p["metadata"]["name"] for p in bench.pods())


def test_a_cluster_has_a_head_workers_and_a_service(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await install(bench)
        await bench.client.create(CLUSTERS, {"metadata": {"name": "demo", "namespace": "default"}, "spec": ray()})
        await bench.wait(40)
        told = status(bench, "demo", CLUSTERS)
        assert (told["state"], told["desiredWorkerReplicas"], told["readyWorkerReplicas"]) == ("ready", 2, 2)
        cluster = bench.get(CLUSTERS, "demo", "default")
        assert (
            (condition_of(cluster, "HeadPodReady") or {})["status"]
            == (condition_of(cluster, "RayClusterProvisioned") or {})["status"]
            == "True"
        )
        assert [n.rpartition("-")[0] for n in names(bench)] == ["demo-gpu-worker", "demo-gpu-worker", "demo-head"]
        head = bench.get("pods", told["head"]["podName"], "default")
        assert head["metadata"]["labels"]["ray.io/node-type"] == "head"
        assert bench.get("services", "demo-head-svc", "default")["spec"]["selector"]["ray.io/cluster"] == "demo"
        worker = names(bench)[0]
        await bench.client.delete("pods", worker, "default")
        await bench.wait(60)
        assert worker not in names(bench)
        assert len(names(bench)) == 3
        await bench.client.patch(CLUSTERS, "demo", {"spec": {"suspend": True}}, "default")
        await bench.wait(60)
        assert (names(bench), status(bench, "demo", CLUSTERS)["state"]) == ([], "suspended")
        await bench.client.delete(CLUSTERS, "demo", "default")
        await bench.wait(30)
        assert bench.cluster.read("services", "demo-head-svc", "default") is None

    on_bench(tmp_path, test)


def test_stuck_clusters_say_why(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await install(bench)
        spec = ray(1, resources={"limits": {"nvidia.com/gpu": "8"}})
        await bench.client.create(CLUSTERS, {"metadata": {"name": "big", "namespace": "default"}, "spec": spec})
        quota = {"metadata": {"name": "few", "namespace": "team"}, "spec": {"hard": {"pods": "1"}}}
        await bench.client.create("namespaces", {"metadata": {"name": "team"}})
        await bench.client.create("resourcequotas", quota)
        await bench.client.create(CLUSTERS, {"metadata": {"name": "held", "namespace": "team"}, "spec": ray(1)})
        await bench.wait(60)
        assert status(bench, "big", CLUSTERS).get("state") is None
        waiting = next(p for p in bench.pods() if "worker" in p["metadata"]["name"])
        assert "Insufficient nvidia.com/gpu" in (condition_of(waiting, "PodScheduled") or {})["message"]
        held = bench.get(CLUSTERS, "held", "team")
        assert "exceeded quota: few" in (condition_of(held, "ReplicaFailure") or {})["message"]
        assert any(reason == "FailedToCreateWorkerPod" for reason, _ in bench.events("team"))

    on_bench(tmp_path, test)


@pytest.mark.parametrize(
    ("name", "spec", "told"),
    [
        ("x" * 48, {}, "RayJob name should be no more than 47 characters"),
        ("9lives", {}, "DNS1035"),
        ("a", {"ttlSecondsAfterFinished": 5}, "shutdownAfterJobFinishes set to false cannot have TTLSecondsAfterFinished"),
        ("a", {"suspend": True}, "is not allowed to be suspended"),
        ("a", {"clusterSelector": {"ray.io/cluster": "b"}}, "not both"),
        ("a", {"rayClusterSpec": {"headGroupSpec": {"template": {"spec": {"containers": []}}}}}, "at least one container"),
    ],
)
def test_what_the_operator_refuses(tmp_path: Path, name: str, spec: Object, told: str) -> None:
    async def test(bench: Bench) -> None:
        await install(bench)
        await bench.client.create(JOBS, job(name, **spec))
        await bench.wait(5)
        found = status(bench, name)
        assert found["jobDeploymentStatus"] == "ValidationFailed"
        assert told in found["message"]
        assert bench.pods() == []

    on_bench(tmp_path, test)


async def real(bench: Bench, wanted: str, name: str = "tune") -> None:
    end = time.monotonic() + 30
    while status(bench, name).get("jobDeploymentStatus") != wanted and time.monotonic() < end:
        await bench.wait(1)
        await asyncio.sleep(0.02)
    assert status(bench, name).get("jobDeploymentStatus") == wanted, status(bench, name)


def with_script(spec: Object, text: str) -> Object:
    """A RayCluster's spec whose head has a script mounted at /app."""
    pod = spec["headGroupSpec"]["template"]["spec"]
    pod["volumes"] = [{"name": "app", "configMap": {"name": "app"}}]
    pod["containers"][0] |= {"volumeMounts": [{"name": "app", "mountPath": "/app"}], "env": [{"name": "WHO", "value": "you"}]}
    return spec


async def script(bench: Bench, text: str) -> None:
    await bench.client.create("configmaps", {"metadata": {"name": "app", "namespace": "default"}, "data": {"train.py": text}})


def test_a_job_runs_its_entrypoint_as_the_head_would(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await install(bench)
        await script(bench, "import os, sys; print('hello', os.environ['WHO'], sys.argv[1:])")
        wanted = job(entrypoint="python /app/train.py --epochs 2", rayClusterSpec=with_script(ray(1), ""), shutdownAfterJobFinishes=True)
        await bench.client.create(JOBS, wanted | {"spec": {**wanted["spec"], "ttlSecondsAfterFinished": 60}})
        await real(bench, "Complete")
        found = status(bench)
        assert (found["jobStatus"], found["succeeded"]) == ("SUCCEEDED", 1)
        submitter = next(p for p in bench.pods() if p["metadata"]["labels"].get("ray.io/job-submitter"))
        log = bench.cluster.log_path("default", submitter["metadata"]["name"], "ray-job-submitter").read_text()
        assert "hello you ['--epochs', '2']" in log
        assert f"Job '{found['jobId']}' succeeded" in log
        await bench.wait(90)
        assert bench.cluster.read(CLUSTERS, found["rayClusterName"], "default") is None

    on_bench(tmp_path, test)


def test_a_job_that_fails_is_tried_again_on_another_cluster(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await install(bench)
        await script(bench, "raise SystemExit(3)")
        await bench.client.create(JOBS, job(rayClusterSpec=with_script(ray(0), ""), backoffLimit=1))
        await real(bench, "Running")
        first = status(bench)["rayClusterName"]
        await real(bench, "Failed")
        found = status(bench)
        assert (found["jobStatus"], found["reason"], found["failed"]) == ("FAILED", "AppFailed", 2)
        assert found["rayClusterName"] != first

    on_bench(tmp_path, test)


def test_a_job_waits_for_its_cluster_ends_at_its_deadline_and_can_be_suspended(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await install(bench)
        stuck = job("stuck", rayClusterSpec=ray(1, image="registry.invalid/ray:1"), activeDeadlineSeconds=300)
        await bench.client.create(JOBS, stuck)
        asleep = job("asleep", annotations={RUN: "sleep"}, shutdownAfterJobFinishes=True)
        await bench.client.create(JOBS, asleep)
        await bench.wait(100)
        assert status(bench, "stuck")["jobDeploymentStatus"] == "Initializing"
        assert (status(bench, "asleep")["jobDeploymentStatus"], status(bench, "asleep")["jobStatus"]) == ("Running", "RUNNING")
        await bench.client.patch(JOBS, "asleep", {"spec": {"suspend": True}}, "default")
        await bench.wait(60)
        assert status(bench, "asleep")["jobDeploymentStatus"] == "Suspended"
        assert not [n for n in names(bench) if n.startswith("asleep")]
        await bench.client.patch(JOBS, "asleep", {"spec": {"suspend": False}}, "default")
        await bench.wait(200)
        assert status(bench, "asleep")["jobStatus"] == "RUNNING"
        assert (status(bench, "stuck")["jobDeploymentStatus"], status(bench, "stuck")["reason"]) == ("Failed", "DeadlineExceeded")

    on_bench(tmp_path, test)
