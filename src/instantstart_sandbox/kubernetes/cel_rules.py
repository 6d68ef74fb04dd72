"""Holding a custom resource against the rules of its schema (``x-kubernetes-validations``), and forgiving what did not change.

Source: apiextensions-apiserver 0.34, pkg/apiserver/schema/cel/validation.go. Costs are not counted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from instantstart_sandbox.kubernetes import expressions
from instantstart_sandbox.kubernetes.errors import Cause, bad_value, forbidden_field, required
from instantstart_sandbox.kubernetes.schema import ANYTHING, MISSING, Node
from instantstart_sandbox.kubernetes.schema_rules import steps

_BLOCKING: Final = frozenset(
    {"FieldValueNotSupported", "FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany", "FieldValueTypeInvalid"}
)
_UNCHECKED: Final = Cause(
    "<nil>", "FieldValueInvalid",
    "Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation",
)  # fmt: skip
_LONGEST_MESSAGE: Final = 5 * 1024


@dataclass
class Findings:
    """What the rules say: ``causes`` refuse, ``warnings`` are told of what was there before and did not change."""

    causes: list[Cause] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Place:
    """A value with its schema, its path, the value before (MISSING when there is none to compare with), and whether it changed."""

    value: Any
    old: Any
    node: Node
    path: str
    same: bool

    def inside(self) -> Iterator[_Place]:
        """The values one level below that the schema declares."""
        if isinstance(self.value, dict):
            for key in sorted(self.value):
                child = self.node.child(key)
                if child is None:
                    continue
                before = MISSING if self.node.atomic or not isinstance(self.old, dict) else self.old.get(key, MISSING)
                path = f"{self.path}.{key}" if key in self.node.fields else f"{self.path}[{key}]"
                yield self._below(self.value[key], before, child, path.removeprefix("."))
        elif isinstance(self.value, list):
            for index, item in enumerate(self.value):
                yield self._below(item, _matching(self.node, self.old, item), self.node.items, f"{self.path}[{index}]")

    def _below(self, value: Any, old: Any, node: Node, path: str) -> _Place:
        return _Place(value, old, node, path, value == old if old is not MISSING else self.same)


def _matching(node: Node, old: Any, item: Any) -> Any:
    """The item that stood for the same thing before: only lists by key can tell."""
    if node.list_type != "map" or not isinstance(old, list) or not isinstance(item, dict):
        return MISSING
    keys = [item.get(k) for k in node.keys]
    return next((o for o in old if isinstance(o, dict) and [o.get(k) for k in node.keys] == keys), MISSING)


def check(obj: Any, old: Any, node: Node, causes: list[Cause]) -> Findings:
    """The violations of a new object, or of one that was ``old`` (None for a new one); ``causes`` are those of the schema itself.

    Nothing is evaluated while the object is not even of the right form.
    """
    found = Findings()
    if any(cause.reason in _BLOCKING for cause in causes):
        if _has_rules(node.raw):
            found.causes.append(_UNCHECKED)
        return found
    _walk(_Place(obj, MISSING if old is None else old, node, "", old is not None and obj == old), found)
    return found


def _has_rules(raw: Any) -> bool:
    if isinstance(raw, dict):
        return bool(raw.get("x-kubernetes-validations")) or any(map(_has_rules, raw.values()))
    return isinstance(raw, list) and any(map(_has_rules, raw))


def _walk(place: _Place, found: Findings) -> None:
    if place.value is None:
        return
    for rule in place.node.raw.get("x-kubernetes-validations") or ():
        cause, uses_old = _broken(rule, place), expressions.uses_old(str(rule["rule"]))
        if cause is None:
            continue
        if place.same and not uses_old and not cause[1]:
            found.warnings.append(f"{cause[0].field}: {cause[0].message}")
        else:
            found.causes.append(cause[0])
    for below in place.inside():
        _walk(below, found)


def _broken(rule: dict[str, Any], place: _Place) -> tuple[Cause, bool] | None:
    """(the violation, whether the rule itself could not be evaluated), or None when the rule holds or does not apply."""
    text, optional = str(rule["rule"]), bool(rule.get("optionalOldSelf"))
    old = [] if place.old is MISSING or place.old is None else [expressions.cel_value(place.old, place.node)]
    if expressions.uses_old(text) and not old and not optional:
        return None
    own, where, kind = expressions.cel_value(place.value, place.node), place.path or "<nil>", json.dumps(place.node.raw.get("type", ""))
    told = str(rule.get("message") or text).strip()
    try:
        holds = expressions.evaluate(expressions.compiled(text, place.node, optional=optional), own, old, optional=optional)
    except expressions.UnevaluatedError:
        return None
    except expressions.RuleError as fault:
        if str(fault) == "no such overload":
            more = "call arguments did not match a supported operator, function or macro signature for rule"
            return bad_value(where, kind, f"'{fault}': {more}: {told}"), True
        return bad_value(where, kind, f"{fault} evaluating rule: {told}"), True
    if holds is True:
        return None
    if rule.get("fieldPath"):
        where = (place.path + _child_path(rule["fieldPath"])).removeprefix(".")
    otherwise = told if rule.get("message") else f"failed rule: {told}"
    return _violation(rule, where, kind, _message(rule, place, (own, old)) or otherwise), False


def _child_path(path: str) -> str:
    return "".join(f".{step}" for step in steps(path)) or path


def _message(rule: dict[str, Any], place: _Place, seen: tuple[Any, list[Any]]) -> str:
    """What ``messageExpression`` gives; empty when it gives nothing that can be shown."""
    text, optional = rule.get("messageExpression"), bool(rule.get("optionalOldSelf"))
    if not text:
        return ""
    try:
        told = expressions.evaluate(expressions.compiled(text, place.node, optional=optional), *seen, optional=optional)
    except (expressions.RuleError, expressions.UnevaluatedError):
        return ""
    shown = told.strip() if isinstance(told, str) else ""
    return "" if len(shown) > _LONGEST_MESSAGE or "\n" in shown else shown


def _violation(rule: dict[str, Any], where: str, kind: str, told: str) -> Cause:
    reason = rule.get("reason")
    if reason == "FieldValueForbidden":
        return forbidden_field(where, told)
    if reason == "FieldValueRequired":
        return required(where, told)
    if reason == "FieldValueDuplicate":
        return Cause(where, "FieldValueDuplicate", f"Duplicate value: {kind}")
    return bad_value(where, kind, told)


# ---------------------------------------------------------------------- what did not change


def forgive(causes: list[Cause], new: Any, old: Any, node: Node) -> tuple[list[Cause], list[str]]:
    """(violations of what changed, sentences about those that were there before and are left as they were)"""
    kept, told = [], []
    for cause in causes:
        if _unchanged(cause.field, new, old, node):
            told.append(f"{cause.field}: {cause.message}")
        else:
            kept.append(cause)
    return kept, told


def _unchanged(path: str, new: Any, old: Any, node: Node) -> bool:
    """Whether the value at a path, or the nearest above it that can be compared, is what it was."""
    same = bool(new == old)
    for name, index, key in re.findall(r"([^.\[\]]+)|\[(\d+)\]|\[([^\]]+)\]", path):
        if index and isinstance(new, list):
            if int(index) >= len(new):
                return same
            new = new[int(index)]
            old, node = _matching(node, old, new), node.items
        elif isinstance(new, dict) and (name or key) in new:
            before = old.get(name or key, MISSING) if isinstance(old, dict) and not node.atomic else MISSING
            new, old, node = new[name or key], before, node.child(name or key) or ANYTHING
        else:
            return same
        if old is MISSING:
            return False if not index else same
        same = bool(new == old)
    return same
