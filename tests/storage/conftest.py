"""A standing cluster, and the fixtures of the clusters' room that made it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import pytest
from tests.clusters.conftest import Job, crank, job, room, sandbox, shared_room, shared_sandbox  # noqa: F401 - fixtures
from tests.clusters.crank import Crank, Turned
from tests.clusters.worlds import REGION, SandboxProcess

from instantstart.capabilities.room import Room
from instantstart.ensure.sites import Site
from instantstart.kube.client import KubeCluster
from instantstart.operations.declare import Workflow


@dataclass
class Standing:
    """A verified cluster ``demo``, and the engine by hand."""

    crank: Crank
    sandbox: SandboxProcess
    where: Site

    @property
    def room(self) -> Room:
        """The product's room."""
        return cast("Room", self.crank.room)

    @property
    def kube(self) -> KubeCluster:
        """Its Kubernetes."""
        return self.where.kube(self.room)

    def run(self, workflow: Workflow, target: type[Any], **asked: Any) -> Turned:
        """Turn an operation to its end."""
        return self.crank.run(workflow, target(tag="demo", region=REGION, **asked))


@pytest.fixture
def standing(job: Job, sandbox: SandboxProcess) -> Standing:  # noqa: F811 - the fixtures above
    """Made anew for each test."""
    made = job.create()
    assert made.status == "succeeded", (made.stopped_at, made.problem)
    return Standing(job.crank, sandbox, job.site)
