"""Lists: selectors, pages that see one snapshot, Tables, metadata only, deletion of collections."""

from __future__ import annotations

import base64
import json
from typing import Any

import httpx2
import pytest

from .conftest import World
from .objects import MAPS, PODS, config_map, pod

TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}


def names(body: dict[str, Any]) -> list[str]:
    return [i["metadata"]["name"] for i in body["items"]]


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ({"labelSelector": "app=a"}, ["a"]),
        ({"labelSelector": "app in (a,b)"}, ["a", "b"]),
        ({"labelSelector": "app notin (a, b)"}, ["c"]),
        ({"labelSelector": "app!=a"}, ["b", "c"]),
        ({"labelSelector": "app,app!=c"}, ["a", "b"]),
        ({"labelSelector": "!app"}, []),
        ({"fieldSelector": "metadata.name=b"}, ["b"]),
        ({"fieldSelector": "spec.nodeName=n1"}, ["c"]),
        ({"fieldSelector": "status.phase!=Pending"}, []),
        ({"fieldSelector": "spec.nodeName=", "labelSelector": "app=b"}, ["b"]),
    ],
)
def test_selectors(http: httpx2.Client, query: dict[str, str], wanted: list[str]) -> None:
    for name in ("a", "b"):
        http.post(PODS, json=pod(name))
    http.post(PODS, json=pod("c", nodeName="n1"))
    assert names(http.get(PODS, params=query).json()) == wanted


def test_selectors_that_cannot_be_read_are_refused(http: httpx2.Client) -> None:
    field = http.get(PODS, params={"fieldSelector": "spec.colour=red"}).json()
    assert (field["code"], field["reason"]) == (400, "BadRequest")
    assert field["message"].endswith("field label not supported: spec.colour")
    assert http.get(PODS, params={"labelSelector": "a in b"}).status_code == 400


def test_pages_show_one_snapshot(http: httpx2.Client) -> None:
    for index in range(7):
        http.post(MAPS, json=config_map(f"m{index}"))
    first = http.get(MAPS, params={"limit": 3}).json()
    assert first["metadata"]["remainingItemCount"] == 5  # kube-root-ca.crt is there too
    http.delete(f"{MAPS}/m5")
    http.post(MAPS, json=config_map("m55"))
    http.patch(f"{MAPS}/m6", json={"data": {"k": "new"}}, headers={"Content-Type": "application/merge-patch+json"})
    second = http.get(MAPS, params={"limit": 30, "continue": first["metadata"]["continue"]}).json()
    assert names(second) == ["m2", "m3", "m4", "m5", "m6"]
    assert second["items"][-1]["data"] == {"k": "v"}
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert "continue" not in second["metadata"]
    token = json.loads(base64.urlsafe_b64decode(first["metadata"]["continue"] + "=="))
    assert token["v"] == "meta.k8s.io/v1"


def test_a_page_of_a_forgotten_snapshot_is_a_410_with_a_way_on(world: World, http: httpx2.Client) -> None:
    for index in range(4):
        http.post(MAPS, json=config_map(f"m{index}"))
    first = http.get(MAPS, params={"limit": 2}).json()
    http.post(MAPS, json=config_map("m9"))
    world.cluster.in_loop(world.cluster.store.compact)
    expired = http.get(MAPS, params={"limit": 2, "continue": first["metadata"]["continue"]})
    assert (expired.status_code, expired.json()["reason"]) == (410, "Expired")
    rest = http.get(MAPS, params={"continue": expired.json()["metadata"]["continue"]}).json()
    assert names(rest) == ["m1", "m2", "m3", "m9"]
    assert http.get(MAPS, params={"continue": "nonsense"}).status_code == 400


def test_revisions_of_the_future_and_of_the_past(world: World, http: httpx2.Client) -> None:
    version = http.post(MAPS, json=config_map("old")).json()["metadata"]["resourceVersion"]
    http.delete(f"{MAPS}/old")
    exact = {"resourceVersion": version, "resourceVersionMatch": "Exact"}
    assert "old" in names(http.get(MAPS, params=exact).json())
    future = http.get(MAPS, params={"resourceVersion": "99999999"})
    assert (future.status_code, future.json()["details"]["causes"][0]["reason"]) == (504, "ResourceVersionTooLarge")
    world.cluster.in_loop(world.cluster.store.compact)
    assert http.get(MAPS, params=exact).status_code == 410
    http.post(MAPS, json=config_map("new"))
    assert len(names(http.get(MAPS, params={"resourceVersion": "0", "limit": 1}).json())) == 2


def test_a_list_names_its_kind_and_not_its_items(http: httpx2.Client) -> None:
    http.post(PODS, json=pod())
    body = http.get("/api/v1/pods").json()
    assert (body["kind"], body["apiVersion"]) == ("PodList", "v1")
    assert "kind" not in body["items"][0]
    assert int(body["metadata"]["resourceVersion"]) >= int(body["items"][0]["metadata"]["resourceVersion"])


def test_tables_and_metadata(http: httpx2.Client) -> None:
    http.post(PODS, json=pod())
    body = http.get(PODS, headers=TABLE).json()
    assert body["kind"] == "Table"
    assert [c["name"] for c in body["columnDefinitions"]][:5] == ["Name", "Ready", "Status", "Restarts", "Age"]
    assert body["rows"][0]["cells"][:4] == ["a", "0/1", "Pending", "0"]
    assert body["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    bare = http.get(PODS, headers={"Accept": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"}).json()
    assert bare["kind"] == "PartialObjectMetadataList"
    assert "spec" not in bare["items"][0]
    one = http.get(f"{PODS}/a", headers={"Accept": "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"}).json()
    assert sorted(one) == ["apiVersion", "kind", "metadata"]


def test_delete_collection_by_selector(http: httpx2.Client) -> None:
    for name in ("a", "b", "c"):
        http.post(PODS, json=pod(name))
    deleted = http.delete(PODS, params={"labelSelector": "app in (a,b)"}).json()
    assert names(deleted) == ["a", "b"]
    assert names(http.get(PODS).json()) == ["c"]
