"""Stale reads, on request: what was made less than N virtual seconds ago is not seen by describe and list yet.

EC2 objects carry no time of creation, so while stale reads are on the ids in the answers of create calls are noted
(``world.section("births")``). IAM's roles and policies carry theirs.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Any

from instantstart_sandbox.gateway import wire
from instantstart_sandbox.gateway.errors import AwsError
from instantstart_sandbox.gateway.registry import Context, Proceed

if TYPE_CHECKING:
    from instantstart_sandbox.world.state import World

_ID = re.compile(r"(?:vpc|subnet|rtb|rtbassoc|igw|nat|vpce|sg|sgr|eni|eipalloc|i|vol|lt)-[0-9a-f]{8,17}")
_MAKES = ("Create", "Allocate", "Run", "Attach", "Associate")
#: a new id of these kinds is what a create call was for; others in its answer are only mentioned
_IAM_READS = {
    "GetRole": "RoleName",
    "ListAttachedRolePolicies": "RoleName",
    "ListRolePolicies": "RoleName",
    "GetRolePolicy": "RoleName",
}


def install(world: World) -> None:
    """Register for EC2's create and describe calls, and IAM's reads."""
    for name in wire.service_model("ec2").operation_names:
        if name.startswith("Describe"):
            world.registry.guard("ec2", name)(functools.partial(_describe, name))
        elif name.startswith(_MAKES):
            world.registry.guard("ec2", name)(_note)
    for name, parameter in _IAM_READS.items():
        world.registry.guard("iam", name)(functools.partial(_iam_get, parameter))
    world.registry.guard("iam", "ListRoles")(functools.partial(_iam_list, "Roles"))
    world.registry.guard("iam", "ListPolicies")(functools.partial(_iam_list, "Policies"))


def _note(ctx: Context, params: dict[str, Any], proceed: Proceed) -> None:
    if ctx.internal or not ctx.world.settings.stale_reads:
        return
    births = ctx.world.section("births")
    mentioned = set(_ids(params))
    answer = proceed()
    for new in set(_ids(answer)) - mentioned:
        births.setdefault(new, ctx.clock.now())


def _ids(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [i for item in value.values() for i in _ids(item)]
    if isinstance(value, list):
        return [i for item in value for i in _ids(item)]
    return [value] if isinstance(value, str) and _ID.fullmatch(value) else []


def _young(ctx: Context) -> set[str]:
    births, now = ctx.world.section("births"), ctx.clock.now()
    return {i for i, at in births.items() if now - at < ctx.world.settings.stale_reads}


def _describe(operation: str, ctx: Context, params: dict[str, Any], proceed: Proceed) -> dict[str, Any] | None:
    """Leave the young out of the first list; asked for by id, they are not found."""
    if ctx.internal or not ctx.world.settings.stale_reads:
        return None
    young = _young(ctx)
    if not young:
        return None
    for name, value in params.items():
        for asked in value if name.endswith("Ids") and isinstance(value, list) else []:
            if asked in young:
                raise AwsError(_not_found(name), f"The {name[0].lower()}{name[1:-3]} ID '{asked}' does not exist")
    answer = proceed()
    found = {}
    for name, items in answer.items():
        if isinstance(items, list):
            found[name] = [item for item in items if not (isinstance(item, dict) and _own_id(item) in young)]
    return {**answer, **found}


def _own_id(item: dict[str, Any]) -> str | None:
    """The id of an object is the first of its members that is an id and is not another's (its VPC's, its subnet's)."""
    ids = {k: v for k, v in item.items() if isinstance(v, str) and _ID.fullmatch(v)}
    others = {"VpcId", "SubnetId", "NetworkInterfaceId", "RouteTableId", "GroupId", "InternetGatewayId"}
    own = [v for k, v in ids.items() if k not in others]
    if own:
        return own[0]
    for name in ("NetworkInterfaceId", "RouteTableId", "GroupId", "InternetGatewayId", "SubnetId", "VpcId"):
        if name in ids:
            return ids[name]
    return None


def _not_found(parameter: str) -> str:
    special = {
        "GroupIds": "InvalidGroup.NotFound",
        "NatGatewayIds": "NatGatewayNotFound",
        "VpcEndpointIds": "InvalidVpcEndpointId.NotFound",
        "AllocationIds": "InvalidAllocationID.NotFound",
        "SubnetIds": "InvalidSubnetID.NotFound",
        "VpcIds": "InvalidVpcID.NotFound",
    }
    return special.get(parameter, f"Invalid{parameter[:-3]}ID.NotFound")


def _iam_get(parameter: str, ctx: Context, params: dict[str, Any], proceed: Proceed) -> None:
    if ctx.internal or not ctx.world.settings.stale_reads:
        return
    for role in ctx.world.gateway.iam.backend(ctx.partition).roles.values():
        if role.name == params[parameter] and _age(ctx, role.create_date) < ctx.world.settings.stale_reads:
            raise AwsError("NoSuchEntity", f"The role with name {role.name} cannot be found.", 404)


def _iam_list(member: str, ctx: Context, params: dict[str, Any], proceed: Proceed) -> dict[str, Any] | None:
    if ctx.internal or not ctx.world.settings.stale_reads:
        return None
    answer = proceed()
    kept = [item for item in answer.get(member, []) if _age(ctx, item["CreateDate"]) >= ctx.world.settings.stale_reads]
    return {**answer, member: kept}


def _age(ctx: Context, made: Any) -> float:
    return float(ctx.clock.now() - made.replace(tzinfo=wire.UTC).timestamp())
