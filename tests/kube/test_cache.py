"""The reflector through everything that happens to a watch (case 75)."""

from __future__ import annotations

import dataclasses
import json
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


# --- what else befalls a stream: the copy equals what a list would say each time


def text(document: dict[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=False).encode() + b"\n"


def test_a_slow_stream_is_put_together_from_its_crumbs(
    wire: Wire, cluster: KubeCluster, watched: watching.Watching, hold: threading.Event
) -> None:
    whole = text(event("ADDED", pod("b", 11) | {"spec": {"nodeName": "knöten-é-日本"}})) + text(event("ADDED", pod("c", 12)))
    crumbs = [part for at in range(0, len(whole), 7) for part in (whole[at : at + 7], 0.001)]
    wire.answer = Story([listed(10, pod("a", 5))], [Reply(lines=[*crumbs, hold])])
    reflector = watched.pods(cluster)
    until(lambda: names(reflector) == {"a", "b", "c"})
    found = reflector.find("n", "b")
    assert found is not None
    assert found.node == "knöten-é-日本"
    assert reflector.counts.failures == 0


@pytest.mark.parametrize("at", [1, 20, -1], ids=["after a byte", "in the middle", "before the end of the line"])
def test_an_event_torn_in_two_is_not_taken_and_comes_again(
    wire: Wire, cluster: KubeCluster, watched: watching.Watching, hold: threading.Event, at: int
) -> None:
    half = text(event("DELETED", pod("a", 12)))[:at]
    again = Reply(lines=[event("DELETED", pod("a", 12)), hold])
    story = Story([listed(10, pod("a", 5)), listed(12, pod("b", 11))], [Reply(lines=[event("ADDED", pod("b", 11)), half, TEAR]), again])
    wire.answer = story
    reflector = watched.pods(cluster)
    until(lambda: names(reflector) == {"b"})
    assert story.from_versions[:2] == ["10", "11"]


def test_a_stream_that_ends_in_the_middle_of_an_event_lists_anew(
    wire: Wire, cluster: KubeCluster, watched: watching.Watching, hold: threading.Event
) -> None:
    half = text(event("DELETED", pod("a", 12)))[:20]
    story = Story([listed(10, pod("a", 5)), listed(12)], [Reply(lines=[half]), Reply(lines=[hold])])
    wire.answer = story
    reflector = watched.pods(cluster)
    until(lambda: reflector.counts.lists == 2)
    until(lambda: story.from_versions == ["10", "12"])
    assert names(reflector) == set()


def test_a_token_that_ends_inside_a_watch_costs_nothing_but_a_new_token(
    wire: Wire, cluster: KubeCluster, watched: watching.Watching, hold: threading.Event
) -> None:
    unauthorized = {"kind": "Status", "status": "Failure", "code": 401, "reason": "Unauthorized", "message": "Unauthorized"}
    ended = Reply(lines=[event("ADDED", pod("a", 11)), event("ERROR", unauthorized)])
    story = Story([listed(10)], [ended, status(401, "Unauthorized", "Unauthorized"), Reply(lines=[event("ADDED", pod("b", 12)), hold])])
    wire.answer = story
    reflector = watched.pods(cluster)
    until(lambda: names(reflector) == {"a", "b"})
    assert story.from_versions == ["10", "11", "11"]
    assert len({asked.token for asked in wire.asked}) == 2
    assert reflector.counts.lists == 1


def test_what_a_watch_lost_without_a_word_is_found_by_a_list_in_due_time(
    wire: Wire, cluster: KubeCluster, watched: watching.Watching, hold: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "RELIST_SECONDS", (0.0, 0.0))
    story = Story([listed(10, pod("a", 5)), listed(20, pod("b", 15))], [Reply(lines=[bookmark(20)]), Reply(lines=[hold])])
    wire.answer = story
    reflector = watched.pods(cluster)
    until(lambda: names(reflector) == {"b"})
    assert reflector.counts.failures == 0


def test_pages_whose_snapshot_was_forgotten_are_read_anew_as_one(
    wire: Wire, cluster: KubeCluster, watched: watching.Watching, hold: threading.Event
) -> None:
    first = Reply(200, {"items": [pod("a", 1)], "metadata": {"resourceVersion": "9", "continue": "c"}})
    expired = status(410, "Expired", "The provided continue parameter is too old")
    story = Story([first, expired, listed(30, pod("b", 20), pod("c", 21))], [Reply(lines=[hold])])
    wire.answer = story
    reflector = watched.pods(cluster)
    assert names(reflector) == {"b", "c"}
    assert [asked.params.get("limit") for asked in wire.asked[:3]] == ["500", "500", None]
    until(lambda: story.from_versions == ["30"])
    assert reflector.counts.failures == 0


@pytest.mark.parametrize(
    "bad",
    [
        status(429, "TooManyRequests", "Too many requests, please try again later.", retryAfterSeconds=1),
        status(503, "ServiceUnavailable", "apiserver is shutting down"),
        Reply(502, b"<html>Bad Gateway</html>"),
        Reply(body=TEAR),
        Reply(lines=[event("ERROR", {"kind": "Status", "code": 500, "reason": "InternalError", "message": "etcd: leader changed"})]),
    ],
    ids=["429", "503", "502 of a proxy", "no answer", "ERROR 500"],
)
def test_bad_answers_are_waited_out_and_told_meanwhile(
    wire: Wire, cluster: KubeCluster, watched: watching.Watching, hold: threading.Event, bad: Reply
) -> None:
    told = threading.Event()

    def held_back(asked: Asked) -> Reply:
        return story(asked) if "watch" not in asked.params or told.is_set() or not story.from_versions else bad

    story = Story([listed(10, pod("a", 5))], [bad, Reply(lines=[event("ADDED", pod("b", 11)), hold])])
    wire.answer = held_back
    reflector = watched.pods(cluster)
    until(lambda: reflector.freshness().problem is not None)
    seen = reflector.freshness()
    assert seen.stale
    assert seen.heard_at is not None
    assert names(reflector) == {"a"}
    told.set()
    until(lambda: names(reflector) == {"a", "b"})
    assert not reflector.freshness().stale
    assert reflector.counts.lists == 1


def test_a_server_that_ends_every_watch_at_once_is_not_stormed(
    wire: Wire, cluster: KubeCluster, watched: watching.Watching, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "BACKOFF_SECONDS", (10.0, 30.0))
    wire.answer = lambda asked: Reply(lines=[]) if "watch" in asked.params else listed(10)
    reflector = watched.pods(cluster)
    until(lambda: reflector.counts.watches == 1)
    time.sleep(0.3)
    assert reflector.counts.watches == 1


class Index:
    """What a listener was told, put together."""

    def __init__(self) -> None:
        self.known: dict[tuple[str, str], Any] = {}
        self.wrong: list[str] = []

    def node(self, before: Any, after: Any) -> None:
        self._take("node", before and before.metadata, after and after.metadata, after)

    def pod(self, before: Any, after: Any) -> None:
        self._take("pod", before, after, after)

    def _take(self, kind: str, before: Any, after: Any, item: Any) -> None:
        key = (kind, (before or after).name)
        if (key in self.known) != (before is not None):
            self.wrong.append(f"{key}: {before} -> {after}")
        self.known.pop(key, None)
        if after is not None:
            self.known[key] = item


def test_an_index_is_told_each_change_once_also_those_that_only_a_new_list_shows(
    wire: Wire, cluster: KubeCluster, watched: watching.Watching, hold: threading.Event
) -> None:
    expired = event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"})
    again = listed(100, pod("b", 6), pod("c", 90), pod("d", 91, "Failed"))
    pods = Story(
        [listed(10, pod("a", 5), pod("b", 6), pod("d", 7)), again],
        [Reply(lines=[event("ADDED", pod("e", 11)), expired]), Reply(lines=[hold])],
    )
    nodes = Story([listed(10, {"metadata": {"name": "x", "resourceVersion": "3"}})], [Reply(lines=[hold])])
    wire.answer = lambda asked: (nodes if asked.path.endswith("nodes") else pods)(asked)
    live, index = watched.beside(cluster, Index)
    until(lambda: live.pods.counts.lists == 2 and ("pod", "d") in index.known and index.known["pod", "d"].phase == "Failed")
    assert set(index.known) == {("node", "x"), ("pod", "b"), ("pod", "c"), ("pod", "d")}
    assert index.wrong == []
    assert watched.beside(cluster, Index)[1] is index


def test_an_index_that_comes_later_is_told_what_there_is(
    wire: Wire, cluster: KubeCluster, watched: watching.Watching, hold: threading.Event
) -> None:
    pods, nodes = Story([listed(10, pod("a", 5))], [Reply(lines=[hold])]), Story([listed(10)], [Reply(lines=[hold])])
    wire.answer = lambda asked: (nodes if asked.path.endswith("nodes") else pods)(asked)
    watched.live(cluster)
    _, index = watched.beside(cluster, Index)
    assert set(index.known) == {("pod", "a")}


def test_what_nobody_looks_at_is_watched_no_more(wire: Wire, cluster: KubeCluster, hold: threading.Event) -> None:
    wire.answer = Story([listed(1), listed(2)], [Reply(lines=[hold]), Reply(lines=[hold])])
    idle = watching.Watching(idle_seconds=0.2)
    first = idle.pods(cluster)
    until(lambda: idle.watched() == [])
    assert idle.pods(cluster) is not first
    idle.stop()


def test_the_cluster_that_was_asked_for_longest_ago_makes_room(wire: Wire, hold: threading.Event) -> None:
    wire.answer = lambda asked: Reply(lines=[hold]) if "watch" in asked.params else listed(1)
    gateway, few = KubeGateway(lambda _: "token"), watching.Watching(most=2)
    refs = [dataclasses.replace(wire.ref, arn=f"{wire.ref.arn}-{n}") for n in range(3)]
    for ref in (refs[0], refs[1], refs[0], refs[2]):
        few.pods(gateway.cluster(ref))
    assert few.watched() == [refs[0].arn, refs[2].arn]
    few.stop()
    gateway.close()
