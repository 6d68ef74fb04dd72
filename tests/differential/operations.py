"""(b) Drawn sequences of writes by two managers over three objects of two kinds, one of which the sandbox knows only by its definition."""

from __future__ import annotations

import copy
import time
from dataclasses import dataclass
from typing import Any, Final

import httpx2
from hypothesis import strategies as st
from tests.differential.corpus import MEDIA

Object = dict[str, Any]
GROUP: Final = "differential.example.com"
NAMES: Final = ("one", "two", "three")
MANAGERS: Final = ("left", "right")
_PATIENCE_SECONDS: Final = 30.0
_PATCHES: Final = ("merge", "json-patch", "strategic")


@dataclass(frozen=True)
class Kind:
    """A kind to write to. ``deep`` is the way to its list of named items."""

    plural: str
    kind: str
    api_version: str

    def path(self, namespace: str, name: str = "", subresource: str = "") -> str:
        """The path of the collection, an object or a subresource."""
        parts = ("/apis", self.api_version, "namespaces", namespace, self.plural, name, subresource)
        return "/".join(p for p in parts if p)


DEPLOYMENT: Final = Kind("deployments", "Deployment", "apps/v1")
WIDGET: Final = Kind("gauges", "Gauge", f"{GROUP}/v1")

_variables = st.lists(
    st.fixed_dictionaries({"name": st.sampled_from("AB"), "value": st.sampled_from("12")}), max_size=2, unique_by=lambda e: e["name"]
)
_containers = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from("cd"), "image": st.sampled_from(["i:1", "i:2"])},
        optional={"env": _variables, "command": st.lists(st.sampled_from(["sh", "true"]), max_size=2)},
    ),
    min_size=1,
    max_size=2,
    unique_by=lambda c: c["name"],
)
_metadata = st.fixed_dictionaries(
    {},
    optional={
        "labels": st.dictionaries(st.sampled_from("xy"), st.sampled_from("12"), max_size=2),
        "annotations": st.dictionaries(st.sampled_from("pq"), st.sampled_from(["", "1"]), max_size=2),
        "finalizers": st.lists(st.sampled_from(["e.com/a", "e.com/b"]), max_size=2, unique=True),
    },
)
_verbs = st.sampled_from(
    ["create", "update", "update-stale", "apply", "apply", "apply", "force", *_PATCHES, "status", "status-apply", "scale", "delete", "get"]
)


@dataclass(frozen=True)
class Operation:
    """One write, before it is known which side it goes to."""

    verb: str
    kind: Kind
    name: str
    manager: str
    metadata: Object
    replicas: int | None
    containers: list[Object]

    def body(self, name: str) -> Object:
        """The object that this writer wants."""
        spec: Object = {"template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": copy.deepcopy(self.containers)}}}
        if self.kind is DEPLOYMENT:
            spec["selector"] = {"matchLabels": {"app": "a"}}
            spec["paused"] = True
        if self.replicas is not None:
            spec["replicas"] = self.replicas if self.kind is WIDGET else 0
        return {
            "apiVersion": self.kind.api_version,
            "kind": self.kind.kind,
            "metadata": {"name": name, **copy.deepcopy(self.metadata)},
            "spec": spec,
        }


drawn: Final = st.builds(
    Operation,
    verb=_verbs,
    kind=st.sampled_from([DEPLOYMENT, WIDGET]),
    name=st.sampled_from(NAMES),
    manager=st.sampled_from(MANAGERS),
    metadata=_metadata,
    replicas=st.one_of(st.none(), st.integers(0, 3)),
    containers=_containers,
)
scripts: Final = st.lists(drawn, min_size=1, max_size=12)


class Writer:
    """Carries out operations on one side; ``word`` begins every object's name."""

    def __init__(self, client: httpx2.Client, namespace: str, word: str) -> None:
        self.client, self.namespace, self.word = client, namespace, word

    def act(self, operation: Operation) -> httpx2.Response:
        """Send one operation when the controllers have done with the object, so that they come between no two writes."""
        self._let_settle(operation.kind, f"{self.word}-{operation.name}")
        name, body = f"{self.word}-{operation.name}", operation.body(f"{self.word}-{operation.name}")
        query = {"fieldManager": operation.manager}
        path = operation.kind.path(self.namespace, name)
        verb = operation.verb
        if verb == "create":
            return self.client.post(operation.kind.path(self.namespace), params=query, json=body)
        if verb in ("update", "update-stale"):
            return self._update(path, query, body, stale=verb == "update-stale")
        if verb in ("apply", "force"):
            return self._patch(path, query | ({"force": "true"} if verb == "force" else {}), "apply", body)
        if verb == "delete":
            return self.client.delete(path)
        if verb == "get":
            return self.client.get(path)
        return self._small(verb, path, query, body, operation)

    def _let_settle(self, kind: Kind, name: str) -> None:
        """Until the controller of Deployments has seen the newest generation; other kinds have none."""
        if kind is not DEPLOYMENT:
            return
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            answer = self.client.get(kind.path(self.namespace, name))
            obj = answer.json()
            if answer.status_code == 404 or obj["metadata"]["generation"] == obj["status"].get("observedGeneration"):
                return
            assert time.monotonic() < deadline, f"the controller never saw {name}: {obj}"
            time.sleep(0.01)

    def _small(self, verb: str, path: str, query: dict[str, str], body: Object, operation: Operation) -> httpx2.Response:
        status = {"status": {"observedGeneration": operation.replicas or 0}}
        if verb == "status":
            return self._patch(f"{path}/status", query, "merge", status)
        if verb == "status-apply":
            return self._patch(f"{path}/status", query, "apply", {k: body[k] for k in ("apiVersion", "kind")} | status)
        if verb == "scale":
            return self._patch(f"{path}/scale", query, "merge", {"spec": {"replicas": 0}})
        if verb == "json-patch":
            steps = [{"op": "add", "path": "/spec/template/spec/containers", "value": operation.containers}]
            return self._patch(path, query, verb, steps)
        return self._patch(path, query, verb, body)

    def _update(self, path: str, query: dict[str, str], body: Object, *, stale: bool) -> httpx2.Response:
        present = self.client.get(path)
        if present.status_code == 200:
            body["metadata"]["resourceVersion"] = "1" if stale else present.json()["metadata"]["resourceVersion"]
        return self.client.put(path, params=query, json=body)

    def _patch(self, path: str, query: dict[str, str], media: str, body: Any) -> httpx2.Response:
        return self.client.request("PATCH", path, params=query, json=body, headers={"Content-Type": MEDIA[media]})


def definition() -> Object:
    """A kind with a schema that has a list by key, a list as a whole, status and scale."""
    item = {
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": {"type": "string"},
            "image": {"type": "string"},
            "env": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "value": {"type": "string"}}},
            },
            "command": {"type": "array", "items": {"type": "string"}},
        },
    }
    containers = {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": item}
    template = {
        "type": "object",
        "properties": {
            "metadata": {
                "type": "object",
                "properties": {"labels": {"type": "object", "additionalProperties": {"type": "string"}}},
            },
            "spec": {"type": "object", "properties": {"containers": containers}},
        },
    }
    properties = {
        "spec": {"type": "object", "properties": {"replicas": {"type": "integer", "default": 1}, "template": template}},
        "status": {"type": "object", "properties": {"observedGeneration": {"type": "integer"}, "replicas": {"type": "integer"}}},
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
        "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
    }
    names = {"plural": WIDGET.plural, "kind": WIDGET.kind, "singular": "gauge", "listKind": "GaugeList"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{WIDGET.plural}.{GROUP}"},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]},
    }
