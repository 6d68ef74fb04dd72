"""Following a log through rotation, restarts and the end (case 78)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from tests.kube.scripted import TEAR, Asked, Reply, Wire, status

from instantstart.base import problems
from instantstart.kube import logs
from instantstart.kube.client import KubeCluster, LogQuery
from instantstart.kube.connect import KubeGateway


@pytest.fixture
def cluster(wire: Wire) -> Iterator[KubeCluster]:
    gateway = KubeGateway(lambda _: "token")
    yield gateway.cluster(wire.ref)
    gateway.close()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "AGAIN_SECONDS", 0.01)


def a_pod(phase: str = "Running", *, restarts: int = 0, state: dict[str, Any] | None = None, uid: str = "u") -> Reply:
    container = {"name": "main", "restartCount": restarts, "state": state or {"running": {"startedAt": "2026-11-30T12:00:00Z"}}}
    return Reply(
        200, {"metadata": {"name": "a", "namespace": "n", "uid": uid}, "status": {"phase": phase, "containerStatuses": [container]}}
    )


def at(second: int, text: str) -> str:
    return f"2026-11-30T12:00:{second:02d}.000000000Z {text}"


class Story:
    """The pod's states and the log's streams, each in order; the last of each repeats."""

    def __init__(self, pods: list[Reply], streams: list[Reply]) -> None:
        self.pods, self.streams = pods, streams
        self.previous = Reply(lines=[])
        self.since: list[str | None] = []

    def __call__(self, asked: Asked) -> Reply:
        if not asked.path.endswith("/log"):
            return self.pods.pop(0) if len(self.pods) > 1 else self.pods[0]
        assert asked.params["timestamps"] == "true"
        if "previous" in asked.params:
            return self.previous
        if "follow" not in asked.params:
            return Reply(lines=[])
        self.since.append(asked.params.get("sinceTime"))
        return self.streams.pop(0) if len(self.streams) > 1 else self.streams[0]


def told(cluster: KubeCluster, query: LogQuery | None = None) -> list[str]:
    async def read() -> list[str]:
        return [item.text async for item in logs.follow(cluster, "a", "n", query)]

    return asyncio.run(asyncio.wait_for(read(), 20))


ENDED = a_pod("Failed", state={"terminated": {"exitCode": 137, "reason": "OOMKilled"}})


def test_lines_come_once_though_the_stream_is_torn_and_begun_again(wire: Wire, cluster: KubeCluster) -> None:
    story = Story(
        [a_pod(), a_pod(), ENDED],
        [Reply(lines=[at(1, "one"), at(2, "two"), TEAR]), Reply(lines=[at(2, "two"), at(2, "two again"), at(3, "three")])],
    )
    wire.answer = story
    assert told(cluster) == ["one", "two", "two again", "three", "The container ended with exit code 137 (OOMKilled)."]
    assert story.since == [None, "2026-11-30T12:00:02.000000000Z"]


def test_a_restart_is_told_and_the_new_log_read(wire: Wire, cluster: KubeCluster) -> None:
    wire.answer = Story([a_pod(), a_pod(restarts=1), ENDED], [Reply(lines=[at(1, "first life")]), Reply(lines=[at(5, "second life")])])
    assert told(cluster)[:3] == ["first life", "The container main was restarted (restart 1).", "second life"]


def test_the_last_words_of_a_life_that_nobody_saw_come_before_the_restart(wire: Wire, cluster: KubeCluster) -> None:
    story = Story([a_pod(), a_pod(restarts=1), ENDED], [Reply(lines=[at(1, "one")]), Reply(lines=[at(5, "second life")])])
    story.previous = Reply(lines=[at(1, "one"), at(2, "last words")])
    wire.answer = story
    assert told(cluster)[:4] == ["one", "last words", "The container main was restarted (restart 1).", "second life"]


def test_a_container_that_begins_and_ends_between_two_looks_is_read(wire: Wire, cluster: KubeCluster) -> None:
    def answer(asked: Asked) -> Reply:
        if asked.path.endswith("/log"):
            assert "follow" not in asked.params
            return Reply(lines=[at(1, "brief")])
        return pods.pop(0)

    pods = [a_pod("Pending", state={"waiting": {"reason": "ContainerCreating"}}), a_pod("Succeeded", state={"terminated": {"exitCode": 0}})]
    wire.answer = answer
    assert told(cluster) == ["brief", "The container ended with exit code 0."]


def test_a_container_that_waits_to_start_is_waited_for(wire: Wire, cluster: KubeCluster) -> None:
    waiting = a_pod("Pending", state={"waiting": {"reason": "ContainerCreating"}})
    wire.answer = Story(
        [waiting, waiting, a_pod(), a_pod("Succeeded", state={"terminated": {"exitCode": 0}})], [Reply(lines=[at(1, "hello")])]
    )
    assert told(cluster) == ["hello", "The container ended with exit code 0."]


def test_a_pod_that_goes_away_ends_the_log(wire: Wire, cluster: KubeCluster) -> None:
    wire.answer = Story([a_pod(), status(404, "NotFound", 'pods "a" not found', name="a")], [Reply(lines=[at(1, "bye")])])
    assert told(cluster) == ["bye", "The pod is gone."]


def test_a_pod_of_the_same_name_is_another_pod(wire: Wire, cluster: KubeCluster) -> None:
    wire.answer = Story([a_pod(), a_pod(uid="other")], [Reply(lines=[at(1, "bye")])])
    assert told(cluster)[-1] == "The pod was replaced by another of the same name."


def test_an_absent_pod_is_not_found(wire: Wire, cluster: KubeCluster) -> None:
    wire.answer = lambda _: status(404, "NotFound", 'pods "a" not found', name="a")
    with pytest.raises(problems.NotFound):
        told(cluster)


def test_a_refusal_is_told(wire: Wire, cluster: KubeCluster) -> None:
    wire.answer = Story([a_pod()], [status(403, "Forbidden", "pods/log is forbidden")])
    with pytest.raises(problems.Denied):
        told(cluster)


def test_the_query_is_kept_for_the_first_read_only(wire: Wire, cluster: KubeCluster) -> None:
    wire.answer = Story([a_pod(), a_pod(), ENDED], [Reply(lines=[at(1, "one")])])
    told(cluster, LogQuery(tail_lines=1, container="main"))
    asked = [a.params for a in wire.asked if a.path.endswith("/log")]
    assert asked[0]["tailLines"] == "1"
    assert "tailLines" not in asked[1]
    assert asked[1]["container"] == "main"
