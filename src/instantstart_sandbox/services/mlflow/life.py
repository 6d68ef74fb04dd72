"""The states of servers and apps: Creating to Created, and the other ways. A usable one has a process behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from instantstart_sandbox.gateway.errors import AwsError
from instantstart_sandbox.services import lookups
from instantstart_sandbox.services.mlflow.records import APP, Record, conflict, records

if TYPE_CHECKING:
    from instantstart_sandbox.gateway.registry import Context
    from instantstart_sandbox.services.mlflow.plane import Plane
    from instantstart_sandbox.world.state import World

#: a state on the way -> the state it leads to
_NEXT = {"Creating": "Created", "Updating": "Updated", "Starting": "Started", "Stopping": "Stopped", "Deleting": ""}
#: how often a process that is coming up is looked for, virtual seconds
_LOOK_SECONDS = 5.0


def plane(world: World) -> Plane:
    """The processes."""
    found = world.gateway.mlflow
    assert found is not None
    return found


def check_role(ctx: Context, role: str) -> None:
    """The role must exist, be visible, and trust SageMaker."""
    if not lookups.role_trusts(ctx.world, role, ctx.region, "sagemaker"):
        told = (
            f"Could not assume role {role}. Please ensure that the role exists and allows principal 'sagemaker.amazonaws.com' to assume it."
        )
        raise AwsError("ValidationException", told)


def create(ctx: Context, kind: str, name: str, params: dict[str, Any]) -> str:
    """A record in Creating; its ARN."""
    arn = ctx.arn("sagemaker", f"{kind}/{name}")
    if arn in records(ctx.world):
        what = "MLflow App" if kind == APP else "Tracking Server"
        raise AwsError("ConflictException", f"{what} with the name {name} already exists.")
    check_role(ctx, params["RoleArn"])
    now = ctx.clock.utc()
    records(ctx.world)[arn] = {
        "arn": arn,
        "kind": kind,
        "name": name,
        "region": ctx.region,
        "request": {k: v for k, v in params.items() if k != "Tags"},
        "status": "Creating",
        "created": now,
        "modified": now,
        "by": ctx.principal_arn,
        "tags": list(params.get("Tags") or []),
        "port": 0,
    }
    plane(ctx.world).start(records(ctx.world)[arn])
    settings = ctx.world.settings
    ctx.clock.after(settings.mlflow_app_create_seconds if kind == APP else settings.mlflow_server_create_seconds, "mlflow.step", arn=arn)
    return arn


def begin(ctx: Context, record: Record, status: str, verb: str, allowed: frozenset[str]) -> None:
    """Go from one of the allowed states towards another."""
    if record["status"] not in allowed:
        raise conflict(record, verb)
    record["status"], record["modified"] = status, ctx.clock.utc()
    if status == "Starting":
        plane(ctx.world).start(record)
    if status in ("Stopping", "Deleting"):
        plane(ctx.world).stop(record)
    ctx.clock.after(ctx.world.settings.mlflow_change_seconds, "mlflow.step", arn=record["arn"])
    ctx.world.changed()


def step(world: World, arn: str) -> None:
    """The next state is due."""
    record = records(world).get(arn)
    if record is None or record["status"] not in _NEXT:
        return
    reached = _NEXT[record["status"]]
    if not reached:
        plane(world).forget(record)
        records(world).pop(arn)
    elif record["status"] == "Creating" and not _bucket_there(world, record):
        plane(world).stop(record)
        record["status"] = "CreateFailed"
    elif reached in ("Created", "Started") and not plane(world).ready(record):
        world.clock.after(_LOOK_SECONDS, "mlflow.step", arn=arn)
        return
    else:
        record["status"], record["modified"] = reached, world.clock.utc()
    world.changed()


def _bucket_there(world: World, record: Record) -> bool:
    where = urlsplit(record["request"]["ArtifactStoreUri"])
    return where.scheme != "s3" or lookups.bucket_exists(world, record["region"], where.netloc)


TIMERS = {"mlflow.step": step}
