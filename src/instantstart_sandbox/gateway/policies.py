"""IAM policy documents: parsed, matched, decided. Explicit deny wins; without an allow the answer is an implicit deny."""

from __future__ import annotations

import fnmatch
import functools
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

Document = dict[str, Any]


class Decision(StrEnum):
    """As in SimulatePrincipalPolicy's EvalDecision."""

    ALLOWED = "allowed"
    EXPLICIT_DENY = "explicitDeny"
    IMPLICIT_DENY = "implicitDeny"


@dataclass(frozen=True)
class Question:
    """May somebody do ``action`` (``eks:CreateCluster``) to ``resource`` (an ARN or ``*``) in this context?"""

    action: str
    resource: str
    #: condition keys (lower case) and their values; a key that is absent is a key the request does not have
    context: dict[str, list[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Verdict:
    """The decision, and the ids of the policies whose statements matched."""

    decision: Decision
    matched: tuple[str, ...] = ()
    #: condition keys that a statement named and the request did not have
    missing_keys: tuple[str, ...] = ()


def as_list(value: Any) -> list[Any]:
    """IAM lets a list of one be written without brackets."""
    return value if isinstance(value, list) else [value]


def parse(text: str | Document) -> Document:
    """A policy document; ValueError when it is no JSON object with statements."""
    document = json.loads(text) if isinstance(text, str) else text
    if not isinstance(document, dict) or "Statement" not in document:
        raise ValueError("a policy document is a JSON object with a Statement")
    for statement in as_list(document["Statement"]):
        if not isinstance(statement, dict) or statement.get("Effect") not in ("Allow", "Deny"):
            raise ValueError("a statement has an Effect of Allow or Deny")
        if "Action" not in statement and "NotAction" not in statement:
            raise ValueError("a statement has an Action or a NotAction")
    return document


def decide(policies: Iterable[tuple[str, Document]], question: Question) -> Verdict:
    """The decision of (policy id, document) pairs."""
    allowed: list[str] = []
    missing: set[str] = set()
    for name, document in policies:
        for statement in as_list(document["Statement"]):
            if not _concerns(statement, question):
                continue
            missing |= _absent_keys(statement, question)
            if not conditions_hold(statement.get("Condition", {}), question.context):
                continue
            if statement["Effect"] == "Deny":
                return Verdict(Decision.EXPLICIT_DENY, (name,))
            allowed.append(name)
    decision = Decision.ALLOWED if allowed else Decision.IMPLICIT_DENY
    return Verdict(decision, tuple(dict.fromkeys(allowed)), () if allowed else tuple(sorted(missing)))


def _concerns(statement: Document, question: Question) -> bool:
    action = question.action.lower()
    if "NotAction" in statement:
        if any(_like(action, pattern.lower()) for pattern in as_list(statement["NotAction"])):
            return False
    elif not any(_like(action, pattern.lower()) for pattern in as_list(statement["Action"])):
        return False
    fill = functools.partial(_fill, context=question.context)
    if "NotResource" in statement:
        return not any(_like(question.resource, fill(pattern)) for pattern in as_list(statement["NotResource"]))
    return any(_like(question.resource, fill(pattern)) for pattern in as_list(statement.get("Resource", "*")))


def _like(value: str, pattern: str) -> bool:
    return pattern == "*" or _compiled(pattern).fullmatch(value) is not None


@functools.lru_cache(maxsize=8192)
def _compiled(pattern: str) -> re.Pattern[str]:
    """IAM knows ``*`` and ``?`` and no brackets."""
    return re.compile(fnmatch.translate(pattern.replace("[", "[[]")), re.DOTALL)


def _fill(pattern: str, context: dict[str, list[str]]) -> str:
    """Policy variables such as ``${aws:username}``; one without a value matches nothing."""
    return re.sub(r"\$\{([^}]+)\}", lambda m: (context.get(m[1].lower()) or ["\0"])[0], pattern)


def _absent_keys(statement: Document, question: Question) -> set[str]:
    return {key for test in statement.get("Condition", {}).values() for key in test if key.lower() not in question.context}


def conditions_hold(conditions: dict[str, dict[str, Any]], context: dict[str, list[str]]) -> bool:
    """Whether every operator of a Condition block is satisfied; an operator that is not known never is."""
    return all(
        _holds(operator, context.get(key.lower()), [str(v) for v in as_list(wanted)])
        for operator, tests in conditions.items()
        for key, wanted in tests.items()
    )


def _holds(operator: str, values: list[str] | None, wanted: list[str]) -> bool:
    quantifier, _, name = operator.rpartition(":")
    if name == "Null":
        return (values is None) == (wanted[0].lower() == "true")
    if name.endswith("IfExists"):
        if values is None:
            return True
        name = name.removesuffix("IfExists")
    negated = "Not" in name
    if values is None:
        return negated or quantifier == "ForAllValues"
    test = _TESTS.get(name.replace("Not", ""))
    if test is None:
        return False
    matches = [any(test(value, pattern) for pattern in wanted) != negated for value in values]
    return all(matches) if quantifier == "ForAllValues" or negated else any(matches)


def _number(compare: Callable[[float, float], bool]) -> Callable[[str, str], bool]:
    def test(value: str, wanted: str) -> bool:
        try:
            return compare(float(value), float(wanted))
        except ValueError:
            return False

    return test


_TESTS: dict[str, Callable[[str, str], bool]] = {
    "StringEquals": lambda value, wanted: value == wanted,
    "StringEqualsIgnoreCase": lambda value, wanted: value.lower() == wanted.lower(),
    "StringLike": _like,
    "ArnEquals": _like,
    "ArnLike": _like,
    "Bool": lambda value, wanted: value.lower() == wanted.lower(),
    "NumericEquals": _number(lambda a, b: a == b),
    "NumericLessThan": _number(lambda a, b: a < b),
    "NumericLessThanEquals": _number(lambda a, b: a <= b),
    "NumericGreaterThan": _number(lambda a, b: a > b),
    "NumericGreaterThanEquals": _number(lambda a, b: a >= b),
}


def trusts(document: Document, principals: set[str], action: str, context: dict[str, list[str]] | None = None) -> bool:
    """Whether a trust policy lets one of ``principals`` (ARNs, service names, federated providers) do ``action``."""
    allowed = False
    for statement in as_list(document.get("Statement", [])):
        actions = [a.lower() for a in as_list(statement.get("Action", []))]
        if not any(_like(action.lower(), pattern) for pattern in actions):
            continue
        if not _names(statement.get("Principal", {}), principals) or not conditions_hold(statement.get("Condition", {}), context or {}):
            continue
        if statement["Effect"] == "Deny":
            return False
        allowed = True
    return allowed


def _names(principal: Any, principals: set[str]) -> bool:
    named = [principal] if isinstance(principal, str) else [name for names in principal.values() for name in as_list(names)]
    return any(name == "*" or name in principals for name in named)
