"""Sets of fields as Kubernetes writes them (FieldsV1), and the merge that server-side apply does.

A set is a tree of dicts: ``{"f:spec": {"f:replicas": {}}}``. ``{}`` is a member; a node with children is a member when it holds ``"."``.
Path elements: ``f:name`` a field, ``k:{"name":"a"}`` an item of an associative list, ``v:"x"`` an item of a set. The rules of which
containers are members are those of structured-merge-diff (ToFieldPathSet for apply, Compare for update).
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, Final

import orjson

from instantstart_sandbox.kubernetes.schema import ANYTHING, MISSING, Node

FieldSet = dict[str, Any]
_MEMBER: Final[FieldSet] = {}
#: the only list keys of built-in kinds that have a default
KEY_DEFAULTS: Final = {"protocol": "TCP"}

# ---------------------------------------------------------------------- the algebra of sets


def _children(tree: FieldSet) -> FieldSet:
    return {k: v for k, v in tree.items() if k != "."} if "." in tree else tree


def is_member(tree: FieldSet) -> bool:
    """Whether the place itself belongs to the set."""
    return not tree or "." in tree


def _node(member: bool, children: FieldSet) -> FieldSet | None:
    if not children:
        return _MEMBER if member else None
    return {".": _MEMBER, **children} if member else children


def is_sound(tree: Any) -> bool:
    """Whether a value that a client sent can be read as a set."""
    if not isinstance(tree, dict):
        return False
    return all((key == "." or _is_element(key)) and is_sound(below) for key, below in tree.items())


def _is_element(key: str) -> bool:
    if key[:2] not in ("k:", "v:"):
        return key[:2] == "f:"
    try:
        value = orjson.loads(key[2:])
    except orjson.JSONDecodeError:
        return False
    return key[0] == "v" or isinstance(value, dict)


def union(a: FieldSet, b: FieldSet) -> FieldSet:
    """Members of either set."""
    if not a or not b:
        return a or b
    out = dict(a)
    for key, theirs in b.items():
        out[key] = _union_node(out[key], theirs) if key in out else theirs
    return out


def _union_node(a: FieldSet, b: FieldSet) -> FieldSet:
    children = union(_children(a), _children(b))
    return _node(is_member(a) or is_member(b), children) or _MEMBER


def difference(a: FieldSet, b: FieldSet) -> FieldSet:
    """Members of ``a`` that are not members of ``b``."""
    if not a or not b:
        return a
    out: FieldSet = {}
    for key, mine in a.items():
        if key not in b:
            out[key] = mine
            continue
        theirs = b[key]
        left = _node(is_member(mine) and not is_member(theirs), difference(_children(mine), _children(theirs)))
        if left is not None:
            out[key] = left
    return out


def intersection(a: FieldSet, b: FieldSet) -> FieldSet:
    """Members of both sets."""
    out: FieldSet = {}
    for key, mine in a.items():
        if key in b:
            theirs = b[key]
            both = _node(is_member(mine) and is_member(theirs), intersection(_children(mine), _children(theirs)))
            if both is not None:
                out[key] = both
    return out


def paths(tree: FieldSet, prefix: str = "") -> Iterator[str]:
    """Every member as messages print it: ``.spec.containers[name="a"].image``; at each level the members first, then what is below."""
    elements = [(prefix + _printed(key), below) for key, below in sorted(tree.items()) if key != "."]
    yield from (path for path, below in elements if is_member(below))
    for path, below in elements:
        yield from paths(_children(below), path)


def _printed(element: str) -> str:
    kind, text = element[:2], element[2:]
    if kind == "f:":
        return f".{text}"
    if kind == "k:":
        return "[" + ",".join(f"{k}={orjson.dumps(v).decode()}" for k, v in orjson.loads(text).items()) + "]"
    return f"[={text}]"


# ---------------------------------------------------------------------- values and their elements


def item_key(item: Any, node: Node) -> str:
    """The path element of an item of an associative list."""
    keys = {}
    for key in sorted(node.keys):
        value = item.get(key, MISSING) if isinstance(item, dict) else MISSING
        if value is MISSING:
            child = node.items.child(key)
            value = child.default if child is not None and child.default is not MISSING else KEY_DEFAULTS.get(key, MISSING)
        if value is not MISSING:
            keys[key] = value
    return "k:" + orjson.dumps(keys).decode()


def _elements(value: list[Any], node: Node) -> dict[str, Any]:
    if node.list_type == "map":
        return {item_key(item, node): item for item in value}
    return {"v:" + orjson.dumps(item).decode(): item for item in value}


def _granular(value: Any, node: Node) -> dict[str, tuple[Any, Node]] | None:
    """The children of a container that is not atomic, by path element; None for scalars and atomic values."""
    if isinstance(value, dict) and not node.atomic:
        return {f"f:{key}": (item, node.child(key) or ANYTHING) for key, item in value.items()}
    if isinstance(value, list) and node.list_type != "atomic":
        items = node.items
        return {element: (item, items) for element, item in _elements(value, node).items()}
    return None


# ---------------------------------------------------------------------- what an apply owns


def applied_set(value: Any, node: Node) -> FieldSet:
    """The set that a manager owns by applying ``value``: its leaves, and the items of its lists and free maps."""
    children = _granular(value, node)
    out: FieldSet = {}
    for element, (item, child) in (children or {}).items():
        below = applied_set(item, child)
        leaf = _granular(item, child) is None
        owned = leaf or item in (None, {}) or element[:2] != "f:" or element[2:] not in node.fields
        tree = _node(owned, below)
        if tree is not None:
            out[element] = tree
    return out


# ---------------------------------------------------------------------- what changed between two values


class Comparison:
    """Three sets: what ``new`` has and ``old`` had not, what it lacks, what differs."""

    def __init__(self) -> None:
        self.added: FieldSet = {}
        self.removed: FieldSet = {}
        self.modified: FieldSet = {}

    @property
    def changed(self) -> FieldSet:
        """Added or modified."""
        return union(self.added, self.modified)


def _whole(value: Any, node: Node) -> FieldSet:
    """Everything in a value that appears or disappears at once: each container is a member too."""
    children = _granular(value, node)
    if not children:
        return _MEMBER
    return {".": _MEMBER, **{element: _whole(item, child) for element, (item, child) in children.items()}}


def compare(old: Any, new: Any, node: Node) -> Comparison:
    """How ``new`` differs from ``old``. Equal parts cost nothing."""
    result = Comparison()
    if old != new:
        _compare(old, new, node, (result, result.added, result.removed, result.modified))
    return result


_Sets = tuple[Comparison, FieldSet, FieldSet, FieldSet]


def _compare(old: Any, new: Any, node: Node, sets: _Sets) -> bool:
    """Fill the three sets below this place; False when the place itself is what differs."""
    after = _granular(new, node)
    before = _granular(old, node) if old is not None else ({} if after is not None else None)
    if before is None or after is None or (isinstance(new, dict) != isinstance(old, dict) and old is not None):
        return False
    result, added, removed, modified = sets
    for element, (item, child) in after.items():
        if element not in before:
            added[element] = _whole(item, child)
            continue
        earlier = before[element][0]
        if earlier == item:
            continue
        below: _Sets = (result, {}, {}, {})
        if not _compare(earlier, item, child, below):
            modified[element] = _MEMBER
            continue
        for target, part in zip((added, removed, modified), below[1:], strict=True):
            if part:
                target[element] = part
    for element, (item, child) in before.items():
        if element not in after:
            removed[element] = _whole(item, child)
    return True


# ---------------------------------------------------------------------- the merge of an apply


def merge(live: Any, applied: Any, node: Node) -> Any:
    """``live`` with everything that ``applied`` says laid over it."""
    if isinstance(live, dict) and isinstance(applied, dict) and not node.atomic:
        out = dict(live)
        for key, value in applied.items():
            out[key] = merge(live.get(key), value, node.child(key) or ANYTHING)
        return out
    if isinstance(live, list) and isinstance(applied, list) and node.list_type != "atomic":
        return _merge_list(_elements(live, node), _elements(applied, node), node)
    return copy.deepcopy(applied)


def _merge_list(live: dict[str, Any], applied: dict[str, Any], node: Node) -> list[Any]:
    """The applied order leads; items that only ``live`` has keep their place before the next common item."""
    order = list(live)
    out, at = [], 0
    for element, value in applied.items():
        while at < len(order) and order[at] not in applied:
            out.append(live[order[at]])
            at += 1
        out.append(merge(live.get(element), value, node.items) if element in live else copy.deepcopy(value))
        if at < len(order) and order[at] == element:
            at += 1
    out.extend(live[element] for element in order[at:] if element not in applied)
    return out


def remove(value: Any, node: Node, last: FieldSet, keep: FieldSet) -> Any:
    """``value`` without the members of ``last`` that are not in ``keep``; containers left empty by it go too."""
    children = _granular(value, node)
    if children is None:
        return value
    kept: dict[str, Any] = {}
    for element, (item, child) in children.items():
        gone, held = last.get(element), keep.get(element)
        if gone is None:
            kept[element] = item
        elif held is None and is_member(gone):
            continue
        else:
            rest = remove(item, child, _children(gone), _children(held or {}))
            if rest not in ({}, []) or item in ({}, []) or held is not None:
                kept[element] = rest
    if isinstance(value, dict):
        return {element[2:]: item for element, item in kept.items()}
    return list(kept.values())
