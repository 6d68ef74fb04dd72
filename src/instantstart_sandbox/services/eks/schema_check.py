"""The part of JSON Schema that the add-ons' configuration schemas use: type, properties, additionalProperties, enum."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
}


def violations(value: Any, schema: dict[str, Any], path: str = "$") -> Iterator[str]:
    """Every violation as EKS words it; nothing when ``value`` fits."""
    wanted = schema.get("type")
    if wanted and (not isinstance(value, _TYPES[wanted]) or (wanted == "integer" and isinstance(value, bool))):
        yield f"{path}: {type(value).__name__} found, {wanted} expected"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{path}: does not have a value in the enumeration {schema['enum']}"
    if not isinstance(value, dict):
        return
    known = schema.get("properties", {})
    for key, item in value.items():
        if key in known:
            yield from violations(item, known[key], f"{path}.{key}")
        elif schema.get("additionalProperties") is False:
            yield f"{path}.{key}: is not defined in the schema and the schema does not allow additional properties"
