"""Where EKS keeps its clusters: ``world.section("eks")["clusters"]``, by ARN.

A record is ``{"view", "token", "creator", "self_managed", "interfaces", "updates", "addons", "entries",
"associations", "nodegroups"}``; ``view`` is what DescribeCluster answers.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

from instantstart_sandbox.gateway.errors import AwsError
from instantstart_sandbox.services.paging import page

if TYPE_CHECKING:
    from instantstart_sandbox.gateway.registry import Context
    from instantstart_sandbox.world.state import World

Record = dict[str, Any]

NOT_FOUND, IN_USE, INVALID, REFUSED = 404, 409, 400, 400


def clusters(world: World) -> dict[str, Record]:
    """Every cluster of every region, by ARN."""
    found: dict[str, Record] = world.section("eks").setdefault("clusters", {})
    return found


def cluster_arn(ctx: Context, name: str) -> str:
    """The ARN of a cluster of the caller's account and region."""
    return ctx.arn("eks", f"cluster/{name}")


def find(ctx: Context, name: str) -> Record:
    """The record of a cluster; ResourceNotFoundException."""
    record = clusters(ctx.world).get(cluster_arn(ctx, name))
    if record is None:
        raise not_found(f"No cluster found for name: {name}.", clusterName=name)
    return record


def active(ctx: Context, name: str, act: str) -> Record:
    """The record of a cluster on which things can be made; InvalidRequestException before it is ACTIVE."""
    record = find(ctx, name)
    status = record["view"]["status"]
    if status in ("CREATING", "FAILED", "DELETING"):
        raise refused(f"Cannot {act} because cluster {name} is currently in {status} state", clusterName=name)
    return record


def not_found(message: str, **members: Any) -> AwsError:
    """ResourceNotFoundException."""
    return AwsError("ResourceNotFoundException", message, NOT_FOUND, **members)


def in_use(message: str, **members: Any) -> AwsError:
    """ResourceInUseException."""
    return AwsError("ResourceInUseException", message, IN_USE, **members)


def invalid(message: str, **members: Any) -> AwsError:
    """InvalidParameterException."""
    return AwsError("InvalidParameterException", message, INVALID, **members)


def refused(message: str, **members: Any) -> AwsError:
    """InvalidRequestException: well-formed, but not now."""
    return AwsError("InvalidRequestException", message, REFUSED, **members)


def listing(field: str, items: list[Any], params: dict[str, Any]) -> dict[str, Any]:
    """One page of ``items`` as a List operation of EKS answers it."""
    some, token = page(items, params.get("nextToken"), params.get("maxResults"), "InvalidParameterException")
    return {field: some} | ({"nextToken": token} if token else {})


def new_update(ctx: Context, record: Record, kind: str, params: dict[str, str]) -> dict[str, Any]:
    """Note an update in progress of a cluster or add-on; answers ``$Update``."""
    update: dict[str, Any] = {
        "id": _uuid(),
        "status": "InProgress",
        "type": kind,
        "params": [{"type": k, "value": v} for k, v in params.items()],
        "createdAt": ctx.clock.utc(),
        "errors": [],
    }
    record["updates"][update["id"]] = update
    return update


def _uuid() -> str:
    digits = secrets.token_hex(16)
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def short_uuid() -> str:
    """A UUID as EKS puts into the ARNs of add-ons, access entries and node groups."""
    return _uuid()
