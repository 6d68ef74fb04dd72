"""The data folder's disk is full, or the database is held by somebody else: told as it is, nothing lost, and it goes on by itself."""

from __future__ import annotations

import contextlib
import resource
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest
from tests import postgres
from tests.aws import ledgers
from tests.databases import postgres_server  # noqa: F401 - a fixture
from tests.weather.ground import Station
from tests.weather.house import House
from tests.weather.scenarios import Scenario, scenario

RATE = 60.0
WHAT: Scenario = scenario("eks.create")
#: no file of the process may grow beyond it while the disk is "full"
_FULL_BYTES = 1024

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def house(station: Station, tmp_path: Path) -> Iterator[House]:
    """A control plane on an empty account, on SQLite."""
    made = House(tmp_path / "house", station.ground((), RATE))
    made.start()
    yield made
    made.plane.stop()
    ledgers.check(station.sandbox)


@contextlib.contextmanager
def full_disk(house: House) -> Iterator[None]:
    """No file of the process can grow: every write beyond the first KiB is refused by the kernel, from one moment to the next."""
    assert house.plane.child is not None
    process = house.plane.child.pid
    before = resource.prlimit(process, resource.RLIMIT_FSIZE)
    resource.prlimit(process, resource.RLIMIT_FSIZE, (_FULL_BYTES, before[1]))
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):  # it was killed meanwhile
            resource.prlimit(process, resource.RLIMIT_FSIZE, before)


def refusal(house: House, method: str, path: str, body: Any = None) -> dict[str, Any]:
    """The Problem of a call, or an empty document when it succeeds."""
    headers = {"Authorization": f"Bearer {house.plane.token}"}
    answer = httpx2.request(method, f"{house.plane.url}/api/v1{path}", json=body, headers=headers, timeout=120)
    return dict(answer.json()) if answer.status_code >= 400 else {}


def until(true: Callable[[], bool], seconds: float = 120.0) -> None:
    """Wait for a fact."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.1)


def test_a_full_disk_is_told_reads_go_on_and_so_does_the_operation_once_there_is_room(house: House) -> None:
    operation = house.ask(WHAT)
    house.reaches(operation, "stack", ended=False)
    events = house.plane.call("GET", f"/operations/{operation}/events")["items"]
    with full_disk(house):
        told = refusal(house, "POST", "/clusters", {"tag": "other", "zone": "usw2-az2", "instance_type": "ml.g5.8xlarge"})
        assert (told["code"], told["status"], told["retryable"]) == ("store.full", 503, True)
        assert "Free space" in told["hint"]
        assert refusal(house, "GET", f"/operations/{operation}") == {}
        until(lambda: "CREATE_COMPLETE" in str(house.ground.sandbox.client("cloudformation").describe_stacks()["Stacks"]))
        assert house.plane.operation(operation)["status"] in ("running", "waiting")
    seen = house.follow(operation)
    assert seen["status"] == "succeeded", seen["problem"]
    assert house.plane.call("GET", f"/operations/{operation}/events")["items"][: len(events)] == events
    assert sum(c["operation"] == "CreateStack" for c in house.ground.sandbox.calls()) == 1


@pytest.mark.slow
def test_a_process_that_dies_on_a_full_disk_goes_on_after_it(house: House) -> None:
    operation = house.ask(WHAT)
    house.reaches(operation, "stack", ended=False)
    with full_disk(house):
        assert refusal(house, "POST", "/clusters", {"tag": "other", "zone": "usw2-az2", "instance_type": "ml.g5.8xlarge"})
        house.plane.kill()
    house.plane.start()
    seen = house.follow(operation)
    assert seen["status"] == "succeeded", seen["problem"]


@pytest.mark.slow
@pytest.mark.parametrize("file", ["instantstart.sqlite", "engine.sqlite"])
def test_a_database_that_another_process_holds_is_waited_for(house: House, file: str) -> None:
    operation = house.ask(WHAT)
    house.reaches(operation, "account", ended=False)
    before = house.ground.sandbox.last_call()
    with contextlib.closing(sqlite3.connect(house.plane.folder / "data" / file, isolation_level=None, timeout=60)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert house.plane.operation(operation)["status"] in ("running", "waiting"), "reading goes on"
        time.sleep(8)  # longer than the five seconds that SQLite's own drivers wait by default: the length of the hold is the test
        other.execute("ROLLBACK")
    seen = house.follow(operation)
    assert seen["status"] == "succeeded", seen["problem"]
    assert sum(c["operation"] == "CreateStack" for c in house.ground.sandbox.calls()) == 1
    assert house.ground.sandbox.last_call() > before


@pytest.mark.slow
@pytest.mark.skipif(not postgres.available(), reason="no PostgreSQL binaries here")
def test_postgresql_held_or_cut_off_is_waited_for(station: Station, tmp_path: Path, postgres_server: str) -> None:  # noqa: F811
    with postgres.database(postgres_server) as url:
        house = House(tmp_path / "house", station.ground((), RATE), {"INSTANTSTART_DATABASE_URL": url})
        house.start()
        try:
            operation = house.ask(WHAT)
            house.reaches(operation, "network", ended=False)
            with psycopg.connect(url) as other:
                other.execute("LOCK TABLE operations, stages IN ACCESS EXCLUSIVE MODE")
                time.sleep(8)  # the length of the hold is the test
            with psycopg.connect(url, autocommit=True) as other:
                cut = (
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = current_database()"
                )
                other.execute(cut)
            seen = house.follow(operation)
            assert seen["status"] == "succeeded", seen["problem"]
            assert sum(c["operation"] == "CreateStack" for c in house.ground.sandbox.calls()) == 1
        finally:
            house.plane.stop()
    ledgers.check(station.sandbox)
