"""The three plain patches, over HTTPS and by their laws."""

from __future__ import annotations

import copy
from typing import Any

import httpx2
from hypothesis import given
from hypothesis import strategies as st

from instantstart_sandbox.kubernetes.patch import merge_patch, strategic_merge
from instantstart_sandbox.kubernetes.schema import definition

from .objects import DEPLOYMENTS, MAPS, config_map, deployment

STRATEGIC = {"Content-Type": "application/strategic-merge-patch+json"}
MERGE = {"Content-Type": "application/merge-patch+json"}
JSON = {"Content-Type": "application/json-patch+json"}
DEPLOYMENT = definition("io.k8s.api.apps.v1.Deployment")

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=3),
    max_leaves=8,
)


def test_merge_patch_null_removes_and_lists_are_replaced(http: httpx2.Client) -> None:
    http.post(DEPLOYMENTS, json=deployment())
    http.patch(f"{DEPLOYMENTS}/web", json={"metadata": {"labels": {"a": "1", "b": "2"}}}, headers=MERGE)
    body = http.patch(f"{DEPLOYMENTS}/web", json={"metadata": {"labels": {"a": None}}}, headers=MERGE).json()
    assert body["metadata"]["labels"] == {"b": "2"}
    only = {"spec": {"template": {"spec": {"containers": [{"name": "x", "image": "i"}]}}}}
    body = http.patch(f"{DEPLOYMENTS}/web", json=only, headers=MERGE).json()
    assert [c["name"] for c in body["spec"]["template"]["spec"]["containers"]] == ["x"]


def test_json_patch_tests_and_fails_as_one(http: httpx2.Client) -> None:
    http.post(MAPS, json=config_map(k="v"))
    good = [{"op": "test", "path": "/data/k", "value": "v"}, {"op": "add", "path": "/data/n", "value": "1"}]
    assert http.patch(f"{MAPS}/a", json=good, headers=JSON).json()["data"] == {"k": "v", "n": "1"}
    bad = [{"op": "add", "path": "/data/z", "value": "1"}, {"op": "test", "path": "/data/k", "value": "other"}]
    answer = http.patch(f"{MAPS}/a", json=bad, headers=JSON)
    assert (answer.status_code, answer.json()["reason"]) == (422, "Invalid")
    assert answer.json()["message"] == "the server rejected our request due to an error in our request"
    assert "z" not in http.get(f"{MAPS}/a").json()["data"]
    assert http.patch(f"{MAPS}/a", json=[{"op": "remove", "path": "/data/none"}], headers=JSON).status_code == 422


def test_strategic_merge_by_key_puts_new_items_first(http: httpx2.Client) -> None:
    http.post(DEPLOYMENTS, json=deployment())

    def patch(spec: dict[str, Any]) -> list[dict[str, Any]]:
        answer = http.patch(f"{DEPLOYMENTS}/web", json={"spec": {"template": {"spec": spec}}}, headers=STRATEGIC)
        assert answer.status_code == 200, answer.text
        containers: list[dict[str, Any]] = answer.json()["spec"]["template"]["spec"]["containers"]
        return containers

    assert [c["name"] for c in patch({"containers": [{"name": "side", "image": "s"}]})] == ["side", "c"]
    changed = patch({"containers": [{"name": "c", "env": [{"name": "A", "value": "1"}]}]})
    assert [(c["name"], c["image"], "env" in c) for c in changed] == [("side", "s", False), ("c", "nginx:1", True)]
    changed = patch({"containers": [{"name": "c", "env": [{"name": "B", "value": "2"}]}]})
    assert [e["name"] for e in changed[1]["env"]] == ["B", "A"]
    changed = patch({"$setElementOrder/containers": [{"name": "c"}, {"name": "side"}]})
    assert [c["name"] for c in changed] == ["c", "side"]
    assert [c["name"] for c in patch({"containers": [{"name": "side", "$patch": "delete"}]})] == ["c"]


def test_strategic_directives() -> None:
    before = {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}, "metadata": {"finalizers": ["a", "b"]}}
    patch = {
        "spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}},
        "metadata": {"$deleteFromPrimitiveList/finalizers": ["a"], "finalizers": ["c"]},
    }
    after = strategic_merge(before, patch, DEPLOYMENT)
    assert after["spec"]["strategy"] == {"type": "Recreate"}
    assert sorted(after["metadata"]["finalizers"]) == ["b", "c"]
    replaced = strategic_merge({"metadata": {"labels": {"a": "1"}}}, {"metadata": {"labels": {"$patch": "replace", "b": "2"}}}, DEPLOYMENT)
    assert replaced["metadata"]["labels"] == {"b": "2"}


def test_a_patch_of_an_unknown_kind_is_a_415(http: httpx2.Client) -> None:
    http.post(MAPS, json=config_map())
    answer = http.patch(f"{MAPS}/a", json={}, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["reason"]) == (415, "UnsupportedMediaType")


def test_a_patch_cannot_rename(http: httpx2.Client) -> None:
    http.post(MAPS, json=config_map())
    assert http.patch(f"{MAPS}/a", json={"metadata": {"name": "b"}}, headers=MERGE).status_code == 400


@given(values, values)
def test_merge_patch_twice_is_once_and_leaves_its_input_alone(target: object, patch: object) -> None:
    kept = copy.deepcopy((target, patch))
    once = merge_patch(target, patch)
    assert merge_patch(once, patch) == once
    assert (target, patch) == kept


@given(values)
def test_merging_a_value_into_itself_without_nulls_changes_nothing(value: object) -> None:
    clean = merge_patch({}, value) if isinstance(value, dict) else value
    assert merge_patch(clean, clean) == clean
