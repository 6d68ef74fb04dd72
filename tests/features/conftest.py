"""One standing cluster for all tests of this room; each test switches features off again, or says what it leaves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.clusters.conftest import QUICK, Job, asked
from tests.clusters.conftest import shared_room as shared_room
from tests.clusters.conftest import shared_sandbox as shared_sandbox
from tests.clusters.crank import Crank, Turned
from tests.clusters.worlds import SandboxProcess

from instantstart.capabilities.features import specs, views, workflows
from instantstart.capabilities.room import Room
from instantstart.kube.client import KubeCluster
from instantstart.store.records import ClusterRow
from instantstart_sandbox.world.settings import Settings as Weather

TAG = "feat"


class Features:
    """What a person does with features, by the product's own operations turned by hand."""

    def __init__(self, crank: Crank, sandbox: SandboxProcess, job: Job) -> None:
        self.crank, self.sandbox, self.job, self.room = crank, sandbox, job, crank.room

    def on(self, feature: str, **ask: Any) -> Turned:
        """feature.enable, to its end."""
        return self._run(workflows.ENABLE, feature, {"enabled": True, **ask})

    def off(self, feature: str) -> Turned:
        """feature.disable, to its end."""
        return self._run(workflows.DISABLE, feature, {"enabled": False})

    def _run(self, workflow: Any, feature: str, ask: dict[str, Any]) -> Turned:
        return self.crank.run(workflow, asked(specs.SwitchTarget, self.job.tag, feature=feature, ask=ask))

    def repair(self, *names: str) -> Turned:
        """feature.repair, to its end."""
        return self.crank.run(workflows.REPAIR, asked(specs.RepairTarget, self.job.tag, features=list(names)))

    def upgrade(self, feature: str, version: str) -> Turned:
        """feature.upgrade, to its end."""
        return self.crank.run(workflows.UPGRADE, asked(specs.UpgradeTarget, self.job.tag, feature=feature, version=version))

    def read(self) -> dict[str, views.FeatureView]:
        """Every feature, read anew."""
        self.forget()
        return {item.name: item for item in views.list_features(self.room, self.job.tag).items}

    def forget(self) -> None:
        """Nothing of what is kept for some seconds is kept."""
        for aws in self.room.aws._regions.values():
            aws._kept.clear()

    @property
    def kube(self) -> KubeCluster:
        """The cluster's Kubernetes."""
        return self.job.site.kube(self.room)

    def broken(self) -> list[str]:
        """Every link that does not hold."""
        return [f"{link.chain} {link.link}: {link.detail}" for f in self.read().values() for link in f.identity if link.status != "ok"]


@pytest.fixture(scope="module")
def standing(shared_room: Room, shared_sandbox: SandboxProcess) -> Job:
    """A finished cluster with one node."""
    shared_sandbox.clear()
    shared_sandbox.admin("settings", **{**Weather().dump(), **QUICK})
    shared_sandbox.admin("reset")
    for row in shared_room.store.clusters.list():
        shared_room.store.clusters.delete(row.tag)
    for aws in shared_room.aws._regions.values():
        aws._kept.clear()
    job = Job(Crank(shared_room, shared_sandbox), tag=TAG)
    made = job.create()
    assert made.status == "succeeded", (made.stopped_at, made.problem)
    shared_room.store.clusters.upsert(ClusterRow(tag=TAG, region=job.region))
    return job


@pytest.fixture
def features(standing: Job, shared_sandbox: SandboxProcess) -> Iterator[Features]:
    """Features of the standing cluster, in fair weather."""
    shared_sandbox.clear()
    crank = Crank(standing.crank.room, shared_sandbox)
    yield Features(crank, shared_sandbox, Job(crank, tag=TAG))
    shared_sandbox.clear()
