"""Fifty operations on two replicas, one of which is killed every ten seconds: the world and every end as without kills.

``pytest tests/deploy/test_replicas_under_kills.py -m slow``; the figures of the run are written to ``build/replicas.json``.
"""

from __future__ import annotations

import collections
import concurrent.futures
import json
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests import postgres
from tests.databases import postgres_server  # noqa: F401 - a fixture
from tests.deploy.replicas import Balancer, Killer, Replica
from tests.weather.conftest import station  # noqa: F401 - a fixture
from tests.weather.ground import TYPE, Ground, Station

from instantstart import store

RATE = 20.0
KILL_SECONDS = 10.0
#: what stands before: a ready cluster with the FSx driver
BEFORE = ("cluster.create", "feature.enable")
#: calls that make something and take a client token: one token for each thing, however often it was sent
TOKENED = {"CreateFileSystem": 18, "CreateStack": 3}
#: calls that make something and take none: sent once for each thing
SENT_ONCE = {"CreateMlflowApp": 3}
REPORT = Path("build/replicas.json")
#: EKS names its own security group with digits of its choice; which cluster's network comes first, and gets which free range, is a race
AWS_NAMES = (r"(?<=eks-cluster-sg-)(eks-more\d)-\d+", r"(?<=\b10\.)\d+(?=\.\d+\.\d+/\d+)")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1500),
    pytest.mark.skipif(not postgres.available(), reason="no PostgreSQL binaries here"),
]


def asks() -> list[tuple[str, dict[str, Any]]]:
    """Fifty wishes: path and body."""
    told: list[tuple[str, dict[str, Any]]] = [("/eks-clusters", {"tag": f"more{n}"}) for n in range(3)]
    told += [("/clusters/demo/volumes/fsx", {"claim_name": f"fsx-{n}", "size_gib": 1200}) for n in range(18)]
    told += [("/clusters/demo/volumes/s3", {"claim_name": f"s3-{n}", "prefix": f"p{n}/"}) for n in range(24)]
    told += [("/clusters/demo/mlflow/app", {"name": f"app-{n}"}) for n in range(3)]
    told += [("/clusters/demo/instance-groups", {"name": f"group-{n}", "instance_type": TYPE, "zone": "usw2-az2"}) for n in range(2)]
    # side by side in an order that mixes them
    return [told[(n * 17) % len(told)] for n in range(len(told))]


@dataclass
class Run:
    """What one run came to."""

    ends: dict[str, str]
    world: list[str]
    calls: list[dict[str, Any]]
    kills: int
    adopted: int
    broken: list[str]
    unanswered: int
    repeats_differ: int


def launch(tmp_path: Path, ground: Ground, url: str) -> tuple[Replica, Replica]:
    """Two replicas on one database, with the ground's cluster registered."""
    opened = store.open(url, tmp_path)
    for row in ground.room.store.clusters.list():
        opened.clusters.upsert(row)
    opened.close()
    settings = {"INSTANTSTART_DATABASE_URL": url}
    pair = (Replica(tmp_path, "instantstart-0", ground.sandbox, settings), Replica(tmp_path, "instantstart-1", ground.sandbox, settings))
    for each in pair:
        each.start()
    return pair


def run(tmp_path: Path, ground: Ground, url: str, kill_seconds: float | None) -> Run:
    """All fifty through both doors, to their ends."""
    pair = launch(tmp_path, ground, url)
    balancer = Balancer(pair, (pair[0].folder / "data" / "admin-token").read_text().strip())
    since = ground.sandbox.last_call()
    try:
        if kill_seconds is None:
            ends, differ = submit_and_follow(balancer)
        else:
            with Killer(pair, kill_seconds):
                ends, differ = submit_and_follow(balancer)
        adopted = _adoptions(balancer)
    finally:
        for each in pair:
            each.stop()
    kills = sum(each.kills for each in pair)
    return Run(ends, ground.world(AWS_NAMES), ground.sandbox.calls(since), kills, adopted, balancer.broken, balancer.unanswered, differ)


def submit_and_follow(balancer: Balancer) -> tuple[dict[str, str], int]:
    """Each wish twice under one key, from eight callers at once; the end of each, and how many repeats became something else."""
    with concurrent.futures.ThreadPoolExecutor(8) as callers:
        submitted = list(callers.map(lambda wish: _submit(balancer, *wish), asks()))
    assert len({operation for _, operation, _ in submitted}) == len(submitted)
    ends = {wish: _end(balancer.rest(operation)) for wish, operation, _ in submitted}
    return ends, sum(not same for *_, same in submitted)


def _submit(balancer: Balancer, path: str, body: dict[str, Any]) -> tuple[str, str, bool]:
    key = secrets.token_hex(12)
    first = balancer.call("POST", path, body, key=key)
    again = balancer.call("POST", path, body, key=key)
    return f"{path} {json.dumps(body, sort_keys=True)}", first["id"], first["id"] == again["id"]


def _end(seen: dict[str, Any]) -> str:
    return str(seen["status"]) + (f" {seen['problem']['code']}: {seen['problem']['detail']}" if seen["problem"] else "")


def _adoptions(balancer: Balancer) -> int:
    found, cursor = 0, None
    while True:
        page = balancer.call("GET", "/operations", limit=100, **({"cursor": cursor} if cursor else {}))
        for each in page["items"]:
            events = balancer.call("GET", f"/operations/{each['id']}/events", limit=500)["items"]
            assert [e["seq"] for e in events] == list(range(1, len(events) + 1)), "no event is lost or told twice"
            found += sum("goes on where it stood" in e["message"] for e in events)
        cursor = page.get("cursor")
        if not cursor:
            return found


@pytest.fixture(scope="module")
def runs(station: Station, postgres_server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Run]]:  # noqa: F811
    """The run without kills, and the one with."""
    done: dict[str, Run] = {}
    for name, kill_seconds in (("quiet", None), ("killed", KILL_SECONDS)):
        with postgres.database(postgres_server) as url:
            ground = station.ground(BEFORE, RATE)
            ground.sandbox.admin("settings", fsx_create_seconds=400.0, mlflow_app_create_seconds=600.0, eks_create_seconds=600.0)
            done[name] = run(tmp_path_factory.mktemp(name), ground, url, kill_seconds)
    yield done
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text(json.dumps({name: _figures(each) for name, each in done.items()}, indent=1))


def _figures(told: Run) -> dict[str, Any]:
    ends = collections.Counter(told.ends.values())
    return {"ends": ends, "kills": told.kills, "adopted": told.adopted, "unanswered": told.unanswered, "calls": len(told.calls)}


def _made(told: Run, operation: str) -> list[dict[str, Any]]:
    return [call for call in told.calls if call["operation"] == operation and not call["error"]]


def test_every_operation_ends_as_without_kills(runs: dict[str, Run]) -> None:
    assert runs["killed"].kills >= 2, "both were killed at least once; how often is a matter of the machine's speed"
    assert set(runs["quiet"].ends.values()) == {"succeeded"}
    assert runs["killed"].ends == runs["quiet"].ends
    assert len(runs["killed"].ends) == 50


def test_the_world_is_the_same(runs: dict[str, Run]) -> None:
    assert runs["killed"].world == runs["quiet"].world


def test_each_thing_was_made_once(runs: dict[str, Run]) -> None:
    for told in runs.values():
        for operation, count in TOKENED.items():
            tokens = collections.defaultdict(set)
            for call in _made(told, operation):
                tokens[call["client_token"]].add(call["digest"])
            assert len(tokens) == count, (operation, len(tokens))
            assert None not in tokens
        for operation, count in SENT_ONCE.items():
            assert len(_made(told, operation)) == count, operation


def test_a_repeat_under_the_same_key_is_the_same_operation_on_either(runs: dict[str, Run]) -> None:
    assert [told.repeats_differ for told in runs.values()] == [0, 0]


def test_no_answer_was_broken(runs: dict[str, Run]) -> None:
    assert runs["killed"].broken == []
    assert runs["quiet"].broken == []
