"""The copy equals a fresh list, though the API server is killed, forgets, refuses, cuts and changes its tokens while others write."""

from __future__ import annotations

import contextlib
import json
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.kube.child import Child, start
from tests.kube.test_cache import Index
from tests.kube.test_sandbox import a_pod

from instantstart.base import problems
from instantstart.kube import briefs, cache, shapes
from instantstart.kube.client import KubeCluster
from instantstart.kube.connect import KubeGateway

#: what befalls watches and lists; every rule strikes for a while and is then cleared
FAULTS = (
    {"match": "kubernetes:watch/pods", "code": "unavailable", "count": 3},
    {"match": "kubernetes:list/pods", "code": "throttle", "count": 2},
    {"match": "kubernetes:(watch|list)/(pods|nodes)", "code": "away", "count": 4},
    {"match": "kubernetes:watch/pods", "code": "Expired", "status": 410, "message": "too old resource version", "count": 2},
    {"match": "kubernetes:watch", "when": "after", "delay": 30.0, "count": 2},
)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "BACKOFF_SECONDS", (0.02, 0.2))
    monkeypatch.setattr(cache, "PAGE", 7)


class World:
    """A cluster that can be hurt, a writer with a token of its own making, and the copies under test."""

    def __init__(self, child: Child) -> None:
        self.child, self.token, self.number = child, "admin-token", 0
        self.gateway = KubeGateway(lambda _: self.token)
        self.live, self.index = self.gateway.watching.beside(self.kube, Index)

    @property
    def kube(self) -> KubeCluster:
        return self.gateway.cluster(self.child.ref)

    def write(self, chance: random.Random) -> None:
        """A few writes, some to what others have written; those that a dead server does not take are lost."""
        for _ in range(chance.randint(3, 12)):
            self.number += 1
            name = f"p{chance.randint(0, self.number)}"
            with contextlib.suppress(problems.Problem):
                match chance.choice(("create", "label", "label", "delete", "node")):
                    case "create":
                        self.kube.create(a_pod(f"p{self.number}", "sleep", "1000"))
                    case "label":
                        self.kube.patch("Pod", name, {"metadata": {"labels": {"job-name": f"j{self.number}"}}}, namespace="default")
                    case "delete":
                        self.kube.delete("Pod", name, "default")
                    case "node":
                        self.kube.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"n{self.number}"}})

    def restart(self) -> None:
        """kill -9, and start again on the same folder."""
        self.child.kill()
        self.child.process = start(self.child.folder).process
        self.child.tell(f"admit {self.token}")

    def renew(self) -> None:
        """From now on another token is admitted, and no other: as when one has ended."""
        self.token = f"token-{time.monotonic_ns()}"
        self.child.tell(f"admit {self.token}")

    def hurt(self, chance: random.Random) -> None:
        """One thing that goes wrong."""
        match chance.choice(("compact", "cut", "fault", "fault", "restart", "token")):
            case "compact":
                self.child.tell("compact")
            case "cut":
                self.child.tell(f"cut {chance.choice((0.05, 0.2))}")
            case "fault":
                self.child.tell(f"fault {json.dumps(chance.choice(FAULTS))}")
            case "restart":
                self.restart()
            case "token":
                self.renew()

    def differences(self) -> list[str]:
        """Where the copies, or what the index was told, differ from a fresh list."""
        try:
            pods = [briefs.brief(msgspec.convert(p, briefs.PodWire)) for p in self.kube.list("Pod")]
            nodes = [briefs.slim(shapes.node(n)) for n in self.kube.list("Node")]
        except problems.Problem as problem:
            return [problem.detail]
        wanted: dict[tuple[str, str], Any] = {("pod", p.name): p for p in pods} | {("node", n.metadata.name): n for n in nodes}
        copied: dict[tuple[str, str], Any] = {("pod", p.name): p for p in self.live.pods.snapshot().items.values()}
        copied |= {("node", n.metadata.name): n for n in self.live.nodes.snapshot().items.values()}
        told = [f"copy of {key}" for key in wanted.keys() | copied.keys() if wanted.get(key) != copied.get(key)]
        told += [f"index of {key}" for key in wanted.keys() | self.index.known.keys() if wanted.get(key) != self.index.known.get(key)]
        return told


@pytest.fixture
def world(tmp_path: Path, quick: None) -> Iterator[World]:
    child = start(tmp_path / "kubernetes")
    made = World(child)
    yield made
    made.gateway.close()
    made.child.kill()


def until_same(world: World) -> None:
    end = time.monotonic() + 60
    while differing := world.differences():
        assert time.monotonic() < end, differing
        time.sleep(0.05)
    assert world.index.wrong == []
    until(lambda: not world.live.freshness().stale)


def until(check: Callable[[], Any]) -> None:
    end = time.monotonic() + 60
    while not check():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def story(world: World, seed: int, chapters: int) -> None:
    """Writes and troubles by turns, peace between some of them; after each chapter the copies equal a fresh list."""
    chance = random.Random(seed)
    for _ in range(chapters):
        for _ in range(3):
            world.write(chance)
            world.hurt(chance)
            world.write(chance)
        world.child.tell("clear")
        until_same(world)


def test_the_copies_equal_a_fresh_list_after_one_bad_day(world: World) -> None:
    story(world, seed=4, chapters=2)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_the_copies_equal_a_fresh_list_after_any_bad_days(world: World, seed: int) -> None:
    story(world, seed, chapters=4)


def test_a_token_that_ends_in_the_middle_of_a_watch_is_renewed_without_a_new_list(world: World) -> None:
    chance = random.Random(1)
    world.write(chance)
    until_same(world)
    lists = world.live.pods.counts.lists
    world.child.tell("cut 0.1")
    world.restart()  # the watches that run now are cut, and those that follow
    for _ in range(5):
        world.renew()
        world.write(chance)
        until_same(world)
    assert world.live.pods.counts.lists == lists


def test_pages_that_expire_while_they_are_read_are_read_anew(world: World) -> None:
    for number in range(40):
        world.kube.create(a_pod(f"q{number}", "sleep", "1000"))
    until_same(world)
    world.child.tell(f"fault {json.dumps({'match': 'kubernetes:list/pods', 'delay': 3.0, 'count': 5})}")
    world.child.kill()
    world.child.process = start(world.child.folder).process
    lists = world.live.pods.counts.lists
    world.child.tell("compact")
    for number in range(10):
        world.kube.delete("Pod", f"q{number}", "default")
        world.child.tell("compact")
    until_same(world)
    assert len(world.live.pods.snapshot().items) == 30
    assert world.live.pods.counts.lists >= lists


def test_an_api_server_that_is_away_is_told_and_the_last_truth_stays(world: World) -> None:
    world.kube.create(a_pod("a", "sleep", "1000"))
    until_same(world)
    world.child.kill()
    until(lambda: world.live.freshness().problem is not None)
    told = world.live.freshness()
    assert (told.synced, told.stale) == (True, True)
    assert told.problem is not None
    assert told.problem.code in ("kubernetes.unreachable", "kubernetes.connection_lost")
    assert world.live.pods.find("default", "a") is not None
    world.child.process = start(world.child.folder).process
    until_same(world)
