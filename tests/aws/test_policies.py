"""The control plane's policies: made from the record, within AWS's limits, enough for what was asked and no statement too many."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.aws import recording
from tests.aws.granted import fill, templates

from instantstart.base import names
from instantstart.ensure.iam import permissions
from instantstart_sandbox.gateway import policies

ROOT = Path(__file__).parents[2]
ACCOUNT, REGION, PARTITION = "123456789012", "us-west-2", "aws"
DEMO = names.Names("demo", REGION, ACCOUNT)
GIVEN = permissions.values(PARTITION, REGION, ACCOUNT, DEMO) | {"given_bucket": "training-data"}
SIDS = [(name, s["Sid"]) for name, document in templates().items() for s in document["Statement"]]


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_policies", ROOT / "tools" / "generate_policies.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def allowed(asked: permissions.Asked, documents: dict[str, Any]) -> bool:
    """Whether these policies (placeholders filled) allow a recorded question, by the evaluator that the sandbox enforces with."""
    keys = {name.lower(): [value] for name, value in permissions.context(asked, GIVEN, "demo").items()}
    if asked.action == "iam:CreateServiceLinkedRole":
        keys["iam:awsservicename"] = ["eks.amazonaws.com"]
    question = policies.Question(asked.action, asked.place(GIVEN), keys)
    return policies.decide(list(documents.items()), question).decision is policies.Decision.ALLOWED


def filled(without: tuple[str, str] | None = None) -> dict[str, Any]:
    """The checked-in policies for one place, perhaps without one statement."""
    found = {name: fill(document, REGION, PARTITION, ACCOUNT) for name, document in templates().items()}
    if without:
        name, sid = without
        found[name] = {**found[name], "Statement": [s for s in found[name]["Statement"] if s["Sid"] != sid]}
    return found


def test_what_is_checked_in_is_what_the_record_makes(generator: ModuleType) -> None:
    for path, text in generator.generated().items():
        assert path.read_text() == text, "run: python tools/generate_policies.py"
    assert {f"{name}.json" for name in templates()} == {p.name for p in generator.generated() if p.suffix == ".json"}


def test_every_policy_fits_a_managed_policy(generator: ModuleType) -> None:
    sizes = {name: generator.size(document) for name, document in templates().items()}
    assert max(sizes.values()) <= generator.MOST_CHARACTERS
    assert len(sizes) <= 10


def test_every_recorded_question_is_allowed() -> None:
    documents = filled()
    assert [(a.action, a.resource) for a in permissions.recorded() if not allowed(a, documents)] == []


@pytest.mark.parametrize("without", SIDS, ids=[sid for _, sid in SIDS])
def test_no_statement_is_too_many(without: tuple[str, str]) -> None:
    documents, name, sid = filled(without), *without
    actions = next(s["Action"] for s in templates()[name]["Statement"] if s["Sid"] == sid)
    denied = {a.action for a in permissions.recorded() if not allowed(a, documents)}
    assert denied
    assert denied <= set(actions)


def test_no_action_is_granted_that_is_not_recorded() -> None:
    granted = {action for document in templates().values() for s in document["Statement"] for action in s["Action"]}
    assert granted == {a.action for a in permissions.recorded()}
    assert not [action for action in granted if "*" in action]


def test_what_changes_something_is_bound_to_our_names_our_tag_or_the_region() -> None:
    loose = [
        s["Sid"]
        for document in templates().values()
        for s in document["Statement"]
        if s["Resource"] == "*" and "Condition" not in s and any(not _reads(action) for action in s["Action"])
    ]
    assert loose == []


def _reads(action: str) -> bool:
    return action.split(":")[1].startswith(("Describe", "Get", "List", "Search"))


def test_a_stranger_is_refused() -> None:
    documents = filled()
    for action, resource in (
        ("iam:PassRole", "arn:aws:iam::123456789012:role/admin"),
        ("iam:CreateRole", "arn:aws:iam::123456789012:role/admin"),
        ("s3:GetObject", "arn:aws:s3:::payroll/secrets"),
        ("logs:GetLogEvents", "arn:aws:logs:us-west-2:123456789012:log-group:/aws/lambda/payroll"),
        ("s3:DeleteBucket", "arn:aws:s3:::payroll"),
        ("ec2:DeleteVpc", "arn:aws:ec2:us-west-2:123456789012:vpc/vpc-0123456789abcdef0"),
        ("sagemaker:DeleteCluster", "arn:aws:sagemaker:us-west-2:123456789012:cluster/abcdefghijkl"),
        ("eks:DeleteCluster", "arn:aws:eks:us-west-2:123456789012:cluster/production"),
        ("cloudformation:DeleteStack", "arn:aws:cloudformation:us-west-2:123456789012:stack/production/1"),
        ("ec2:RunInstances", "*"),
        ("fsx:DeleteFileSystem", "arn:aws:fsx:us-west-2:123456789012:file-system/fs-0123456789abcdef0"),
    ):
        assert not allowed(permissions.Asked(action, resource, "journal"), documents), action
    buying = permissions.Asked("sagemaker:CreateTrainingPlan", "*", "journal")
    assert not allowed(buying, {name: each for name, each in documents.items() if name != "instantstart-purchase"})
    attach = permissions.Asked(
        "iam:AttachRolePolicy", "arn:aws:iam::123456789012:role/instantstart-x-eks", "journal", policy="AdministratorAccess"
    )
    assert not allowed(attach, documents)


#: the kinds that are made under a name of ours, and not under one of anybody's else: a tag would say no more
_BY_NAME = {
    "eks:CreateAccessEntry", "eks:CreateAddon", "eks:CreateCluster", "eks:CreatePodIdentityAssociation",
    "iam:CreateOpenIDConnectProvider", "iam:CreateRole", "iam:CreateServiceLinkedRole",
}  # fmt: skip
#: EC2's own, which have no names: bound to the Region; what is taken away again must bear our tag
_BY_REGION = {
    "ec2:AllocateAddress", "ec2:CreateInternetGateway", "ec2:CreateNatGateway", "ec2:CreateRouteTable", "ec2:CreateSecurityGroup",
    "ec2:CreateSubnet", "ec2:CreateTags", "ec2:CreateVpc", "ec2:CreateVpcEndpoint",
}  # fmt: skip


def _makes(action: str) -> bool:
    return action.split(":")[1].startswith(("Create", "Allocate", "Run"))


def test_nothing_is_made_without_our_tag() -> None:
    """The same questions without the tag in the request are refused; the rest is bound to names of ours or to the Region."""
    documents = filled()
    makes = [asked for asked in permissions.recorded() if asked.tags and _makes(asked.action)]
    loose = {asked.action for asked in makes if allowed(dataclasses.replace(asked, tags=False), documents)}
    assert loose == _BY_NAME | _BY_REGION
    assert {asked.action for asked in makes} - loose == {
        "aps:CreateWorkspace", "cloudformation:CreateStack", "fsx:CreateFileSystem", "sagemaker:CreateCluster",
        "sagemaker:CreateMlflowApp", "sagemaker:CreateMlflowTrackingServer",
    }  # fmt: skip
    elsewhere = "arn:aws:eks:us-west-2:123456789012:cluster/production"
    assert not allowed(permissions.Asked("eks:CreateCluster", elsewhere, "journal", tags=True), documents)
    assert not allowed(permissions.Asked("iam:CreateRole", "arn:aws:iam::123456789012:role/ops", "journal", tags=True), documents)


def test_every_call_of_the_source_is_in_the_record() -> None:
    recorded = {a.action for a in permissions.recorded()}
    assert recording.source_actions() - recorded == set(), "run: python tools/generate_policies.py --record"


def test_what_cloudformation_says_its_handlers_do_is_in_the_record_or_not_used() -> None:
    recorded = {a.action for a in permissions.recorded()}
    assert recording.handler_actions() - recorded - set(recording.NOT_USED) == set()
    assert set(recording.NOT_USED) & recorded == set()


def test_the_record_names_nothing_of_the_run_it_was_made_in() -> None:
    text = json.dumps([a.resource for a in permissions.recorded()])
    assert not [word for word in (ACCOUNT, REGION, "arn:aws", "demo") if word in text]
