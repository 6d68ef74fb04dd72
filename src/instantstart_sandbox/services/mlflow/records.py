"""Where MLflow's servers and apps are kept: ``world.section("mlflow")``, by ARN.

A record is ``{"arn", "kind", "name", "region", "request", "status", "created", "modified", "by", "tags", "port"}``; ``request`` is what
was asked, ``kind`` is SERVER or APP, ``port`` that of its process on 127.0.0.1 (0 before it had one).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from instantstart_sandbox.gateway.errors import AwsError

if TYPE_CHECKING:
    from instantstart_sandbox.gateway.registry import Context
    from instantstart_sandbox.world.state import World

Record = dict[str, Any]
SERVER, APP = "mlflow-tracking-server", "mlflow-app"
#: in these it can be used (facts A3)
USABLE = frozenset({"Created", "Updated", "Started"})
DEFAULT_VERSION = "3.0.0"


def records(world: World) -> dict[str, Record]:
    """Every server and app of every region, by ARN."""
    return world.section("mlflow")


def find(ctx: Context, arn: str, kind: str) -> Record:
    """One of them; ResourceNotFound."""
    record = records(ctx.world).get(arn)
    if record is None or record["kind"] != kind or record["region"] != ctx.region:
        what = "MLflow App" if kind == APP else "MLflow Tracking Server"
        raise AwsError("ResourceNotFound", f"{what} {arn} does not exist.")
    return record


def here(ctx: Context, kind: str) -> list[Record]:
    """Those of a kind in the caller's region."""
    return [r for r in records(ctx.world).values() if r["kind"] == kind and r["region"] == ctx.region]


def user(record: Record) -> dict[str, Any]:
    """A UserContext: who made it."""
    return {"IamIdentity": {"Arn": record["by"], "PrincipalId": record["by"].rpartition("/")[2]}}


def conflict(record: Record, verb: str) -> AwsError:
    """What is said while it is on its way from one state to another."""
    return AwsError("ConflictException", f"{record['name']} cannot be {verb} while its status is {record['status']}.")


def listed(found: list[Record], params: dict[str, Any], status: str) -> list[Record]:
    """Filtered and sorted as ListMlflowTrackingServers and ListMlflowApps ask."""
    kept = [r for r in found if not params.get(status) or r["status"] == params[status]]
    if after := params.get("CreatedAfter"):
        kept = [r for r in kept if r["created"] > after]
    if before := params.get("CreatedBefore"):
        kept = [r for r in kept if r["created"] < before]
    if version := params.get("MlflowVersion"):
        kept = [r for r in kept if r["request"].get("MlflowVersion", DEFAULT_VERSION) == version]
    keys = {"Name": lambda r: r["name"], "Status": lambda r: r["status"]}
    kept.sort(key=keys.get(params.get("SortBy") or "", lambda r: r["created"]), reverse=params.get("SortOrder") != "Ascending")
    return kept
