"""The intrinsic functions and pseudo parameters, evaluated for one stack.

A ``Scope`` knows the parameters, the pseudo parameters and what the resources have become so far; ``resolve`` turns a node of the
template into plain values. Conditions are evaluated once, before anything is made.
"""

from __future__ import annotations

import base64
import ipaddress
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from instantstart_sandbox.services.cloudformation import graph
from instantstart_sandbox.services.cloudformation.template import Template
from instantstart_sandbox.services.cloudformation.wording import invalid


@dataclass
class Made:
    """What a resource has become: the value of its Ref, and its attributes."""

    ref: str
    attributes: Mapping[str, Any]


@dataclass
class Scope:
    """Everything a function may look at. ``zones(region)`` and ``export(name)`` are asked only when a template needs them."""

    template: Template
    parameters: Mapping[str, Any]
    pseudo: Mapping[str, Any]
    made: Mapping[str, Made]
    zones: Callable[[str], list[str]]
    export: Callable[[str], str]
    _truths: dict[str, bool | None] = field(default_factory=dict)

    def truth(self, condition: str) -> bool:
        """The value of a named condition; ValidationError when it is not defined or refers to itself."""
        conditions = self.template.get("Conditions") or {}
        if condition not in conditions:
            raise invalid(
                f"Template format error: Unresolved dependencies [{condition}]. "
                "Cannot reference resources in the Conditions block of the template"
            )
        if condition not in self._truths:
            self._truths[condition] = None
            self._truths[condition] = _boolean(self.resolve(conditions[condition]))
        value = self._truths[condition]
        if value is None:
            raise invalid(f"Template format error: Circular dependency in the Conditions block: [{condition}]")
        return value

    def resolve(self, node: Any) -> Any:
        """A node of the template as plain values."""
        if isinstance(node, list):
            return [value for item in node if (value := self.resolve(item)) is not None]
        if not isinstance(node, dict):
            return node
        if len(node) == 1:
            ((key, argument),) = node.items()
            if key == "Ref":
                return self.ref(argument)
            if key == "Condition" and isinstance(argument, str) and argument in (self.template.get("Conditions") or {}):
                return self.truth(argument)
            if key.startswith("Fn::"):
                return self._call(key.removeprefix("Fn::"), argument)
        return {key: value for key, item in node.items() if (value := self.resolve(item)) is not None}

    def ref(self, name: str) -> Any:
        """The value of ``Ref: name``; None for AWS::NoValue."""
        if name == "AWS::NoValue":
            return None
        for known in (self.pseudo, self.parameters):
            if name in known:
                return known[name]
        if name in self.made:
            return self.made[name].ref
        raise invalid(f"Template format error: Unresolved resource dependencies [{name}] in the Resources block of the template")

    def attribute(self, name: str, attribute: str) -> Any:
        """The value of ``Fn::GetAtt: [name, attribute]``; dots lead into nested attributes."""
        made = self.made.get(name)
        if made is None:
            raise invalid(f"Template error: instance of Fn::GetAtt references undefined resource {name}")
        value: Any = made.attributes
        if attribute in made.attributes:
            return made.attributes[attribute]
        for part in attribute.split("."):
            if not isinstance(value, Mapping) or part not in value:
                raise invalid(f"Template error: resource {name} does not support attribute type {attribute} in Fn::GetAtt")
            value = value[part]
        return value

    def _call(self, function: str, argument: Any) -> Any:
        if function == "GetAtt":
            name, attribute = graph.get_att(argument)
            return self.attribute(name, str(self.resolve(attribute)))
        if function == "Sub":
            return self._sub(argument)
        if function == "If":
            branches = argument if isinstance(argument, list) and len(argument) == 3 else [None]
            if not isinstance(branches[0], str):
                raise invalid("Template error: Fn::If requires a list argument with three parameters, the first one a condition name")
            return self.resolve(branches[1] if self.truth(branches[0]) else branches[2])
        if function == "GetAZs":
            return self.zones(str(self.resolve(argument) or self.pseudo["AWS::Region"]))
        if function == "ImportValue":
            return self.export(str(self.resolve(argument)))
        if function == "FindInMap":
            return self._find_in_map(self.resolve(argument))
        pure = _PURE.get(function)
        if pure is None:
            raise invalid(f"Template error: Fn::{function} is not a function the sandbox knows")
        return pure(self.resolve(argument))

    def _sub(self, argument: Any) -> str:
        text, local = (argument, {}) if isinstance(argument, str) else (argument[0], self.resolve(argument[1]))

        def value(name: str) -> str:
            if name in local:
                found = local[name]
            else:
                head, dot, attribute = name.partition(".")
                found = self.attribute(head, attribute) if dot else self.ref(name)
            if isinstance(found, (list, dict)):
                raise invalid(f"Template error: variable {name} in Fn::Sub expression does not resolve to a string")
            return text_of(found)

        return graph.replace_variables(text, value)

    def _find_in_map(self, argument: Any) -> Any:
        if not isinstance(argument, list) or len(argument) not in (3, 4) or not all(isinstance(a, (str, int)) for a in argument[:3]):
            raise invalid(
                "Template error: every Fn::FindInMap object requires three parameters, "
                "the map name, map key and the attribute for return value"
            )
        name, top, second = (str(a) for a in argument[:3])
        mappings = self.template.get("Mappings") or {}
        if name not in mappings:
            raise invalid(f"Template error: Mapping named '{name}' is not present in the 'Mappings' section of template.")
        found = mappings[name].get(top, {})
        if second not in found:
            raise invalid(f"Template error: Unable to get mapping for {name}::{top}::{second}")
        return found[second]


def text_of(value: Any) -> str:
    """A scalar as CloudFormation writes it into a text: ``true``, ``false``, numbers without decoration."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if value in ("true", "false"):
        return bool(value == "true")
    raise invalid("Template format error: Conditions can only be boolean operations on parameters and other conditions")


def _join(argument: Any) -> str:
    if not isinstance(argument, list) or len(argument) != 2 or not isinstance(argument[0], str) or not isinstance(argument[1], list):
        raise invalid(
            "Template error: every Fn::Join object requires two parameters, (1) a string delimiter and (2) a list of strings to be joined "
            "or a function that returns a list of strings (such as Fn::GetAZs) to be joined."
        )
    if any(isinstance(part, (list, dict)) for part in argument[1]):
        raise invalid("Template error: every Fn::Join object requires a list of strings to be joined")
    return argument[0].join(text_of(part) for part in argument[1])


def _select(argument: Any) -> Any:
    if not isinstance(argument, list) or len(argument) != 2 or not isinstance(argument[1], list):
        raise invalid("Template error: Fn::Select requires a list argument with two elements: an integer index and a list")
    if not str(argument[0]).isdigit():
        raise invalid("Template error: Fn::Select requires a list argument with a valid index value")
    index, items = int(argument[0]), argument[1]
    if index >= len(items):
        raise invalid(f"Template error: Fn::Select cannot select nonexistent value at index {index}")
    return items[index]


def _split(argument: Any) -> list[str]:
    if not isinstance(argument, list) or len(argument) != 2 or not all(isinstance(a, str) for a in argument) or not argument[0]:
        raise invalid("Template error: every Fn::Split object requires two parameters, (1) a string delimiter and (2) a string to be split")
    return str(argument[1]).split(argument[0])


def _cidr(argument: Any) -> list[str]:
    if not isinstance(argument, list) or len(argument) not in (2, 3):
        raise invalid(
            "Template error: Fn::Cidr requires a list argument with two or three elements: an IP block, a count and the CIDR bits"
        )
    try:
        block = ipaddress.ip_network(str(argument[0]), strict=False)
        count = int(argument[1])
        bits = int(argument[2]) if len(argument) == 3 else block.max_prefixlen - block.prefixlen - max(count - 1, 0).bit_length()
    except ValueError as error:
        raise invalid(f"Template error: Fn::Cidr got an invalid argument: {error}") from error
    prefix = block.max_prefixlen - bits
    if not 1 <= count <= 256:
        raise invalid("Template error: Fn::Cidr requires a count between 1 and 256")
    if not block.prefixlen <= prefix <= block.max_prefixlen or 2 ** (prefix - block.prefixlen) < count:
        raise invalid(f"Template error: Fn::Cidr cannot make {count} blocks with {bits} CIDR bits out of {block}")
    return [str(net) for _, net in zip(range(count), block.subnets(new_prefix=prefix), strict=False)]


def _base64(argument: Any) -> str:
    if not isinstance(argument, str):
        raise invalid("Template error: every Fn::Base64 object must have a String-typed value.")
    return base64.b64encode(argument.encode()).decode()


def _equals(argument: Any) -> bool:
    if not isinstance(argument, list) or len(argument) != 2:
        raise invalid("Template error: Fn::Equals requires a list argument with two elements")
    left, right = (json.dumps(a, sort_keys=True) if isinstance(a, (dict, list)) else text_of(a) for a in argument)
    return left == right


def _operands(function: str, argument: Any) -> list[bool]:
    least, most = (1, 1) if function == "Not" else (2, 10)
    if not isinstance(argument, list) or not least <= len(argument) <= most:
        raise invalid(f"Template error: Fn::{function} requires a list argument with {least} to {most} elements")
    return [_boolean(a) for a in argument]


_PURE: dict[str, Callable[[Any], Any]] = {
    "Join": _join,
    "Select": _select,
    "Split": _split,
    "Cidr": _cidr,
    "Base64": _base64,
    "Equals": _equals,
    "And": lambda a: all(_operands("And", a)),
    "Or": lambda a: any(_operands("Or", a)),
    "Not": lambda a: not _operands("Not", a)[0],
}
