"""Work that goes wrong in the sandbox, made by hand: raw objects, so that each fault is there alone."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tests.capacity.doors import Door
from tests.diagnosis.conftest import BASE
from tests.training.stands import PYTHON, TYPE, Stand

SANDBOX = "sandbox.instantstart.dev/"
_PATIENCE_SECONDS = 90.0


def resources(gpus: int = 1, efa: int = 1) -> dict[str, Any]:
    """Requests that equal their limits."""
    told = {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": str(gpus), "vpc.amazonaws.com/efa": str(efa)}
    told = {name: count for name, count in told.items() if count != "0"}
    return {"requests": told, "limits": told}


def job(name: str, *, pods: int = 2, efa: int = 1, gpus: int = 1, env: dict[str, str] | None = None, **annotations: str) -> dict[str, Any]:
    """A job of HyperPod's operator. ``annotations`` are the sandbox's: ``run``, ``output``, ``image`` (``_`` stands for ``-``)."""
    container = {
        "name": "train",
        "image": PYTHON,
        "command": ["sleep", "600"],
        "env": [{"name": key, "value": value} for key, value in (env or {}).items()],
        "resources": resources(gpus, efa),
    }
    noted = {SANDBOX + key.replace("_", "-"): value for key, value in annotations.items()}
    template = {
        "metadata": {"annotations": noted},
        "spec": {"containers": [container], "nodeSelector": {"node.kubernetes.io/instance-type": TYPE}},
    }
    return {
        "apiVersion": "sagemaker.amazonaws.com/v1",
        "kind": "HyperPodPyTorchJob",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "nprocPerNode": "1",
            "replicaSpecs": [{"name": "pods", "replicas": pods, "template": template}],
            "runPolicy": {"cleanPodPolicy": "None", "jobMaxRetryCount": 0, "ttlSecondsAfterFinished": -1},
        },
    }


def server(name: str, *command: str, image: str = "vllm/vllm-openai:v0.11.0", **annotations: str) -> dict[str, Any]:
    """A Deployment of a model server that somebody made."""
    labels = {"app": name}
    probe = {"httpGet": {"path": "/health", "port": 8000}}
    container = {
        "name": "server", "image": image, "command": list(command), "resources": resources(efa=0),
        "ports": [{"containerPort": 8000}], "readinessProbe": probe,
    }  # fmt: skip
    noted = {SANDBOX + key.replace("_", "-"): value for key, value in annotations.items()}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels, "annotations": noted}, "spec": {"containers": [container]}},
        },
    }


def first(told: dict[str, Any]) -> tuple[str, str]:
    """Code and confidence of the cause that ranks first."""
    assert told["causes"], told
    cause = told["causes"][0]
    assert cause["next_steps"][0]["rung"] == "investigate"
    return cause["code"], cause["confidence"]


def diagnosed(cluster: Stand, door: Door, path: str, wanted: Callable[[dict[str, Any]], bool], **query: Any) -> dict[str, Any]:
    """The diagnosis, once it is what is waited for; virtual time passes between looks."""
    end = time.monotonic() + _PATIENCE_SECONDS
    while True:
        cluster.forget()
        told: dict[str, Any] = door.get(BASE + path, **query)
        if wanted(told):
            return told
        assert time.monotonic() < end, told
        cluster.sandbox.warp(5)
        time.sleep(0.1)


def with_code(code: str) -> Callable[[dict[str, Any]], bool]:
    """Whether a cause of that code ranks first."""
    return lambda told: bool(told["causes"]) and told["causes"][0]["code"] == code
