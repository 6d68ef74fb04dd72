"""Serving pods on a bench: their specs, and calls through the place that a Service or a pod leads to."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any

import httpx2
from tests.sandbox.kubernetes.loops_bench import Bench

from instantstart_sandbox.kubernetes.loops.objects import condition_of

Object = dict[str, Any]
MODEL = "Qwen/Qwen2.5-0.5B-Instruct"
SERVING = "sandbox.instantstart.dev/serving"
HEALTH = {"httpGet": {"path": "/health", "port": "http"}, "periodSeconds": 2}
#: loading takes no time: what is tested is something else
QUICK = {SERVING: "load=0.01"}


def server(*words: str, image: str = "vllm/vllm-openai:v0.11.0", port: int = 8000, gpus: int = 1, **container: Any) -> Object:
    """A pod's spec with a model server; ``words`` are its arguments."""
    main = {
        "name": "main",
        "image": image,
        "args": list(words),
        "ports": [{"name": "http", "containerPort": port}],
        "resources": {"limits": {"nvidia.com/gpu": str(gpus)}} if gpus else {},
        "startupProbe": {**HEALTH, "failureThreshold": 1000},
        "readinessProbe": HEALTH,
        **container,
    }
    return {"containers": [main], "terminationGracePeriodSeconds": 30}


def deployment(name: str, spec: Object, replicas: int = 1, notes: dict[str, str] | None = None, **more: Any) -> Object:
    """A Deployment of it with the label ``app``."""
    template = {"metadata": {"labels": {"app": name}, "annotations": notes or QUICK}, "spec": spec}
    whole = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template, **more}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": whole}


def service(name: str, port: int = 80) -> Object:
    """A Service in front of the pods with that label."""
    spec = {"selector": {"app": name}, "ports": [{"name": "http", "port": port, "targetPort": "http"}]}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


async def gpus(bench: Bench, nodes: int = 1, kind: str = "ml.g5.12xlarge") -> None:
    """Nodes with GPUs that are announced: the device plugin's DaemonSet is there."""
    plugin = {
        "metadata": {"name": "nvidia-device-plugin", "namespace": "kube-system"},
        "spec": {
            "selector": {"matchLabels": {"app": "plugin"}},
            "template": {
                "metadata": {"labels": {"app": "plugin"}},
                "spec": {
                    "tolerations": [{"operator": "Exists"}],
                    "containers": [{"name": "p", "image": "nvidia/k8s-device-plugin:v0.16.1"}],
                },
            },
        },
    }
    await bench.client.create("daemonsets.apps", plugin)
    for number in range(nodes):
        await bench.machine(f"i-0aaaaaaaaaaaaaa{number:02}", kind)
    await bench.wait(30)


async def until(bench: Bench, fact: Callable[[], Any], what: str = "", seconds: float = 2.0) -> Any:
    """Let virtual time pass until something is so."""
    end = time.monotonic() + 30
    while not (found := fact()):
        assert time.monotonic() < end, (what, [(p["metadata"]["name"], p["status"]) for p in bench.pods()], bench.events())
        await bench.wait(seconds)
        await asyncio.sleep(0.02)
    return found


def ready(bench: Bench, name: str, count: int = 1) -> bool:
    """Whether so many pods with the label are ready."""
    pods = [p for p in bench.pods() if (p["metadata"].get("labels") or {}).get("app") == name]
    return sum(1 for p in pods if (condition_of(p, "Ready") or {}).get("status") == "True") >= count


def log_of(bench: Bench, name: str) -> str:
    """All logs of the pods whose names begin so, of this start and the one before."""
    folder = bench.cluster.data_dir / "logs" / "default"
    return "".join(f.read_text() for pod in sorted(folder.glob(f"{name}*")) for f in sorted(pod.glob("*.log")))


async def url(bench: Bench, name: str, kind: str = "services", port: str = "http") -> str:
    """Where a Service or pod leads to now."""
    assert bench.cluster.backend is not None
    found = await bench.cluster.backend(kind, "default", name, port)
    assert found is not None, f"{kind} {name} leads nowhere"
    return f"http://{found[0]}:{found[1]}"


async def call(bench: Bench, name: str, path: str, body: Any = None, **headers: str) -> httpx2.Response:
    """One call through a Service, while the bench goes on."""
    base = await url(bench, name)
    async with httpx2.AsyncClient(timeout=30) as client:
        if body is None:
            return await client.get(base + path, headers=headers)
        return await client.post(base + path, content=json.dumps(body), headers=headers)
