"""From what was asked on the wire, what the source can ask, and what CloudFormation's schemas name, to ``permissions.json``."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import botocore.session
import cfnlint.data.schemas
from botocore import xform_name

from instantstart.base import names
from instantstart.ensure.iam import permissions
from instantstart.ensure.iam.permissions import Asked
from instantstart_sandbox.gateway import resources

ROOT = Path(__file__).parents[2]
TEMPLATE = ROOT / "src/instantstart/ensure/templates/eks.yaml"
_CALLS = frozenset({"read", "write", "pages", "each", "create", "remove"})
_EXAMPLE = {
    "iam": "arn:${Partition}:iam::${Account}:role/${eks_role}",
    "s3": "arn:${Partition}:s3:::${scripts_bucket}",
    "eks": "arn:${Partition}:eks:${Region}:${Account}:cluster/${eks_cluster}",
    "sagemaker": "arn:${Partition}:sagemaker:${Region}:${Account}:cluster/*",
    "cloudformation": "arn:${Partition}:cloudformation:${Region}:${Account}:stack/${stack}/*",
}
_PROVIDER = "arn:${Partition}:iam::${Account}:oidc-provider/oidc.eks.${Region}.*"
_LINKED = "arn:${Partition}:iam::${Account}:role/aws-service-role/*"
#: what CloudFormation's schemas name for properties that our template does not use
NOT_USED = {
    "ec2:AcceptAddressTransfer": "no address is transferred",
    "ec2:AssociateAddress": "the NAT gateway takes its address itself",
    "ec2:DisassociateAddress": "the NAT gateway gives its address back itself",
    "ec2:AttachVpnGateway": "no VPN",
    "ec2:DetachVpnGateway": "no VPN",
    "ec2:DescribeVpnGateways": "no VPN",
    "ec2:CreateVpcEncryptionControl": "no VPC encryption control",
    "vpc-lattice:CreateServiceNetworkVpcEndpointAssociation": "a gateway endpoint",
    "vpc-lattice:DescribeServiceNetworkVpcEndpointAssociation": "a gateway endpoint",
    "vpce:AllowMultiRegion": "the endpoint of one region",
    "ec2:DeleteTags": "tags are not changed",
    "iam:UntagRole": "tags are not changed",
    "iam:AddRoleToInstanceProfile": "no Auto Mode",
    "iam:CreateInstanceProfile": "no Auto Mode",
    "iam:DeleteInstanceProfile": "no Auto Mode",
    "iam:GetInstanceProfile": "no Auto Mode",
    "iam:RemoveRoleFromInstanceProfile": "no Auto Mode",
    "iam:TagInstanceProfile": "no Auto Mode",
    "kms:CreateGrant": "no key of the customer's",
    "kms:DescribeKey": "no key of the customer's",
}
#: what AWS asks beside a call, by the service authorization reference: tags on create, versions of objects, service-linked roles
BESIDE = {
    "cloudformation:CreateStack": ("cloudformation:TagResource",),
    "eks:CreateAccessEntry": ("eks:TagResource", "eks:DeleteAccessEntry"),
    "eks:CreateCluster": ("iam:CreateServiceLinkedRole",),
    "iam:CreateRole": ("iam:TagRole",),
    "iam:CreateOpenIDConnectProvider": ("iam:TagOpenIDConnectProvider",),
    "sagemaker:CreateCluster": ("sagemaker:AddTags", "iam:CreateServiceLinkedRole"),
    "s3:DeleteObject": ("s3:DeleteObjectVersion",),
}


def record(questions: Iterable[dict[str, Any]], derived: names.Names) -> list[dict[str, Any]]:
    """The entries of ``permissions.json``: each action and resource once, a stronger reason before a weaker."""
    found = {_key(asked): asked for asked in (_of_wire(q, derived) for q in questions)}
    known = {asked.action for asked in found.values()}
    for why, actions in (("source", source_actions()), ("handler", handler_actions()), ("dependent", _beside(known))):
        for action in sorted(set(actions) - known - set(NOT_USED)):
            asked = Asked(action, _example(action), why, tagged=True, tags=True)
            found[_key(asked)] = asked
        known |= set(actions)
    return [_plain(asked) for asked in sorted(found.values(), key=lambda a: json.dumps(_plain(a), sort_keys=True))]


def _plain(asked: Asked) -> dict[str, Any]:
    return {name: value for name, value in asdict(asked).items() if value}


def _key(asked: Asked) -> str:
    return json.dumps({k: v for k, v in _plain(asked).items() if k != "why"}, sort_keys=True)


def _beside(known: set[str]) -> set[str]:
    return {more for action in known for more in BESIDE.get(action, ())}


def _example(action: str) -> str:
    service, name = action.split(":")
    if "OpenIDConnectProvider" in name:
        return _PROVIDER
    return _LINKED if name == "CreateServiceLinkedRole" else _EXAMPLE.get(service, "*")


def _of_wire(question: dict[str, Any], derived: names.Names) -> Asked:
    keys = question["context"]
    passed, policy = keys.get("iam:passedtoservice"), keys.get("iam:policyarn")
    return Asked(
        action=question["action"],
        resource=_general(question["resource"], derived),
        why="journal",
        passed_to=passed[0].partition(".amazonaws.")[0] if passed else None,
        policy=policy[0].rsplit("/", 1)[1] if policy else None,
        tagged=f"aws:resourcetag/{names.CLUSTER_TAG}" in keys,
        tags=f"aws:requesttag/{names.CLUSTER_TAG}" in keys,
    )


def _general(arn: str, derived: names.Names) -> str:
    """An ARN with the names of one run taken out."""
    if arn == "*":
        return arn
    partition, region = arn.split(":")[1], derived.region
    given = permissions.values(partition, region, derived.account, derived)
    text = re.sub(r"^arn:[a-z-]+:", "arn:${Partition}:", arn)
    text = re.sub(r"(:ec2:.*?/)[a-z]+-[0-9a-f]{8,}$", r"\1*", text)
    text = re.sub(r"(:sagemaker:.*?:cluster/).*$", r"\1*", text)
    text = re.sub(r"(:sagemaker:.*?:training-plan/).*$", r"\1*", text)
    text = re.sub(r"(:fsx:.*?:file-system/).*$", r"\1*", text)
    text = re.sub(r"(:aps:.*?:workspace/).*$", r"\1*", text)
    text = re.sub(r"(:log-group:/aws/sagemaker/Clusters/).*$", r"\1*", text)
    text = re.sub(r"(:stack/[^/]+/).+$", r"\1*", text)
    text = re.sub(r"oidc-provider/oidc\.eks\.[^/]+/.*$", "oidc-provider/oidc.eks.${Region}.*", text)
    text = re.sub(r":::training-data-.*$", ":::${given_bucket}", text)
    for name, value in sorted(given.items(), key=lambda item: -len(item[1])):
        if name != "Partition":
            text = text.replace(value, "${" + name + "}")
    return text


def source_actions() -> set[str]:
    """The IAM action of every AWS call that the product's source names."""
    session = botocore.session.get_session()
    found = set()
    named: dict[str, dict[str, str]] = {}
    for service, operation in sorted(set(source_calls())):
        if (service, operation) == ("sts", "get_caller_identity"):
            continue  # needs no permission
        if service not in named:
            named[service] = {xform_name(name): name for name in session.get_service_model(service).operation_names}
        found.add(resources.action_of(service, named[service][operation]))
    return found


def source_calls() -> Iterator[tuple[str, str]]:
    """Every (service, operation in snake case) that is written as two literals in a call of ``Aws``."""
    for path in sorted((ROOT / "src/instantstart").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CALLS:
                literals = [a.value for a in node.args[:2] if isinstance(a, ast.Constant) and isinstance(a.value, str)]
                if len(literals) == 2:
                    yield literals[0], literals[1]


def handler_actions() -> set[str]:
    """What the schemas of the template's resource types say their handlers do to create, read and delete."""
    wanted = set(re.findall(r"Type: (AWS::\S+)", TEMPLATE.read_text()))
    found: set[str] = set()
    for path in (Path(cfnlint.data.schemas.__file__).parent / "resources").glob("*.json"):
        schema = json.loads(path.read_text())
        if schema.get("typeName") in wanted:
            handlers = schema.get("handlers", {})
            found |= {action for kind in ("create", "read", "delete") for action in handlers.get(kind, {}).get("permissions", ())}
    return {action for action in found if "*" not in action}
