"""A cluster that stands, made once for each module; its door; and the engine turned by hand beside it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient
from tests.capacity.doors import Door
from tests.clusters.conftest import QUICK, Job, shared_room, shared_sandbox
from tests.clusters.crank import Crank
from tests.clusters.worlds import SandboxProcess

from instantstart import main
from instantstart.capabilities.room import Room
from instantstart_sandbox.world.settings import Settings as Weather

__all__ = ["shared_room", "shared_sandbox"]


@pytest.fixture(scope="module")
def door(shared_room: Room) -> Iterator[Door]:
    """The app as the process serves it; what it accepts is queued, and turned by hand."""
    token = main.first_admin(shared_room)
    assert token
    secret = (shared_room.settings.data_dir / main.ADMIN_FILE).read_text().strip()
    with TestClient(main.application(shared_room), base_url="http://127.0.0.1:3099", raise_server_exceptions=False) as client:
        yield Door(client, secret)


@pytest.fixture(scope="module")
def standing(shared_room: Room, shared_sandbox: SandboxProcess) -> Job:
    """One finished cluster with one node in the group ``workers``."""
    shared_sandbox.clear()
    shared_sandbox.admin("settings", **{**Weather().dump(), **QUICK})
    shared_sandbox.admin("reset")
    for aws in shared_room.aws._regions.values():
        aws._kept.clear()
    job = Job(Crank(shared_room, shared_sandbox), tag="standing")
    made = job.create()
    assert made.status == "succeeded", made.problem
    for name in ("ml.g5.8xlarge", "ml.m5.2xlarge", "ml.p5.48xlarge"):
        shared_sandbox.admin("quota", service_code="sagemaker", name=f"{name} for cluster usage", value=200)
        shared_sandbox.admin("quota", service_code="sagemaker", name=f"{name} for spot cluster usage", value=200)
        for zone in "abc":
            shared_sandbox.admin("capacity", instance_type=name, zone=f"us-west-2{zone}", available=200)
    return job


@pytest.fixture
def crank(standing: Job, shared_sandbox: SandboxProcess) -> Iterator[Crank]:
    """The engine, by hand, in fair weather, on the cluster that stands; nothing is remembered of the test before."""
    shared_sandbox.clear()
    standing.site.aws._kept.clear()
    yield standing.crank
    shared_sandbox.clear()
