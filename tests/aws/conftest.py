"""A sandbox of this room's own, an empty account for each test, and the gate at the end of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.aws import ledgers
from tests.clusters.conftest import QUICK
from tests.clusters.worlds import SandboxProcess

from instantstart_sandbox.world.settings import Settings as Weather


@pytest.fixture(scope="session")
def running_sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxProcess]:
    """Started once for the room."""
    made = SandboxProcess(tmp_path_factory.mktemp("world"))
    made.start()
    yield made
    made.stop()


@pytest.fixture
def sandbox(running_sandbox: SandboxProcess) -> Iterator[SandboxProcess]:
    """An empty account in fair weather; the ledgers must be empty afterwards."""
    running_sandbox.clear()
    running_sandbox.admin("settings", **{**Weather().dump(), **QUICK})
    running_sandbox.admin("reset")
    yield running_sandbox
    running_sandbox.clear()
    ledgers.check(running_sandbox)
