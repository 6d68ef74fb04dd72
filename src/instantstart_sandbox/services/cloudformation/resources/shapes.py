"""The property table of a resource type, and the check of a template's properties against it.

A table is written as words: ``VpcId*!`` is required (``*``) and create-only (``!``, a change replaces the resource), ``SubnetIds[]`` is a
list. Source of the tables: CloudFormation's public resource schemas (a test compares them with the copy that cfn-lint ships).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

_WORD = re.compile(r"([A-Za-z0-9]+)([*!\[\]]*)")
#: a property table of a Tags list
TAG = "Key* Value*"


@dataclass(frozen=True)
class Shape:
    """What an object may contain. ``unsupported`` names exist on AWS and are refused by the sandbox with its own sentence."""

    known: frozenset[str]
    required: frozenset[str]
    create_only: frozenset[str]
    lists: frozenset[str]
    unsupported: frozenset[str] = frozenset()
    nested: dict[str, Shape] = field(default_factory=dict)

    def violations(self, value: Any, path: str = "#") -> list[str]:
        """Every rule that the value breaks, in CloudFormation's words, each with a JSON pointer."""
        if not isinstance(value, dict):
            return [f"{path}: expected type: JSONObject, found: {_type_name(value)}"]
        found = [f"{path}: required key [{key}] not found" for key in sorted(self.required - set(value))]
        for key, item in value.items():
            if key in self.unsupported:
                found.append(f"{path}: the sandbox does not support the property [{key}]")
            elif key not in self.known:
                found.append(f"{path}: extraneous key [{key}] is not permitted")
            elif key in self.lists:
                found += self._list_violations(key, item, f"{path}/{key}")
            elif key in self.nested:
                found += self.nested[key].violations(item, f"{path}/{key}")
            elif isinstance(item, list):
                found.append(f"{path}/{key}: expected type: String, found: JSONArray")
        return found

    def _list_violations(self, key: str, value: Any, path: str) -> list[str]:
        if not isinstance(value, list):
            return [f"{path}: expected type: JSONArray, found: {_type_name(value)}"]
        item = self.nested.get(key)
        return [v for i, entry in enumerate(value) for v in item.violations(entry, f"{path}/{i}")] if item else []

    def replaced_by(self, old: dict[str, Any], new: dict[str, Any]) -> list[str]:
        """The create-only properties (also nested, as ``A/B``) in which two property objects differ."""
        changed = [key for key in sorted(self.create_only) if old.get(key) != new.get(key)]
        for key, shape in self.nested.items():
            if key not in self.lists:
                before, after = old.get(key) or {}, new.get(key) or {}
                changed += [f"{key}/{inner}" for inner in shape.replaced_by(before, after)]
        return changed


def shape(words: str, unsupported: str = "", **nested: Shape | str) -> Shape:
    """A table from its words; ``nested`` gives the table of an object property or of the items of a list property."""
    marks = dict(_WORD.findall(words))
    if "Tags[]" in words.split():
        nested.setdefault("Tags", TAG)
    return Shape(
        known=frozenset(marks),
        required=frozenset(name for name, mark in marks.items() if "*" in mark),
        create_only=frozenset(name for name, mark in marks.items() if "!" in mark),
        lists=frozenset(name for name, mark in marks.items() if "[]" in mark),
        unsupported=frozenset(unsupported.split()),
        nested={name: shape(inner) if isinstance(inner, str) else inner for name, inner in nested.items()},
    )


def _type_name(value: Any) -> str:
    if isinstance(value, bool):
        return "Boolean"
    if value is None:
        return "Null"
    return {dict: "JSONObject", list: "JSONArray", int: "Integer", float: "Double"}.get(type(value), "String")
