"""OpenAPI v3: the index and one document per group and version, enough for kubectl's apply, diff, validation and explain."""

from __future__ import annotations

import functools
import hashlib
import json
from importlib import resources as package_files
from typing import Any, Final

from instantstart_sandbox.kubernetes.resources import Catalog, Resource
from instantstart_sandbox.kubernetes.schema import definition_name, definitions

Object = dict[str, Any]

_REF: Final = "#/components/schemas/"
_PARAMETERS: Final[list[Object]] = [
    {"name": name, "in": "query", "description": text, "schema": {"type": kind, "uniqueItems": True}}
    for name, kind, text in (
        ("dryRun", "string", "All: process the request, store nothing"),
        ("fieldManager", "string", "who owns the written fields"),
        ("fieldValidation", "string", "Ignore, Warn or Strict"),
        ("pretty", "string", "indent the answer"),
    )
]
_FORCE: Final[Object] = {"name": "force", "in": "query", "description": "take fields from other managers", "schema": {"type": "boolean"}}
_PATCH_TYPES: Final = (
    "application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json",
)  # fmt: skip
_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


def _path(resource: Resource) -> str:
    return f"apis/{resource.group}/{resource.version}" if resource.group else f"api/{resource.version}"


def _text(number: int, text: str) -> bytes:
    return bytes([number << 3 | 2, len(text)]) + text.encode()


#: an OpenAPI v2 document without definitions, in the only form that kubectl asks for (gnostic's protobuf): what it looks for when v3 does
#: not know a kind, and then finds that v2 does not, either
EMPTY_V2: Final = _text(1, "2.0") + _text(2, (_text(1, "Kubernetes") + _text(2, "v1.34.4")).decode()) + _text(8, "") + _text(9, "")
V2_MEDIA: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"


class OpenApi:
    """The documents of one catalogue; cached until it changes."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog, self._generation = catalog, -1
        self._documents: dict[str, Object] = {}

    def _fresh(self) -> dict[str, Object]:
        if self._generation != self._catalog.generation:
            self._documents, self._generation = {}, self._catalog.generation
        return self._documents

    def index(self) -> Object:
        """``/openapi/v3``."""
        out = {}
        for resource in self._catalog:
            path = _path(resource)
            mark = hashlib.sha256(f"{path}{self._catalog.generation}".encode()).hexdigest()[:32].upper()
            out[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={mark}"}
        return {"paths": out}

    def document(self, path: str) -> Object | None:
        """``/openapi/v3/apis/apps/v1`` without its head, or None."""
        documents = self._fresh()
        if path not in documents:
            found = [r for r in self._catalog if _path(r) == path]
            if not found:
                return None
            documents[path] = _document(path, found)
        return documents[path]


def _document(path: str, resources: list[Resource]) -> Object:
    schemas: dict[str, Object] = {}
    paths: dict[str, Object] = {}
    for resource in resources:
        name = _schema_name(resource)
        if resource.custom:
            schemas[name] = _custom_schema(resource)
            schemas |= _closure(_META)
        else:
            schemas |= _closure(name)
        paths |= _operations(path, resource, name)
    paths = dict(sorted(paths.items()))
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "unversioned"},
        "paths": paths,
        "components": {"schemas": schemas},
    }


def _schema_name(resource: Resource) -> str:
    if resource.custom:
        return ".".join(reversed(resource.group.split("."))) + f".{resource.version}.{resource.kind}"
    return definition_name(resource.group, resource.version, resource.kind)


def _gvk(resource: Resource) -> Object:
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}


def _custom_schema(resource: Resource) -> Object:
    text = {"type": "string"}
    own = {"apiVersion": text, "kind": text, "metadata": {"allOf": [{"$ref": _REF + _META}]}}
    properties = {**(resource.schema.get("properties") or {}), **own}
    return {**resource.schema, "properties": properties, "x-kubernetes-group-version-kind": [_gvk(resource)]}


def _closure(name: str) -> dict[str, Object]:
    known, todo, out = definitions(), [name], dict[str, Object]()
    while todo:
        current = todo.pop()
        if current not in out:
            out[current] = _explained(current, known[current])
            todo.extend(_references(known[current]))
    return out


@functools.cache
def _values() -> dict[str, dict[str, list[str]]]:
    """The values that fields may have (tools/cut_kubernetes_enums.py), which only readers of these documents need."""
    text = (package_files.files("instantstart_sandbox.kubernetes") / "data" / "enums.json").read_text()
    return json.loads(text)  # type: ignore[no-any-return]


def _explained(name: str, definition: Object) -> Object:
    """A definition as the API server shows it: what stands beside a reference is kept by ``allOf``, and values are listed."""
    allowed = _values().get(name) or {}
    properties = {}
    for field, schema in (definition.get("properties") or {}).items():
        shown = schema
        if "$ref" in schema and len(schema) > 1:
            shown = {**{k: v for k, v in schema.items() if k != "$ref"}, "allOf": [{"$ref": schema["$ref"]}]}
        if field in allowed:
            inner = shown.get("items")
            shown = {**shown, "items": {**inner, "enum": allowed[field]}} if inner else {**shown, "enum": allowed[field]}
        properties[field] = shown
    return {**definition, "properties": properties} if properties else definition


def _references(node: Any) -> list[str]:
    if isinstance(node, dict):
        own = [node["$ref"].removeprefix(_REF)] if isinstance(node.get("$ref"), str) else []
        return own + [r for v in node.values() for r in _references(v)]
    if isinstance(node, list):
        return [r for v in node for r in _references(v)]
    return []


def _operations(path: str, resource: Resource, name: str) -> dict[str, Object]:
    base = f"/{path}/" + ("namespaces/{namespace}/" if resource.namespaced else "") + resource.plural
    schema = {"$ref": _REF + name}
    body = {"content": {"*/*": {"schema": schema}}}
    answer = {"200": {"description": "OK", "content": {"application/json": {"schema": schema}}}}

    def operation(action: str, parameters: list[Object], request: Object | None = None) -> Object:
        out: Object = {
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": _gvk(resource),
            "parameters": parameters,
            "responses": answer,
        }
        out["operationId"] = f"{action}{resource.kind}"
        return {**out, "requestBody": request} if request else out

    create = {"post": operation("post", _PARAMETERS, body)}
    if resource.virtual:
        return {base: create}
    patched = {"content": {t: {"schema": {"type": "object"}} for t in _PATCH_TYPES}}
    return {
        base: {**create, "get": operation("list", []), "delete": operation("deletecollection", _PARAMETERS[:1])},
        f"{base}/{{name}}": {
            "get": operation("get", []),
            "put": operation("put", _PARAMETERS, body),
            "patch": operation("patch", [*_PARAMETERS, _FORCE], patched),
            "delete": operation("delete", _PARAMETERS[:1]),
        },
    }
