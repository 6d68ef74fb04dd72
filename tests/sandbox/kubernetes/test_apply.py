"""Server-side apply: ownership, conflicts, force, removal, associative keys, and the tracking of plain updates."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from instantstart_sandbox.kubernetes import fields
from instantstart_sandbox.kubernetes.fields import FieldSet
from instantstart_sandbox.kubernetes.schema import ANYTHING

from .objects import DEPLOYMENTS, MAPS, config_map, deployment

APPLY = {"Content-Type": "application/apply-patch+yaml"}
MERGE = {"Content-Type": "application/merge-patch+json"}


def apply(http: httpx2.Client, manager: str, body: dict[str, Any], *, force: bool = False, path: str = "") -> httpx2.Response:
    query = {"fieldManager": manager} | ({"force": "true"} if force else {})
    return http.patch(path or f"{DEPLOYMENTS}/{body['metadata']['name']}", params=query, json=body, headers=APPLY)


def managers(body: dict[str, Any]) -> dict[tuple[str, str, str], FieldSet]:
    return {(m["manager"], m["operation"], m.get("subresource", "")): m["fieldsV1"] for m in body["metadata"]["managedFields"]}


def web(replicas: int | None = 2, **container: Any) -> dict[str, Any]:
    body = deployment()
    body["spec"]["template"]["spec"]["containers"][0] |= container
    if replicas is None:
        del body["spec"]["replicas"]
    else:
        body["spec"]["replicas"] = replicas
    return body


def test_apply_creates_and_then_does_nothing(http: httpx2.Client) -> None:
    made = apply(http, "one", web())
    assert made.status_code == 201
    owned = managers(made.json())["one", "Apply", ""]
    assert owned == {
        "f:spec": {
            "f:replicas": {},
            "f:selector": {},
            "f:template": {
                "f:metadata": {"f:labels": {"f:app": {}}},
                "f:spec": {"f:containers": {'k:{"name":"c"}': {".": {}, "f:image": {}, "f:name": {}}}},
            },
        }
    }
    again = apply(http, "one", web())
    assert (again.status_code, again.json()) == (200, made.json())


def test_a_field_of_another_manager_is_a_conflict_that_names_it(http: httpx2.Client) -> None:
    apply(http, "one", web())
    answer = apply(http, "two", web(5))
    assert answer.status_code == 409
    assert answer.json()["reason"] == "Conflict"
    assert answer.json()["message"] == 'Apply failed with 1 conflict: conflict with "one": .spec.replicas'
    assert answer.json()["details"]["causes"] == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "one"', "field": ".spec.replicas"}
    ]
    both = apply(http, "two", web(5, image="nginx:2")).json()["message"]
    assert (
        both == 'Apply failed with 2 conflicts: conflicts with "one":\n- .spec.replicas\n- .spec.template.spec.containers[name="c"].image'
    )


def test_force_takes_the_field_and_equal_values_are_shared(http: httpx2.Client) -> None:
    apply(http, "one", web())
    shared = apply(http, "two", web()).json()
    assert managers(shared)["one", "Apply", ""] == managers(shared)["two", "Apply", ""]
    forced = apply(http, "two", web(5), force=True).json()
    assert forced["spec"]["replicas"] == 5
    assert "f:replicas" not in managers(forced)["one", "Apply", ""]["f:spec"]
    assert "f:replicas" in managers(forced)["two", "Apply", ""]["f:spec"]


def test_what_is_no_longer_applied_goes_unless_another_owns_it(http: httpx2.Client) -> None:
    body = web(env=[{"name": "A", "value": "1"}, {"name": "B", "value": "2"}])
    apply(http, "one", body)
    other = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}}
    other["spec"] = {"template": {"spec": {"containers": [{"name": "c", "env": [{"name": "B", "value": "2"}]}]}}}
    apply(http, "two", other)
    left = apply(http, "one", web()).json()["spec"]["template"]["spec"]["containers"][0]["env"]
    assert left == [{"name": "B", "value": "2"}]
    del other["spec"]
    gone = apply(http, "two", other).json()
    assert "env" not in gone["spec"]["template"]["spec"]["containers"][0]
    assert ("two", "Apply", "") not in managers(gone)


def test_an_update_takes_ownership_and_apply_then_conflicts_with_it(http: httpx2.Client) -> None:
    apply(http, "one", web())
    http.patch(f"{DEPLOYMENTS}/web", json={"spec": {"replicas": 4}}, headers={**MERGE, "User-Agent": "scaler/2"})
    found = managers(http.get(f"{DEPLOYMENTS}/web").json())
    assert found["scaler", "Update", ""] == {"f:spec": {"f:replicas": {}}}
    assert "f:replicas" not in found["one", "Apply", ""]["f:spec"]
    assert apply(http, "one", web()).json()["message"].endswith('conflict with "scaler" using apps/v1: .spec.replicas')
    kept = apply(http, "one", web(None)).json()
    assert kept["spec"]["replicas"] == 4


def test_an_update_by_the_scale_subresource_says_so(http: httpx2.Client) -> None:
    apply(http, "one", web())
    http.patch(f"{DEPLOYMENTS}/web/scale", json={"spec": {"replicas": 4}}, headers={**MERGE, "User-Agent": "hpa/1"})
    assert managers(http.get(f"{DEPLOYMENTS}/web").json())["hpa", "Update", "scale"] == {"f:spec": {"f:replicas": {}}}


def test_a_created_object_lists_its_containers_as_go_does(http: httpx2.Client) -> None:
    made = http.post(DEPLOYMENTS, json=web(env=[{"name": "A", "value": "1"}])).json()
    spec = managers(made)["tester", "Update", ""]["f:spec"]
    container = spec["f:template"]["f:spec"]["f:containers"]['k:{"name":"c"}']
    assert container["f:env"] == {".": {}, 'k:{"name":"A"}': {".": {}, "f:name": {}, "f:value": {}}}
    assert "." in container
    assert "." not in spec["f:template"]
    assert spec["f:strategy"]["f:rollingUpdate"] == {".": {}, "f:maxSurge": {}, "f:maxUnavailable": {}}
    assert "f:status" not in managers(made)["tester", "Update", ""]


def test_an_object_that_nobody_manages_belongs_to_before_first_apply(http: httpx2.Client) -> None:
    made = http.post(MAPS, json=config_map("m", k="v")).json()
    cleared = http.patch(f"{MAPS}/m", json={"metadata": {"managedFields": [{}]}}, headers=MERGE).json()
    assert ("tester", "Update", "") not in managers({"metadata": {"managedFields": [], **cleared["metadata"]}})
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"k": "new"}}
    answer = apply(http, "one", body, path=f"{MAPS}/m")
    assert 'conflict with "before-first-apply" using v1: .data.k' in answer.json()["message"]
    assert made["data"] == {"k": "v"}


def test_status_is_applied_through_its_own_path(http: httpx2.Client) -> None:
    apply(http, "one", {**web(), "status": {"replicas": 7}})
    assert http.get(f"{DEPLOYMENTS}/web").json()["status"] == {}
    status = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "status": {"replicas": 2}}
    body = apply(http, "controller", status, path=f"{DEPLOYMENTS}/web/status").json()
    assert body["status"] == {"replicas": 2}
    assert managers(body)["controller", "Apply", "status"] == {"f:status": {"f:replicas": {}}}


def test_apply_refusals(http: httpx2.Client) -> None:
    unnamed = http.patch(f"{DEPLOYMENTS}/web", json=web(), headers=APPLY).json()
    assert (unnamed["code"], unnamed["details"]["causes"][0]["field"]) == (422, "fieldManager")
    body = web()
    body["spec"]["colour"] = "red"
    undeclared = apply(http, "one", body)
    assert undeclared.status_code == 500
    assert undeclared.json()["message"].endswith("Kind=Deployment): .spec.colour: field not declared in schema")
    assert apply(http, "one", {**web(), "apiVersion": ""}).status_code == 400


def test_two_ports_of_one_number_and_two_protocols_are_two_items(http: httpx2.Client) -> None:
    ports = [{"containerPort": 53, "protocol": "UDP"}, {"containerPort": 53}]
    body = apply(http, "one", web(ports=ports)).json()
    owned = managers(body)["one", "Apply", ""]["f:spec"]["f:template"]["f:spec"]["f:containers"]['k:{"name":"c"}']["f:ports"]
    assert set(owned) == {'k:{"containerPort":53,"protocol":"TCP"}', 'k:{"containerPort":53,"protocol":"UDP"}'}
    assert apply(http, "one", web(ports=ports)).json() == body


@pytest.mark.parametrize("junk", [{"f:data": 5}, {"k:{": {}}, {"x": {}}, {"f:data": {"v:": {}}}, {"k:5": {}}])
def test_managed_fields_that_cannot_be_read_are_passed_over(http: httpx2.Client, junk: object) -> None:
    made = http.post(MAPS, json=config_map("m", k="v")).json()
    entry = {"manager": "x", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": junk}
    body = http.patch(f"{MAPS}/m", json={"metadata": {"managedFields": [entry]}}, headers=MERGE).json()
    assert body["metadata"]["managedFields"] == made["metadata"]["managedFields"]


# ---------------------------------------------------------------------- the algebra

names = st.sampled_from(["f:a", "f:b", 'k:{"name":"x"}', "f:c"])
trees: st.SearchStrategy[FieldSet] = st.recursive(
    st.just({}), lambda inner: st.dictionaries(names, inner, min_size=1, max_size=3), max_leaves=6
).filter(bool)
objects = st.dictionaries(
    st.sampled_from("abc"),
    st.recursive(
        st.integers() | st.lists(st.integers(), max_size=2),
        lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
        max_leaves=5,
    ),
    max_size=3,
)


def members(tree: FieldSet) -> set[str]:
    return set(fields.paths(tree))


@given(trees, trees)
@settings(max_examples=200)
def test_sets_behave_like_sets(a: FieldSet, b: FieldSet) -> None:
    assert members(fields.union(a, b)) == members(a) | members(b)
    assert members(fields.difference(a, b)) == members(a) - members(b)
    assert members(fields.intersection(a, b)) == members(a) & members(b)


@given(objects, objects)
@settings(max_examples=200)
def test_applying_twice_is_applying_once(live: dict[str, Any], config: dict[str, Any]) -> None:
    once = fields.merge(live, config, ANYTHING)
    assert fields.merge(once, config, ANYTHING) == once
    assert not fields.compare(once, fields.merge(once, config, ANYTHING), ANYTHING).changed


@given(objects, objects)
@settings(max_examples=200)
def test_a_comparison_is_empty_only_between_equals(a: dict[str, Any], b: dict[str, Any]) -> None:
    found = fields.compare(a, b, ANYTHING)
    assert bool(found.added or found.removed or found.modified) == (a != b)
