"""The reflector through everything that happens to a watch (case 75)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.kube.scripted import TEAR, Asked, Reply, Wire, status

from instantstart.kube import cache, watching
from instantstart.kube.client import KubeCluster
from instantstart.kube.connect import KubeGateway


@pytest.fixture
def cluster(wire: Wire) -> Iterator[KubeCluster]:
    gateway = KubeGateway(lambda _: f"token-{time.monotonic_ns()}")
    yield gateway.cluster(wire.ref)
    gateway.close()


@pytest.fixture
def watched() -> Iterator[watching.Watching]:
    made = watching.Watching()
    yield made
    made.stop()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "BACKOFF_SECONDS", (0.01, 0.05))


@pytest.fixture
def hold() -> Iterator[threading.Event]:
    """Keeps a stream open until the test ends."""
    event = threading.Event()
    yield event
    event.set()


def pod(name: str, version: int, phase: str = "Running") -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "n", "uid": name, "resourceVersion": str(version)}, "status": {"phase": phase}}


def event(kind: str, item: dict[str, Any]) -> dict[str, Any]:
    return {"type": kind, "object": item}


def bookmark(version: int) -> dict[str, Any]:
    return event(
        "BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": str(version), "creationTimestamp": None}, "spec": {"containers": None}}
    )


def listed(version: int, *items: dict[str, Any]) -> Reply:
    return Reply(200, {"items": list(items), "metadata": {"resourceVersion": str(version)}})


def until(check: Callable[[], bool]) -> None:
    """Wait for something the background loop does."""
    end = time.monotonic() + 60
    while not check():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


class Story:
    """Lists and watches answered in order; the last watch is held open."""

    def __init__(self, lists: list[Reply], watches: list[Reply]) -> None:
        self.lists, self.watches = iter(lists), iter(watches)
        self.from_versions: list[str] = []

    def __call__(self, asked: Asked) -> Reply:
        if "watch" not in asked.params:
            return next(self.lists)
        self.from_versions.append(asked.params["resourceVersion"])
        return next(self.watches)


def names(reflector: cache.Reflector[Any]) -> set[str]:
    return {key[1] for key in reflector.snapshot().items}


def test_a_list_then_a_watch_give_the_present(wire: Wire, cluster: KubeCluster, watched: watching.Watching, hold: threading.Event) -> None:
    lines = [event("ADDED", pod("b", 11)), event("MODIFIED", pod("a", 12, "Succeeded")), event("DELETED", pod("b", 13)), bookmark(20), hold]
    wire.answer = Story([listed(10, pod("a", 5))], [Reply(lines=lines)])
    reflector = watched.pods(cluster)
    until(lambda: reflector.counts.bookmarks == 1)
    seen = reflector.snapshot()
    assert names(reflector) == {"a"}
    assert seen.items["n", "a"].phase == "Succeeded"
    assert not seen.stale
    assert seen.revision == 4


def test_a_long_list_is_read_in_pages(wire: Wire, cluster: KubeCluster, watched: watching.Watching, hold: threading.Event) -> None:
    first = Reply(200, {"items": [pod("a", 1)], "metadata": {"resourceVersion": "9", "continue": "c"}})
    wire.answer = Story([first, listed(9, pod("b", 2))], [Reply(lines=[hold])])
    assert names(watched.pods(cluster)) == {"a", "b"}
    assert wire.asked[1].params["continue"] == "c"


def test_a_torn_stream_goes_on_from_the_last_version(
    wire: Wire, cluster: KubeCluster, watched: watching.Watching, hold: threading.Event
) -> None:
    story = Story(
        [listed(10, pod("a", 5))], [Reply(lines=[event("ADDED", pod("b", 11)), TEAR]), Reply(lines=[event("DELETED", pod("a", 12)), hold])]
    )
    wire.answer = story
    reflector = watched.pods(cluster)
    until(lambda: names(reflector) == {"b"})
    assert story.from_versions == ["10", "11"]
    assert reflector.counts.lists == 1
    assert reflector.counts.failures == 1


def test_a_stream_that_ends_goes_on_from_its_last_bookmark(
    wire: Wire, cluster: KubeCluster, watched: watching.Watching, hold: threading.Event
) -> None:
    story = Story([listed(10)], [Reply(lines=[bookmark(50)]), Reply(lines=[event("ADDED", pod("a", 51)), hold])])
    wire.answer = story
    reflector = watched.pods(cluster)
    until(lambda: names(reflector) == {"a"})
    assert story.from_versions == ["10", "50"]
    assert reflector.counts.failures == 0


@pytest.mark.parametrize(
    "expired",
    [
        status(410, "Expired", "too old resource version: 10 (99)"),
        Reply(lines=[event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version: 10 (99)"})]),
    ],
    ids=["at the start", "inside the stream"],
)
def test_a_forgotten_version_lists_anew(
    wire: Wire, cluster: KubeCluster, watched: watching.Watching, hold: threading.Event, expired: Reply
) -> None:
    story = Story([listed(10, pod("a", 5)), listed(100, pod("b", 99))], [expired, Reply(lines=[hold])])
    wire.answer = story
    reflector = watched.pods(cluster)
    until(lambda: names(reflector) == {"b"})
    until(lambda: story.from_versions == ["10", "100"])
    assert reflector.counts.lists == 2


def test_a_refused_token_inside_a_watch_is_renewed(
    wire: Wire, cluster: KubeCluster, watched: watching.Watching, hold: threading.Event
) -> None:
    story = Story(
        [listed(10)], [Reply(lines=[TEAR]), status(401, "Unauthorized", "Unauthorized"), Reply(lines=[event("ADDED", pod("a", 11)), hold])]
    )
    wire.answer = story
    reflector = watched.pods(cluster)
    until(lambda: names(reflector) == {"a"})
    tokens = [a.token for a in wire.asked]
    assert tokens[-1] != tokens[-2]


def test_a_dead_socket_is_noticed(wire: Wire, cluster: KubeCluster, hold: threading.Event) -> None:
    import asyncio

    story = Story([listed(10)], [Reply(lines=[event("ADDED", pod("a", 11)), hold]), Reply(lines=[event("ADDED", pod("b", 12)), hold])])
    wire.answer = story

    async def story_runs() -> set[str]:
        reflector = cache.Reflector(cluster.connection, watching.PODS, silence_seconds=0.3)
        task = asyncio.create_task(reflector.run())
        while names(reflector) != {"a", "b"}:
            await asyncio.sleep(0.01)
        task.cancel()
        return names(reflector)

    assert asyncio.run(asyncio.wait_for(story_runs(), 20)) == {"a", "b"}
    assert story.from_versions[:2] == ["10", "11"]


def test_an_event_nobody_can_read_leads_to_a_new_list(
    wire: Wire, cluster: KubeCluster, watched: watching.Watching, hold: threading.Event
) -> None:
    broken = event("ADDED", {"metadata": {"name": 7}})
    wire.answer = Story([listed(10), listed(12, pod("a", 12))], [Reply(lines=[broken]), Reply(lines=[hold])])
    reflector = watched.pods(cluster)
    until(lambda: names(reflector) == {"a"})


def test_a_copy_that_was_never_made_says_so(
    wire: Wire, cluster: KubeCluster, watched: watching.Watching, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "FIRST_LIST_SECONDS", 0.5)
    wire.answer = lambda _: status(403, "Forbidden", "pods is forbidden")
    seen = watched.pods(cluster).snapshot()
    assert seen.stale
    assert seen.problem is not None
    assert seen.problem.code == "kubernetes.forbidden"


def test_a_forgotten_cluster_is_watched_no_more(
    wire: Wire, cluster: KubeCluster, watched: watching.Watching, hold: threading.Event
) -> None:
    wire.answer = Story([listed(1), listed(2)], [Reply(lines=[hold]), Reply(lines=[hold])])
    first = watched.pods(cluster)
    assert watched.pods(cluster) is first
    watched.forget(cluster.ref.arn)
    assert watched.pods(cluster) is not first
