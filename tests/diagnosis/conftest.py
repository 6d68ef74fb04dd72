"""One standing cluster for a module, and the door beside it: what is wrong is really made wrong in the sandbox."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient
from tests.capacity.doors import Door
from tests.clusters.conftest import crank, job, room, sandbox, shared_room, shared_sandbox
from tests.clusters.worlds import SandboxProcess
from tests.training.stands import TAG, Stand, stand

from instantstart import main
from instantstart.capabilities.room import Room

__all__ = ["crank", "job", "room", "sandbox", "shared_room", "shared_sandbox"]
BASE = f"/clusters/{TAG}"


@pytest.fixture(scope="module")
def door(shared_room: Room) -> Iterator[Door]:
    """The app as the process serves it; its engine is not launched."""
    token = main.first_admin(shared_room)
    assert token
    secret = (shared_room.settings.data_dir / main.ADMIN_FILE).read_text().strip()
    with TestClient(main.application(shared_room), base_url="http://127.0.0.1:3099", raise_server_exceptions=False) as client:
        yield Door(client, secret)


@pytest.fixture(scope="module")
def standing(shared_room: Room, shared_sandbox: SandboxProcess) -> Stand:
    """Two nodes with a GPU and an EFA card each, training operator, KubeRay."""
    return stand(shared_room, shared_sandbox)


@pytest.fixture
def cluster(standing: Stand) -> Iterator[Stand]:
    """The cluster without a job, in fair weather."""
    standing.sandbox.clear()
    standing.forget()
    yield standing
    standing.sandbox.clear()
    standing.clear()
