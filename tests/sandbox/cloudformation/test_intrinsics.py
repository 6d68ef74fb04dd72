"""The intrinsic functions, one row each."""

from __future__ import annotations

from typing import Any

import pytest

from instantstart_sandbox.gateway.errors import AwsError
from instantstart_sandbox.services.cloudformation.graph import order, prune, references
from instantstart_sandbox.services.cloudformation.intrinsics import Made, Scope
from instantstart_sandbox.services.cloudformation.template import load

TEMPLATE = load(
    """
Parameters: {Size: {Type: Number, Default: 3}}
Mappings: {Regions: {us-west-2: {ami: ami-1, zones: [a, b]}}}
Conditions:
  Big: !Equals [!Ref Size, 3]
  Small: !Not [!Condition Big]
  Both: !And [!Condition Big, !Equals [x, x]]
  Either: !Or [!Condition Small, !Condition Both]
Resources: {Vpc: {Type: AWS::EC2::VPC}}
"""
)


@pytest.fixture
def scope() -> Scope:
    return Scope(
        template=TEMPLATE,
        parameters={"Size": "3", "List": ["x", "y"], "Name": "demo"},
        pseudo={"AWS::Region": "us-west-2", "AWS::Partition": "aws", "AWS::AccountId": "1"},
        made={"Vpc": Made("vpc-1", {"CidrBlock": "10.0.0.0/16", "CertificateAuthority": {"Data": "abc"}, "Groups": ["sg-1", "sg-2"]})},
        zones=lambda region: [f"{region}a", f"{region}b"],
        export=lambda name: f"<{name}>",
    )


ROWS: list[tuple[Any, Any]] = [
    ({"Ref": "Size"}, "3"),
    ({"Ref": "Vpc"}, "vpc-1"),
    ({"Ref": "List"}, ["x", "y"]),
    ({"a": {"Ref": "AWS::NoValue"}, "b": 1}, {"b": 1}),
    ([1, {"Ref": "AWS::NoValue"}, 2], [1, 2]),
    ({"Fn::GetAtt": "Vpc.CidrBlock"}, "10.0.0.0/16"),
    ({"Fn::GetAtt": ["Vpc", "CertificateAuthority.Data"]}, "abc"),
    ({"Fn::Sub": "${Name}-${AWS::Region}-${Vpc.CidrBlock}-${!Literal}"}, "demo-us-west-2-10.0.0.0/16-${Literal}"),
    ({"Fn::Sub": ["${a}/${Name}", {"a": {"Ref": "Vpc"}}]}, "vpc-1/demo"),
    ({"Fn::Join": ["-", ["a", 1, True, {"Ref": "Vpc"}]]}, "a-1-true-vpc-1"),
    ({"Fn::Join": [",", {"Ref": "List"}]}, "x,y"),
    ({"Fn::Select": ["1", {"Fn::GetAZs": ""}]}, "us-west-2b"),
    ({"Fn::Select": [0, {"Fn::GetAZs": {"Ref": "AWS::Region"}}]}, "us-west-2a"),
    ({"Fn::Select": [1, {"Fn::Split": ["|", "a|b|c"]}]}, "b"),
    ({"Fn::Base64": {"Fn::Sub": "#!${Name}"}}, "IyFkZW1v"),
    ({"Fn::Cidr": ["10.0.0.0/16", 3, 8]}, ["10.0.0.0/24", "10.0.1.0/24", "10.0.2.0/24"]),
    ({"Fn::Cidr": [{"Fn::GetAtt": ["Vpc", "CidrBlock"]}, "2", "4"]}, ["10.0.0.0/28", "10.0.0.16/28"]),
    ({"Fn::Cidr": ["2001:db8::/56", 2, 64]}, ["2001:db8::/64", "2001:db8:0:1::/64"]),
    ({"Fn::FindInMap": ["Regions", {"Ref": "AWS::Region"}, "ami"]}, "ami-1"),
    ({"Fn::Select": [1, {"Fn::FindInMap": ["Regions", "us-west-2", "zones"]}]}, "b"),
    ({"Fn::ImportValue": {"Fn::Sub": "${Name}-vpc"}}, "<demo-vpc>"),
    ({"Fn::If": ["Big", "yes", "no"]}, "yes"),
    ({"Fn::If": ["Small", {"Fn::GetAtt": ["Nowhere", "X"]}, "no"]}, "no"),
    ({"Condition": {"StringEquals": {"a": "b"}}}, {"Condition": {"StringEquals": {"a": "b"}}}),
    ({"Fn::GetAtt": ["Vpc", "Groups"]}, ["sg-1", "sg-2"]),
]


@pytest.mark.parametrize(("node", "value"), ROWS, ids=[str(row[0])[:60] for row in ROWS])
def test_a_function_gives(scope: Scope, node: Any, value: Any) -> None:
    assert scope.resolve(node) == value


REFUSALS: list[tuple[Any, str]] = [
    ({"Ref": "Nowhere"}, "Unresolved resource dependencies"),
    ({"Fn::GetAtt": ["Vpc", "Colour"]}, "resource Vpc does not support attribute type Colour in Fn::GetAtt"),
    ({"Fn::GetAtt": ["Nowhere", "Arn"]}, "references undefined resource Nowhere"),
    ({"Fn::Select": [2, ["a", "b"]]}, "cannot select nonexistent value at index 2"),
    ({"Fn::Select": [-1, ["a"]]}, "valid index value"),
    ({"Fn::Join": ["-", "text"]}, "every Fn::Join object requires two parameters"),
    ({"Fn::Split": ["", "text"]}, "every Fn::Split"),
    ({"Fn::Sub": "${List}"}, "variable List in Fn::Sub expression does not resolve to a string"),
    ({"Fn::Cidr": ["10.0.0.0/16", 257, 8]}, "count between 1 and 256"),
    ({"Fn::Cidr": ["10.0.0.0/24", 4, 7]}, "cannot make 4 blocks"),
    ({"Fn::Cidr": ["10.0.0.0/40", 1, 8]}, "invalid argument"),
    ({"Fn::FindInMap": ["Regions", "eu-west-1", "ami"]}, "Unable to get mapping for Regions::eu-west-1::ami"),
    ({"Fn::FindInMap": ["Nope", "a", "b"]}, "Mapping named 'Nope' is not present"),
    ({"Fn::If": ["Nope", 1, 2]}, "Unresolved dependencies"),
    ({"Fn::If": ["Big", 1]}, "three parameters"),
    ({"Fn::Base64": ["a"]}, "String-typed value"),
    ({"Fn::Length": ["a"]}, "not a function the sandbox knows"),
]


@pytest.mark.parametrize(("node", "sentence"), REFUSALS, ids=[str(row[0])[:60] for row in REFUSALS])
def test_a_wrong_function_is_refused(scope: Scope, node: Any, sentence: str) -> None:
    with pytest.raises(AwsError) as caught:
        scope.resolve(node)
    assert caught.value.code == "ValidationError"
    assert sentence in caught.value.message


def test_conditions_refer_to_one_another(scope: Scope) -> None:
    assert [scope.truth(c) for c in ("Big", "Small", "Both", "Either")] == [True, False, True, True]


def test_a_condition_that_refers_to_itself_is_refused(scope: Scope) -> None:
    scope.template = {**TEMPLATE, "Conditions": {"A": {"Fn::Not": [{"Condition": "B"}]}, "B": {"Fn::Not": [{"Condition": "A"}]}}}
    with pytest.raises(AwsError, match="Circular dependency in the Conditions block"):
        scope.truth("A")


def test_references_are_found_in_every_form() -> None:
    node = [{"Ref": "A"}, {"Fn::Sub": ["${B.Arn} ${x} ${!C}", {"x": {"Fn::GetAtt": "D.E.F"}}]}, {"k": {"Fn::GetAtt": ["G", "H"]}}]
    assert sorted(references(node), key=str) == [("A", None), ("B", "Arn"), ("D", "E.F"), ("G", "H")]


def test_pruning_decides_every_if() -> None:
    node = {
        "a": {"Fn::If": ["Yes", {"Fn::If": ["No", 1, {"Ref": "AWS::NoValue"}]}, 2]},
        "b": [{"Fn::If": ["No", 1, {"Ref": "AWS::NoValue"}]}, 3],
    }
    assert prune(node, lambda name: name == "Yes") == {"b": [3]}


def test_a_circle_names_only_its_members() -> None:
    def after(*names: str) -> dict[str, Any]:
        return {"Type": "T", "Properties": [{"Ref": name} for name in names]}

    resources = {"A": after("B"), "B": after("C"), "C": after("A"), "First": after(), "D": after("A", "First")}
    with pytest.raises(AwsError, match=r"Circular dependency between resources: \[A, B, C\]"):
        order(resources, set(resources))
