"""Write the control plane's IAM policies (deploy/iam) and docs/how-to/permissions.md from the record of what it asks.

``--record`` first runs every workflow in the sandbox and writes the record (src/instantstart/ensure/permissions.json) anew.
A contract test compares what this would write with what is in git.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import sys
import tempfile
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from instantstart.base import names
from instantstart.ensure.iam import permissions, principals
from instantstart.ensure.iam.permissions import Asked

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "deploy" / "iam"
PAGE = ROOT / "docs" / "how-to" / "permissions.md"
TEMPLATE = ROOT / "deploy" / "cloudformation" / "management.yaml"
RECORD = ROOT / "src" / "instantstart" / "ensure" / "permissions.json"
#: AWS's limit of a managed policy, whitespace not counted
MOST_CHARACTERS = 6144

#: AWS's policy of the inference operator hands over only roles of the second form
_ROLES = ("arn:${Partition}:iam::${Account}:role/instantstart-*", "arn:${Partition}:iam::${Account}:role/SageMakerHyperPodInference-*")
_PROVIDERS = "arn:${Partition}:iam::${Account}:oidc-provider/oidc.eks.${Region}.*"
_SCRIPTS, _DATA = "arn:${Partition}:s3:::sagemaker-*-lcs", "arn:${Partition}:s3:::instantstart-*-data"
_TLS = "arn:${Partition}:s3:::hyperpod-tls-*"
_BUCKETS = tuple(f"{bucket}{what}" for bucket in (_SCRIPTS, _DATA, _TLS) for what in ("", "/*"))
_CLUSTERS = ("arn:${Partition}:sagemaker:${Region}:${Account}:cluster/*",)
_TRACKING = tuple(f"arn:${{Partition}}:sagemaker:${{Region}}:${{Account}}:{kind}/*" for kind in ("mlflow-tracking-server", "mlflow-app"))
_SCRIPT_LOGS = "arn:${Partition}:logs:${Region}:${Account}:log-group:/aws/sagemaker/Clusters/*"
_EKS = "arn:${Partition}:eks:${Region}:${Account}:"
#: StringLike, because ${Region} may be * for all
_HERE = {"StringLike": {"aws:RequestedRegion": "${Region}"}}
_OURS = {"Null": {f"aws:ResourceTag/{names.CLUSTER_TAG}": "false"}}
_MADE_OURS = {"Null": {f"aws:RequestTag/{names.CLUSTER_TAG}": "false"}}


@dataclass(frozen=True)
class Statement:
    """One statement: which of the recorded actions it takes (the first that matches), on what, and why a person would grant it."""

    policy: str
    sid: str
    takes: tuple[str, ...]
    resources: tuple[str, ...]
    why: str
    condition: dict[str, Any] | None = None
    #: only questions whose resource contains this
    about: str = ""

    def matches(self, asked: Asked) -> bool:
        """Whether the statement is the place for a recorded question."""
        return self.about in asked.resource and any(fnmatch.fnmatchcase(asked.action, pattern) for pattern in self.takes)


STATEMENTS = (
    Statement(
        "read",
        "OurRoles",
        ("iam:GetRole*", "iam:ListRole*", "iam:ListAttachedRolePolicies"),
        _ROLES,
        "sees whether its roles are as wanted",
    ),
    Statement("read", "OurProviders", ("iam:GetOpenIDConnectProvider",), (_PROVIDERS,), "sees whether the cluster's issuer is known"),
    Statement(
        "read",
        "OwnRights",
        ("iam:SimulatePrincipalPolicy",),
        ("arn:${Partition}:iam::${Account}:role/*", "arn:${Partition}:iam::${Account}:user/*"),
        "the preflight asks IAM what is missing before anything is made",
    ),
    Statement(
        "read", "GivenBuckets", ("s3:ListBucket",), ("arn:${Partition}:s3:::*",), "a bucket you name is looked for", about="given_bucket"
    ),
    Statement("read", "OurBuckets", ("s3:Get*", "s3:List*"), _BUCKETS, "compares what is in its buckets"),
    Statement("read", "Offerings", ("sagemaker:SearchTrainingPlanOfferings",), ("*",), "shows what reserved capacity could be bought"),
    Statement("read", "ScriptLogs", ("logs:GetLogEvents",), (_SCRIPT_LOGS,), "diagnosis reads what a node's lifecycle script wrote"),
    Statement("read", "Look", ("*:Describe*", "*:List*", "*:Get*"), ("*",), "inventory, quotas, offers, progress, events"),
    Statement(
        "network",
        "RemoveOurs",
        (
            "ec2:DeleteVpc",
            "ec2:DeleteVpcEndpoints",
            "ec2:DeleteSubnet",
            "ec2:DeleteRoute",
            "ec2:DeleteRouteTable",
            "ec2:DisassociateRouteTable",
            "ec2:DeleteNatGateway",
            "ec2:DetachInternetGateway",
            "ec2:DeleteInternetGateway",
            "ec2:ReleaseAddress",
        ),
        ("*",),
        "removes the network it made; nothing without its tag",
        _OURS,
    ),
    Statement(
        "network",
        "RemoveLeftovers",
        ("ec2:DeleteSecurityGroup", "ec2:DeleteNetworkInterface", "elasticloadbalancing:Delete*"),
        ("*",),
        "removes what Kubernetes left in the VPC (Kubernetes' own tags, which IAM cannot match by pattern)",
        _HERE,
    ),
    Statement("network", "MakeNetwork", ("ec2:*",), ("*",), "makes VPC, subnets, routes, NAT gateway, endpoint, security group", _HERE),
    Statement(
        "cluster",
        "MakeStacks",
        ("cloudformation:CreateStack", "cloudformation:TagResource"),
        ("arn:${Partition}:cloudformation:${Region}:${Account}:stack/instantstart-*/*",),
        "one stack for each cluster",
        _MADE_OURS,
    ),
    Statement(
        "cluster",
        "RemoveStacks",
        ("cloudformation:DeleteStack",),
        ("arn:${Partition}:cloudformation:${Region}:${Account}:stack/instantstart-*/*",),
        "removes that stack, or a failed one to make it again",
    ),
    Statement(
        "cluster",
        "Eks",
        ("eks:*",),
        (f"{_EKS}cluster/eks-*", f"{_EKS}addon/eks-*", f"{_EKS}access-entry/eks-*"),
        "the EKS cluster, its add-ons and its access entries (SageMaker makes its own with your rights)",
        about="cluster/",
    ),
    Statement(
        "cluster",
        "AccessPolicies",
        ("eks:AssociateAccessPolicy",),
        ("arn:${Partition}:eks::aws:cluster-access-policy/*",),
        "gives itself and HyperPod their access policies",
    ),
    Statement(
        "cluster",
        "MakeHyperPod",
        ("sagemaker:CreateCluster", "sagemaker:AddTags"),
        ("arn:${Partition}:sagemaker:${Region}:${Account}:cluster/*",),
        "the HyperPod cluster",
        _MADE_OURS,
    ),
    Statement(
        "cluster",
        "RemoveHyperPod",
        ("sagemaker:DeleteCluster",),
        ("arn:${Partition}:sagemaker:${Region}:${Account}:cluster/*",),
        "removes it; nothing without its tag",
        _OURS,
    ),
    Statement(
        "cluster",
        "ServiceLinkedRoles",
        ("iam:CreateServiceLinkedRole",),
        ("arn:${Partition}:iam::${Account}:role/aws-service-role/*",),
        "an account's first EKS or HyperPod cluster needs them",
        {"StringLike": {"iam:AWSServiceName": ["eks.amazonaws.com", "*sagemaker.amazonaws.com"]}},
    ),
    Statement(
        "capacity",
        "ScaleAndMend",
        (
            "sagemaker:Batch*ClusterNodes",
            "sagemaker:MoveClusterNodes",
            "sagemaker:StartClusterHealthCheck",
            "sagemaker:UpdateCluster",
            "sagemaker:UpdateClusterSoftware",
        ),
        _CLUSTERS,
        "adds, changes, scales and mends instance groups and nodes, also of imported clusters (they do not bear our tag)",
        _HERE,
    ),
    Statement(
        "purchase",
        "BuyTrainingPlans",
        ("sagemaker:CreateTrainingPlan",),
        ("*",),
        "buys reserved capacity: attach it only where that is wanted",
        _HERE,
    ),
    Statement("storage", "MakeFileSystems", ("fsx:CreateFileSystem",), ("*",), "an FSx for Lustre file system for a claim", _MADE_OURS),
    Statement(
        "storage",
        "RemoveFileSystems",
        ("fsx:DeleteFileSystem",),
        ("arn:${Partition}:fsx:${Region}:${Account}:file-system/*",),
        "removes it when that is asked for; nothing without its tag",
        _OURS,
    ),
    Statement(
        "tracking",
        "MakeTrackingServers",
        ("sagemaker:CreateMlflowTrackingServer", "sagemaker:CreateMlflowApp"),
        _TRACKING,
        "an MLflow tracking server or app for a cluster's jobs",
        _MADE_OURS,
    ),
    Statement(
        "tracking",
        "RemoveTrackingServers",
        ("sagemaker:DeleteMlflowTrackingServer", "sagemaker:DeleteMlflowApp"),
        _TRACKING,
        "removes it when that is asked for; nothing without its tag",
        _OURS,
    ),
    Statement(
        "tracking",
        "OpenTrackingServers",
        ("sagemaker:CreatePresignedMlflow*", "sagemaker:CallMlflowAppApi", "sagemaker-mlflow:*"),
        _TRACKING,
        "opens MLflow's own page for a person, reads runs for the console, and copies them when sharing is asked for",
    ),
    Statement(
        "tracking",
        "ShareRuns",
        ("sts:AssumeRole",),
        ("arn:${Partition}:iam::*:role/*",),
        "takes the role that another account made for sharing; that role's trust decides",
    ),
    Statement(
        "storage",
        "QueryMetrics",
        ("aps:QueryMetrics",),
        ("arn:${Partition}:aps:${Region}:${Account}:workspace/*",),
        "tries an autoscaler's query before KEDA uses it",
    ),
    Statement("storage", "MakeWorkspaces", ("aps:CreateWorkspace",), ("*",), "a Prometheus workspace for observability", _MADE_OURS),
    Statement(
        "cluster", "Buckets", ("s3:*",), _BUCKETS, "the buckets of lifecycle scripts, data and the inference operator's certificates"
    ),
    Statement(
        "identity",
        "PassRoles",
        ("iam:PassRole",),
        _ROLES,
        "hands its roles to EKS and SageMaker, to nobody else",
        {"StringEquals": {"iam:PassedToService": "<passed_to>"}},
    ),
    Statement(
        "identity",
        "AttachKnownPolicies",
        ("iam:AttachRolePolicy", "iam:DetachRolePolicy"),
        _ROLES,
        "attaches these of AWS's own policies, no others",
        {"ArnEquals": {"iam:PolicyARN": "<policy>"}},
    ),
    Statement("identity", "Providers", ("iam:*OpenIDConnectProvider",), (_PROVIDERS,), "IAM roles for the cluster's service accounts"),
    Statement("identity", "Roles", ("iam:*Role*",), _ROLES, "the roles of cluster, nodes, drivers and operators"),
)


def home(asked: Asked) -> Statement:
    """The statement that takes a recorded question. ValueError when there is none: nothing is granted by accident."""
    for statement in STATEMENTS:
        if statement.matches(asked):
            return statement
    raise ValueError(f"no statement takes {asked.action} on {asked.resource}: add one to STATEMENTS")


def documents(record: Iterable[Asked]) -> dict[str, dict[str, Any]]:
    """The policies by name, their actions exactly those recorded."""
    taken: dict[str, list[Asked]] = {statement.sid: [] for statement in STATEMENTS}
    for asked in record:
        taken[home(asked).sid].append(asked)
    found: dict[str, dict[str, Any]] = {}
    for statement in STATEMENTS:
        if taken[statement.sid]:
            document = found.setdefault(f"instantstart-{statement.policy}", {"Version": "2012-10-17", "Statement": []})
            document["Statement"].append(_statement(statement, taken[statement.sid]))
    return found


def _statement(statement: Statement, taken: list[Asked]) -> dict[str, Any]:
    made: dict[str, Any] = {"Sid": statement.sid, "Effect": "Allow", "Action": sorted({asked.action for asked in taken})}
    made["Resource"] = statement.resources[0] if len(statement.resources) == 1 else list(statement.resources)
    if statement.condition:
        services = sorted({principals.service(asked.passed_to) for asked in taken if asked.passed_to})
        policies = sorted({"arn:${Partition}:iam::aws:policy/" + asked.policy for asked in taken if asked.policy})
        filled = {"<passed_to>": services, "<policy>": policies}
        made["Condition"] = {
            operator: {key: filled.get(value, value) if isinstance(value, str) else value for key, value in tests.items()}
            for operator, tests in statement.condition.items()
        }
    return made


def size(document: dict[str, Any]) -> int:
    """The characters that AWS counts."""
    return len("".join(json.dumps(document).split()))


def page(found: dict[str, dict[str, Any]]) -> str:
    """docs/how-to/permissions.md."""
    whys = {s.sid: s.why for s in STATEMENTS}
    lines = [_HEAD]
    for name, document in found.items():
        lines += [f"\n## `{name}` ({size(document):,} of {MOST_CHARACTERS:,} characters)\n"]
        lines += ["| statement | for what | actions |", "| --- | --- | --- |"]
        lines += [f"| {s['Sid']} | {whys[s['Sid']]} | {_told(s['Action'])} |" for s in document["Statement"]]
    return "\n".join(lines) + "\n" + _TAIL


def _told(actions: list[str]) -> str:
    return ", ".join(f"`{action}`" for action in actions)


_HEAD = """<!-- Generated by tools/generate_policies.py. Do not edit. -->
# What the control plane may do on AWS

Managed policies in `deploy/iam`, made from a record of what every workflow asks of IAM (`tools/generate_policies.py --record` makes
the record anew): the calls on the wire, what CloudFormation and SageMaker do with the caller's rights, the calls of rarer paths in the
source, and what AWS asks beside them. Nothing else is in them. The sandbox runs all workflows with exactly these policies enforced, in
three partitions; they have not been tried against AWS itself.

Fill in the place and create them (a role can hold ten):

    for name in read network cluster identity capacity storage tracking; do
      sed -e 's/${Partition}/aws/g; s/${Region}/us-west-2/g; s/${Account}/123456789012/g' \\
        deploy/iam/instantstart-$name.json > /tmp/$name.json
      aws iam create-policy --policy-name instantstart-$name --policy-document file:///tmp/$name.json
    done

`${Region}` may be `*` for all regions. Attach them to the role that the control plane runs as. That role gets an access entry in each
EKS cluster it makes. `read` alone is enough to look; the preflight says which actions are missing.

`read`, `network`, `cluster` and `identity` are what making a cluster takes; `capacity` is for instance groups and nodes, `storage`
for FSx and metrics. `purchase` lets InstantStart buy training plans (an administrator's, each with its own approval): attach it only
where that is wanted. Not in them, on purpose: raising quotas, a shell on nodes. Your organisation's own guardrails (SCPs, a permissions
boundary: `INSTANTSTART_PERMISSIONS_BOUNDARY`) stay in force above them.
"""
_TAIL = """
The names behind the patterns: roles `instantstart-TAG-...`, stacks `instantstart-TAG-eks`, EKS clusters `eks-TAG`, buckets
`sagemaker-TAG-...-lcs`, `instantstart-TAG-...-data` and `hyperpod-tls-TAG-...`. Everything made carries the tag `instantstart.dev/cluster`.
"""


def generated() -> dict[Path, str]:
    """Every file this writes, and its text."""
    found = documents(permissions.recorded())
    files = {FOLDER / f"{name}.json": json.dumps(document, indent=2) + "\n" for name, document in found.items()}
    return files | {PAGE: page(found), TEMPLATE: template(TEMPLATE.read_text(), found)}


def template(text: str, found: dict[str, dict[str, Any]]) -> str:
    """The management template with the policies between its marks. ValueError when a mark is missing."""
    policies, attached = [], []
    for name, document in found.items():
        logical = "".join(part.title() for part in name.split("-")) + "Policy"
        only = {"Condition": "BuysPlans"} if name.endswith("-purchase") else {}
        described = {"Description": f"InstantStart, {name.rpartition('-')[2]}", "PolicyDocument": _filled(document)}
        policies.append({logical: {"Type": "AWS::IAM::ManagedPolicy", **only, "Properties": described}})
        here = {"Ref": logical}
        attached.append({"Fn::If": ["BuysPlans", here, {"Ref": "AWS::NoValue"}]} if only else here)
    resources = "\n".join(yaml.safe_dump(each, sort_keys=False, width=110) for each in policies)
    return _between(_between(text, "policies", resources, 2), "attached", yaml.safe_dump(attached, sort_keys=False), 8)


def _filled(value: Any) -> Any:
    """A policy document as CloudFormation wants it: the places are its pseudo parameters."""
    if isinstance(value, dict):
        return {key: _filled(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_filled(each) for each in value]
    if not isinstance(value, str) or "${" not in value:
        return value
    text = value.replace("${Partition}", "${AWS::Partition}").replace("${Account}", "${AWS::AccountId}")
    if "${Region}" not in text:
        return {"Fn::Sub": text}
    scope = {"Fn::If": ["HereOnly", {"Ref": "AWS::Region"}, {"Ref": "RegionScope"}]}
    return {"Fn::Sub": [text, {"Region": scope}]} if text != "${Region}" else scope


def _between(text: str, mark: str, what: str, indent: int) -> str:
    begin, end = f"# {mark}: begin (written by tools/generate_policies.py)\n", f"{' ' * indent}# {mark}: end\n"
    head, _, rest = text.partition(begin)
    _, found, tail = rest.partition(end)
    if not found:
        raise ValueError(f"the template has no marks for {mark}")
    return head + begin + textwrap.indent(what, " " * indent) + end + tail


def record() -> None:
    """Run everything in a sandbox and write the record. Takes a minute or three."""
    sys.path.insert(0, str(ROOT))  # the workflows are run by the tests' own harness
    from tests.aws import everything, recording

    with tempfile.TemporaryDirectory() as folder:
        entries = recording.record(*everything.asked_in_a_full_run(Path(folder)))
    RECORD.write_text("[\n" + ",\n".join("  " + json.dumps(entry) for entry in entries) + "\n]\n")
    permissions.recorded.cache_clear()


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", action="store_true", help="run every workflow in the sandbox first")
    if parser.parse_args().record:
        record()
    for path, text in generated().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        print(f"{path.relative_to(ROOT)}: {len(text)} characters")


if __name__ == "__main__":
    main()
