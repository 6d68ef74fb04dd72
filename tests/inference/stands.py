"""A cluster that serves: made once for a module, with the inference operator where it is asked for; its door; and servers of strangers."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from starlette.testclient import TestClient
from tests.capacity.doors import Door, workflow
from tests.clusters.conftest import QUICK, Job
from tests.clusters.crank import Crank, Turned
from tests.clusters.worlds import REGION, SandboxProcess

from instantstart.capabilities.features import specs as features
from instantstart.capabilities.room import Room
from instantstart.kube.client import KubeCluster, Resource
from instantstart_sandbox.world.settings import Settings as Weather

TAG, TYPE = "serving", "ml.g5.8xlarge"
BASE = f"/clusters/{TAG}"
#: a model that a simulated server loads in seconds
SMALL = "Qwen/Qwen2.5-0.5B-Instruct"
VLLM = "vllm/vllm-openai:v0.11.0"
T = TypeVar("T")
_PATIENCE_SECONDS = 60.0


@dataclass
class Stand:
    """The cluster, the engine by hand, and what a test looks at."""

    job: Job
    sandbox: SandboxProcess

    @property
    def crank(self) -> Crank:
        """The engine, by hand."""
        return self.job.crank

    @property
    def room(self) -> Room:
        """The product's room."""
        room: Room = self.crank.room
        return room

    @property
    def kube(self) -> KubeCluster:
        """Its Kubernetes."""
        return self.job.site.kube(self.room)

    def run(self, name: str, until: str | None = None, **spec: Any) -> Turned:
        """An operation, turned by hand to its end or until a stage is done."""
        declared = workflow(name)
        return self.crank.run(declared, declared.spec(tag=TAG, region=REGION, **spec), until)

    def turn(self, name: str, spec: dict[str, Any]) -> Turned:
        """An operation of a spec as the door made it, turned slowly: its servers are real processes, their seconds are the wall's."""
        declared = workflow(name)
        turned = self.crank.run(declared, declared.spec.model_validate(spec), until=declared.stages()[0].name)
        give_up = time.monotonic() + _PATIENCE_SECONDS
        while turned.problem is None and not all(s.done for s in turned.stages.values()):
            assert time.monotonic() < give_up, turned.said[-5:]
            self.crank.turn(turned, ticks=1)
            time.sleep(0.05)
        if turned.problem is None:
            turned.status = "succeeded"
        return turned

    def await_fact(self, look: Callable[[], T | None], seconds: float = 5.0) -> T:
        """Let virtual time pass until something is so."""
        give_up = time.monotonic() + _PATIENCE_SECONDS
        while True:
            found = look()
            if found:
                return found
            assert time.monotonic() < give_up, "it never came to be"
            self.sandbox.warp(seconds)
            time.sleep(0.1)

    def ready(self, name: str, wanted: int = 1, namespace: str = "default") -> Resource:
        """A Deployment with so many ready replicas."""

        def look() -> Resource | None:
            found = self.kube.find("Deployment", name, namespace)
            return found if found and int((found.get("status") or {}).get("readyReplicas") or 0) >= wanted else None

        return self.await_fact(look)


def stand(room: Room, sandbox: SandboxProcess, nodes: int = 2, operator: bool = False) -> Stand:
    """An account made anew, with a cluster in it."""
    sandbox.clear()
    sandbox.admin("settings", **{**Weather().dump(), **QUICK})
    sandbox.admin("reset")
    for row in room.store.clusters.list():
        room.store.clusters.delete(row.tag)
    for aws in room.aws._regions.values():
        aws._kept.clear()
    for zone in "abc":
        sandbox.admin("capacity", instance_type=TYPE, zone=f"us-west-2{zone}", available=200)
    sandbox.admin("quota", service_code="sagemaker", name=f"{TYPE} for cluster usage", value=200)
    job = Job(Crank(room, sandbox), tag=TAG)
    made = job.create(instance_count=nodes)
    assert made.status == "succeeded", made.problem
    if operator:
        on = job.crank.run(
            workflow("feature.enable"),
            features.SwitchTarget(tag=TAG, region=REGION, feature="inference_operator", ask={"enabled": True}),
        )
        assert on.status == "succeeded", (on.stopped_at, on.problem)
    return Stand(job, sandbox)


def door(client: TestClient, room: Room) -> Door:
    """REST calls of an administrator."""
    from instantstart import main

    main.first_admin(room)
    return Door(client, (room.settings.data_dir / main.ADMIN_FILE).read_text().strip())


def stranger(name: str = "theirs", image: str = VLLM, replicas: int = 1, **more: Any) -> Resource:
    """A Deployment that somebody else made, with vLLM in it."""
    labels = {"app": name}
    container = {
        "name": "main",
        "image": image,
        "args": ["--model", SMALL],
        "ports": [{"containerPort": 8000}],
        "readinessProbe": {"httpGet": {"path": "/health", "port": 8000}, "periodSeconds": 2},
        "resources": {"limits": {"nvidia.com/gpu": 1}},
        **more,
    }
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }
