"""A cluster that trains: made once for a module, with the training operator and KubeRay; jobs submitted by hand, their processes real."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from tests.clusters.conftest import QUICK, Job
from tests.clusters.crank import Crank, Turned
from tests.clusters.worlds import REGION, SandboxProcess

from instantstart.base import problems
from instantstart.capabilities.features import specs as features
from instantstart.capabilities.features import workflows as feature_workflows
from instantstart.capabilities.room import Room
from instantstart.capabilities.training.jobs import details, plans, specs, views, workflows
from instantstart.ensure.sites import Site
from instantstart.kube.client import KubeCluster
from instantstart.store.records import ClusterRow
from instantstart_sandbox.world.settings import Settings as Weather

TAG, TYPE = "training", "ml.g5.8xlarge"
#: an image whose containers the sandbox really runs: all it has is Python
PYTHON = "public.ecr.aws/docker/library/python:3.12"
_PATIENCE_SECONDS = 60.0
T = TypeVar("T")


def hello(*lines: str) -> dict[str, Any]:
    """A recipe that prints lines and ends well."""
    return {"framework": "container", "command": ["python3", "-c", "; ".join(f"print({line!r}, flush=True)" for line in lines)]}


def sleeper(seconds: int = 600) -> dict[str, Any]:
    """A recipe that goes on."""
    return {"framework": "container", "command": ["python3", "-c", f"import time; print('loss=1.0', flush=True); time.sleep({seconds})"]}


@dataclass
class Stand:
    """The cluster, the engine by hand, and what a test looks at."""

    job: Job
    sandbox: SandboxProcess

    @property
    def room(self) -> Room:
        """The product's room."""
        room: Room = self.job.crank.room
        return room

    @property
    def where(self) -> Site:
        """Where the cluster lives."""
        return self.job.site

    @property
    def kube(self) -> KubeCluster:
        """Its Kubernetes."""
        return self.where.kube(self.room)

    def target(self, name: str, **more: Any) -> specs.SubmitTarget:
        """A job as the door would ask for it."""
        told = {"name": name, "image": PYTHON, "instance_type": TYPE, "recipe": sleeper(), **more}
        return specs.SubmitTarget.model_validate({"tag": TAG, "region": REGION, **told}, strict=False)

    def submit(self, name: str, until: str | None = None, **more: Any) -> Turned:
        """Submit and turn to its end (it runs), or until a stage is done; pods are real processes, so it is turned slowly."""
        self.forget()
        turned = self.job.crank.run(workflows.SUBMIT_TRAINING_JOB, self.target(name, **more), until=until or "submit")
        return turned if until or turned.problem else self.turn(turned)

    def turn(self, turned: Turned) -> Turned:
        """Go on slowly to the end."""
        end = time.monotonic() + _PATIENCE_SECONDS
        while turned.problem is None and not all(s.done for s in turned.stages.values()):
            assert time.monotonic() < end, turned.said[-5:]
            self.job.crank.turn(turned, ticks=1)
            time.sleep(0.05)
        return turned

    def tick(self, turned: Turned, times: int = 1) -> str:
        """Look some times more; what was said last."""
        self.forget()
        self.job.crank.turn(turned, ticks=times)
        return turned.said[-1][1] if turned.said else ""

    def get(self, name: str, kind: str = "pytorch") -> details.TrainingJobDetail:
        """One job in full, read anew."""
        self.forget()
        return details.get_job(self.room, TAG, kind, "default", name)

    def until(self, look: Callable[[], T], wanted: Callable[[T], bool], warp: float = 5.0) -> T:
        """Look until what is seen is wanted, virtual time passing between."""
        end = time.monotonic() + _PATIENCE_SECONDS
        while True:
            seen = look()
            if wanted(seen):
                return seen
            assert time.monotonic() < end, seen
            self.sandbox.warp(warp)
            time.sleep(0.1)

    def status(self, name: str, *wanted: str, kind: str = "pytorch") -> details.TrainingJobDetail:
        """The job, once it is in one of these."""
        return self.until(lambda: self.get(name, kind), lambda seen: seen.job.status in wanted)

    def end(self, name: str, kind: str = "pytorch") -> Turned:
        """End a job and see it gone."""
        told = specs.JobTarget(tag=TAG, region=REGION, kind=kind, namespace="default", name=name, uid="")
        target = plans.prepare_end(self.room, self.where, told).target
        return self.turn(self.job.crank.run(workflows.DELETE_TRAINING_JOB, target, until="remove"))

    def clear(self) -> None:
        """End every job."""
        for item in views.list_jobs(self.room, TAG, views.Filters(), 200, None).items:
            self.end(item.name, item.kind)

    def forget(self) -> None:
        """Nothing of what is kept for some seconds is kept."""
        for aws in self.room.aws._regions.values():
            aws._kept.clear()
        self.room.rosters.clear()


def stand(room: Room, sandbox: SandboxProcess, nodes: int = 2) -> Stand:
    """A finished cluster with nodes, the training operator and KubeRay: the one that the file before left, or made anew."""
    sandbox.clear()
    left = Stand(Job(Crank(room, sandbox), tag=TAG), sandbox)
    if room.store.clusters.find(TAG) is not None and _stands(left, nodes):
        return left
    sandbox.admin("settings", **{**Weather().dump(), **QUICK})
    sandbox.admin("reset")
    for row in room.store.clusters.list():
        room.store.clusters.delete(row.tag)
    for aws in room.aws._regions.values():
        aws._kept.clear()
    job = Job(Crank(room, sandbox), tag=TAG)
    made = job.create(instance_count=nodes)
    assert made.status == "succeeded", (made.stopped_at, made.problem)
    room.store.clusters.upsert(ClusterRow(tag=TAG, region=job.region))
    for feature in ("training_operator", "kuberay"):
        asked = features.SwitchTarget(tag=TAG, region=job.region, feature=feature, ask={"enabled": True})
        turned = job.crank.run(feature_workflows.ENABLE, asked)
        assert turned.status == "succeeded", (feature, turned.stopped_at, turned.problem)
    return Stand(job, sandbox)


def _stands(left: Stand, nodes: int) -> bool:
    """Whether the account still has that cluster: another file may have emptied it meanwhile."""
    left.forget()
    try:
        return len(left.kube.list("Node")) == nodes and left.kube.serves("ray.io/v1/RayJob")
    except problems.Problem:
        return False
