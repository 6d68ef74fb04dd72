"""CloudFormation stacks: find ours, ask for one, and say in one sentence why it failed.

States and the way to the first failure: aws-facts A7. A ROLLBACK_COMPLETE stack can only be deleted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from instantstart.aws.session import Aws
from instantstart.base import names, problems

_BAD_LEFTOVERS = frozenset({"ROLLBACK_COMPLETE", "ROLLBACK_FAILED", "CREATE_FAILED"})
_QUOTA = re.compile(r"LimitExceeded|QuotaExceeded|maximum number|has been reached")
_DENIED = re.compile(r"AccessDenied|not authorized|UnauthorizedOperation|explicit deny")
#: how EKS names the zones it would take: "Retry and choose from these availability zones: us-east-1a, us-east-1b"
_USABLE_ZONES = re.compile(r"(?i)choose from these availability zones: ((?:[a-z]+-[a-z0-9-]+[a-z](?:, ?)?)+)")
_CANCELLED = "Resource creation cancelled"


@dataclass(frozen=True)
class Stack:
    """A stack as DescribeStacks tells it."""

    name: str
    stack_id: str
    status: str
    reason: str
    outputs: Mapping[str, str]
    tags: Mapping[str, str]

    @property
    def is_complete(self) -> bool:
        return self.status in ("CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE")

    @property
    def is_leftover(self) -> bool:
        """Failed for good: it must be deleted before the name is free."""
        return self.status in _BAD_LEFTOVERS

    @property
    def is_going(self) -> bool:
        return self.status.endswith("_IN_PROGRESS")


def find_stack(aws: Aws, name: str) -> Stack | None:
    """The live stack of that name, or None."""
    try:
        told = aws.read("cloudformation", "describe_stacks", StackName=name)["Stacks"][0]
    except problems.NotFound:
        return None
    return Stack(
        name=told["StackName"],
        stack_id=told["StackId"],
        status=told["StackStatus"],
        reason=told.get("StackStatusReason", ""),
        outputs={o["OutputKey"]: o["OutputValue"] for o in told.get("Outputs", ())},
        tags={t["Key"]: t["Value"] for t in told.get("Tags", ())},
    )


def check_ours(stack: Stack, tag: str) -> None:
    """Raise Conflict when the stack does not carry our cluster tag."""
    if stack.tags.get(names.CLUSTER_TAG) != tag:
        raise problems.Conflict(
            "stack.not_ours",
            f"A CloudFormation stack named {stack.name} exists and was not made for the cluster {tag}.",
            hint="Choose another tag, or rename that stack.",
            evidence={"stack_id": stack.stack_id, "status": stack.status},
        )


def create_stack(aws: Aws, name: str, template: str, parameters: Mapping[str, str], tags: Mapping[str, str], token: str) -> None:
    """Ask for the stack; its progress is read with :func:`find_stack`. Safe to repeat: a stack that is there already stays."""
    aws.create(
        "cloudformation",
        "create_stack",
        StackName=name,
        TemplateBody=template,
        Parameters=[{"ParameterKey": k, "ParameterValue": v} for k, v in parameters.items()],
        Capabilities=["CAPABILITY_NAMED_IAM"],
        Tags=[{"Key": k, "Value": v} for k, v in tags.items()],
        ClientRequestToken=token,
        OnFailure="ROLLBACK",
    )


def delete_stack(aws: Aws, name: str, token: str) -> None:
    """Ask for the deletion. Safe to repeat with the same token."""
    aws.write("cloudformation", "delete_stack", StackName=name, ClientRequestToken=token)


def events(aws: Aws, stack_id: str) -> list[dict[str, Any]]:
    """Every event of a stack, oldest first."""
    return aws.pages("cloudformation", "describe_stack_events", "StackEvents", StackName=stack_id)[::-1]


def latest_step(aws: Aws, stack_id: str) -> str:
    """What the stack is doing now, for a person: ``AWS::EKS::Cluster Cluster``; empty when nothing is under way."""
    going: dict[str, str] = {}
    for event in events(aws, stack_id):
        name = event["LogicalResourceId"]
        if event["ResourceStatus"].endswith("_IN_PROGRESS") and event["ResourceType"] != "AWS::CloudFormation::Stack":
            going[name] = event["ResourceType"]
        else:
            going.pop(name, None)
    return ", ".join(f"{kind} {name}" for name, kind in list(going.items())[-2:])


def tokens(aws: Aws, stack_id: str) -> set[str]:
    """The client tokens of every request that a stack has taken: how a repeated stage knows what it has asked for."""
    return {event["ClientRequestToken"] for event in events(aws, stack_id) if event.get("ClientRequestToken")}


def first_failure(aws: Aws, stack_id: str) -> dict[str, str] | None:
    """The earliest real failure: ``resource``, ``type``, ``reason``, ``at``. Cancelled followers are passed over."""
    return next(iter(_failures(aws, stack_id)), None)


def last_failure(aws: Aws, stack_id: str) -> dict[str, str] | None:
    """The newest real failure: what stopped the last deletion, of several tries."""
    return next(iter(_failures(aws, stack_id)[::-1]), None)


def _failures(aws: Aws, stack_id: str) -> list[dict[str, str]]:
    found = []
    for event in events(aws, stack_id):
        reason = event.get("ResourceStatusReason", "")
        is_stack = event["ResourceType"] == "AWS::CloudFormation::Stack"
        if event["ResourceStatus"].endswith("_FAILED") and _CANCELLED not in reason and not is_stack:
            told = {"resource": event["LogicalResourceId"], "type": event["ResourceType"]}
            found.append({**told, "reason": reason, "at": str(event["Timestamp"])})
    return found


def failure(aws: Aws, stack: Stack) -> problems.Problem:
    """Why a stack failed, as the Problem a person can act on."""
    first = first_failure(aws, stack.stack_id)
    evidence: dict[str, Any] = {"service": "cloudformation", "stack": stack.name, "status": stack.status, "last_event": first}
    if first is None:
        return problems.Conflict("stack.failed", f"The stack {stack.name} ended as {stack.status}: {stack.reason}", evidence=evidence)
    sentence = f"{first['type']} {first['resource']} could not be made: {first['reason']}"
    kind: type[problems.Problem] = problems.Conflict
    if _QUOTA.search(first["reason"]):
        kind = problems.OutOfQuota
    elif _DENIED.search(first["reason"]):
        kind = problems.Denied
    zones = usable_zones(first["reason"])
    hint = "Mend the reason, then retry: the failed stack is removed and made again."
    if zones:
        evidence["usable_zones"] = zones
        hint = f"Retry: the failed stack is removed and made again in the zones EKS names ({', '.join(zones)})."
    return kind("stack.failed", sentence, hint=hint, evidence=evidence)


def usable_zones(reason: str) -> list[str]:
    """The zones that EKS names in its UnsupportedAvailabilityZoneException; empty for another reason (case 8)."""
    found = _USABLE_ZONES.search(reason)
    return [zone.strip() for zone in found[1].split(",") if zone.strip()] if found else []


def refused_zones(aws: Aws, name: str) -> list[str]:
    """The zones EKS named when it refused the last stack of that name, which has been deleted since; empty: it did not."""
    gone = aws.pages("cloudformation", "list_stacks", "StackSummaries", StackStatusFilter=["DELETE_COMPLETE"])
    mine = sorted((s for s in gone if s["StackName"] == name), key=lambda s: str(s["CreationTime"]))
    first = first_failure(aws, mine[-1]["StackId"]) if mine else None
    return usable_zones(first["reason"]) if first else []
