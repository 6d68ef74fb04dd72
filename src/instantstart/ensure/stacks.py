"""CloudFormation stacks: find ours, ask for one, and say in one sentence why it failed.

States and the way to the first failure: aws-facts A7. A ROLLBACK_COMPLETE stack can only be deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from instantstart.aws.session import Aws
from instantstart.base import names, problems

_BAD_LEFTOVERS = frozenset({"ROLLBACK_COMPLETE", "ROLLBACK_FAILED", "CREATE_FAILED"})
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
    """Ask for the stack; its progress is read with :func:`find_stack`. Safe to repeat with the same token."""
    aws.write(
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


def first_failure(aws: Aws, stack_id: str) -> dict[str, str] | None:
    """The earliest real failure: ``resource``, ``type``, ``reason``, ``at``. Cancelled followers are passed over."""
    for event in events(aws, stack_id):
        reason = event.get("ResourceStatusReason", "")
        is_stack = event["ResourceType"] == "AWS::CloudFormation::Stack"
        if event["ResourceStatus"].endswith("_FAILED") and _CANCELLED not in reason and not is_stack:
            return {"resource": event["LogicalResourceId"], "type": event["ResourceType"], "reason": reason, "at": str(event["Timestamp"])}
    return None


def failure(aws: Aws, stack: Stack) -> problems.Problem:
    """Why a stack failed, as the Problem a person can act on."""
    first = first_failure(aws, stack.stack_id)
    evidence = {"service": "cloudformation", "stack": stack.name, "status": stack.status, "last_event": first}
    if first is None:
        return problems.Conflict("stack.failed", f"The stack {stack.name} ended as {stack.status}: {stack.reason}", evidence=evidence)
    sentence = f"{first['type']} {first['resource']} could not be made: {first['reason']}"
    kind: type[problems.Problem] = problems.Conflict
    if any(word in first["reason"] for word in ("LimitExceeded", "maximum number", "limit")):
        kind = problems.OutOfQuota
    elif any(word in first["reason"] for word in ("AccessDenied", "not authorized", "UnauthorizedOperation")):
        kind = problems.Denied
    return kind(
        "stack.failed", sentence, hint="Mend the reason, then retry: the failed stack is removed and made again.", evidence=evidence
    )
