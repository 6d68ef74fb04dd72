"""AddTags, ListTags and DeleteTags of MLflow's servers and apps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from instantstart_sandbox.gateway.errors import AwsError
from instantstart_sandbox.services.mlflow.records import APP, SERVER, records
from instantstart_sandbox.services.paging import page

if TYPE_CHECKING:
    from instantstart_sandbox.gateway.registry import Context, Proceed


def _tags(ctx: Context, arn: str) -> list[dict[str, str]] | None:
    if arn.split(":", 5)[-1].split("/")[0] not in (SERVER, APP):
        return None
    record = records(ctx.world).get(arn)
    if record is None:
        raise AwsError("ResourceNotFound", f"Resource {arn} does not exist.")
    found: list[dict[str, str]] = record["tags"]
    return found


def add(ctx: Context, params: dict[str, Any], proceed: Proceed) -> dict[str, Any] | None:
    """AddTags: a key that is there gets the new value."""
    tags = _tags(ctx, params["ResourceArn"])
    if tags is None:
        return None
    merged = {t["Key"]: t["Value"] for t in [*tags, *params["Tags"]]}
    tags[:] = [{"Key": k, "Value": v} for k, v in merged.items()]
    return {"Tags": list(tags)}


def listing(ctx: Context, params: dict[str, Any], proceed: Proceed) -> dict[str, Any] | None:
    """ListTags."""
    tags = _tags(ctx, params["ResourceArn"])
    if tags is None:
        return None
    some, token = page(tags, params.get("NextToken"), params.get("MaxResults"))
    return {"Tags": some} | ({"NextToken": token} if token else {})


def delete(ctx: Context, params: dict[str, Any], proceed: Proceed) -> dict[str, Any] | None:
    """DeleteTags."""
    tags = _tags(ctx, params["ResourceArn"])
    if tags is None:
        return None
    tags[:] = [t for t in tags if t["Key"] not in params["TagKeys"]]
    return {}


GUARDS = {"AddTags": add, "ListTags": listing, "DeleteTags": delete}
