"""CustomResourceDefinitions and what they define: established, served, pruned, defaulted, validated, scaled, removed."""

from __future__ import annotations

import copy
from typing import Any

import httpx2
import pytest

from .objects import DEFINITIONS, WIDGETS, widget, widget_definition

MERGE = {"Content-Type": "application/merge-patch+json"}
APPLY = {"Content-Type": "application/apply-patch+yaml"}


@pytest.fixture
def widgets(http: httpx2.Client) -> httpx2.Client:
    assert http.post(DEFINITIONS, json=widget_definition()).status_code == 201
    return http


def test_a_definition_becomes_established_and_discoverable(widgets: httpx2.Client) -> None:
    body = widgets.get(f"{DEFINITIONS}/widgets.example.com").json()
    conditions = {c["type"]: c["status"] for c in body["status"]["conditions"]}
    assert conditions == {"NamesAccepted": "True", "Established": "True"}
    assert body["status"]["storedVersions"] == ["v1"]
    assert body["status"]["acceptedNames"]["listKind"] == "WidgetList"
    resources = {r["name"]: r for r in widgets.get("/apis/example.com/v1").json()["resources"]}
    assert set(resources) == {"widgets", "widgets/status", "widgets/scale"}
    assert (resources["widgets"]["shortNames"], resources["widgets"]["categories"]) == (["wg"], ["all"])
    aggregated = {"Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}
    groups = {g["metadata"]["name"] for g in widgets.get("/apis", headers=aggregated).json()["items"]}
    assert "example.com" in groups
    schemas = widgets.get("/openapi/v3/apis/example.com/v1").json()["components"]["schemas"]
    assert "com.example.v1.Widget" in schemas


def test_defaults_pruning_and_what_is_kept(widgets: httpx2.Client) -> None:
    body = widget(color="red", unknown=1, free={"any": {"thing": [1]}})
    made = widgets.post(WIDGETS, json=body)
    assert made.json()["spec"] == {"color": "red", "size": 3, "free": {"any": {"thing": [1]}}}
    assert made.headers["warning"] == '299 - "unknown field \\"spec.unknown\\""'
    strict = widgets.post(f"{WIDGETS}?fieldValidation=Strict", json=widget("x", color="red", unknown=1)).json()
    assert strict["message"].endswith('strict decoding error: unknown field "spec.unknown"')


@pytest.mark.parametrize(
    ("spec", "field", "reason", "sentence"),
    [
        ({}, "spec.color", "FieldValueRequired", "Required value"),
        ({"color": "green"}, "spec.color", "FieldValueNotSupported", 'Unsupported value: "green": supported values: "red", "blue"'),
        ({"color": "red", "size": 0}, "spec.size", "FieldValueInvalid", "should be greater than or equal to 1"),
        ({"color": "red", "size": "x"}, "spec.size", "FieldValueTypeInvalid", 'must be of type integer: "string"'),
        ({"color": "red", "code": "A1"}, "spec.code", "FieldValueInvalid", "should match '^[a-z]+$'"),
        ({"color": "red", "code": "abcdef"}, "spec.code", "FieldValueTooLong", "may not be more than 5 bytes"),
        ({"color": "red", "ports": [{"port": 1}]}, "spec.ports[0].name", "FieldValueRequired", "Required value"),
        ({"color": "red", "ports": [{"name": "a"}, {"name": "a"}]}, "spec.ports[1]", "FieldValueDuplicate", "Duplicate value"),
    ],
)
def test_violations_of_the_schema(widgets: httpx2.Client, spec: dict[str, Any], field: str, reason: str, sentence: str) -> None:
    body = widgets.post(WIDGETS, json=widget(**spec)).json()
    assert (body["code"], body["reason"]) == (422, "Invalid")
    assert body["message"].startswith('Widget.example.com "w" is invalid: ')
    assert any((c["field"], c["reason"]) == (field, reason) and sentence in c["message"] for c in body["details"]["causes"]), body


def test_status_scale_and_generation(widgets: httpx2.Client) -> None:
    widgets.post(WIDGETS, json={**widget(color="red", replicas=2), "status": {"phase": "made up"}})
    assert "status" not in widgets.get(f"{WIDGETS}/w").json()
    body = widgets.patch(f"{WIDGETS}/w/status", json={"status": {"phase": "Ready", "replicas": 1}}, headers=MERGE).json()
    assert (body["status"]["phase"], body["metadata"]["generation"]) == ("Ready", 1)
    scale = widgets.get(f"{WIDGETS}/w/scale").json()
    assert (scale["spec"], scale["status"]) == ({"replicas": 2}, {"replicas": 1})
    widgets.patch(f"{WIDGETS}/w/scale", json={"spec": {"replicas": 4}}, headers=MERGE)
    after = widgets.get(f"{WIDGETS}/w").json()
    assert (after["spec"]["replicas"], after["metadata"]["generation"]) == (4, 2)


def test_an_update_needs_a_resource_version(widgets: httpx2.Client) -> None:
    made = widgets.post(WIDGETS, json=widget(color="red")).json()
    bare = widgets.put(f"{WIDGETS}/w", json=widget(color="blue")).json()
    assert (bare["code"], bare["details"]["causes"][0]["field"]) == (422, "metadata.resourceVersion")
    made["spec"]["color"] = "blue"
    assert widgets.put(f"{WIDGETS}/w", json=made).status_code == 200
    assert widgets.patch(f"{WIDGETS}/w", json={}, headers={"Content-Type": "application/strategic-merge-patch+json"}).status_code == 415


def test_apply_merges_lists_by_the_keys_of_the_schema(widgets: httpx2.Client) -> None:
    def apply(manager: str, **spec: Any) -> dict[str, Any]:
        answer = widgets.patch(f"{WIDGETS}/w", params={"fieldManager": manager}, json=widget(**spec), headers=APPLY)
        body: dict[str, Any] = answer.json()
        return body

    apply("one", color="red", ports=[{"name": "a", "port": 1}])
    both = apply("two", ports=[{"name": "b", "port": 2}])
    assert [p["name"] for p in both["spec"]["ports"]] == ["a", "b"] or [p["name"] for p in both["spec"]["ports"]] == ["b", "a"]
    left = apply("one", color="red")
    assert [p["name"] for p in left["spec"]["ports"]] == ["b"]
    assert left["spec"]["size"] == 3


def test_versions_are_served_side_by_side(http: httpx2.Client) -> None:
    body = widget_definition()
    older = copy.deepcopy(body["spec"]["versions"][0])
    body["spec"]["versions"].append({**older, "name": "v1beta1", "storage": False})
    http.post(DEFINITIONS, json=body)
    http.post(WIDGETS, json=widget(color="red"))
    path = WIDGETS.replace("/v1/", "/v1beta1/")
    assert http.get(f"{path}/w").json()["apiVersion"] == "example.com/v1beta1"
    assert http.get(path).json()["items"][0]["apiVersion"] == "example.com/v1beta1"
    group = http.get("/apis/example.com").json()
    assert group["preferredVersion"]["version"] == "v1"
    made = http.post(path, json={**widget("x", color="blue"), "apiVersion": "example.com/v1beta1"}).json()
    assert made["apiVersion"] == "example.com/v1beta1"
    assert http.get(f"{WIDGETS}/x").json()["apiVersion"] == "example.com/v1"


def test_a_definition_takes_its_objects_with_it(widgets: httpx2.Client) -> None:
    held = widget("held", color="red")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    widgets.post(WIDGETS, json=held)
    widgets.post(WIDGETS, json=widget(color="red"))
    ending = widgets.delete(f"{DEFINITIONS}/widgets.example.com").json()
    assert ending["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
    assert [i["metadata"]["name"] for i in widgets.get(WIDGETS).json()["items"]] == ["held"]
    widgets.patch(f"{WIDGETS}/held", json={"metadata": {"finalizers": None}}, headers=MERGE)
    assert widgets.get(f"{DEFINITIONS}/widgets.example.com").status_code == 404
    gone = widgets.get(WIDGETS)
    assert (gone.status_code, gone.text, gone.headers["content-type"]) == (404, "404 page not found\n", "text/plain; charset=utf-8")


def test_a_bad_definition_is_refused(http: httpx2.Client) -> None:
    body = widget_definition()
    body["metadata"]["name"] = "gadgets.example.com"
    answer = http.post(DEFINITIONS, json=body).json()
    assert (answer["code"], answer["details"]["causes"][0]["field"]) == (422, "metadata.name")
    body = widget_definition()
    body["spec"]["versions"][0]["storage"] = False
    assert "exactly one version marked as storage" in http.post(DEFINITIONS, json=body).json()["message"]


def test_tables_show_the_printer_columns(widgets: httpx2.Client) -> None:
    widgets.post(WIDGETS, json=widget(color="red"))
    body = widgets.get(WIDGETS, headers={"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}).json()
    assert [c["name"] for c in body["columnDefinitions"]] == ["Name", "Color"]
    assert body["rows"][0]["cells"] == ["w", "red"]


def test_the_watches_of_a_removed_definition_end(widgets: httpx2.Client) -> None:
    widgets.post(WIDGETS, json=widget(color="red"))
    with widgets.stream("GET", WIDGETS, params={"watch": "true"}) as answer:
        lines = (line for line in answer.iter_lines() if line)
        assert '"ADDED"' in next(lines)
        widgets.delete(f"{DEFINITIONS}/widgets.example.com")
        assert ['"DELETED"' in line for line in lines] == [True]
