"""The tags of a resource, for conditions on ``aws:ResourceTag``; asked only when a policy has such a condition."""

from __future__ import annotations

from typing import Any

from botocore.exceptions import ClientError

from instantstart_sandbox.gateway.registry import Context


def keys_of(context: Context, resource: str) -> dict[str, list[str]]:
    """Condition keys ``aws:resourcetag/<name>`` of an ARN; none for a resource that does not exist or has no tags."""
    parts = resource.split(":", 5)
    if len(parts) != 6:
        return {}
    service, path = parts[2], parts[5]
    try:
        tags = _tags(context, service, path, resource)
    except ClientError:
        return {}
    found = {f"aws:resourcetag/{name.lower()}": [value] for name, value in tags.items()}
    return found | {key.replace("aws:", f"{service}:"): value for key, value in found.items()}


def _tags(context: Context, service: str, path: str, arn: str) -> dict[str, str]:
    client = context.world.client
    if service == "ec2":
        wanted = [{"Name": "resource-id", "Values": [path.rsplit("/", 1)[-1]]}]
        return _pairs(client("ec2", context.region).describe_tags(Filters=wanted)["Tags"])
    if service == "eks":
        return dict(client("eks", context.region).list_tags_for_resource(resourceArn=arn).get("tags", {}))
    if service == "sagemaker":
        return _pairs(client("sagemaker", context.region).list_tags(ResourceArn=arn)["Tags"])
    if service == "fsx" and path.startswith("file-system/"):
        return _pairs(client("fsx", context.region).list_tags_for_resource(ResourceARN=arn)["Tags"])
    if service == "iam" and path.startswith("role/"):
        return _pairs(client("iam", context.region).list_role_tags(RoleName=path.rsplit("/", 1)[-1])["Tags"])
    return {}


def _pairs(tags: list[dict[str, Any]]) -> dict[str, str]:
    return {str(tag["Key"]): str(tag["Value"]) for tag in tags}
