"""What server-side apply refuses before it merges: values that the schema does not have, of other types, or twice under one key.

The sentences are those of the API server's merge library, which speaks before decoding does.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from instantstart_sandbox.kubernetes.fields import KEY_DEFAULTS
from instantstart_sandbox.kubernetes.schema import Node

_SCALARS = {"string": str, "boolean": bool, "integer": int, "number": (int, float)}


def faults(value: Any, node: Node, path: str = "") -> Iterator[str]:
    """Each thing that the schema does not allow, with its path."""
    if value is None:
        return
    if isinstance(value, dict):
        yield from _map_faults(value, node, path)
    elif isinstance(value, list):
        yield from _list_faults(value, node, path)
    elif node.structure or node.type == "array":
        wanted = "list" if node.type == "array" else "map"
        yield f"{path}: expected {wanted}, got {_go(value)}"
    elif node.type in _SCALARS and not _fits(value, node.type):
        yield f"{path}: expected {'numeric' if node.type in ('integer', 'number') else node.type}, got {_go(value)}"


def _fits(value: Any, kind: str) -> bool:
    if kind != "boolean" and isinstance(value, bool):
        return False
    return isinstance(value, _SCALARS[kind])  # type: ignore[arg-type]


def _map_faults(value: dict[str, Any], node: Node, path: str) -> Iterator[str]:
    if node.type in _SCALARS:
        yield f"{path}: expected {node.type}, got {_go(value)}"
        return
    for key, item in value.items():
        child = node.child(key)
        if child is not None:
            yield from faults(item, child, f"{path}.{key}")
        elif node.structure and not node.preserve:
            yield f"{path}.{key}: field not declared in schema"


def _list_faults(value: list[Any], node: Node, path: str) -> Iterator[str]:
    if node.structure or node.type in _SCALARS:
        yield f"{path}: expected {'map' if node.structure else node.type}, got {_go(value)}"
        return
    seen: set[str] = set()
    for index, item in enumerate(value):
        where = f"{path}[{index}]"
        if node.list_type == "map" and isinstance(item, dict):
            key = ",".join(f"{k}={json.dumps(item.get(k, _default(node.items, k)))}" for k in sorted(node.keys))
            where = f"{path}[{key}]"
            if key in seen:
                yield f"{path}: duplicate entries for key [{key}]"
            seen.add(key)
        elif node.list_type == "set":
            key = json.dumps(item)
            if key in seen:
                yield f"{path}: duplicate entries for key [={key}]"
            seen.add(key)
        yield from faults(item, node.items, where)


def _default(items: Node, key: str) -> Any:
    child = items.child(key)
    return None if child is None else child.raw.get("default", KEY_DEFAULTS.get(key))


def _go(value: Any) -> str:
    """A value as Go's ``%v`` shows the library's wrapper of it."""
    if isinstance(value, dict):
        shown = "map[" + " ".join(f"{k}:{v}" for k, v in sorted(value.items())) + "]"
    elif isinstance(value, list):
        shown = "[" + " ".join(str(v) for v in value) + "]"
    else:
        shown = json.dumps(value)
    return f"&value.valueUnstructured{{Value:{shown}}}"


def sentence(found: list[str]) -> str:
    """One fault as it is; several below each other."""
    return found[0] if len(found) == 1 else "errors:\n" + "\n".join(f"  {f}" for f in found)
