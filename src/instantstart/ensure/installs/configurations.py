"""Configuration values of add-ons: merged, compared, written as canonical JSON (EKS compares them as a string, facts A9)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

Values = Mapping[str, Any]


def parse(text: str | None) -> dict[str, Any]:
    """What DescribeAddon tells; YAML-only values of somebody else count as none."""
    try:
        told = json.loads(text or "{}")
    except json.JSONDecodeError:
        return {}
    return told if isinstance(told, dict) else {}


def canonical(values: Values) -> str:
    """The one spelling."""
    return json.dumps(values, sort_keys=True, separators=(",", ":"))


def merged(base: Values, over: Values) -> dict[str, Any]:
    """``base`` with ``over`` on top: objects are merged, everything else (lists too) is replaced, null removes."""
    made = dict(base)
    for key, value in over.items():
        if value is None:
            made.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(made.get(key), Mapping):
            made[key] = merged(made[key], value)
        else:
            made[key] = dict(value) if isinstance(value, Mapping) else value
    return made


def differences(wanted: Values, have: Values, pointer: str = "") -> Iterator[str]:
    """JSON pointers of wanted values that ``have`` does not hold; what it holds besides is no difference."""
    for key, value in sorted(wanted.items()):
        here, there = f"{pointer}/{key}", have.get(key)
        if isinstance(value, Mapping) and isinstance(there, Mapping):
            yield from differences(value, there, here)
        elif (value is None and key in have) or (value is not None and value != there):
            yield here


def violations(values: Any, schema: Values, pointer: str = "") -> Iterator[tuple[str, str]]:
    """``(pointer, sentence)`` for what a schema of EKS refuses: unknown keys, wrong types, words outside of an enumeration."""
    wanted = str(schema.get("type"))
    if wanted in _TYPES and (not isinstance(values, _TYPES[wanted]) or (isinstance(values, bool) and wanted in ("integer", "number"))):
        yield pointer, f"must be {_WORDS[wanted]}"
        return
    if "enum" in schema and values not in schema["enum"]:
        yield pointer, f"must be one of {', '.join(map(str, schema['enum']))}"
    if not isinstance(values, Mapping):
        return
    known = schema.get("properties") or {}
    for key, value in values.items():
        if key in known:
            yield from violations(value, known[key], f"{pointer}/{key}")
        elif schema.get("additionalProperties") is False:
            yield f"{pointer}/{key}", f"is no value of this add-on; it takes {', '.join(sorted(known)) or 'none'}"


_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,), "array": (list,), "string": (str,), "boolean": (bool,), "integer": (int,), "number": (int, float),
}  # fmt: skip
_WORDS = {
    "object": "an object", "array": "a list", "string": "a text", "boolean": "true or false", "integer": "a whole number",
    "number": "a number",
}  # fmt: skip
