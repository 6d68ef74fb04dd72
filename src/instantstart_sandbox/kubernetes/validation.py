"""Pruning, defaulting and validating values against a schema, with the texts of the API server (kube-openapi's validation)."""

from __future__ import annotations

import copy
import functools
import json
import re
from collections.abc import Callable
from typing import Any, Final

from instantstart_sandbox.kubernetes.errors import Cause, bad_value, required
from instantstart_sandbox.kubernetes.schema import ANYTHING, MISSING, Node

_PYTHON_TYPES: Final[dict[str, type | tuple[type, ...]]] = {
    "object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "number": (int, float),
    "int-or-string": (int, str), "quantity": (int, float, str),
}  # fmt: skip
#: what Go makes of a null among the items of a list
_ZERO: Final[dict[str, Callable[[], Any]]] = {"object": dict, "string": str, "integer": int, "boolean": bool, "array": list}
_INT32: Final = range(-(2**31), 2**31)
_METADATA_FIELDS: Final = frozenset({"apiVersion", "kind", "metadata"})


def joined(path: str, field: str) -> str:
    """``spec`` + ``replicas`` -> ``spec.replicas``."""
    return f"{path}.{field}" if path else field


# ---------------------------------------------------------------------- pruning


def prune(value: Any, node: Node, *, custom: bool, path: str = "") -> list[str]:
    """Drop what the schema does not declare, in place; answers the paths of what was dropped.

    For built-in kinds a null and an empty optional list or map are dropped too, as decoding into Go structs does.
    """
    if isinstance(value, list):
        items, unknown = node.items, []
        for index, item in enumerate(value):
            if item is None and not custom and items.type in _ZERO:
                value[index] = item = _ZERO[items.type]()
            unknown += prune(item, items, custom=custom, path=f"{path}[{index}]")
        return unknown
    if not isinstance(value, dict):
        return []
    return _prune_object(value, node, custom=custom, path=path)


def _prune_object(value: dict[str, Any], node: Node, *, custom: bool, path: str) -> list[str]:
    unknown: list[str] = []
    for key in list(value):
        if (not path or node.embedded) and key in _METADATA_FIELDS and custom:
            continue
        child = node.child(key)
        if child is None:
            if not node.preserve:
                unknown.append(joined(path, key))
                del value[key]
            continue
        unknown += prune(value[key], child, custom=custom, path=joined(path, key))
        if not custom and _dropped_by_go(value[key], child, key in node.required, node):
            del value[key]
    return unknown


def _dropped_by_go(value: Any, child: Node, needed: bool, parent: Node) -> bool:
    if value is None:
        return not parent.preserve
    if needed or not parent.structure:
        return False
    return (value == [] and child.type == "array") or (value == {} and child.type == "object" and child.additional is not None)


# ---------------------------------------------------------------------- defaults


def default(value: Any, node: Node) -> None:
    """Fill in the schema's defaults, in place. A null that is not nullable is replaced by the default."""
    if isinstance(value, dict):
        for field in node.fields:
            child = node.child(field)
            if child is None or child.default is MISSING:
                continue
            if field not in value or (value[field] is None and not child.nullable):
                value[field] = copy.deepcopy(child.default)
        for key, item in value.items():
            default(item, node.child(key) or ANYTHING)
    elif isinstance(value, list):
        for item in value:
            default(item, node.items)


# ---------------------------------------------------------------------- validating


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def json_type(value: Any) -> str:
    """The type's name as the messages print it."""
    if value is None:
        return "null"
    names = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
    return names[type(value)]


def has_type(value: Any, wanted: str) -> bool:
    """Whether a value is of a schema type; a whole float is an integer, a boolean never is."""
    python = _PYTHON_TYPES.get(wanted)
    if python is None:
        return True
    if isinstance(value, bool) and wanted != "boolean":
        return False
    if wanted == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, python)


def validate(value: Any, node: Node, path: str, causes: list[Cause]) -> None:
    """Add every violation to ``causes``."""
    if value is None and (node.nullable or not node.type):
        return
    if not has_type(value, node.type):
        kind = json_type(value)
        causes.append(
            Cause(path, "FieldValueTypeInvalid", f'Invalid value: "{kind}": {path} in body must be of type {node.type}: "{kind}"')
        )
        return
    _check_enum(value, node, path, causes)
    if isinstance(value, str):
        _check_string(value, node, path, causes)
    elif isinstance(value, bool):
        pass
    elif isinstance(value, (int, float)):
        _check_number(value, node, path, causes)
    elif isinstance(value, list):
        _check_list(value, node, path, causes)
    elif isinstance(value, dict):
        _check_object(value, node, path, causes)
    _check_parts(value, node, path, causes)


def _check_enum(value: Any, node: Node, path: str, causes: list[Cause]) -> None:
    allowed = node.raw.get("enum")
    if allowed is not None and value not in allowed:
        listed = ", ".join(_shown(a) for a in allowed)
        causes.append(Cause(path, "FieldValueNotSupported", f"Unsupported value: {_shown(value)}: supported values: {listed}"))


@functools.lru_cache(maxsize=2048)
def _pattern(text: str) -> re.Pattern[str] | None:
    """Go's regular expression as Python's; None when Python cannot read it (it is then not enforced)."""
    translated = text.replace(r"\z", r"\Z").replace("[[:alnum:]]", "[A-Za-z0-9]").replace("\\pL", "\\w")
    try:
        return re.compile(translated)
    except re.error:
        return None


def _check_string(value: str, node: Node, path: str, causes: list[Cause]) -> None:
    raw = node.raw
    if len(value) > raw.get("maxLength", len(value)):
        causes.append(Cause(path, "FieldValueTooLong", f"Too long: may not be more than {raw['maxLength']} bytes"))
    if len(value) < raw.get("minLength", 0):
        causes.append(bad_value(path, _shown(value), f"{path} in body should be at least {raw['minLength']} chars long"))
    pattern = _pattern(raw["pattern"]) if "pattern" in raw else None
    if pattern is not None and not pattern.search(value):
        causes.append(bad_value(path, _shown(value), f"{path} in body should match '{raw['pattern']}'"))


def _check_number(value: float, node: Node, path: str, causes: list[Cause]) -> None:
    low, high = node.raw.get("minimum"), node.raw.get("maximum")
    if low is not None and (value <= low if node.raw.get("exclusiveMinimum") else value < low):
        than = "greater than" if node.raw.get("exclusiveMinimum") else "greater than or equal to"
        causes.append(bad_value(path, _shown(value), f"{path} in body should be {than} {low}"))
    if high is not None and (value >= high if node.raw.get("exclusiveMaximum") else value > high):
        than = "less than" if node.raw.get("exclusiveMaximum") else "less than or equal to"
        causes.append(bad_value(path, _shown(value), f"{path} in body should be {than} {high}"))


def _check_list(value: list[Any], node: Node, path: str, causes: list[Cause]) -> None:
    raw, count = node.raw, len(value)
    if count > raw.get("maxItems", count):
        causes.append(Cause(path, "FieldValueTooMany", f"Too many: {count}: must have at most {raw['maxItems']} items"))
    if count < raw.get("minItems", 0):
        causes.append(bad_value(path, str(count), f"{path} in body should have at least {raw['minItems']} items"))
    items = node.items
    for index, item in enumerate(value):
        validate(item, items, f"{path}[{index}]", causes)
    _check_duplicates(value, node, path, causes)


def _check_duplicates(value: list[Any], node: Node, path: str, causes: list[Cause]) -> None:
    seen = set()
    for index, item in enumerate(value):
        if node.raw.get("x-kubernetes-list-type") == "map" and isinstance(item, dict):
            shown = _shown({k: item[k] for k in node.keys if k in item})
        elif node.raw.get("x-kubernetes-list-type") == "set":
            shown = _shown(item)
        else:
            return
        if shown in seen:
            causes.append(Cause(f"{path}[{index}]", "FieldValueDuplicate", f"Duplicate value: {shown}"))
        seen.add(shown)


def _check_object(value: dict[str, Any], node: Node, path: str, causes: list[Cause]) -> None:
    raw = node.raw
    for field in node.required:
        if field not in value:
            causes.append(required(joined(path, field)))
    if len(value) > raw.get("maxProperties", len(value)):
        causes.append(Cause(path, "FieldValueTooMany", f"Too many: {len(value)}: must have at most {raw['maxProperties']} items"))
    if len(value) < raw.get("minProperties", 0):
        causes.append(bad_value(path, str(len(value)), f"{path} in body should have at least {raw['minProperties']} properties"))
    for key, item in value.items():
        if key in _METADATA_FIELDS and (not path or node.embedded):
            continue
        child = node.child(key)
        if child is not None:
            validate(item, child, joined(path, key), causes)


def _holds(value: Any, node: Node, path: str) -> bool:
    causes: list[Cause] = []
    validate(value, node, path, causes)
    return not causes


def _check_parts(value: Any, node: Node, path: str, causes: list[Cause]) -> None:
    if node.type in ("int-or-string", "quantity"):
        return
    for part in node.parts("allOf"):
        validate(value, part, path, causes)
    any_of, one_of = node.parts("anyOf"), node.parts("oneOf")
    if any_of and not any(_holds(value, p, path) for p in any_of):
        causes.append(bad_value(path, _shown(value), f"{path} in body must validate at least one schema (anyOf)"))
    if one_of and sum(_holds(value, p, path) for p in one_of) != 1:
        causes.append(bad_value(path, _shown(value), f"{path} in body must validate one and only one schema (oneOf)"))
    if "not" in node.raw and _holds(value, Node(node.raw["not"]), path):
        causes.append(bad_value(path, _shown(value), f"{path} in body must not validate the schema (not)"))


# ---------------------------------------------------------------------- decoding built-in kinds

_GO_TYPES: Final = {"string": "string", "boolean": "bool", "number": "float64"}


def _go_type(node: Node) -> str:
    if node.type == "integer":
        return str(node.raw.get("format", "int64"))
    if node.name:
        return "v1." + node.name.rsplit(".", 1)[1]
    if node.type == "array":
        return "[]" + _go_type(node.items)
    if node.type == "object" and node.additional is not None:
        return "map[string]" + _go_type(node.additional)
    return _GO_TYPES.get(node.type, "interface {}")


def decode_failure(value: Any, node: Node, path: str = "", within: str = "") -> str | None:
    """The sentence with which Go refuses a value of a wrong type in a built-in kind, or None."""
    if value is None:
        return None
    if not has_type(value, node.type):
        kind = {"boolean": "bool", "integer": "number"}.get(json_type(value), json_type(value))
        return f"json: cannot unmarshal {kind} into Go struct field {within}.{path} of type {_go_type(node)}"
    if node.raw.get("format") == "int32" and value not in _INT32:
        return f"json: cannot unmarshal number {value} into Go struct field {within}.{path} of type int32"
    if isinstance(value, dict):
        name = node.name.rsplit(".", 1)[-1] or within
        for key, item in value.items():
            child = node.child(key)
            failure = decode_failure(item, child, joined(path, key), name) if child is not None else None
            if failure:
                return failure
    elif isinstance(value, list):
        for item in value:
            failure = decode_failure(item, node.items, path, within)
            if failure:
                return failure
    return None
