"""What CreateStack, ValidateTemplate and their relatives refuse, and in which words."""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from .conftest import Bench
from .templates import NETWORK_AND_EKS

BUCKET = "Resources: {B: {Type: AWS::S3::Bucket}}"
ROLE = (
    "Resources: {R: {Type: AWS::IAM::Role, Properties: {%s AssumeRolePolicyDocument: {Version: 2012-10-17, Statement: "
    "[{Effect: Allow, Principal: {Service: ec2.amazonaws.com}, Action: sts:AssumeRole}]}}}}"
)
PARAMETER = "Parameters: {P: {%s}}\n" + BUCKET


def refusal(bench: Bench, template: str, **more: Any) -> tuple[str, str]:
    with pytest.raises(ClientError) as caught:
        bench.cfn.create_stack(StackName="x", TemplateBody=template, **more)
    assert bench.cfn.list_stacks()["StackSummaries"] == []
    error = caught.value.response["Error"]
    return str(error["Code"]), str(error["Message"])


TEMPLATES = [
    ("Resources: {}", "At least one Resources member must be defined."),
    ("Resources: [", "YAML not well-formed"),
    ('{"Resources": ', "JSON not well-formed"),
    ("just text", "unsupported structure"),
    ("Colour: red\n" + BUCKET, "Invalid template property or properties [Colour]"),
    ("Resources: {B: {Type: AWS::Not::AThing}}", "Unrecognized resource types: [AWS::Not::AThing]"),
    ("Resources: {B: {Properties: {}}}", "Every Resources object must contain a Type member."),
    (
        "Resources: {B: {Type: AWS::S3::Bucket, Properties: {BucketName: one, two and three}}}",
        "[/Resources/B/Properties/two and three] 'null' values are not allowed in templates",
    ),
    ("Resources: {B-1: {Type: AWS::S3::Bucket}}", "Resource name B-1 is non alphanumeric."),
    ("Resources: {B: {Type: AWS::S3::Bucket, Colour: red}}", "Invalid template resource property 'Colour'"),
    ("Resources: {B: {Type: AWS::S3::Bucket, DependsOn: Nope}}", "Unresolved resource dependencies [Nope] in the Resources block"),
    ("Resources: {B: {Type: AWS::S3::Bucket, Properties: {BucketName: !Ref Nope}}}", "Unresolved resource dependencies [Nope]"),
    ("Resources: {B: {Type: AWS::S3::Bucket, Properties: {BucketName: !GetAtt Nope.Arn}}}", "references undefined resource Nope"),
    ("Resources: {B: {Type: AWS::S3::Bucket, Condition: Nope}}", "Unresolved condition dependency Nope"),
    (BUCKET + "\nOutputs: {O: {Value: !Ref Nope}}", "Unresolved resource dependencies [Nope] in the Outputs block"),
    (BUCKET + "\nOutputs: {O: {Export: {Name: x}}}", "Output O is malformed"),
    (
        "Resources: {A: {Type: AWS::S3::Bucket, DependsOn: B}, B: {Type: AWS::S3::Bucket, DependsOn: A}}",
        "Circular dependency between resources: [A, B]",
    ),
    ("Resources: {B: !!python/object/apply:os.getpid []}", "YAML not well-formed"),
    ("Resources: {B: !Nonsense x}", "YAML not well-formed"),
    ("A: &a {Type: x}\nResources: {B: *a}", "aliases are not allowed"),
    ("Transform: AWS::Serverless-2016-10-31\n" + BUCKET, "does not evaluate the Transform section"),
    ("Resources: {B: {Type: AWS::S3::Bucket, DeletionPolicy: Snapshot}}", "does not support DeletionPolicy Snapshot"),
    (PARAMETER % "Type: Colour", "Unrecognized parameter type: Colour"),
    (PARAMETER % "Type: String", "Parameters: [P] must have values"),
    (PARAMETER % 'Type: String, Default: x, AllowedValues: ["y"]', "Parameter 'P' must be one of AllowedValues"),
    (PARAMETER % 'Type: String, Default: X, AllowedPattern: "[a-z]+"', "Parameter 'P' must match pattern [a-z]+"),
    (PARAMETER % 'Type: String, Default: X, AllowedPattern: "[a-z]+", ConstraintDescription: small letters', "constraint: small letters"),
    (PARAMETER % "Type: Number, Default: ten", "Parameter 'P' must be a number"),
    (PARAMETER % "Type: Number, Default: 9, MaxValue: 8", "not greater than 8"),
    (PARAMETER % "Type: String, Default: abc, MaxLength: 2", "at most 2 characters"),
    (PARAMETER % "Type: AWS::EC2::Subnet::Id, Default: subnet-12345678", "value subnet-12345678 for parameter name P does not exist"),
    (PARAMETER % 'Type: "AWS::SSM::Parameter::Value<String>", Default: /none', "Unable to fetch parameters [/none] from parameter store"),
]


@pytest.mark.parametrize(("template", "sentence"), TEMPLATES, ids=[sentence[:50] for _, sentence in TEMPLATES])
def test_a_bad_template_is_refused_before_anything_is_made(bench: Bench, template: str, sentence: str) -> None:
    code, message = refusal(bench, template)
    assert code == "ValidationError"
    assert sentence in message


def test_iam_needs_a_capability_and_names_need_the_stronger_one(bench: Bench) -> None:
    assert refusal(bench, ROLE % "") == ("InsufficientCapabilitiesException", "Requires capabilities : [CAPABILITY_IAM]")
    named = ROLE % "RoleName: x,"
    assert refusal(bench, named, Capabilities=["CAPABILITY_IAM"])[1] == "Requires capabilities : [CAPABILITY_NAMED_IAM]"
    bench.cfn.create_stack(StackName="ok", TemplateBody=ROLE % "", Capabilities=["CAPABILITY_NAMED_IAM"])


def test_a_body_over_the_limit_goes_through_s3(bench: Bench) -> None:
    big = BUCKET + "\n" + "# padding\n" * 6000
    assert "less than or equal to 51200" in refusal(bench, big)[1]
    s3 = bench.client("s3")
    s3.create_bucket(Bucket="templates", CreateBucketConfiguration={"LocationConstraint": bench.region})
    s3.put_object(Bucket="templates", Key="a/b.yaml", Body=big.encode())
    for url in (
        f"https://templates.s3.{bench.region}.amazonaws.com/a/b.yaml",
        f"https://s3.{bench.region}.amazonaws.com/templates/a/b.yaml",
        "http://127.0.0.1:4599/templates/a/b.yaml",
    ):
        assert bench.cfn.validate_template(TemplateURL=url)["Parameters"] == []
    with pytest.raises(ClientError, match="S3 error"):
        bench.cfn.validate_template(TemplateURL=f"https://templates.s3.{bench.region}.amazonaws.com/none.yaml")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"StackName": "1x"}, "satisfy regular expression pattern"),
        ({"Parameters": [{"ParameterKey": "Nope", "ParameterValue": "1"}]}, r"Parameters: \[Nope\] do not exist in the template"),
        ({"Tags": [{"Key": "aws:x", "Value": "1"}]}, "aws: prefixed tag key names are not allowed"),
        ({"DisableRollback": True, "OnFailure": "DELETE"}, "cannot be specified"),
        ({"RoleARN": "arn:aws:iam::123456789012:role/none"}, "is invalid or cannot be assumed"),
        ({"StackPolicyBody": "{}"}, "does not support StackPolicyBody"),
    ],
)
def test_bad_arguments(bench: Bench, arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ClientError, match=sentence):
        bench.cfn.create_stack(**{"StackName": "x", "TemplateBody": BUCKET, **arguments})
    assert bench.cfn.list_stacks()["StackSummaries"] == []


def test_the_same_token_answers_the_same_stack(bench: Bench) -> None:
    asked = {"StackName": "x", "TemplateBody": BUCKET, "ClientRequestToken": "t-1"}
    first = bench.cfn.create_stack(**asked)
    assert bench.cfn.create_stack(**asked)["StackId"] == first["StackId"]
    assert bench.run("x") == "CREATE_COMPLETE"
    assert bench.cfn.create_stack(**asked)["StackId"] == first["StackId"]
    with pytest.raises(ClientError) as caught:
        bench.cfn.create_stack(**{**asked, "DisableRollback": True})
    assert caught.value.response["Error"]["Code"] == "TokenAlreadyExistsException"
    with pytest.raises(ClientError) as caught:
        bench.cfn.create_stack(**{**asked, "ClientRequestToken": "t-2"})
    assert caught.value.response["Error"]["Code"] == "AlreadyExistsException"
    assert {e["ClientRequestToken"] for e in bench.events("x")} == {"t-1"}


def test_validate_and_summary_say_what_a_template_needs(bench: Bench) -> None:
    told = bench.cfn.validate_template(TemplateBody=NETWORK_AND_EKS)
    assert told["Capabilities"] == ["CAPABILITY_NAMED_IAM"]
    assert told["Description"] == "A network, roles, a bucket and an EKS cluster"
    assert {p["ParameterKey"]: p["DefaultValue"] for p in told["Parameters"]} == {
        "Prefix": "demo",
        "VpcCidr": "10.20.0.0/16",
        "Public": "true",
    }
    summary = bench.cfn.get_template_summary(TemplateBody=NETWORK_AND_EKS)
    assert "AWS::EKS::Cluster" in summary["ResourceTypes"]
    public = next(p for p in summary["Parameters"] if p["ParameterKey"] == "Public")
    assert public["ParameterConstraints"] == {"AllowedValues": ["true", "false"]}


def test_a_json_template_and_a_secret_parameter(bench: Bench) -> None:
    template = {
        "Parameters": {"Secret": {"Type": "String", "NoEcho": True}, "Image": {"Type": "AWS::SSM::Parameter::Value<String>"}},
        "Resources": {"P": {"Type": "AWS::SSM::Parameter", "Properties": {"Type": "String", "Value": {"Ref": "Image"}}}},
    }
    bench.client("ssm").put_parameter(Name="/ami", Value="ami-7", Type="String")
    given = [{"ParameterKey": "Secret", "ParameterValue": "s"}, {"ParameterKey": "Image", "ParameterValue": "/ami"}]
    bench.cfn.create_stack(StackName="x", TemplateBody=json.dumps(template), Parameters=given)
    assert bench.run("x") == "CREATE_COMPLETE"
    shown = {p["ParameterKey"]: p for p in bench.cfn.describe_stacks(StackName="x")["Stacks"][0]["Parameters"]}
    assert shown["Secret"]["ParameterValue"] == "****"
    assert (shown["Image"]["ParameterValue"], shown["Image"]["ResolvedValue"]) == ("/ami", "ami-7")
    made = bench.cfn.describe_stack_resource(StackName="x", LogicalResourceId="P")["StackResourceDetail"]["PhysicalResourceId"]
    assert bench.client("ssm").get_parameter(Name=made)["Parameter"]["Value"] == "ami-7"
    assert json.loads(json.dumps(bench.cfn.get_template(StackName="x")["TemplateBody"])) == template


def test_operations_the_sandbox_does_not_have_are_refused(bench: Bench) -> None:
    with pytest.raises(ClientError):
        bench.cfn.detect_stack_drift(StackName="x")
    assert list(bench.world.journal.unsupported_calls()) == ["cloudformation:DetectStackDrift"]
