"""What the product asks of IAM, as recorded from a run of every workflow, and whether an identity may.

``permissions.json`` is written by ``tools/generate_policies.py --record``; the policies of ``deploy/iam`` are made of the same data.
"""

from __future__ import annotations

import functools
import json
import string
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

from instantstart.aws.session import Aws
from instantstart.base import names, problems
from instantstart.ensure.iam import principals

#: what comes after a cluster stands: who only makes clusters is not asked for it (policies capacity, storage, purchase; features)
_LATER = (
    "aps:",
    "fsx:",
    "sagemaker:Batch",
    "sagemaker:CreateTrainingPlan",
    "sagemaker:MoveClusterNodes",
    "sagemaker:StartClusterHealthCheck",
    "sagemaker:SearchTrainingPlanOfferings",
    "sagemaker:UpdateCluster",
)
_READS = ("Describe", "Get", "List", "Search", "Simulate")
_DERIVED = (
    "stack",
    "eks_cluster",
    "hyperpod_cluster",
    "execution_role",
    "s3_csi_role",
    "eks_role",
    "scripts_bucket",
    "data_bucket",
    "training_operator_role",
    "fsx_csi_role",
    "keda_role",
    "load_balancer_role",
    "inference_role",
    "gated_model_role",
    "observability_role",
    "checkpoint_role",
    "mlflow_role",
    "mlflow_server_role",
    "karpenter_role",
    "tls_bucket",
)


@dataclass(frozen=True)
class Asked:
    """One question to IAM. ``resource`` has ``${Partition}``, ``${Region}``, ``${Account}`` and derived names in it.

    ``why``: ``journal`` (seen on the wire), ``source`` (a call of ours on a rarer path), ``handler`` (CloudFormation's own schema
    names it), ``dependent`` (AWS asks it beside another).
    """

    action: str
    resource: str
    why: str
    #: the service that a role is handed to (iam:PassRole)
    passed_to: str | None = None
    #: the managed policy that is attached or detached, by name
    policy: str | None = None
    #: the resource carries our cluster tag by then
    tagged: bool = False
    #: the request itself gives our cluster tag
    tags: bool = False

    @property
    def is_read(self) -> bool:
        """Whether the action changes nothing."""
        return self.action.split(":")[1].startswith(_READS)

    def place(self, values: Mapping[str, str]) -> str:
        """``resource`` with these values in the place of its ``${...}``."""
        return string.Template(self.resource).safe_substitute(values)


@functools.cache
def recorded() -> tuple[Asked, ...]:
    """Every question of the record."""
    text = resources.files("instantstart.ensure").joinpath("permissions.json").read_text()
    return tuple(Asked(**entry) for entry in json.loads(text))


def values(partition: str, region: str, account: str, derived: names.Names) -> dict[str, str]:
    """What stands for the ``${...}`` of a record, for one cluster."""
    place = {"Partition": partition, "Region": region, "Account": account}
    return place | {name: str(getattr(derived, name)) for name in _DERIVED}


def context(asked: Asked, given: Mapping[str, str], tag: str) -> dict[str, str]:
    """The condition keys that go with a question."""
    keys = {"aws:RequestedRegion": given["Region"]}
    if asked.passed_to:
        keys["iam:PassedToService"] = principals.service(asked.passed_to)
    if asked.policy:
        keys["iam:PolicyARN"] = f"arn:{given['Partition']}:iam::aws:policy/{asked.policy}"
    if asked.tagged:
        keys[f"aws:ResourceTag/{names.CLUSTER_TAG}"] = tag
    if asked.tags:
        keys[f"aws:RequestTag/{names.CLUSTER_TAG}"] = tag
    return keys


def unmet(aws: Aws, derived: names.Names, principal_arn: str) -> tuple[str, ...] | None:
    """The recorded changes that IAM's simulation denies to a principal; None when it may not be asked.

    A denial that hangs on a condition key we cannot know is not counted: the call itself decides.
    """
    given = values(aws.partition, aws.region, aws.identity().account, derived)
    groups: dict[tuple[str, tuple[tuple[str, str], ...]], list[str]] = {}
    for asked in _changes():
        place = "*" if ":ec2:" in asked.resource else asked.place(given)
        keys = context(asked, given, derived.tag)
        groups.setdefault((place, tuple(sorted(keys.items()))), []).append(asked.action)
    try:
        told = [result for (place, keys), actions in groups.items() for result in _simulate(aws, principal_arn, place, dict(keys), actions)]
    except problems.Problem:
        return None
    denied = {r["EvalActionName"] for r in told if r["EvalDecision"] != "allowed" and not r.get("MissingContextValues")}
    return tuple(sorted(denied))


def _changes() -> list[Asked]:
    """One question for each changing action (and each service that a role is handed to), so that the simulation takes few calls."""
    found: dict[tuple[str, str | None], Asked] = {}
    for asked in recorded():
        if asked.why == "journal" and not asked.is_read and not asked.action.startswith(_LATER):
            found.setdefault((asked.action, asked.passed_to), asked)
    return list(found.values())


def _simulate(aws: Aws, principal_arn: str, resource: str, keys: Mapping[str, str], actions: list[str]) -> list[dict[str, Any]]:
    entries = [{"ContextKeyName": name, "ContextKeyValues": [value], "ContextKeyType": "string"} for name, value in keys.items()]
    return aws.pages(
        "iam",
        "simulate_principal_policy",
        "EvaluationResults",
        PolicySourceArn=principal_arn,
        ActionNames=actions,
        ResourceArns=[resource],
        ContextEntries=entries,
    )
