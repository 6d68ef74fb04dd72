"""AWS::Logs::LogGroup and AWS::SSM::Parameter."""

from __future__ import annotations

from typing import Any

from instantstart_sandbox.services.cloudformation.resources.handler import Failure, Handler, Request
from instantstart_sandbox.services.cloudformation.resources.shapes import shape


class LogGroup(Handler):
    """AWS::Logs::LogGroup."""

    type = "AWS::Logs::LogGroup"
    name_property = "LogGroupName"
    shape = shape(
        "KmsKeyId LogGroupName! RetentionInDays Tags[]",
        unsupported="BearerTokenAuthenticationEnabled DataProtectionPolicy DeletionProtectionEnabled FieldIndexPolicies LogGroupClass "
        "ResourcePolicyDocument",
    )

    def create(self, request: Request) -> None:
        """CreateLogGroup, then its retention."""
        name = request.get("LogGroupName") or request.name(512)
        request.call("logs", "CreateLogGroup", logGroupName=name, kmsKeyId=request.get("KmsKeyId"), tags=request.tags())
        request.physical = name
        self._retention(request, {})

    def _retention(self, request: Request, old: dict[str, Any]) -> None:
        days = request.get("RetentionInDays")
        if days is not None:
            request.call("logs", "PutRetentionPolicy", logGroupName=request.physical, retentionInDays=days)
        elif old.get("RetentionInDays"):
            request.call("logs", "DeleteRetentionPolicy", logGroupName=request.physical)

    def update(self, request: Request, old: dict[str, Any]) -> None:
        """Retention, key and tags."""
        if request.get("KmsKeyId") != old.get("KmsKeyId"):
            if request.get("KmsKeyId"):
                request.call("logs", "AssociateKmsKey", logGroupName=request.physical, kmsKeyId=request.get("KmsKeyId"))
            else:
                request.call("logs", "DisassociateKmsKey", logGroupName=request.physical)
        self._retention(request, old)
        removed = {t["Key"] for t in old.get("Tags") or []} - set(request.tags())
        if removed:
            request.call("logs", "UntagLogGroup", logGroupName=request.physical, tags=sorted(removed))
        request.call("logs", "TagLogGroup", logGroupName=request.physical, tags=request.tags())

    def delete(self, request: Request) -> None:
        """DeleteLogGroup."""
        request.call("logs", "DeleteLogGroup", logGroupName=request.physical)

    def attributes(self, request: Request) -> dict[str, Any]:
        """The ARN, which ends in ``:*``."""
        stack = request.stack
        return {"Arn": f"arn:{request.partition}:logs:{stack['region']}:{stack['account']}:log-group:{request.physical}:*"}


class SsmParameter(Handler):
    """AWS::SSM::Parameter, String and StringList. Its tags are a map, not a list."""

    type = "AWS::SSM::Parameter"
    name_property = "Name"
    shape = shape("AllowedPattern DataType Description Name! Tags Tier Type* Value*", unsupported="Policies")

    def create(self, request: Request) -> None:
        """PutParameter; an existing one is not overwritten."""
        if request.get("Type") not in ("String", "StringList"):
            raise Failure(f"Parameter type {request.get('Type')} is not supported by CloudFormation", "InvalidRequest")
        name = request.get("Name") or request.name(1011)
        asked = request.only("AllowedPattern", "DataType", "Description", "Tier", "Type", "Value")
        request.call("ssm", "PutParameter", Name=name, Overwrite=False, Tags=request.tag_list(), **asked)
        request.physical = name

    def update(self, request: Request, old: dict[str, Any]) -> None:
        """PutParameter over it, then its tags."""
        asked = request.only("AllowedPattern", "DataType", "Description", "Tier", "Type", "Value")
        request.call("ssm", "PutParameter", Name=request.physical, Overwrite=True, **asked)
        named = {"ResourceType": "Parameter", "ResourceId": request.physical}
        removed = set(old.get("Tags") or {}) - set(request.tags())
        if removed:
            request.call("ssm", "RemoveTagsFromResource", **named, TagKeys=sorted(removed))
        request.call("ssm", "AddTagsToResource", **named, Tags=request.tag_list())

    def delete(self, request: Request) -> None:
        """DeleteParameter."""
        request.call("ssm", "DeleteParameter", Name=request.physical)

    def attributes(self, request: Request) -> dict[str, Any]:
        """Type and value."""
        return {"Type": request.get("Type"), "Value": request.get("Value")}


HANDLERS: tuple[type[Handler], ...] = (LogGroup, SsmParameter)
