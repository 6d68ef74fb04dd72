"""Writing the history of a stack: every change of a status goes through here, so that status and event never differ."""

from __future__ import annotations

import datetime as dt
import json
import uuid

from instantstart_sandbox.services.cloudformation.records import Event, Resource, Stack

STACK_TYPE = "AWS::CloudFormation::Stack"
#: Stack statuses that are no ResourceStatus in the service model. CloudFormation's own events show them all the same; ours leave them
#: out, because the gateway holds every answer to the model. DescribeStacks shows them.
_NOT_IN_EVENTS = ("REVIEW_IN_PROGRESS", "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS", "UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS")


def stack_status(stack: Stack, now: float, status: str, reason: str = "") -> None:
    """Set the stack's status and append its event."""
    stack["status"], stack["reason"] = status, reason
    if status in _NOT_IN_EVENTS:
        return
    stack["events"].append(
        Event(
            id=str(uuid.uuid4()), at=now, logical=stack["name"], physical=stack["id"], type=STACK_TYPE, status=status, reason=reason,
            properties="", token=stack["token"],
        )
    )  # fmt: skip


def resource_status(stack: Stack, now: float, logical_id: str, record: Resource, status: str, reason: str = "") -> None:
    """Set a resource's status and append its event."""
    record["status"], record["reason"], record["updated"] = status, reason, now
    moment = dt.datetime.fromtimestamp(now, dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
    stack["events"].append(
        Event(
            id=f"{logical_id}-{status}-{moment}-{len(stack['events'])}", at=now, logical=logical_id, physical=record["physical"],
            type=record["type"], status=status, reason=reason, properties=json.dumps(record["properties"], default=str),
            token=stack["token"],
        )
    )  # fmt: skip
