"""Built-in types inside of custom definitions: structural schemas without references, as a definition has to carry them."""

from __future__ import annotations

import functools
from typing import Any

from .schema import definitions

Schema = dict[str, Any]
_REF = "#/components/schemas/"
_KEPT = ("type", "format", "enum", "required", "minimum", "maximum", "pattern", "nullable")
_LISTS = ("x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type")
_CORE = "io.k8s.api.core.v1."
_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_OR_STRING: Schema = {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}
#: what the API server itself puts where a key is not given
_KEY_DEFAULTS = {"protocol": "TCP"}
#: metadata of an object inside of another: what people set there
_INNER_META: Schema = {
    "type": "object",
    "properties": {
        "annotations": {"type": "object", "additionalProperties": {"type": "string"}},
        "finalizers": {"type": "array", "items": {"type": "string"}},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "name": {"type": "string"},
        "namespace": {"type": "string"},
    },
}


def pod_template() -> Schema:
    """A PodTemplateSpec."""
    return embedded(f"{_CORE}PodTemplateSpec")


@functools.cache
def embedded(name: str) -> Schema:
    """The structural schema of a built-in definition."""
    return _inlined({"$ref": _REF + name})


def _inlined(schema: Schema) -> Schema:
    parts = schema.get("allOf") or []
    reference = schema.get("$ref") or (parts[0].get("$ref") if len(parts) == 1 else None)
    if reference is not None:
        name = reference.rsplit("/", 1)[1]
        if name == _META:
            return _INNER_META
        return {**_inlined(definitions()[name]), **{k: schema[k] for k in _LISTS if k in schema}}
    if schema.get("format") in ("int-or-string", "quantity") or "oneOf" in schema:
        return dict(_OR_STRING)
    made = {k: v for k, v in schema.items() if k in (*_KEPT, *_LISTS)}
    if "properties" in schema:
        made["properties"] = {k: _inlined(v) for k, v in schema["properties"].items()}
    if isinstance(schema.get("additionalProperties"), dict):
        made["additionalProperties"] = _inlined(schema["additionalProperties"])
    if "items" in schema:
        made["items"] = _keyed(_inlined(schema["items"]), made.get("x-kubernetes-list-map-keys", ()))
    if not made.get("properties") and not made.get("additionalProperties") and made.get("type", "object") == "object":
        made |= {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return made


def _keyed(items: Schema, keys: tuple[str, ...] | list[str]) -> Schema:
    """Items of a list that is a map: a definition must require its keys or give them a default."""
    missing = [key for key in keys if key not in items.get("required", ())]
    if not missing:
        return items
    fields = {**items["properties"], **{k: {**items["properties"][k], "default": _KEY_DEFAULTS.get(k, "")} for k in missing}}
    return {**items, "properties": fields}
