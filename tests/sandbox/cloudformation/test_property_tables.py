"""Our property tables against CloudFormation's own resource schemas, in the copy that cfn-lint ships."""

from __future__ import annotations

from typing import Any

import pytest

from instantstart_sandbox.services.cloudformation.resources import HANDLERS
from instantstart_sandbox.services.cloudformation.resources.shapes import Shape, shape

manager = pytest.importorskip("cfnlint.schema.manager", reason="cfn-lint carries the resource schemas")


def _schema(kind: str) -> dict[str, Any]:
    found: dict[str, Any] = manager.PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-1", kind).schema
    return found


def _resolve(node: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in node:
        target: Any = root
        for part in node["$ref"].lstrip("#/").split("/"):
            target = target[part]
        node = target
    return node


def _is_list(node: dict[str, Any]) -> bool:
    kind = node.get("type")
    return kind == "array" or (isinstance(kind, list) and "array" in kind)


def _compare(ours: Shape, node: dict[str, Any], root: dict[str, Any], path: str) -> list[str]:
    read_only = {p.removeprefix("/properties/") for p in root.get("readOnlyProperties", [])}
    create_only = {p.removeprefix("/properties/").replace("/*", "") for p in root.get("createOnlyProperties", [])}
    theirs = {k: _resolve(v, root) for k, v in node.get("properties", {}).items()}
    writable = {k for k in theirs if f"{path}{k}" not in read_only and f"{path}{k}".replace("/", "/*/", 1) not in read_only}
    wrong = [f"{path}{k}: not a property on AWS" for k in (ours.known | ours.unsupported) - set(theirs)]
    wrong += [f"{path}{k}: neither supported nor refused" for k in writable - ours.known - ours.unsupported]
    wrong += [f"{path}{k}: required on AWS" for k in set(node.get("required", [])) - ours.required - ours.unsupported]
    wrong += [f"{path}{k}: not required on AWS" for k in ours.required - set(node.get("required", []))]
    for key in ours.known & set(theirs):
        if (key in ours.lists) != _is_list(theirs[key]):
            wrong.append(f"{path}{key}: list or not?")
        if (key in ours.create_only) != (f"{path}{key}" in create_only):
            wrong.append(f"{path}{key}: create-only or not?")
        if key in ours.nested and key != "Tags":
            inner = _resolve(theirs[key].get("items", {}), root) if _is_list(theirs[key]) else theirs[key]
            if inner.get("properties"):
                wrong += _compare(ours.nested[key], inner, root, f"{path}{key}/")
    return wrong


@pytest.mark.parametrize("kind", sorted(HANDLERS))
def test_a_table_says_what_the_schema_of_aws_says(kind: str) -> None:
    schema = _schema(kind)
    assert _compare(HANDLERS[kind].shape, schema, schema, "") == []


def test_the_comparison_finds_every_kind_of_mistake() -> None:
    schema = _schema("AWS::EKS::AccessEntry")
    wrong = shape("AccessPolicies ClusterName! PrincipalArn*! Tags[] Type Username* Colour", AccessPolicies="PolicyArn*")
    assert sorted(_compare(wrong, schema, schema, "")) == [
        "AccessPolicies/AccessScope: neither supported nor refused",
        "AccessPolicies/AccessScope: required on AWS",
        "AccessPolicies: list or not?",
        "ClusterName: required on AWS",
        "Colour: not a property on AWS",
        "KubernetesGroups: neither supported nor refused",
        "Type: create-only or not?",
        "Username: not required on AWS",
    ]


def test_violations_are_named_with_their_place() -> None:
    table = shape("Name* Groups[] Config", unsupported="Later", Groups="Type* Size", Config="Mode")
    broken = {"Groups": [{"Type": "a"}, {"Size": 1, "Colour": "red"}], "Config": "text", "Later": 1, "Nmae": "x"}
    assert table.violations(broken) == [
        "#: required key [Name] not found",
        "#/Groups/1: required key [Type] not found",
        "#/Groups/1: extraneous key [Colour] is not permitted",
        "#/Config: expected type: JSONObject, found: String",
        "#: the sandbox does not support the property [Later]",
        "#: extraneous key [Nmae] is not permitted",
    ]


def test_a_nested_create_only_property_replaces() -> None:
    cluster = HANDLERS["AWS::EKS::Cluster"].shape
    old = {"Name": "a", "KubernetesNetworkConfig": {"ServiceIpv4Cidr": "10.0.0.0/16"}}
    assert cluster.replaced_by(old, {**old, "Version": "1.34"}) == []
    assert cluster.replaced_by(old, {"Name": "a"}) == ["KubernetesNetworkConfig/ServiceIpv4Cidr"]
