"""Stack records as the API shows them."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

from instantstart_sandbox.services.cloudformation.records import Event, Resource, Stack
from instantstart_sandbox.services.cloudformation.template import Template, load, required_capabilities

_DRIFT_STACK = {"StackDriftStatus": "NOT_CHECKED"}
_DRIFT_RESOURCE = {"StackResourceDriftStatus": "NOT_CHECKED"}


def moment(seconds: float) -> dt.datetime:
    """Virtual epoch seconds as an aware datetime; CloudFormation gives milliseconds."""
    return dt.datetime.fromtimestamp(round(seconds, 3), dt.UTC)


def _filled(**members: Any) -> dict[str, Any]:
    """Without the members that have no value: CloudFormation leaves them out."""
    return {key: value for key, value in members.items() if value is not None and value != ""}


def tag_list(tags: dict[str, str]) -> list[dict[str, str]]:
    """Tags as the API shows them."""
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def parameter_list(stack: Stack) -> list[dict[str, str]]:
    """Parameters with NoEcho values masked; a looked-up value is shown as ResolvedValue."""
    declared = load(stack["template"]).get("Parameters") or {}
    shown = []
    for key, value in stack["parameters"].items():
        hidden = str(declared[key].get("NoEcho", "")).lower() == "true"
        entry = {"ParameterKey": key, "ParameterValue": "****" if hidden else value}
        if stack["resolved"].get(key, value) != value and not hidden:
            entry["ResolvedValue"] = stack["resolved"][key]
        shown.append(entry)
    return shown


def outputs(stack: Stack) -> list[dict[str, Any]]:
    """The outputs of a stack."""
    return [
        _filled(OutputKey=o["key"], OutputValue=o["value"], Description=o["description"], ExportName=o["export"]) for o in stack["outputs"]
    ]


def stack_view(stack: Stack) -> dict[str, Any]:
    """A member of DescribeStacks."""
    reviewing = not stack["template"]
    return _filled(
        StackId=stack["id"],
        StackName=stack["name"],
        Description=None if reviewing else load(stack["template"]).get("Description"),
        Parameters=[] if reviewing else parameter_list(stack),
        CreationTime=moment(stack["created"]),
        LastUpdatedTime=moment(stack["updated"]) if stack["updated"] else None,
        DeletionTime=moment(stack["deleted"]) if stack["deleted"] else None,
        RollbackConfiguration={},
        StackStatus=stack["status"],
        StackStatusReason=stack["reason"],
        DisableRollback=stack["on_failure"] == "DO_NOTHING",
        NotificationARNs=stack["notification_arns"],
        TimeoutInMinutes=stack["timeout_minutes"],
        Capabilities=stack["capabilities"] or None,
        Outputs=outputs(stack) or None,
        RoleARN=stack["role"],
        Tags=tag_list(stack["tags"]),
        EnableTerminationProtection=stack["protected"],
        DriftInformation=_DRIFT_STACK,
        RetainExceptOnCreate=stack["retain_except_on_create"],
        ChangeSetId=stack["change_set"],
    )


def summary_view(stack: Stack) -> dict[str, Any]:
    """A member of ListStacks."""
    return _filled(
        StackId=stack["id"],
        StackName=stack["name"],
        TemplateDescription=load(stack["template"]).get("Description") if stack["template"] else None,
        CreationTime=moment(stack["created"]),
        LastUpdatedTime=moment(stack["updated"]) if stack["updated"] else None,
        DeletionTime=moment(stack["deleted"]) if stack["deleted"] else None,
        StackStatus=stack["status"],
        StackStatusReason=stack["reason"],
        DriftInformation=_DRIFT_STACK,
    )


def event_view(stack: Stack, event: Event) -> dict[str, Any]:
    """A member of DescribeStackEvents."""
    return _filled(
        StackId=stack["id"],
        EventId=event["id"],
        StackName=stack["name"],
        LogicalResourceId=event["logical"],
        # present and empty until the resource exists
        ResourceType=event["type"],
        Timestamp=moment(event["at"]),
        ResourceStatus=event["status"],
        ResourceStatusReason=event["reason"],
        ResourceProperties=event["properties"],
        ClientRequestToken=event["token"],
    ) | {"PhysicalResourceId": event["physical"]}


def resource_view(stack: Stack, name: str, record: Resource) -> dict[str, Any]:
    """A member of DescribeStackResources."""
    return _filled(
        StackName=stack["name"],
        StackId=stack["id"],
        LogicalResourceId=name,
        PhysicalResourceId=record["physical"],
        ResourceType=record["type"],
        Timestamp=moment(record["updated"]),
        ResourceStatus=record["status"],
        ResourceStatusReason=record["reason"],
        DriftInformation=_DRIFT_RESOURCE,
    )


def resource_summary(name: str, record: Resource) -> dict[str, Any]:
    """A member of ListStackResources."""
    return _filled(
        LogicalResourceId=name,
        PhysicalResourceId=record["physical"],
        ResourceType=record["type"],
        LastUpdatedTimestamp=moment(record["updated"]),
        ResourceStatus=record["status"],
        ResourceStatusReason=record["reason"],
        DriftInformation=_DRIFT_RESOURCE,
    )


def resource_detail(stack: Stack, name: str, record: Resource) -> dict[str, Any]:
    """The answer of DescribeStackResource."""
    declared = load(stack["template"])["Resources"].get(name) or {}
    return {
        **_filled(
            StackName=stack["name"], StackId=stack["id"], Metadata=json.dumps(declared["Metadata"]) if "Metadata" in declared else None
        ),
        **resource_summary(name, record),
    }


def template_parameters(template: Template) -> list[dict[str, Any]]:
    """The declared parameters as ValidateTemplate shows them."""
    shown = []
    for key, declared in (template.get("Parameters") or {}).items():
        default = declared.get("Default")
        shown.append(
            _filled(ParameterKey=key, Description=declared.get("Description"), NoEcho=str(declared.get("NoEcho", "")).lower() == "true")
            | ({"DefaultValue": str(default)} if default is not None else {})
        )
    return shown


def summary_parameters(template: Template) -> list[dict[str, Any]]:
    """The declared parameters as GetTemplateSummary shows them: also type and allowed values."""
    declared = template.get("Parameters") or {}
    shown = template_parameters(template)
    for entry in shown:
        one = declared[entry["ParameterKey"]]
        entry["ParameterType"] = one["Type"]
        allowed = [str(v) for v in one.get("AllowedValues") or []]
        entry["ParameterConstraints"] = {"AllowedValues": allowed} if allowed else {}
    return shown


def capabilities_view(template: Template) -> dict[str, Any]:
    """Capabilities and their reason, left out when none is needed."""
    needed, why = required_capabilities(template)
    return {"Capabilities": needed, "CapabilitiesReason": why} if needed else {}
