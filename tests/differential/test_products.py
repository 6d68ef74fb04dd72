"""Every object that the product makes is taken by a real server without a word: fieldValidation=Strict, as a dry run."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml
from tests.differential.corpus import MEDIA
from tests.differential.grounds import ground, wait
from tests.differential.products import bundles, everything
from tests.differential.sides import Side

from instantstart_sandbox.kubernetes.karpenter import definitions as karpenter
from instantstart_sandbox.kubernetes.training import definition as training

Object = dict[str, Any]
PRODUCTS = everything()
SHARED = Path(__file__).parents[3] / "shared" / "crds"
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def definitions() -> list[Path]:
    """The definitions of the operators that we talk to, where the shared folder is there."""
    return sorted(SHARED.glob("*.yaml"))


def resource_path(client: httpx2.Client, obj: Object, namespace: str) -> str:
    """Where an object is written to, by the server's own discovery."""
    version = obj["apiVersion"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    served = client.get(root).raise_for_status().json()["resources"]
    found = next((r for r in served if r["kind"] == obj["kind"] and "/" not in r["name"]), None)
    assert found is not None, f"{obj['kind']} of {version} is not served, and no definition of it is at hand"
    middle = f"/namespaces/{namespace}" if found["namespaced"] else ""
    return f"{root}{middle}/{found['name']}/{obj['metadata']['name']}"


def try_apply(client: httpx2.Client, obj: Object, namespace: str) -> httpx2.Response:
    """A server-side apply that is checked strictly and kept nowhere."""
    body = copy.deepcopy(obj)
    if body["metadata"].get("namespace"):
        body["metadata"]["namespace"] = namespace  # it need not be there for the object to be checked
    query = {"fieldManager": "differential", "fieldValidation": "Strict", "dryRun": "All", "force": "true"}
    path = resource_path(client, body, namespace)
    return client.request("PATCH", path, params=query, json=body, headers={"Content-Type": MEDIA["apply"]})


@contextmanager
def kinds(client: httpx2.Client, objects: list[tuple[str, Object]]) -> Iterator[None]:
    """The definitions of the custom kinds among the objects, for as long as they are needed."""
    wanted = {(obj["apiVersion"], obj["kind"]) for _, obj in objects}
    made = []
    for definition in every_definition():
        spec = definition["spec"]
        served = {(f"{spec['group']}/{v['name']}", spec["names"]["kind"]) for v in spec["versions"]}
        if wanted & served and client.post(_DEFINITIONS, json=definition).status_code == 201:
            made.append(definition["metadata"]["name"])
            version, kind = min(wanted & served)
            wait(partial(_serves, client, version, kind), f"{kind} is not served")
    try:
        yield
    finally:
        for name in made:
            client.delete(f"{_DEFINITIONS}/{name}")


def _serves(client: httpx2.Client, version: str, kind: str) -> bool:
    answer = client.get(f"/apis/{version}")
    return answer.status_code == 200 and any(r["kind"] == kind for r in answer.json()["resources"])


def every_definition() -> Iterator[Object]:
    """Definitions among the bundles, then those of the shared folder, where it is there, then the sandbox's own (Karpenter, training)."""
    yield from (obj for _, obj in bundles() if obj["kind"] == "CustomResourceDefinition")
    for path in definitions():
        definition = yaml.load(path.read_text(), Loader=yaml.CSafeLoader)
        definition["spec"].pop("conversion", None)  # an unrendered chart's: it names a webhook of nobody, and no object can then be read
        yield definition
    yield from karpenter.definitions()
    yield training.definition()


def refusals(side: Side, objects: list[tuple[str, Object]]) -> list[str]:
    """What one side has against the objects, warnings included."""
    told = []
    with ground(side) as (client, namespace), kinds(client, objects):
        for about, obj in objects:
            answer = try_apply(client, obj, namespace)
            if answer.status_code >= 300:
                told.append(f"{about}: {answer.status_code} {answer.json()['message']}")
            elif "warning" in answer.headers:
                told.append(f"{about}: warning {answer.headers['warning']}")
    return told


def shared_definitions() -> list[tuple[str, Object]]:
    """Skips where there are none."""
    if not definitions():
        pytest.skip("the shared folder with the operators' definitions is not here")
    return [(path.stem, yaml.load(path.read_text(), Loader=yaml.CSafeLoader)) for path in definitions()]


def test_the_real_server_takes_what_the_product_makes(real: Side) -> None:
    assert refusals(real, PRODUCTS) == []


def test_the_sandbox_takes_what_the_product_makes(ours: Side) -> None:
    assert refusals(ours, PRODUCTS) == []


def test_both_sides_say_the_same_of_the_operators_definitions(real: Side, ours: Side) -> None:
    wanted = shared_definitions()
    assert refusals(ours, wanted) == refusals(real, wanted)


def test_the_sandbox_takes_the_operators_definitions(ours: Side) -> None:
    assert refusals(ours, shared_definitions()) == []
