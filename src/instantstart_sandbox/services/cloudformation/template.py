"""Reading a template: YAML by a safe loader with the short tags, or JSON; and the checks that need no parameter.

Limits: CloudFormation user guide, "Understand CloudFormation quotas".
"""

from __future__ import annotations

import functools
import json
import re
from typing import Any

import yaml

from instantstart_sandbox.services.cloudformation import graph
from instantstart_sandbox.services.cloudformation.wording import invalid

MAX_BODY_BYTES = 51_200
MAX_URL_BYTES = 1_048_576
MAX_RESOURCES, MAX_PARAMETERS, MAX_OUTPUTS, MAX_MAPPINGS = 500, 200, 200, 200

SECTIONS = frozenset(
    {
        "AWSTemplateFormatVersion", "Description", "Metadata", "Parameters", "Rules", "Mappings", "Conditions",
        "Transform", "Resources", "Outputs", "Hooks",
    }
)  # fmt: skip
ATTRIBUTES = frozenset(
    {
        "Type", "Properties", "DependsOn", "Condition", "DeletionPolicy", "UpdateReplacePolicy", "Metadata",
        "CreationPolicy", "UpdatePolicy",
    }
)  # fmt: skip
DELETION_POLICIES = frozenset({"Delete", "Retain", "RetainExceptOnCreate", "Snapshot"})

Template = dict[str, Any]


class _Loader(yaml.SafeLoader):
    """YAML without dates (``2010-09-09`` stays text), without aliases, and with CloudFormation's short tags."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Refuse an alias, as CloudFormation does: it also keeps a small document from growing without bound."""
        if self.check_event(yaml.AliasEvent):
            raise invalid("Template format error: YAML aliases are not allowed in CloudFormation templates")
        return super().compose_node(parent, index)


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_SHORT_TAGS = frozenset(graph.FUNCTIONS) | {"Ref", "Condition"}


def _short_tag(loader: _Loader, suffix: str, node: yaml.Node) -> dict[str, Any]:
    if suffix not in _SHORT_TAGS:
        raise yaml.constructor.ConstructorError(None, None, f"unknown tag !{suffix}", node.start_mark)
    value: Any = None
    if isinstance(node, yaml.ScalarNode):
        value = loader.construct_scalar(node)
    elif isinstance(node, yaml.SequenceNode):
        value = loader.construct_sequence(node, deep=True)
    elif isinstance(node, yaml.MappingNode):
        value = loader.construct_mapping(node, deep=True)
    if suffix == "GetAtt" and isinstance(value, str):
        value = value.split(".", 1)
    return {suffix if suffix in ("Ref", "Condition") else f"Fn::{suffix}": value}


_Loader.add_multi_constructor("!", _short_tag)


def _parse(text: str) -> Any:
    if text.lstrip().startswith("{"):
        try:
            return json.loads(text)
        except json.JSONDecodeError as error:
            raise invalid(f"Template format error: JSON not well-formed. (line {error.lineno}, column {error.colno})") from error
    try:
        return yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""
        raise invalid(f"Template format error: YAML not well-formed.{where}") from error
    except yaml.YAMLError as error:
        raise invalid("Template format error: YAML not well-formed.") from error


@functools.lru_cache(maxsize=64)
def load(text: str) -> Template:
    """The template of a text, checked in shape; AwsError ``ValidationError`` otherwise. The result is shared: never change it."""
    template = _parse(text)
    if not isinstance(template, dict):
        raise invalid("Template format error: unsupported structure.")
    _check_head(template)
    for section in ("Parameters", "Mappings", "Conditions", "Resources", "Outputs", "Metadata", "Rules"):
        _check_section(section, template)
    if not template.get("Resources"):
        raise invalid("Template format error: At least one Resources member must be defined.")
    for name, resource in template["Resources"].items():
        _check_resource(name, resource)
    for name, output in (template.get("Outputs") or {}).items():
        _check_output(name, output)
    return template


def _check_head(template: Template) -> None:
    unknown = sorted(str(k) for k in set(template) - SECTIONS)
    if unknown:
        raise invalid(f"Invalid template property or properties [{', '.join(unknown)}]")
    for section in ("Transform", "Hooks", "Rules"):
        if template.get(section):
            raise invalid(f"Template error: the sandbox does not evaluate the {section} section")
    if str(template.get("AWSTemplateFormatVersion", "2010-09-09")) != "2010-09-09":
        raise invalid("Template format error: unsupported value for AWSTemplateFormatVersion.")
    if not isinstance(template.get("Description", ""), str):
        raise invalid("Template format error: Description must be a string.")


def _check_section(section: str, template: Template) -> None:
    members = template.get(section)
    if members is None:
        return
    if not isinstance(members, dict):
        raise invalid(f"Template format error: {section} must be an object.")
    limits = {"Resources": MAX_RESOURCES, "Parameters": MAX_PARAMETERS, "Outputs": MAX_OUTPUTS, "Mappings": MAX_MAPPINGS}
    limit = limits.get(section)
    if limit is not None and len(members) > limit:
        raise invalid(f"Template format error: Number of {section.lower()}, {len(members)}, is greater than maximum allowed, {limit}")


def _check_resource(name: Any, resource: Any) -> None:
    if not re.fullmatch(r"[A-Za-z0-9]+", str(name)):
        raise invalid(f"Template format error: Resource name {name} is non alphanumeric.")
    if not isinstance(resource, dict):
        raise invalid("Template format error: Every Resources object must contain a Type member.")
    unknown = sorted(str(k) for k in set(resource) - ATTRIBUTES)
    if unknown:
        raise invalid(f"Invalid template resource property '{unknown[0]}'")
    if not isinstance(resource.get("Type"), str):
        raise invalid("Template format error: Every Resources object must contain a Type member.")
    if not isinstance(resource.get("Properties") or {}, dict):
        raise invalid(f"Template format error: Properties of resource {name} must be an object.")
    _refuse_null(resource.get("Properties") or {}, f"/Resources/{name}/Properties")
    for policy in ("DeletionPolicy", "UpdateReplacePolicy"):
        if resource.get(policy, "Delete") not in DELETION_POLICIES:
            raise invalid(f"Template format error: Unrecognized {policy} {resource[policy]} for resource {name}")
        if resource.get(policy) == "Snapshot":
            raise invalid(f"Template error: resource type {resource['Type']} does not support {policy} Snapshot")
    if resource.get("CreationPolicy") or resource.get("UpdatePolicy"):
        raise invalid(f"Template error: the sandbox does not support CreationPolicy and UpdatePolicy (resource {name})")


def _refuse_null(value: Any, path: str) -> None:
    """A key without a value is often a comma that YAML took for the end of an item."""
    if value is None:
        raise invalid(f"[{path}] 'null' values are not allowed in templates")
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in members:
        _refuse_null(member, f"{path}/{key}")


def _check_output(name: Any, output: Any) -> None:
    if not isinstance(output, dict) or "Value" not in output:
        raise invalid(f"Template format error: Output {name} is malformed. Every Outputs member must contain a Value object")
    if set(output) - {"Value", "Description", "Export", "Condition"}:
        raise invalid(f"Template format error: Output {name} is malformed.")
    if "Export" in output and (not isinstance(output["Export"], dict) or set(output["Export"]) != {"Name"}):
        raise invalid(f"Template format error: Output {name} is malformed. The Export object must contain a Name")


def required_capabilities(template: Template) -> tuple[list[str], str | None]:
    """The capabilities that a template needs, and the sentence that says why; ``([], None)`` when it needs none."""
    naming = {
        "AWS::IAM::Role": "RoleName", "AWS::IAM::ManagedPolicy": "ManagedPolicyName", "AWS::IAM::InstanceProfile": "InstanceProfileName",
        "AWS::IAM::Policy": None,
    }  # fmt: skip
    found = [(name, r) for name, r in template["Resources"].items() if r["Type"] in naming]
    if not found:
        return [], None
    named = [name for name, r in found if (key := naming[r["Type"]]) and key in (r.get("Properties") or {})]
    if named:
        return ["CAPABILITY_NAMED_IAM"], f"The following resource(s) require capabilities: [{', '.join(_types(template, named))}]"
    every = _types(template, [name for name, _ in found])
    return ["CAPABILITY_IAM"], f"The following resource(s) require capabilities: [{', '.join(every)}]"


def _types(template: Template, logical_ids: list[str]) -> list[str]:
    return sorted({template["Resources"][name]["Type"] for name in logical_ids})


def capabilities_given(template: Template, capabilities: list[str]) -> bool:
    """Whether the caller acknowledged what the template needs; CAPABILITY_NAMED_IAM covers CAPABILITY_IAM."""
    needed, _ = required_capabilities(template)
    return all(need in capabilities or (need == "CAPABILITY_IAM" and "CAPABILITY_NAMED_IAM" in capabilities) for need in needed)
