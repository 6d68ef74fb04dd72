"""AddTags, ListTags, DeleteTags of clusters and training plans; every other SageMaker resource is moto's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from instantstart_sandbox.gateway.errors import AwsError
from instantstart_sandbox.services.hyperpod.plan_state import plans
from instantstart_sandbox.services.hyperpod.state import clusters, invalid
from instantstart_sandbox.services.paging import page

if TYPE_CHECKING:
    from instantstart_sandbox.gateway.registry import Context, Proceed

_MOST_TAGS = 50


def _tags(ctx: Context, arn: str) -> list[dict[str, str]] | None:
    """The tags of an ARN that is ours, changeable in place; None for moto's resources."""
    kind = arn.split(":", 5)[-1].split("/")[0]
    if kind not in ("cluster", "training-plan"):
        return None
    owner = (clusters(ctx.world) if kind == "cluster" else plans(ctx.world)).get(arn)
    if owner is None:
        raise AwsError("ResourceNotFound", f"Resource {arn} does not exist.")
    found: list[dict[str, str]] = owner["tags"]
    return found


def add_tags(ctx: Context, params: dict[str, Any], proceed: Proceed) -> dict[str, Any] | None:
    """AddTags: a key that is there gets the new value."""
    tags = _tags(ctx, params["ResourceArn"])
    if tags is None:
        return None
    merged = {t["Key"]: t["Value"] for t in tags} | {t["Key"]: t["Value"] for t in params["Tags"]}
    if len(merged) > _MOST_TAGS:
        raise invalid(f"A resource can have at most {_MOST_TAGS} tags.")
    tags[:] = [{"Key": k, "Value": v} for k, v in merged.items()]
    return {"Tags": list(tags)}


def list_tags(ctx: Context, params: dict[str, Any], proceed: Proceed) -> dict[str, Any] | None:
    """ListTags."""
    tags = _tags(ctx, params["ResourceArn"])
    if tags is None:
        return None
    some, token = page(tags, params.get("NextToken"), params.get("MaxResults"))
    return {"Tags": some} | ({"NextToken": token} if token else {})


def delete_tags(ctx: Context, params: dict[str, Any], proceed: Proceed) -> dict[str, Any] | None:
    """DeleteTags; unknown keys are ignored."""
    tags = _tags(ctx, params["ResourceArn"])
    if tags is None:
        return None
    tags[:] = [t for t in tags if t["Key"] not in params["TagKeys"]]
    return {}


GUARDS = {"AddTags": add_tags, "ListTags": list_tags, "DeleteTags": delete_tags}
