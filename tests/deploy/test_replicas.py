"""Two replicas on one PostgreSQL: what one is told the other knows, what one leaves the other ends, and nobody is turned away meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest
from tests import postgres
from tests.clusters.worlds import SandboxProcess, environment_without_aws
from tests.databases import postgres_server  # noqa: F401 - a fixture
from tests.deploy.replicas import Balancer, Replica
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosedError

from instantstart_sandbox.world.settings import Settings as SandboxSettings

pytestmark = pytest.mark.skipif(not postgres.available(), reason="no PostgreSQL binaries here")
#: an hour of a cluster's creation in seconds
RATE = 60.0
#: longer than any pause between a look at /readyz and the request that follows, on a machine that does much else
DRAIN_SECONDS = 15.0


@dataclass
class Site:
    """Both replicas, and what they stand on."""

    replicas: tuple[Replica, Replica]
    balancer: Balancer
    url: str
    made: list[str] = field(default_factory=list)

    def create(self, tag: str, seconds: float = 60.0) -> dict[str, Any]:
        """An operation that takes some seconds of the world."""
        self.replicas[0].sandbox.admin("settings", **{**SandboxSettings().dump(), "eks_create_seconds": seconds})
        return dict(self.balancer.call("POST", "/eks-clusters", {"tag": tag}))

    def bearer(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.balancer.token}"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, postgres_server: str) -> Iterator[Site]:  # noqa: F811
    folder = tmp_path_factory.mktemp("replicas")
    sandbox = SandboxProcess(folder, RATE)
    sandbox.start()
    with postgres.database(postgres_server) as url:
        settings = {"INSTANTSTART_DATABASE_URL": url, "INSTANTSTART_DRAIN_SECONDS": str(DRAIN_SECONDS)}
        pair = (Replica(folder, "instantstart-0", sandbox, settings), Replica(folder, "instantstart-1", sandbox, settings))
        for each in pair:
            each.begin()
        for each in pair:
            each.await_start()
        token = next(file for each in pair if (file := each.folder / "data" / "admin-token").exists()).read_text().strip()
        yield Site(pair, Balancer(pair, token), url)
        for each in pair:
            each.stop()
    sandbox.stop()


def test_only_one_of_them_made_the_first_administrator(site: Site) -> None:
    files = [(each.folder / "data" / "admin-token").exists() for each in site.replicas]
    assert sorted(files) == [False, True]
    assert len(site.balancer.call("GET", "/tokens")["items"]) == 1


def test_a_session_begun_at_one_is_one_at_the_other_until_it_ends_at_either(site: Site) -> None:
    one, other = site.replicas
    begun = httpx2.post(f"{one.url}/api/v1/session", json={"token": site.balancer.token}, headers={"Origin": one.url}, timeout=60)
    cookie = {"Cookie": begun.headers["set-cookie"].partition(";")[0]}
    assert httpx2.get(f"{other.url}/api/v1/me", headers=cookie, timeout=60).json()["face"] == "console"
    ended = httpx2.delete(f"{other.url}/api/v1/session", headers={**cookie, "Origin": other.url}, timeout=60)
    assert ended.status_code < 300
    assert httpx2.get(f"{one.url}/api/v1/me", headers=cookie, timeout=60).status_code == 401


def test_a_key_is_known_at_both(site: Site) -> None:
    asked = {"tag": "keyed"}
    first = site.balancer.call("POST", "/eks-clusters", asked, key="the-one-key")
    again = site.balancer.call("POST", "/eks-clusters", asked, key="the-one-key")
    assert again["id"] == first["id"]
    for _ in site.replicas:
        other = site.balancer.ask("POST", "/eks-clusters", {"tag": "another"}, key="the-one-key")
        assert (other.status_code, other.json()["code"]) == (409, "operation.key_reused")


def test_many_callers_at_both_doors_begin_one_operation(site: Site) -> None:
    found: list[str] = []
    callers = [threading.Thread(target=lambda: found.append(site.create("crowd")["id"])) for _ in range(6)]
    for each in callers:
        each.start()
    for each in callers:
        each.join()
    assert len(set(found)) == 1


@pytest.mark.slow
def test_an_approval_given_by_one_is_taken_once_by_the_other(site: Site) -> None:
    offers: dict[str, Any] = {"instance_type": "ml.p5.48xlarge", "instance_count": 1, "duration_hours": 24}
    offering = site.balancer.call("GET", "/training-plan-offerings", **offers)["items"][0]
    body = {"name": "shared", **{k: offering[k] for k in ("offering_id", "instance_type", "instance_count", "upfront_fee")}}
    plan = site.balancer.call("POST", "/training-plans", body, dry_run=True)
    begun = site.balancer.call("POST", "/training-plans", body, approval=plan["approval"])
    assert begun["workflow"] == "training_plan.buy"
    assert site.balancer.rest(begun["id"])["status"] == "succeeded"
    again = site.balancer.ask("POST", "/training-plans", body, approval=plan["approval"])
    assert again.status_code == 409


@pytest.mark.slow
def test_what_a_dead_one_leaves_the_other_ends_and_a_stream_goes_on_there(site: Site) -> None:
    site.create("left", seconds=900.0)
    operation = next(o for o in site.balancer.call("GET", "/operations")["items"] if o["cluster"] == "left")["id"]
    site.balancer.until(operation, lambda seen: any(s["name"] == "stack" and s["status"] == "waiting" for s in seen["stages"]))
    runs_it = _executing(site, operation)
    other = next(each for each in site.replicas if each is not runs_it)
    seen = asyncio.run(_listen(runs_it, site.bearer(), operation, 0, most=4))
    runs_it.kill()
    heard = asyncio.run(_listen(other, site.bearer(), operation, seen[-1]))
    runs_it.start()
    assert [*seen, *heard] == list(range(1, len(seen) + len(heard) + 1)), "none is lost, none is told twice"
    ended = site.balancer.call("GET", f"/operations/{operation}")
    assert ended["status"] == "succeeded"
    told = [e["message"] for e in site.balancer.call("GET", f"/operations/{operation}/events")["items"]]
    assert sum("goes on where it stood" in message for message in told) == 1


def _executing(site: Site, operation: str) -> Replica:
    with psycopg.connect(site.url) as connection:
        query = "SELECT executor_id FROM dbos.workflow_status WHERE workflow_uuid LIKE %s AND status = 'PENDING'"
        found = connection.execute(query, (f"{operation}:%",)).fetchone()
    assert found is not None
    return next(each for each in site.replicas if each.name == found[0])


async def _listen(replica: Replica, headers: dict[str, str], operation: str, after: int, most: int = 10_000) -> list[int]:
    """The sequence numbers of the events that a stream tells, until it ends or ``most`` were told."""
    url = f"{replica.url.replace('http', 'ws')}/api/v1/operations/{operation}/stream?after={after}"
    found: list[int] = []
    async with connect(url, additional_headers=headers) as socket:
        with contextlib.suppress(ConnectionClosedError):  # 4000: the operation has ended and all is told
            async for text in socket:
                message = json.loads(text)
                if message["type"] == "event":
                    found.append(message["event"]["seq"])
                if len(found) >= most:
                    break
        assert len(found) >= most or socket.close_code == 4000
    return found


@pytest.mark.slow
def test_a_rolling_restart_turns_nobody_away_who_asks_readyz_first(site: Site) -> None:
    site.create("rolled", seconds=600.0)
    stop, asked = threading.Event(), {"well": 0}
    failed: list[str] = []

    def visit() -> None:
        """A balancer: it sends where it was ready a moment ago."""
        while not stop.is_set():
            for each in [one for one in site.replicas if one.is_ready()]:
                try:
                    answer = httpx2.get(f"{each.url}/api/v1/operations", headers=site.bearer(), timeout=60)
                    (failed.append(answer.text) if answer.status_code != 200 else asked.update(well=asked["well"] + 1))
                except httpx2.RequestError as error:
                    failed.append(repr(error))

    visitors = [threading.Thread(target=visit) for _ in range(3)]
    for visitor in visitors:
        visitor.start()
    turned = []
    for each in site.replicas:
        each.terminate()
        turned.append(_readiness_until_closed(each))
        assert each.stop() == 0
        each.start()
    stop.set()
    for visitor in visitors:
        visitor.join()
    assert failed == []
    assert asked["well"] > 10
    assert turned == [{"shutting down"}, {"shutting down"}]
    operation = next(o for o in site.balancer.call("GET", "/operations")["items"] if o["cluster"] == "rolled")
    assert site.balancer.rest(operation["id"])["status"] == "succeeded"


def _readiness_until_closed(replica: Replica) -> set[str]:
    """What /readyz says from the signal to the end."""
    told: set[str] = set()
    ready = 0
    while True:
        try:
            answer = httpx2.get(f"{replica.url}/readyz", timeout=10)
        except httpx2.RequestError:
            return told
        if answer.status_code == 200:
            ready += 1  # the signal has not arrived yet
            assert ready < 1000
        else:
            assert answer.status_code == 503
            told.add(answer.json()["status"])
        assert httpx2.get(f"{replica.url}/healthz", timeout=10).status_code == 200 if not told else True
        time.sleep(0.05)


def test_a_replica_of_an_older_version_refuses_and_one_that_was_overtaken_says_that_it_is_not_ready(site: Site, tmp_path: Path) -> None:
    with psycopg.connect(site.url, autocommit=True) as connection:
        mine = connection.execute("SELECT version_num FROM alembic_version").fetchone()
        assert mine is not None
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
        try:
            for each in site.replicas:
                answer = httpx2.get(f"{each.url}/readyz", timeout=60)
                assert (answer.status_code, answer.json()["status"]) == (503, "the database has the schema of another version")
                assert httpx2.get(f"{each.url}/healthz", timeout=60).status_code == 200
            told = _start_third(site, tmp_path)
            assert told.returncode == 1
            assert "store.newer_schema" in told.stderr
            assert "Traceback" not in told.stderr
        finally:
            connection.execute("UPDATE alembic_version SET version_num = %s", mine)
    for each in site.replicas:  # they have stepped back for good, since they gave their names away: an orchestrator replaces them
        each.kill()
    for each in site.replicas:
        each.begin()
    for each in site.replicas:
        each.await_start()
    assert [each.is_ready() for each in site.replicas] == [True, True]


def test_a_second_process_with_a_living_ones_name_refuses(site: Site, tmp_path: Path) -> None:
    told = _start_third(site, tmp_path, INSTANTSTART_REPLICA_ID="instantstart-0")
    assert told.returncode == 1
    assert "engine.replica_in_use" in told.stderr


def _start_third(site: Site, folder: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **environment_without_aws(),
        "INSTANTSTART_DATABASE_URL": site.url,
        "INSTANTSTART_DATA_DIR": str(folder),
        "INSTANTSTART_REPLICA_ID": "instantstart-2",
        "INSTANTSTART_REGION": "us-west-2",
        **settings,
    }
    command = [sys.executable, "-m", "instantstart", "serve", "--port", "0"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=90, check=False)
