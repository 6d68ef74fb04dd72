"""TagResource, UntagResource, ListTagsForResource of everything EKS gives an ARN."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from instantstart_sandbox.gateway.errors import AwsError
from instantstart_sandbox.services.arns import Arn
from instantstart_sandbox.services.eks.state import clusters

if TYPE_CHECKING:
    from instantstart_sandbox.gateway.registry import Context

_MOST_TAGS = 50
_ARN_FIELDS = ("arn", "addonArn", "accessEntryArn", "associationArn", "nodegroupArn")


def _views(ctx: Context) -> Iterator[dict[str, Any]]:
    for record in clusters(ctx.world).values():
        yield record["view"]
        yield from record["nodegroups"].values()
        for kind in ("addons", "entries", "associations"):
            yield from (item["view"] for item in record[kind].values())


def _tags(ctx: Context, arn: str) -> dict[str, str]:
    try:
        valid = Arn.parse(arn).service == "eks"
    except ValueError:
        valid = False
    if not valid:
        raise AwsError("BadRequestException", f"Invalid ARN: {arn}")
    for view in _views(ctx):
        if arn in (view.get(f) for f in _ARN_FIELDS):
            found: dict[str, str] = view.setdefault("tags", {})
            return found
    raise AwsError("NotFoundException", f"Resource {arn} not found", 404)


def tag_resource(ctx: Context, **params: Any) -> dict[str, Any]:
    """TagResource."""
    tags = _tags(ctx, params["resourceArn"])
    if len(tags | params["tags"]) > _MOST_TAGS:
        raise AwsError("BadRequestException", f"A resource can have at most {_MOST_TAGS} tags")
    tags.update(params["tags"])
    return {}


def untag_resource(ctx: Context, **params: Any) -> dict[str, Any]:
    """UntagResource; unknown keys are ignored."""
    tags = _tags(ctx, params["resourceArn"])
    for key in params["tagKeys"]:
        tags.pop(key, None)
    return {}


def list_tags_for_resource(ctx: Context, **params: Any) -> dict[str, Any]:
    """ListTagsForResource."""
    return {"tags": dict(_tags(ctx, params["resourceArn"]))}


OPERATIONS = {"TagResource": tag_resource, "UntagResource": untag_resource, "ListTagsForResource": list_tags_for_resource}
