"""Nested mappings as they come from JSON: a place in them is a dotted name, a change is a JSON merge patch (RFC 7396). Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

Tree = dict[str, Any]


def get(tree: Mapping[str, Any], dotted: str) -> Any:
    """The value at a dotted place, or None."""
    found: Any = tree
    for part in dotted.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def put(tree: Tree, dotted: str, value: Any) -> None:
    """Set the value at a dotted place, making the mappings on the way."""
    *heads, last = dotted.split(".")
    for part in heads:
        tree = tree.setdefault(part, {})
    tree[last] = value


def drop(tree: Tree, dotted: str) -> None:
    """Take the value at a dotted place away, where there is one."""
    head, _, last = dotted.rpartition(".")
    group = get(tree, head) if head else tree
    if isinstance(group, dict):
        group.pop(last, None)


def flat(tree: Mapping[str, Any], whole: Collection[str] = (), prefix: str = "") -> Tree:
    """Dotted name -> value. Lists, and mappings whose own name is in ``whole``, are one value; what is None is left out."""
    found: Tree = {}
    for name, value in tree.items():
        if isinstance(value, Mapping) and name not in whole:
            found |= flat(value, whole, f"{prefix}{name}.")
        elif value is not None:
            found[f"{prefix}{name}"] = value
    return found


def merge(tree: Mapping[str, Any], patch: Mapping[str, Any], whole: Collection[str] = ()) -> Tree:
    """A tree with a merge patch over it: what the patch leaves out stays, null takes away; groups that become empty go."""
    made = dict(tree)
    for name, value in patch.items():
        if value is None:
            made.pop(name, None)
        elif isinstance(value, Mapping) and name not in whole:
            held = made.get(name)
            made[name] = merge(held if isinstance(held, Mapping) else {}, value, whole)
        else:
            made[name] = value
    return {name: value for name, value in made.items() if value != {} or name in whole}


def patch_between(before: Any, after: Any) -> Any:
    """The merge patch that makes ``after`` of ``before``: only what differs, null for what goes."""
    if not isinstance(before, Mapping) or not isinstance(after, Mapping):
        return after
    gone: Tree = {key: None for key in before if key not in after}
    return gone | {key: patch_between(before.get(key), value) for key, value in after.items() if key not in before or before[key] != value}


def missing(wanted: Any, live: Any, at: str = "") -> dict[str, tuple[Any, Any]]:
    """What of ``wanted`` is not in ``live``, by dotted name: (wanted, live). What ``live`` has beyond is not looked at."""
    if not isinstance(wanted, Mapping):
        return {} if wanted == live else {at: (wanted, live)}
    held = live if isinstance(live, Mapping) else {}
    found: dict[str, tuple[Any, Any]] = {}
    for key, value in wanted.items():
        found |= missing(value, held.get(key), f"{at}.{key}" if at else str(key))
    return found


def differences(before: Mapping[str, Any], after: Mapping[str, Any], whole: Collection[str] = ()) -> dict[str, tuple[Any, Any]]:
    """What differs, by dotted name: (before, after)."""
    one, other = flat(before, whole), flat(after, whole)
    return {name: (one.get(name), other.get(name)) for name in sorted({*one, *other}) if one.get(name) != other.get(name)}
