"""Schemas of built-in and custom kinds in one form: ``Node``, which knows its children and how lists and maps are merged.

The built-in definitions come from ``data/definitions.json.gz`` (see data/NOTICE); custom ones from CustomResourceDefinitions.
"""

from __future__ import annotations

import functools
import gzip
from collections.abc import Mapping
from importlib import resources as package_files
from typing import Any, Final

import orjson

Schema = dict[str, Any]
MISSING: Final = object()
_REF: Final = "#/components/schemas/"


class Node:
    """One level of a schema. Children are made when they are first looked at, since schemas may be recursive."""

    __slots__ = (
        "_additional",
        "_items",
        "_parts",
        "_properties",
        "atomic",
        "default",
        "embedded",
        "keys",
        "list_type",
        "merge_key",
        "name",
        "nullable",
        "patch_merge",
        "preserve",
        "raw",
        "required",
        "retain_keys",
        "structure",
        "type",
    )

    def __init__(self, raw: Schema, name: str = "") -> None:
        self.raw, self.name = raw, name
        self.type: str = _type(raw)
        self.structure = "properties" in raw
        self.required: tuple[str, ...] = tuple(raw.get("required", ()))
        self.default: Any = raw.get("default", MISSING)
        self.nullable: bool = bool(raw.get("nullable"))
        self.embedded: bool = bool(raw.get("x-kubernetes-embedded-resource"))
        self.preserve: bool = bool(raw.get("x-kubernetes-preserve-unknown-fields")) or (
            not self.structure and raw.get("additionalProperties") in (None, True)
        )
        self.atomic: bool = raw.get("x-kubernetes-map-type") == "atomic"
        strategy = raw.get("x-kubernetes-patch-strategy", "").split(",")
        self.patch_merge, self.retain_keys = "merge" in strategy, "retainKeys" in strategy
        self.merge_key: str | None = raw.get("x-kubernetes-patch-merge-key")
        self.list_type, self.keys = _list_kind(raw, self.patch_merge, self.merge_key)
        self._properties: dict[str, Node] = {}
        self._additional: Node | None = None
        self._items: Node | None = None
        self._parts: dict[str, list[Node]] = {}

    def child(self, field: str) -> Node | None:
        """The schema of a field, or None when the schema does not declare it."""
        found = self._properties.get(field)
        if found is not None:
            return found
        declared = self.raw.get("properties", {}).get(field)
        if declared is not None:
            node = self._properties[field] = compiled(declared)
            return node
        return self.additional

    @property
    def fields(self) -> Mapping[str, Schema]:
        """The declared fields."""
        return self.raw.get("properties") or {}

    @property
    def additional(self) -> Node | None:
        """The schema of a map's values."""
        if self._additional is None and isinstance(self.raw.get("additionalProperties"), dict):
            self._additional = compiled(self.raw["additionalProperties"])
        return self._additional

    @property
    def items(self) -> Node:
        """The schema of a list's items."""
        if self._items is None:
            self._items = compiled(self.raw.get("items") or {})
        return self._items

    def parts(self, keyword: str) -> list[Node]:
        """The alternatives under ``allOf``, ``anyOf``, ``oneOf``."""
        if keyword not in self._parts:
            self._parts[keyword] = [Node(part) for part in self.raw.get(keyword, ())]
        return self._parts[keyword]


def _type(raw: Schema) -> str:
    if raw.get("x-kubernetes-int-or-string") or raw.get("format") == "int-or-string":
        return "int-or-string"
    alternatives = {part.get("type") for part in raw.get("oneOf", ())}
    if alternatives == {"string", "integer"}:
        return "int-or-string"
    if alternatives == {"string", "number"}:
        return "quantity"
    declared = raw.get("type", "")
    return str(declared)


def _list_kind(raw: Schema, merge: bool, merge_key: str | None) -> tuple[str, tuple[str, ...]]:
    declared = raw.get("x-kubernetes-list-type")
    if declared == "map":
        return "map", tuple(raw["x-kubernetes-list-map-keys"])
    if declared in ("set", "atomic"):
        return declared, ()
    if merge:
        return ("map", (merge_key,)) if merge_key else ("set", ())
    return "atomic", ()


#: A schema that says nothing: maps are merged key by key, lists are atomic, everything is kept.
ANYTHING: Final = Node({})


@functools.cache
def definitions() -> dict[str, Schema]:
    """The built-in definitions by their OpenAPI name."""
    data = (package_files.files("instantstart_sandbox.kubernetes") / "data" / "definitions.json.gz").read_bytes()
    return orjson.loads(gzip.decompress(data))["definitions"]  # type: ignore[no-any-return]


@functools.cache
def definition(name: str) -> Node:
    """The compiled built-in definition, e.g. ``io.k8s.api.core.v1.Pod``."""
    return Node(definitions()[name], name)


@functools.cache
def _by_kind() -> dict[tuple[str, str, str], str]:
    found = {}
    for name, schema in definitions().items():
        for gvk in schema.get("x-kubernetes-group-version-kind", ()):
            found[gvk["group"], gvk["version"], gvk["kind"]] = name
    return found


def definition_name(group: str, version: str, kind: str) -> str:
    """The OpenAPI name of a built-in kind. KeyError for a kind that was not cut out."""
    return _by_kind()[group, version, kind]


def compiled(schema: Schema) -> Node:
    """The node of a schema that may be a reference; what stands beside a reference (description, list type) is kept."""
    reference = schema.get("$ref")
    if reference is None:
        parts = schema.get("allOf")
        if parts and len(parts) == 1 and "$ref" in parts[0]:
            return compiled({**parts[0], **{k: v for k, v in schema.items() if k != "allOf"}})
        return Node(schema)
    name = reference.rsplit("/", 1)[1]
    beside = {k: v for k, v in schema.items() if k.startswith("x-kubernetes-")}
    return Node({**definitions()[name], **beside}, name) if beside else definition(name)
