"""MLflow apps: the newer form without a size, named by its ARN."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from instantstart_sandbox.services.mlflow import life
from instantstart_sandbox.services.mlflow.records import APP, DEFAULT_VERSION, USABLE, Record, conflict, find, here, listed, user
from instantstart_sandbox.services.paging import page

if TYPE_CHECKING:
    from instantstart_sandbox.gateway.registry import Context

_FAILED = frozenset({"CreateFailed", "UpdateFailed", "DeleteFailed"})
_OPTIONS = ("KmsKeyId", "WeeklyMaintenanceWindowStart", "DefaultDomainIdList")


def create(ctx: Context, **params: Any) -> dict[str, Any]:
    """CreateMlflowApp. One app is the account's default: a new one takes over."""
    arn = life.create(ctx, APP, params["Name"], params)
    _default(ctx, arn, params)
    return {"Arn": arn}


def _default(ctx: Context, arn: str, params: dict[str, Any]) -> None:
    if params.get("AccountDefaultStatus") == "ENABLED":
        for other in here(ctx, APP):
            if other["arn"] != arn:
                other["request"]["AccountDefaultStatus"] = "DISABLED"


def describe(ctx: Context, **params: Any) -> dict[str, Any]:
    """DescribeMlflowApp."""
    record = find(ctx, params["Arn"], APP)
    asked = record["request"]
    return {
        "Arn": record["arn"],
        "Name": record["name"],
        "ArtifactStoreUri": asked["ArtifactStoreUri"],
        "MlflowVersion": asked.get("MlflowVersion") or DEFAULT_VERSION,
        "RoleArn": asked["RoleArn"],
        "Status": record["status"],
        "ModelRegistrationMode": asked.get("ModelRegistrationMode") or "AutoModelRegistrationDisabled",
        "AccountDefaultStatus": asked.get("AccountDefaultStatus") or "DISABLED",
        "CreationTime": record["created"],
        "CreatedBy": user(record),
        "LastModifiedTime": record["modified"],
        "LastModifiedBy": user(record),
        **{k: asked[k] for k in _OPTIONS if k in asked},
    }


def update(ctx: Context, **params: Any) -> dict[str, Any]:
    """UpdateMlflowApp."""
    record = find(ctx, params["Arn"], APP)
    life.begin(ctx, record, "Updating", "updated", USABLE)
    record["name"] = params.get("Name") or record["name"]
    record["request"] |= {k: v for k, v in params.items() if k not in ("Arn", "Name")}
    _default(ctx, record["arn"], params)
    return {"Arn": record["arn"]}


def delete(ctx: Context, **params: Any) -> dict[str, Any]:
    """DeleteMlflowApp."""
    record = find(ctx, params["Arn"], APP)
    if record["status"] != "Deleting":
        life.begin(ctx, record, "Deleting", "deleted", USABLE | _FAILED)
    return {"Arn": record["arn"]}


def url(ctx: Context, **params: Any) -> dict[str, Any]:
    """CreatePresignedMlflowAppUrl: an address that works once."""
    record = find(ctx, params["Arn"], APP)
    if record["status"] not in USABLE:
        raise conflict(record, "opened")
    return {"AuthorizedUrl": life.plane(ctx.world).presign(record, params.get("ExpiresInSeconds") or 300)}


def listing(ctx: Context, **params: Any) -> dict[str, Any]:
    """ListMlflowApps."""
    found = listed(here(ctx, APP), params, "Status")
    if wanted := params.get("AccountDefaultStatus"):
        found = [r for r in found if (r["request"].get("AccountDefaultStatus") or "DISABLED") == wanted]
    if domain := params.get("DefaultForDomainId"):
        found = [r for r in found if domain in (r["request"].get("DefaultDomainIdList") or [])]
    some, token = page([_summary(r) for r in found], params.get("NextToken"), params.get("MaxResults"))
    return {"Summaries": some} | ({"NextToken": token} if token else {})


def _summary(record: Record) -> dict[str, Any]:
    return {
        "Arn": record["arn"],
        "Name": record["name"],
        "Status": record["status"],
        "CreationTime": record["created"],
        "LastModifiedTime": record["modified"],
        "MlflowVersion": record["request"].get("MlflowVersion") or DEFAULT_VERSION,
    }


OPERATIONS = {
    "CreateMlflowApp": create,
    "DescribeMlflowApp": describe,
    "UpdateMlflowApp": update,
    "DeleteMlflowApp": delete,
    "CreatePresignedMlflowAppUrl": url,
    "ListMlflowApps": listing,
}
