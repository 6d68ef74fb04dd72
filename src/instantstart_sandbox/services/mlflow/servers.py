"""Tracking servers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from instantstart_sandbox.services.mlflow import life
from instantstart_sandbox.services.mlflow.records import DEFAULT_VERSION, SERVER, USABLE, Record, conflict, find, here, listed, user
from instantstart_sandbox.services.paging import page

if TYPE_CHECKING:
    from instantstart_sandbox.gateway.registry import Context

_FAILED = frozenset({"CreateFailed", "UpdateFailed", "StopFailed", "StartFailed", "DeleteFailed"})


def _find(ctx: Context, name: str) -> Record:
    return find(ctx, ctx.arn("sagemaker", f"{SERVER}/{name}"), SERVER)


def create(ctx: Context, **params: Any) -> dict[str, Any]:
    """CreateMlflowTrackingServer."""
    return {"TrackingServerArn": life.create(ctx, SERVER, params["TrackingServerName"], params)}


def _active(record: Record) -> str:
    return "Active" if record["status"] in USABLE or record["status"] == "Updating" else "Inactive"


def describe(ctx: Context, **params: Any) -> dict[str, Any]:
    """DescribeMlflowTrackingServer. TrackingServerUrl is where the process listens, on this machine."""
    record = _find(ctx, params["TrackingServerName"])
    asked = record["request"]
    shown = {
        "TrackingServerArn": record["arn"],
        "TrackingServerName": record["name"],
        "ArtifactStoreUri": asked["ArtifactStoreUri"],
        "TrackingServerSize": asked.get("TrackingServerSize") or "Small",
        "MlflowVersion": asked.get("MlflowVersion") or DEFAULT_VERSION,
        "RoleArn": asked["RoleArn"],
        "TrackingServerStatus": record["status"],
        "IsActive": _active(record),
        "WeeklyMaintenanceWindowStart": asked.get("WeeklyMaintenanceWindowStart") or "Tue:03:30",
        "AutomaticModelRegistration": bool(asked.get("AutomaticModelRegistration")),
        "CreationTime": record["created"],
        "CreatedBy": user(record),
        "LastModifiedTime": record["modified"],
        "LastModifiedBy": user(record),
    }
    if record["port"]:
        shown["TrackingServerUrl"] = life.plane(ctx.world).url(record)
    return shown | {k: asked[k] for k in ("S3BucketOwnerAccountId", "S3BucketOwnerVerification") if k in asked}


def update(ctx: Context, **params: Any) -> dict[str, Any]:
    """UpdateMlflowTrackingServer."""
    record = _find(ctx, params["TrackingServerName"])
    life.begin(ctx, record, "Updating", "updated", USABLE)
    record["request"] |= {k: v for k, v in params.items() if k != "TrackingServerName"}
    return {"TrackingServerArn": record["arn"]}


def start(ctx: Context, **params: Any) -> dict[str, Any]:
    """StartMlflowTrackingServer."""
    record = _find(ctx, params["TrackingServerName"])
    life.begin(ctx, record, "Starting", "started", frozenset({"Stopped"}))
    return {"TrackingServerArn": record["arn"]}


def stop(ctx: Context, **params: Any) -> dict[str, Any]:
    """StopMlflowTrackingServer."""
    record = _find(ctx, params["TrackingServerName"])
    life.begin(ctx, record, "Stopping", "stopped", USABLE)
    return {"TrackingServerArn": record["arn"]}


def delete(ctx: Context, **params: Any) -> dict[str, Any]:
    """DeleteMlflowTrackingServer. What is being deleted stays so."""
    record = _find(ctx, params["TrackingServerName"])
    if record["status"] != "Deleting":
        life.begin(ctx, record, "Deleting", "deleted", USABLE | _FAILED | {"Stopped"})
    return {"TrackingServerArn": record["arn"]}


def url(ctx: Context, **params: Any) -> dict[str, Any]:
    """CreatePresignedMlflowTrackingServerUrl: an address that works once."""
    record = _find(ctx, params["TrackingServerName"])
    if record["status"] not in USABLE:
        raise conflict(record, "opened")
    return {"AuthorizedUrl": life.plane(ctx.world).presign(record, params.get("ExpiresInSeconds") or 300)}


def listing(ctx: Context, **params: Any) -> dict[str, Any]:
    """ListMlflowTrackingServers."""
    found = listed(here(ctx, SERVER), params, "TrackingServerStatus")
    some, token = page([_summary(r) for r in found], params.get("NextToken"), params.get("MaxResults"))
    return {"TrackingServerSummaries": some} | ({"NextToken": token} if token else {})


def _summary(record: Record) -> dict[str, Any]:
    return {
        "TrackingServerArn": record["arn"],
        "TrackingServerName": record["name"],
        "CreationTime": record["created"],
        "LastModifiedTime": record["modified"],
        "TrackingServerStatus": record["status"],
        "IsActive": _active(record),
        "MlflowVersion": record["request"].get("MlflowVersion") or DEFAULT_VERSION,
    }


OPERATIONS = {
    "CreateMlflowTrackingServer": create,
    "DescribeMlflowTrackingServer": describe,
    "UpdateMlflowTrackingServer": update,
    "StartMlflowTrackingServer": start,
    "StopMlflowTrackingServer": stop,
    "DeleteMlflowTrackingServer": delete,
    "CreatePresignedMlflowTrackingServerUrl": url,
    "ListMlflowTrackingServers": listing,
}
