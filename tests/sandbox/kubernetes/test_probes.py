"""Pods' own addresses, and probes that are really made."""

from __future__ import annotations

import asyncio
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.sandbox.kubernetes.loops_bench import Bench, on_bench, pod_spec

from instantstart_sandbox.kubernetes.kubelet import probes
from instantstart_sandbox.kubernetes.loops.objects import condition_of

Object = dict[str, Any]
RUN = "sandbox.instantstart.dev/run"
#: answers 200 under /health while the file named by its second argument is not there, else 503
SERVER = """
import http.server, os, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(503 if os.path.exists(sys.argv[2]) else 200)
        self.end_headers()
        self.wfile.write(os.environ["INSTANTSTART_SANDBOX_POD_IP"].encode())
http.server.HTTPServer((os.environ["INSTANTSTART_SANDBOX_POD_IP"], int(sys.argv[1])), Handler).serve_forever()
"""


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def server(name: str, port: int, sick: Path, **container: Any) -> Object:
    given = {"command": [sys.executable, "-c", SERVER, str(port), str(sick)], "ports": [{"containerPort": port}], **container}
    metadata = {"name": name, "namespace": "default", "labels": {"app": "web"}, "annotations": {RUN: "process"}}
    return {"metadata": metadata, "spec": pod_spec(container=given, terminationGracePeriodSeconds=5)}


async def until(bench: Bench, fact: Callable[[], Any], seconds: float = 1.0) -> Any:
    """Let virtual time pass, second by second, until something is so."""
    end = time.monotonic() + 20
    while not (found := fact()):
        assert time.monotonic() < end, [p["status"] for p in bench.pods()]
        await bench.wait(seconds)
        await asyncio.sleep(0.02)
    return found


def ready(bench: Bench, name: str) -> bool:
    return (condition_of(bench.get("pods", name, "default"), "Ready") or {}).get("status") == "True"


def test_two_pods_listen_on_one_port_and_a_service_leads_to_both(tmp_path: Path) -> None:
    port, probe = free_port(), {"httpGet": {"path": "/health", "port": 0}, "periodSeconds": 1}
    probe["httpGet"]["port"] = port  # type: ignore[index]

    async def test(bench: Bench) -> None:
        await bench.machine(kind="ml.m5.4xlarge")
        for name in ("a", "b"):
            await bench.client.create("pods", server(name, port, tmp_path / "never", readinessProbe=probe))
        spec = {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": port}]}
        await bench.client.create("services", {"metadata": {"name": "s", "namespace": "default"}, "spec": spec})
        await until(bench, lambda: ready(bench, "a") and ready(bench, "b"))
        own = {p["status"]["podIP"] for p in bench.pods()}
        assert len(own) == 2
        assert all(ip.startswith("127.") and not ip.startswith("127.0.") for ip in own)
        backend = bench.cluster.backend
        assert backend is not None
        assert {await backend("services", "default", "s", "80") for _ in range(2)} == {(ip, port) for ip in own}
        found = await backend("pods", "default", "a", str(port))
        assert found == (bench.get("pods", "a", "default")["status"]["podIP"], port)

    on_bench(tmp_path, test)


def test_a_pod_that_does_not_listen_is_never_taken_for_its_neighbour(tmp_path: Path) -> None:
    port = free_port()

    async def test(bench: Bench) -> None:
        await bench.machine(kind="ml.m5.4xlarge")
        command = [sys.executable, "-m", "http.server", str(port), "--bind", "0.0.0.0"]
        await bench.client.create("pods", server("a", port, tmp_path, command=command))
        await bench.client.create("pods", server("b", port, tmp_path, command=["sleep", "600"]))
        backend = bench.cluster.backend
        assert backend is not None
        await bench.wait(10)
        end = time.monotonic() + 20
        while await backend("pods", "default", "a", str(port)) is None:
            assert time.monotonic() < end
            await asyncio.sleep(0.02)
        assert await backend("pods", "default", "b", str(port)) is None

    on_bench(tmp_path, test)


def test_readiness_follows_the_answers_and_liveness_restarts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "YOUNG_REAL_SECONDS", 0.0)
    port, sick = free_port(), tmp_path / "sick"
    get = {"httpGet": {"path": "/health", "port": port}, "periodSeconds": 2}

    async def test(bench: Bench) -> None:
        await bench.machine(kind="ml.m5.4xlarge")
        made = server(
            "a",
            port,
            sick,
            startupProbe={**get, "failureThreshold": 1000},
            readinessProbe={**get, "failureThreshold": 2},
            livenessProbe={**get, "failureThreshold": 6},
        )
        await bench.client.create("pods", made)
        await until(bench, lambda: bench.get("pods", "a", "default").get("status", {}).get("phase") == "Running")
        assert bench.get("pods", "a", "default")["status"]["containerStatuses"][0]["started"] is False
        await until(bench, lambda: ready(bench, "a"))
        sick.touch()
        await until(bench, lambda: not ready(bench, "a"))
        assert bench.get("pods", "a", "default")["status"]["containerStatuses"][0]["restartCount"] == 0
        await until(bench, lambda: bench.get("pods", "a", "default")["status"]["containerStatuses"][0]["restartCount"] == 1)
        sick.unlink()
        await until(bench, lambda: ready(bench, "a"))
        words = bench.events()
        assert ("Killing", "Container main failed liveness probe, will be restarted") in words
        assert ("Unhealthy", "Readiness probe failed: HTTP probe failed with statuscode: 503") in words

    on_bench(tmp_path, test)


def test_a_command_is_a_probe_too(tmp_path: Path) -> None:
    there = tmp_path / "there"

    async def test(bench: Bench) -> None:
        await bench.machine(kind="ml.m5.4xlarge")
        probe = {"exec": {"command": ["test", "-e", str(there)]}, "periodSeconds": 2}
        await bench.client.create("pods", server("a", 1, there, command=["sleep", "600"], readinessProbe=probe))
        await bench.wait(20)
        assert not ready(bench, "a")
        there.touch()
        await until(bench, lambda: ready(bench, "a"))

    on_bench(tmp_path, test)
