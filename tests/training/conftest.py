"""One standing cluster for each module of this room."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.clusters.conftest import shared_room as shared_room
from tests.clusters.conftest import shared_sandbox as shared_sandbox
from tests.clusters.worlds import SandboxProcess
from tests.training.stands import Stand, stand

from instantstart.capabilities.room import Room


@pytest.fixture(scope="module")
def standing(shared_room: Room, shared_sandbox: SandboxProcess) -> Stand:
    """Two nodes with a GPU and an EFA card each, training operator, KubeRay."""
    return stand(shared_room, shared_sandbox)


@pytest.fixture
def cluster(standing: Stand) -> Iterator[Stand]:
    """The cluster without a job."""
    standing.sandbox.clear()
    yield standing
    standing.clear()
