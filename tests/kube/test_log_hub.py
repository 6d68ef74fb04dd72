"""One stream for each container, however many read it: cuts, rotation, restarts, slow readers, and nothing left behind (cases 78, 79)."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.kube.scripted import TEAR, Asked, Reply, Wire, status

from instantstart.base import problems
from instantstart.kube import log_hub, log_source
from instantstart.kube.client import KubeCluster
from instantstart.kube.connect import KubeGateway
from instantstart.kube.log_lines import Position
from instantstart.kube.log_pods import Choice
from instantstart.kube.log_reader import Dropped, Event, Lines, Note, Place, Reader, Settled, Want

PODS = "/api/v1/namespaces/n/pods"
STARTED = {"running": {"startedAt": "2026-11-30T12:00:00Z"}}


@pytest.fixture
def gateway() -> Iterator[KubeGateway]:
    made = KubeGateway(lambda _: "token")
    yield made
    made.close()


@pytest.fixture
def cluster(wire: Wire, gateway: KubeGateway) -> KubeCluster:
    return gateway.cluster(wire.ref)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_source, "AGAIN_SECONDS", (0.02, 0.1))
    monkeypatch.setattr(log_hub, "LINGER_SECONDS", 0.2)


def at(second: int, text: str) -> str:
    return f"2026-11-30T12:00:{second:02d}.000000000Z {text}"


def a_pod(name: str = "a", *, restarts: int = 0, state: dict[str, Any] | None = None, phase: str = "Running", **more: Any) -> Any:
    told = {"name": "main", "restartCount": restarts, "state": state or STARTED, **more}
    metadata = {"name": name, "namespace": "n", "uid": f"uid-{name}", "resourceVersion": "1", "labels": {"app": "x"}}
    return {"metadata": metadata, "spec": {"containers": [{"name": "main"}]}, "status": {"phase": phase, "containerStatuses": [told]}}


class World:
    """The pods, what their logs answer one after the other, and what was asked. Changes go out over the watch."""

    def __init__(self, wire: Wire, *pods: Any) -> None:
        self.pods = list(pods)
        #: what ``follow`` answers, in order; the last one again and again
        self.streams: list[Reply] = [Reply(lines=[])]
        self.previous, self.whole = Reply(lines=[]), Reply(lines=[])
        self.followed: list[dict[str, str]] = []
        self.changed = threading.Event()
        self.news: list[Any] = []
        self.done = threading.Event()
        wire.answer = self

    def __call__(self, asked: Asked) -> Reply:
        if asked.path == PODS and "watch" in asked.params:
            return Reply(lines=self._news())  # type: ignore[arg-type]
        if asked.path == PODS:
            return Reply(200, {"items": self.pods, "metadata": {"resourceVersion": "1"}})
        if "previous" in asked.params:
            return self.previous
        if "follow" not in asked.params:
            return self.whole
        self.followed.append(dict(asked.params))
        return self.streams.pop(0) if len(self.streams) > 1 else self.streams[0]

    def _news(self) -> Iterator[Any]:
        while not self.done.is_set():
            while self.news:
                yield json.dumps(self.news.pop(0)) + "\n"
            time.sleep(0.01)

    def tell(self, kind: str, pod: Any) -> None:
        """An event of the watch."""
        self.news.append({"type": kind, "object": pod})


@pytest.fixture
def world(wire: Wire) -> Iterator[World]:
    made = World(wire, a_pod())
    yield made
    made.done.set()


class Listener:
    """A reader that takes what there is."""

    def __init__(self, cluster: KubeCluster, gateway: KubeGateway, want: Want | None = None) -> None:
        self.rung = threading.Event()
        self.reader: Reader = gateway.logs.open(cluster, want or Want((Choice("n", labels="app=x"),)), self.rung.set)
        self.events: list[Event] = []

    def until(self, true: Callable[[Listener], bool]) -> Listener:
        end = time.monotonic() + 20
        while not true(self):
            assert time.monotonic() < end, self.events
            self.rung.wait(0.05)
            self.rung.clear()
            self.events += self.reader.take()
        return self

    @property
    def lines(self) -> list[str]:
        """The texts of all lines so far."""
        return [line.partition(" ")[2] for e in self.events if isinstance(e, Lines) for line in e.text[:-1].split("\n")]

    @property
    def told(self) -> list[str]:
        """Lines and notes in the order in which they came."""
        found: list[str] = []
        for event in self.events:
            if isinstance(event, Lines):
                found += [line.partition(" ")[2] for line in event.text[:-1].split("\n")]
            elif isinstance(event, Note):
                found.append(event.text)
        return found

    def position(self) -> Position:
        """How far it was told."""
        found = Position.parse([e.position for e in self.events if isinstance(e, Lines)][-1])
        assert found is not None
        return found


def until(true: Callable[[], Any]) -> None:
    end = time.monotonic() + 20
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


HOLD = threading.Event  # a stream that is held open


def test_lines_come_once_though_the_stream_is_torn(world: World, cluster: KubeCluster, gateway: KubeGateway) -> None:
    held = HOLD()
    world.streams = [
        Reply(lines=[at(1, "one"), at(2, "two"), b"2026-11-30T12:00:03.000", TEAR]),
        Reply(lines=[at(2, "two"), at(2, "two again"), at(3, "three"), held]),
    ]
    listener = Listener(cluster, gateway).until(lambda who: "three" in who.lines)
    assert listener.told == ["one", "two", "two again", "three"]
    assert [asked.get("sinceTime") for asked in world.followed] == [None, "2026-11-30T12:00:02.000000000Z"]
    held.set()


def test_characters_torn_between_two_packets_and_between_two_streams_are_whole(
    world: World, cluster: KubeCluster, gateway: KubeGateway
) -> None:
    line, held = (at(1, "日本語") + "\n").encode(), HOLD()
    world.streams = [
        Reply(lines=[line[:-5], 0.1, line[-5:], (at(2, "größe") + "\n").encode()[:-4], TEAR]),
        Reply(lines=[at(2, "größe"), held]),
    ]
    assert Listener(cluster, gateway).until(lambda who: len(who.lines) == 2).lines == ["日本語", "größe"]
    held.set()


def test_two_readers_share_one_stream_and_it_ends_with_the_last(world: World, cluster: KubeCluster, gateway: KubeGateway) -> None:
    more, held = HOLD(), HOLD()
    world.streams = [Reply(lines=[at(1, "one"), more, at(2, "two"), held])]
    first = Listener(cluster, gateway).until(lambda who: who.lines == ["one"])
    world.whole = Reply(lines=[at(1, "one")])
    second = Listener(cluster, gateway).until(lambda who: who.lines == ["one"])
    more.set()
    first.until(lambda who: who.lines == ["one", "two"])
    second.until(lambda who: who.lines == ["one", "two"])
    assert len(world.followed) == 1
    assert gateway.logs.streams() == ["n/a/main"]
    first.reader.close()
    assert gateway.logs.streams() == ["n/a/main"]
    second.reader.close()
    until(lambda: gateway.logs.streams() == [])
    held.set()


def test_a_reader_that_comes_back_goes_on_where_it_was(world: World, cluster: KubeCluster, gateway: KubeGateway) -> None:
    more, held = HOLD(), HOLD()
    world.streams = [Reply(lines=[at(1, "one"), more, at(2, "two"), 0.2, at(3, "three"), held])]
    first = Listener(cluster, gateway).until(lambda who: who.lines == ["one"])
    other = Listener(cluster, gateway)
    place = first.position()
    first.reader.close()
    more.set()
    other.until(lambda who: "three" in who.lines)
    world.whole = Reply(500, b"the ring has it: nothing is asked")
    again = Listener(cluster, gateway, Want((Choice("n", labels="app=x"),), tail=100, after={"n/a/main": place}))
    assert again.until(lambda who: "three" in who.lines).lines == ["two", "three"]
    held.set()


def test_after_a_restart_of_the_server_the_place_still_counts(world: World, cluster: KubeCluster, gateway: KubeGateway) -> None:
    held = HOLD()
    world.streams = [Reply(lines=[at(1, "b"), at(1, "c"), at(2, "d"), held])]
    place = Position("2026-11-30T12:00:01.000000000Z", 1)
    want = Want((Choice("n", labels="app=x"),), tail=100, after={"n/a/main": place})
    assert Listener(cluster, gateway, want).until(lambda who: "d" in who.lines).lines == ["c", "d"]
    assert world.followed[0]["sinceTime"] == place.at
    assert "tailLines" not in world.followed[0]
    held.set()


def test_a_rotated_log_is_said_to_have_a_gap(world: World, cluster: KubeCluster, gateway: KubeGateway) -> None:
    held = HOLD()
    world.streams = [Reply(lines=[at(1, "one")]), Reply(lines=[at(5, "five"), held])]
    listener = Listener(cluster, gateway).until(lambda who: "five" in who.lines)
    assert listener.told[0] == "one"
    assert "lines may be missing" in listener.told[1]
    held.set()


def test_a_restart_is_told_with_the_last_words_of_the_run_before(world: World, cluster: KubeCluster, gateway: KubeGateway) -> None:
    end, held = HOLD(), HOLD()
    world.streams = [Reply(lines=[at(1, "one"), end]), Reply(lines=[at(5, "second life"), held])]
    world.previous = Reply(lines=[at(1, "one"), at(2, "last words")])
    listener = Listener(cluster, gateway).until(lambda who: who.lines == ["one"])
    world.tell("MODIFIED", a_pod(restarts=1))
    time.sleep(0.1)
    end.set()
    listener.until(lambda who: "second life" in who.lines)
    assert listener.told == ["one", "last words", "The container main was restarted (restart 1).", "second life"]
    held.set()


def test_an_end_is_told_with_its_code_and_the_stream_is_let_go(world: World, cluster: KubeCluster, gateway: KubeGateway) -> None:
    end = HOLD()
    world.streams = [Reply(lines=[at(1, "one"), end])]
    world.whole = Reply(lines=[at(1, "one"), at(2, "bye")])
    listener = Listener(cluster, gateway).until(lambda who: who.lines == ["one"])
    world.tell("MODIFIED", a_pod(phase="Failed", state={"terminated": {"exitCode": 137, "reason": "OOMKilled"}}))
    time.sleep(0.1)
    end.set()
    listener.until(lambda who: any(isinstance(e, Note) for e in who.events))
    assert listener.told == ["one", "bye", "The container ended with exit code 137 (OOMKilled)."]
    until(lambda: gateway.logs.streams() == [])


def test_pods_that_come_and_go_are_joined_and_left(world: World, cluster: KubeCluster, gateway: KubeGateway) -> None:
    held = HOLD()
    world.streams = [Reply(lines=[at(1, "from a"), held]), Reply(lines=[at(2, "from b"), held])]
    listener = Listener(cluster, gateway, Want((Choice("n", labels="app=x"),), tail=1)).until(
        lambda who: who.lines == ["from a"] and any(isinstance(e, Settled) for e in who.events)
    )
    world.tell("ADDED", a_pod("b"))
    listener.until(lambda who: who.lines == ["from a", "from b"])
    assert world.followed[0]["tailLines"] == "1"
    assert "tailLines" not in world.followed[1]  # what came while we looked is read from its beginning
    world.tell("DELETED", a_pod("b"))
    listener.until(lambda who: "n/b/main" not in who.reader.cursors)
    assert "The pod is gone." in listener.told
    states = [(e.pod, e.state) for e in listener.events if isinstance(e, Place)]
    assert states == [("a", "running"), ("b", "running"), ("b", "gone")]
    held.set()


def test_pods_of_another_owner_under_the_same_label_are_not_meant(world: World, cluster: KubeCluster, gateway: KubeGateway) -> None:
    held = HOLD()
    world.streams = [Reply(lines=[at(1, "mine"), held])]
    old = a_pod("old")
    old["metadata"]["ownerReferences"] = [{"kind": "Job", "name": "j", "uid": "before", "controller": True}]
    world.pods.append(old)
    want = Want((Choice("n", labels="app=x", owner=("Job", "now")),))
    Listener(cluster, gateway, want).until(lambda who: any(isinstance(e, Settled) for e in who.events))
    assert len(world.followed) == 1
    held.set()


def test_a_slow_reader_is_told_what_it_missed_and_memory_stays(
    world: World, cluster: KubeCluster, gateway: KubeGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_source, "PATIENCE_SECONDS", 0.2)
    held = HOLD()
    burst = "\n".join(at(second, "x" * 1000) for second in range(60)).encode() + b"\n"
    world.streams = [Reply(lines=[at(0, "first"), *([burst] * 40), at(59, "last"), held])]
    fast = Listener(cluster, gateway)
    slow = gateway.logs.open(cluster, Want((Choice("n", labels="app=x"),)), lambda: None)
    fast.until(lambda who: "last" in who.lines)
    told = [e for e in fast.events if isinstance(e, (Lines, Dropped))]
    assert sum(e.lines for e in told) == 2402  # whoever keeps up is told all, or how much it missed
    rings = [read.source.ring for read in gateway.logs._reads.values()]
    assert all(sum(b.size for b in ring.blocks) < 2 * log_source.RING_BYTES + 128 * 1024 for ring in rings)
    missed = [e for e in slow.take(10**9) if isinstance(e, (Lines, Dropped))]
    assert isinstance(missed[0], Dropped)
    assert sum(e.lines for e in missed) == 2402
    held.set()


def test_a_search_is_done_here_with_its_context(world: World, cluster: KubeCluster, gateway: KubeGateway) -> None:
    held = HOLD()
    world.streams = [Reply(lines=[*(at(n, f"step {n}") for n in range(5)), at(5, "CUDA error"), at(6, "step 6"), at(7, "step 7"), held])]
    want = Want((Choice("n", labels="app=x"),), search="cuda", context=1)
    listener = Listener(cluster, gateway, want).until(lambda who: len(who.lines) == 3)
    assert listener.lines == ["step 4", "CUDA error", "step 6"]
    held.set()


def test_a_token_that_ends_is_replaced_once(world: World, wire: Wire, cluster: KubeCluster, gateway: KubeGateway) -> None:
    held, refused = HOLD(), [status(401, "Unauthorized", "Unauthorized")]
    world.streams = [Reply(lines=[at(1, "one"), held])]
    inner = world.__call__
    wire.answer = lambda asked: refused.pop() if refused and asked.path.endswith("/log") else inner(asked)
    assert Listener(cluster, gateway).until(lambda who: who.lines == ["one"]).told == ["one"]
    held.set()


def test_a_refusal_is_said_once_and_pods_that_cannot_be_listed_are_a_problem(
    world: World, wire: Wire, cluster: KubeCluster, gateway: KubeGateway
) -> None:
    world.streams = [status(403, "Forbidden", "pods/log is forbidden")]
    listener = Listener(cluster, gateway).until(lambda who: any(isinstance(e, Note) for e in who.events))
    time.sleep(0.3)
    listener.events += listener.reader.take()
    assert len(listener.told) == 1
    assert "Not read at the moment" in listener.told[0]
    wire.answer = lambda asked: status(403, "Forbidden", "pods is forbidden")
    with pytest.raises(problems.Denied):
        Listener(cluster, gateway, Want((Choice("n", labels="app=other"),))).until(lambda who: False)


def test_untrusted_text_is_only_bounded_never_interpreted(world: World, cluster: KubeCluster, gateway: KubeGateway) -> None:
    held = HOLD()
    world.streams = [
        Reply(lines=[at(1, '\x1b]0;t\x07"},{"type":"note"}'), at(2, "hf_" + "a" * 30), at(3, "y" * 100_000), at(4, "end"), held])
    ]
    listener = Listener(cluster, gateway).until(lambda who: "end" in who.lines)
    assert listener.lines[0] == '\x1b]0;t\x07"},{"type":"note"}'
    assert "hf_" not in listener.lines[1]
    assert max(len(line) for line in listener.lines) < 65 * 1024
    held.set()
