"""Running for real: warps, processes that outlive a killed sandbox, ports, limits."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.sandbox.kubernetes.loops_bench import START, Bench, FakeAws, instance, on_bench, pod_spec, workload

from instantstart_sandbox.kubernetes.kubelet import processes
from instantstart_sandbox.kubernetes.loops.engine import Controller, Engine
from instantstart_sandbox.kubernetes.loops.objects import seconds_of

RUN = "sandbox.instantstart.dev/run"
Object = dict[str, Any]


def test_a_long_warp_unfolds_in_order(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.machine(kind="ml.m5.4xlarge")
        job = workload(
            "Job", "train", annotations={RUN: "exit 0 after 600"}, pod=pod_spec(restartPolicy="Never"), completions=3, parallelism=1
        )
        await bench.client.create("jobs.batch", job)
        await bench.settle()
        bench.clock.warp(86_400)
        running = asyncio.create_task(bench.engine.work())
        end = time.monotonic() + 20
        while not bench.get("jobs.batch", "train", "default")["status"].get("completionTime") and time.monotonic() < end:
            await asyncio.sleep(0.05)
        running.cancel()
        status = bench.get("jobs.batch", "train", "default")["status"]
        assert status["succeeded"] == 3
        took = seconds_of(status["completionTime"]) - seconds_of(status["startTime"])
        assert 1800 <= took < 1900
        made = sorted(seconds_of(p["metadata"]["creationTimestamp"]) for p in bench.pods())
        assert 600 <= made[1] - made[0] < 640

    on_bench(tmp_path, test)


def test_a_controller_that_breaks_is_tried_again_and_counted(tmp_path: Path) -> None:
    class Broken(Controller):
        name = "broken"
        watched = ("configmaps",)
        calls = 0

        def keys(self, resource: str, obj: Object) -> list[str]:
            return [obj["metadata"]["name"]] if obj["metadata"]["name"] == "x" else []

        async def reconcile(self, key: str) -> None:
            type(self).calls += 1
            if self.calls < 3:
                raise RuntimeError("boom")

    async def test(bench: Bench) -> None:
        engine = Engine(bench.cluster)
        engine.add(Broken(engine))
        engine.begin()
        await bench.client.create("configmaps", {"metadata": {"name": "x", "namespace": "default"}})
        bench.engine = engine
        await bench.wait(10)
        assert Broken.calls == 3
        assert [c.split(":")[0] for c in bench.cluster.crashes] == ["controller broken on x"] * 2
        bench.cluster.crashes.clear()

    on_bench(tmp_path, test)


def test_a_process_sees_no_secret_of_the_sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "do-not-leak")

    async def test(bench: Bench) -> None:
        await bench.machine(kind="ml.m5.4xlarge")
        made = {"metadata": {"name": "p", "namespace": "default", "annotations": {RUN: "process"}}}
        made["spec"] = pod_spec(restartPolicy="Never", container={"command": ["env"]})
        await bench.client.create("pods", made)
        await until(bench, "p", "Succeeded")
        text = bench.cluster.log_path("default", "p", "main").read_text()
        assert "HOSTNAME=p" in text
        assert "do-not-leak" not in text

    on_bench(tmp_path, test)


async def until(bench: Bench, name: str, phase: str) -> None:
    end = time.monotonic() + 20
    while bench.get("pods", name, "default")["status"]["phase"] != phase:
        assert time.monotonic() < end, bench.get("pods", name, "default")["status"]
        await bench.wait(1)
        await asyncio.sleep(0.02)


def test_a_pods_port_is_reached_directly_and_through_its_service(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]

    async def test(bench: Bench) -> None:
        await bench.machine(kind="ml.m5.4xlarge")
        command = [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1"]
        container = {"command": command, "ports": [{"name": "http", "containerPort": port}]}
        made = {"metadata": {"name": "p", "namespace": "default", "labels": {"app": "p"}, "annotations": {RUN: "process"}}}
        await bench.client.create("pods", {**made, "spec": pod_spec(container=container)})
        ports = [{"name": "web", "port": 80, "targetPort": "http"}]
        await bench.client.create(
            "services", {"metadata": {"name": "s", "namespace": "default"}, "spec": {"selector": {"app": "p"}, "ports": ports}}
        )
        await until(bench, "p", "Running")
        backend = bench.cluster.backend
        assert backend is not None
        end = time.monotonic() + 20
        while await backend("pods", "default", "p", "http") is None:
            assert time.monotonic() < end, "the server never listened"
            await asyncio.sleep(0.02)
        assert await backend("pods", "default", "p", "http") == ("127.0.0.1", port)
        assert await backend("services", "default", "s", "web") == ("127.0.0.1", port)
        assert await backend("services", "default", "s", "nothing") is None
        assert await backend("pods", "default", "gone", "80") is None

    on_bench(tmp_path, test)


SCRIPT = """
import asyncio, sys
from pathlib import Path
from tests.sandbox.kubernetes.loops_bench import Bench, on_bench, pod_spec

async def test(bench: Bench) -> None:
    await bench.machine(kind="ml.m5.4xlarge")
    command = ["sh", "-c", "setsid sleep 600 & echo $!; sleep 600"]
    made = {"metadata": {"name": "p", "namespace": "default", "annotations": {"sandbox.instantstart.dev/run": "process"}}}
    await bench.client.create("pods", {**made, "spec": pod_spec(container={"command": command})})
    await bench.wait(10)
    log = bench.cluster.log_path("default", "p", "main")
    while not log.read_text():
        await asyncio.sleep(0.05)
    print(log.read_text().split()[1], flush=True)
    await asyncio.sleep(600)

on_bench(Path(sys.argv[1]), test)
"""


def alive(pid: int) -> bool:
    state = Path(f"/proc/{pid}/stat")
    return state.exists() and state.read_text().rpartition(")")[2].split()[0] != "Z"


def test_what_a_killed_sandbox_left_running_is_killed_at_the_next_start(tmp_path: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(tmp_path)], stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": "."}
    )
    assert child.stdout is not None
    stray = int(child.stdout.readline())
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    assert alive(stray)

    async def test(bench: Bench) -> None:
        end = time.monotonic() + 10
        while alive(stray) and time.monotonic() < end:
            await asyncio.sleep(0.02)
        assert not alive(stray)
        await bench.wait(2)
        found = bench.get("pods", "p", "default")["status"]["containerStatuses"][0]
        assert found["lastState"]["terminated"]["reason"] == "Unknown"

    aws = FakeAws()
    aws.machines = [instance()]
    on_bench(tmp_path, test, aws, start=START + 3600)


def test_leftovers_of_other_folders_are_left_alone(tmp_path: Path) -> None:
    other = subprocess.Popen(["sleep", "60"], env={processes.MARK: "/elsewhere/pods/x"})
    try:
        assert processes.kill_leftovers(tmp_path) == 0
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()
