"""Kueue's gate: what has a queue waits for quota, and says what it waits for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.sandbox.kubernetes.loops_bench import Bench, on_bench, pod_spec, workload
from tests.sandbox.kubernetes.test_training_operator import JOBS, condition, install, job, phase

from instantstart_sandbox.kubernetes.loops.objects import condition_of
from instantstart_sandbox.kubernetes.queues import CLUSTER, LABEL, LOCAL, WORKLOADS
from instantstart_sandbox.world.seams import Addon

Object = dict[str, Any]
RUN = "sandbox.instantstart.dev/run"
ADDONS = ("amazon-sagemaker-hyperpod-training-operator", "amazon-sagemaker-hyperpod-taskgovernance")


async def govern(bench: Bench, cpu: str = "4") -> None:
    await install(bench)
    bench.aws.installed = [Addon(name, "v1.2.0-eksbuild.1", "ACTIVE") for name in ADDONS]
    await bench.hear()
    await bench.wait(30)
    flavors = [{"name": "default", "resources": [{"name": "cpu", "nominalQuota": cpu}]}]
    await bench.client.create(
        CLUSTER, {"metadata": {"name": "team"}, "spec": {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": flavors}]}}
    )
    await bench.client.create(LOCAL, {"metadata": {"name": "team-queue", "namespace": "default"}, "spec": {"clusterQueue": "team"}})


def queued(name: str, queue: str = "team-queue", **more: Any) -> Object:
    container = {"resources": {"requests": {"cpu": "1500m"}, "limits": {"cpu": "1500m"}}}
    made = job(name, container=container, **more)
    made["metadata"]["labels"] = {LABEL: queue}
    return made


def reserved(bench: Bench, name: str) -> Object:
    found = next(w for w in bench.cluster.read_all(WORKLOADS, "default") if w["metadata"]["ownerReferences"][0]["name"] == name)
    return condition_of(found, "QuotaReserved") or {}


def test_jobs_are_admitted_as_quota_comes_free(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await govern(bench)
        await bench.client.create(JOBS, queued("first", notes={RUN: "exit 0 after 100"}))
        await bench.wait(1)
        await bench.client.create(JOBS, queued("second"))
        await bench.wait(30)
        assert (phase(bench, "first"), phase(bench, "second")) == ("Running", "Suspended")
        assert {p["metadata"]["labels"]["HPJob"] for p in bench.pods()} == {"first"}
        assert reserved(bench, "first")["status"] == "True"
        waits = "couldn't assign flavors to pod set pods: insufficient unused quota for cpu in flavor default, 2 more needed"
        assert reserved(bench, "second")["message"] == waits
        assert condition(bench, "Suspended", "second")["reason"] == "JobInitiallySuspended"
        assert ("Started", "Admitted by clusterQueue team") in bench.events()
        await bench.wait(120)
        assert (phase(bench, "first"), phase(bench, "second")) == ("Completed", "Running")

    on_bench(tmp_path, test)


def test_queues_that_admit_nothing_say_so(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await govern(bench, cpu="2")
        await bench.client.create(JOBS, queued("lost", queue="nowhere"))
        await bench.client.create(JOBS, queued("large"))
        plain = workload("Job", "batch", pod=pod_spec(restartPolicy="Never", container={"resources": {"requests": {"cpu": "1"}}}))
        plain["metadata"]["labels"] = {LABEL: "team-queue"}
        await bench.client.create("jobs.batch", plain)
        await bench.wait(30)
        assert reserved(bench, "lost")["message"] == "LocalQueue nowhere doesn't exist"
        assert "request > maximum capacity (3 > 2)" in reserved(bench, "large")["message"]
        assert reserved(bench, "batch")["status"] == "True"
        assert [p["metadata"]["labels"].get("app") for p in bench.pods()] == ["batch"]

    on_bench(tmp_path, test)
