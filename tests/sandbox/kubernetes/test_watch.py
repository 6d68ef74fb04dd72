"""Watches: replay, order, selectors, bookmarks, both shapes of 410, time-outs, initial events."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import pytest

from .conftest import World
from .objects import MAPS, PODS, config_map, pod

MERGE = {"Content-Type": "application/merge-patch+json"}
Event = dict[str, Any]


@contextmanager
def watching(http: httpx2.Client, path: str, **query: str) -> Iterator[Iterator[Event]]:
    """The events of one watch; a watch that says nothing for five seconds fails the test."""
    with http.stream("GET", path, params={"watch": "true", **query}, timeout=httpx2.Timeout(30, read=10)) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "application/json"
        yield (json.loads(line) for line in answer.iter_lines() if line)


def seen(event: Event) -> tuple[str, str]:
    return event["type"], event["object"]["metadata"]["name"]


def test_a_watch_replays_from_its_revision_and_goes_on(http: httpx2.Client) -> None:
    start = http.get(MAPS).json()["metadata"]["resourceVersion"]
    http.post(MAPS, json=config_map("one"))
    http.patch(f"{MAPS}/one", json={"data": {"k": "2"}}, headers=MERGE)
    with watching(http, MAPS, resourceVersion=start) as events:
        assert [seen(next(events)), seen(next(events))] == [("ADDED", "one"), ("MODIFIED", "one")]
        http.delete(f"{MAPS}/one")
        event = next(events)
        assert seen(event) == ("DELETED", "one")
        assert int(event["object"]["metadata"]["resourceVersion"]) > int(start) + 2


def test_a_watch_without_revision_begins_with_what_there_is(http: httpx2.Client) -> None:
    http.post(PODS, json=pod("a"))
    http.post(PODS, json=pod("b"))
    with watching(http, PODS) as events:
        assert [seen(next(events)), seen(next(events))] == [("ADDED", "a"), ("ADDED", "b")]


def test_a_selector_turns_changes_into_coming_and_going(http: httpx2.Client) -> None:
    start = http.post(PODS, json=pod("a")).json()["metadata"]["resourceVersion"]
    with watching(http, PODS, resourceVersion=start, labelSelector="tier=x") as events:
        http.patch(f"{PODS}/a", json={"metadata": {"labels": {"tier": "x"}}}, headers=MERGE)
        assert seen(next(events)) == ("ADDED", "a")
        http.patch(f"{PODS}/a", json={"metadata": {"annotations": {"n": "1"}}}, headers=MERGE)
        assert seen(next(events)) == ("MODIFIED", "a")
        gone = http.patch(f"{PODS}/a", json={"metadata": {"labels": {"tier": "y"}}}, headers=MERGE).json()
        event = next(events)
        assert seen(event) == ("DELETED", "a")
        assert event["object"]["metadata"]["labels"]["tier"] == "x"
        assert event["object"]["metadata"]["resourceVersion"] == gone["metadata"]["resourceVersion"]


def test_a_watch_sees_only_its_namespace(http: httpx2.Client) -> None:
    http.post("/api/v1/namespaces", json={"metadata": {"name": "team"}})
    start = http.get(MAPS).json()["metadata"]["resourceVersion"]
    with watching(http, MAPS, resourceVersion=start) as events:
        http.post("/api/v1/namespaces/team/configmaps", json=config_map("there"))
        http.post(MAPS, json=config_map("here"))
        assert seen(next(events)) == ("ADDED", "here")


def test_a_forgotten_revision_is_a_410_in_the_stream(world: World, http: httpx2.Client) -> None:
    start = http.post(MAPS, json=config_map("one")).json()["metadata"]["resourceVersion"]
    http.post(MAPS, json=config_map("two"))
    world.cluster.in_loop(world.cluster.store.compact)
    http.get(MAPS)
    with watching(http, MAPS, resourceVersion=start) as events:
        event = next(events)
        assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")
        assert event["object"]["message"].startswith(f"too old resource version: {start} (")
        assert list(events) == []


def test_timeouts_and_the_last_bookmark(http: httpx2.Client) -> None:
    http.post(PODS, json=pod("a"))
    now = http.get(PODS).json()["metadata"]["resourceVersion"]
    with watching(http, PODS, resourceVersion=now, allowWatchBookmarks="true", timeoutSeconds="2") as events:
        received = list(events)
    assert [e["type"] for e in received] == ["BOOKMARK"]
    mark = received[0]["object"]
    assert (mark["kind"], mark["metadata"], mark["spec"]) == ("Pod", {"resourceVersion": now}, {"containers": None})


def test_initial_events_end_with_a_marked_bookmark(http: httpx2.Client) -> None:
    http.post(PODS, json=pod("a"))
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    with watching(http, PODS, **query) as events:
        assert seen(next(events)) == ("ADDED", "a")
        mark = next(events)
        assert (mark["type"], mark["object"]["metadata"]["annotations"]) == ("BOOKMARK", {"k8s.io/initial-events-end": "true"})
    refused = http.get(PODS, params={"watch": "true", "sendInitialEvents": "true"})
    assert (refused.status_code, refused.json()["reason"]) == (422, "Invalid")


@pytest.mark.parametrize(
    "accept", ["application/json;as=Table;v=v1;g=meta.k8s.io", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"]
)
def test_watches_of_tables_and_metadata(http: httpx2.Client, accept: str) -> None:
    http.post(PODS, json=pod("a"))
    http.headers["Accept"] = accept
    with watching(http, PODS) as events:
        obj = next(events)["object"]
    assert (obj["kind"], "rows" in obj) in (("Table", True), ("PartialObjectMetadata", False))


def test_two_watchers_and_the_store_agree_after_a_storm(world: World, http: httpx2.Client) -> None:
    start = http.get(MAPS).json()["metadata"]["resourceVersion"]
    states: list[dict[str, str]] = [{}, {}]

    def follow(state: dict[str, str]) -> None:
        with world.http() as client, watching(client, MAPS, resourceVersion=start) as events:
            for event in events:
                name = event["object"]["metadata"]["name"]
                if name == "end":
                    return
                if event["type"] == "DELETED":
                    del state[name]
                else:
                    state[name] = event["object"]["metadata"]["resourceVersion"]

    threads = [threading.Thread(target=follow, args=(state,)) for state in states]
    for thread in threads:
        thread.start()
    _storm(http)
    http.post(MAPS, json=config_map("end"))
    for thread in threads:
        thread.join(30)
    truth = {i["metadata"]["name"]: i["metadata"]["resourceVersion"] for i in http.get(MAPS).json()["items"]}
    truth = {k: v for k, v in truth.items() if k.startswith("m")}
    assert states[0] == states[1] == truth


def _storm(http: httpx2.Client) -> None:
    for index in range(60):
        name = f"m{index % 7}"
        if index % 3 == 0:
            http.post(MAPS, json=config_map(name))
        elif index % 3 == 1:
            http.patch(f"{MAPS}/{name}", json={"data": {"k": str(index)}}, headers=MERGE)
        else:
            http.delete(f"{MAPS}/{name}")
