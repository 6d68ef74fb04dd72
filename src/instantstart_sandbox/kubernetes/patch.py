"""JSON merge patch (RFC 7386), JSON patch (RFC 6902) and Kubernetes' strategic merge patch."""

from __future__ import annotations

import copy
from typing import Any, Final

import jsonpatch
import jsonpointer

from instantstart_sandbox.kubernetes.errors import ApiError, bad_request
from instantstart_sandbox.kubernetes.schema import ANYTHING, Node

_DELETE_FROM: Final = "$deleteFromPrimitiveList/"
_ORDER: Final = "$setElementOrder/"


def merge_patch(target: Any, patch: Any) -> Any:
    """``target`` with ``patch`` laid over it; null removes."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    out = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            out.pop(key, None)
        else:
            out[key] = merge_patch(out.get(key), value)
    return out


def json_patch(target: Any, patch: Any) -> Any:
    """``target`` after the operations. 422 when one cannot be done or a ``test`` fails, 400 when the patch is no patch."""
    if not isinstance(patch, list):
        raise bad_request("json: cannot unmarshal object into Go value of type jsonpatch.Patch")
    try:
        out = copy.deepcopy(target)
        for operation in patch:
            out = jsonpatch.apply_patch(out, [_lenient(out, operation)], in_place=True)
        return out
    except jsonpatch.JsonPatchTestFailed as failure:
        raise _rejected() from failure
    except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException, TypeError, KeyError, IndexError) as failure:
        raise _rejected() from failure


def _lenient(target: Any, operation: Any) -> Any:
    """The API server's library replaces a member that is not there, where RFC 6902 would refuse."""
    if not isinstance(operation, dict) or operation.get("op") != "replace":
        return operation
    steps = jsonpointer.JsonPointer(operation.get("path", "")).parts
    parent = jsonpointer.resolve_pointer(target, jsonpointer.JsonPointer.from_parts(steps[:-1]).path, None) if steps else None
    return {**operation, "op": "add"} if isinstance(parent, dict) and steps[-1] not in parent else operation


def _rejected() -> ApiError:
    """The API server keeps the reason to itself."""
    return ApiError(422, "Invalid", "the server rejected our request due to an error in our request", {})


def strategic_merge(target: Any, patch: Any, node: Node) -> Any:
    """``target`` patched by the strategies that the schema names (merge keys, primitive sets, retainKeys, $patch directives)."""
    if isinstance(patch, dict):
        return _merge_map(target, patch, node)
    if isinstance(patch, list):
        return _merge_list(target, patch, node, None)
    return patch


def _merge_map(target: Any, patch: dict[str, Any], node: Node) -> Any:
    directive = patch.get("$patch")
    if directive not in (None, "replace", "delete", "merge"):
        raise ApiError(500, "", f"unknown patch type: {directive} in map: {go_print(patch)}")
    if directive == "replace":
        return {k: copy.deepcopy(v) for k, v in patch.items() if k != "$patch"}
    if directive == "delete":
        return {}
    out = dict(target) if isinstance(target, dict) else {}
    if "$retainKeys" in patch:
        if not isinstance(patch["$retainKeys"], list):
            raise bad_request("invalid patch format of retainKeys")
        out = {k: v for k, v in out.items() if k in patch["$retainKeys"]}
    _delete_primitives(out, patch)
    for key, value in patch.items():
        if key.startswith("$"):
            continue
        if value is None:
            out.pop(key, None)
        else:
            child = node.child(key) or ANYTHING
            order = patch.get(_ORDER + key)
            out[key] = (
                _merge_list(out.get(key), value, child, order) if isinstance(value, list) else strategic_merge(out.get(key), value, child)
            )
    _order_untouched(out, patch, node)
    return out


def go_print(value: Any) -> str:
    """A value as Go prints it."""
    if isinstance(value, dict):
        return "map[" + " ".join(f"{k}:{go_print(v)}" for k, v in sorted(value.items())) + "]"
    return f"[{' '.join(map(go_print, value))}]" if isinstance(value, list) else str(value)


def _delete_primitives(out: dict[str, Any], patch: dict[str, Any]) -> None:
    for key, value in patch.items():
        field = key.removeprefix(_DELETE_FROM)
        if field != key and field in out:
            out[field] = [v for v in out[field] if v not in value]


def _order_untouched(out: dict[str, Any], patch: dict[str, Any], node: Node) -> None:
    """Lists whose order is given but whose items the patch does not touch."""
    for key, order in patch.items():
        field = key.removeprefix(_ORDER)
        if field != key and field not in patch and isinstance(out.get(field), list):
            out[field] = _ordered(out[field], out[field], order, (node.child(field) or ANYTHING).merge_key)


def _merge_list(target: Any, patch: list[Any], node: Node, order: list[Any] | None) -> list[Any]:
    server = target if isinstance(target, list) else []
    if not node.patch_merge:
        return [copy.deepcopy(p) for p in patch if not (isinstance(p, dict) and "$patch" in p)]
    key = node.merge_key
    if key is None:
        merged = server + [p for p in patch if p not in server]
        return _ordered(merged, server, order if order is not None else patch, None)
    if any(isinstance(p, dict) and p.get("$patch") == "replace" for p in patch):
        return [copy.deepcopy(p) for p in patch if "$patch" not in p]
    merged = list(server)
    wanted = []
    for item in patch:
        if not isinstance(item, dict) or key not in item:
            raise ApiError(500, "", f"map: {go_print(item)} does not contain declared merge key: {key}")
        index = next((i for i, m in enumerate(merged) if m.get(key) == item[key]), None)
        if item.get("$patch") == "delete":
            merged = [m for m in merged if m.get(key) != item[key]]
        elif index is None:
            wanted.append(item)
            merged.append(_merge_map({}, item, node.items))
        else:
            wanted.append(item)
            merged[index] = _merge_map(merged[index], item, node.items)
    return _ordered(merged, server, order if order is not None else wanted, key)


def _ordered(merged: list[Any], server: list[Any], wanted: list[Any], key: str | None) -> list[Any]:
    """Patched items in the patch's order, the server's own kept relative to them; a new item goes before the server's."""

    def name(item: Any) -> Any:
        return item.get(key) if key is not None and isinstance(item, dict) else item

    ranks = {_frozen(name(w)): i for i, w in enumerate(wanted)}
    places = {_frozen(name(s)): i for i, s in enumerate(server)}
    left = sorted((m for m in merged if _frozen(name(m)) in ranks), key=lambda m: ranks[_frozen(name(m))])
    right = [m for m in merged if _frozen(name(m)) not in ranks]
    out: list[Any] = []
    while left and right:
        a, b = places.get(_frozen(name(left[0]))), places.get(_frozen(name(right[0])))
        out.append(right.pop(0) if a is not None and b is not None and a >= b else left.pop(0))
    return out + left + right


def _frozen(value: Any) -> str:
    return f"{type(value).__name__}:{value}"
