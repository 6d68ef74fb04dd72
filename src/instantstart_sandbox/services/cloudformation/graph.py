"""Who refers to whom in a template, what conditions leave of it, and in which order it can be made."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from instantstart_sandbox.services.cloudformation.wording import invalid

#: the functions the sandbox knows, without ``Fn::``
FUNCTIONS = (
    "GetAtt", "Sub", "Join", "Select", "Split", "Base64", "GetAZs", "Cidr", "FindInMap", "If", "Equals", "And", "Or", "Not", "ImportValue",
)  # fmt: skip
PSEUDO = frozenset(
    {
        "AWS::AccountId", "AWS::NotificationARNs", "AWS::NoValue", "AWS::Partition", "AWS::Region", "AWS::StackId", "AWS::StackName",
        "AWS::URLSuffix",
    }
)  # fmt: skip
NO_VALUE = {"Ref": "AWS::NoValue"}
_SUB_VARIABLE = re.compile(r"\$\{(!?)([^${}]*)\}")


def sub_variables(text: str) -> list[str]:
    """The names between ``${`` and ``}`` of a Fn::Sub text, without the escaped ``${!name}``."""
    return [name.strip() for escaped, name in _SUB_VARIABLE.findall(text) if not escaped]


def replace_variables(text: str, value: Callable[[str], str]) -> str:
    """The text of a Fn::Sub with each variable replaced by ``value(name)``."""
    return _SUB_VARIABLE.sub(lambda m: "${" + m[2] + "}" if m[1] else value(m[2].strip()), text)


def get_att(argument: Any) -> tuple[str, Any]:
    """The logical id and the attribute of a Fn::GetAtt, from either of its forms."""
    parts = argument.split(".", 1) if isinstance(argument, str) else argument
    if not isinstance(parts, list) or len(parts) != 2 or not isinstance(parts[0], str):
        raise invalid(
            "Template error: every Fn::GetAtt object requires two non-empty parameters, the resource name and the resource attribute"
        )
    return parts[0], parts[1]


def references(node: Any) -> Iterator[tuple[str, str | None]]:
    """Every (name, attribute) a node refers to; the attribute is None for a Ref."""
    if isinstance(node, list):
        for item in node:
            yield from references(item)
    if not isinstance(node, dict):
        return
    for key, value in node.items():
        if key == "Ref" and isinstance(value, str):
            yield value, None
        elif key == "Fn::GetAtt":
            name, attribute = get_att(value)
            yield name, attribute if isinstance(attribute, str) else "*"
        elif key == "Fn::Sub":
            yield from _sub_references(value)
        else:
            yield from references(value)


def _sub_references(argument: Any) -> Iterator[tuple[str, str | None]]:
    text, local = (argument, {}) if isinstance(argument, str) else _two(argument)
    yield from references(local)
    for name in sub_variables(text):
        if name in local:
            continue
        head, dot, attribute = name.partition(".")
        yield head, attribute if dot else None


def _two(argument: Any) -> tuple[str, dict[str, Any]]:
    if isinstance(argument, list) and len(argument) == 2 and isinstance(argument[0], str) and isinstance(argument[1], dict):
        return argument[0], argument[1]
    raise invalid(
        "Template error: One or more Fn::Sub intrinsic functions don't specify expected arguments. Specify a string as first argument, "
        "and an optional second argument to specify a mapping of values to replace in the string"
    )


def prune(node: Any, truth: Callable[[str], bool]) -> Any:
    """The node with every Fn::If replaced by the branch it takes, and AWS::NoValue removed from objects and lists."""
    if isinstance(node, list):
        return [kept for item in node if (kept := prune(item, truth)) != NO_VALUE]
    if not isinstance(node, dict):
        return node
    if set(node) == {"Fn::If"}:
        branches = node["Fn::If"]
        if not isinstance(branches, list) or len(branches) != 3 or not isinstance(branches[0], str):
            raise invalid("Template error: Fn::If requires a list argument with three parameters, the first one a condition name")
        return prune(branches[1] if truth(branches[0]) else branches[2], truth)
    if node == NO_VALUE:
        return node
    return {key: kept for key, value in node.items() if (kept := prune(value, truth)) != NO_VALUE}


def depends_on(resource: Mapping[str, Any]) -> list[str]:
    """The DependsOn of a resource as a list."""
    value = resource.get("DependsOn") or []
    return [value] if isinstance(value, str) else list(value)


def check_references(template: Mapping[str, Any], known: set[str]) -> None:
    """Refuse a name that is neither resource, parameter nor pseudo parameter, and a GetAtt of a non-resource."""
    resources = template["Resources"]
    for block, members in (("Resources", resources), ("Outputs", template.get("Outputs") or {})):
        missing: set[str] = set()
        for member in members.values():
            body = member.get("Properties") if block == "Resources" else [member.get("Value"), member.get("Export")]
            for name, attribute in references(body):
                if attribute is not None and name not in resources:
                    raise invalid(f"Template error: instance of Fn::GetAtt references undefined resource {name}")
                if name not in known and name not in PSEUDO:
                    missing.add(name)
            missing.update(d for d in (depends_on(member) if block == "Resources" else []) if d not in resources)
        if missing:
            listed = ", ".join(sorted(missing))
            raise invalid(f"Template format error: Unresolved resource dependencies [{listed}] in the {block} block of the template")


def order(live: Mapping[str, Mapping[str, Any]], declared: set[str]) -> dict[str, list[str]]:
    """What each live (pruned) resource needs first; ValidationError for a circle or for a name that a condition removed."""
    needs: dict[str, list[str]] = {}
    missing: set[str] = set()
    for name, resource in live.items():
        wanted = {n for n, _ in references(resource.get("Properties"))} & declared
        missing |= wanted - set(live)
        needs[name] = sorted((wanted | set(depends_on(resource))) & set(live))
    if missing:
        listed = ", ".join(sorted(missing))
        raise invalid(f"Template format error: Unresolved resource dependencies [{listed}] in the Resources block of the template")
    circle = _circle(needs)
    if circle:
        raise invalid(f"Circular dependency between resources: [{', '.join(circle)}]")
    return needs


def _circle(needs: Mapping[str, list[str]]) -> list[str]:
    """The resources that can never start, because they wait for one another; empty when there are none."""
    left = {name: set(wanted) for name, wanted in needs.items()}
    while ready := {name for name, wanted in left.items() if not wanted}:
        left = {name: wanted - ready for name, wanted in left.items() if name not in ready}
    # What merely waits for the circle is no part of it.
    while tail := {name for name in left if not any(name in wanted for wanted in left.values())}:
        left = {name: wanted for name, wanted in left.items() if name not in tail}
    return sorted(left)
