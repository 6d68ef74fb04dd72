"""Stale reads, on request: what was made less than N virtual seconds ago is not seen by describe and list yet.

EC2 objects carry no time of creation, so while stale reads are on the ids in the answers of create calls are noted
(``world.section("births")``). IAM's roles and policies carry theirs.
"""

from __future__ import annotations

import collections
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


#: owned objects: create call -> key of the birth, made of its parameters
_OWNED_MAKES = {
    ("eks", "CreateCluster"): "eks/cluster/{name}",
    ("eks", "CreateAddon"): "eks/addon/{clusterName}/{addonName}",
    ("eks", "CreateAccessEntry"): "eks/access/{clusterName}/{principalArn}",
    ("sagemaker", "CreateCluster"): "sagemaker/cluster/{ClusterName}",
    ("cloudformation", "CreateStack"): "cloudformation/stack/{StackName}",
}
#: read -> (key, error's code, message, status)
_OWNED_GETS = {
    ("eks", "DescribeCluster"): ("eks/cluster/{name}", "ResourceNotFoundException", "No cluster found for name: {name}.", 404),
    ("eks", "DescribeAddon"): (
        "eks/addon/{clusterName}/{addonName}",
        "ResourceNotFoundException",
        "No addon: {addonName} found in cluster: {clusterName}",
        404,
    ),
    ("eks", "DescribeAccessEntry"): (
        "eks/access/{clusterName}/{principalArn}",
        "ResourceNotFoundException",
        "The specified principalArn could not be found: {principalArn}.",
        404,
    ),
    ("sagemaker", "DescribeCluster"): (
        "sagemaker/cluster/{ClusterName}",
        "ResourceNotFound",
        "Cluster with name {ClusterName} not found.",
        400,
    ),
    ("cloudformation", "DescribeStacks"): (
        "cloudformation/stack/{StackName}",
        "ValidationError",
        "Stack with id {StackName} does not exist",
        400,
    ),
}
#: read -> (member of the answer, key made of the parameters and the item)
_OWNED_LISTS = {
    ("eks", "ListClusters"): ("clusters", "eks/cluster/{item}"),
    ("eks", "ListAddons"): ("addons", "eks/addon/{clusterName}/{item}"),
    ("eks", "ListAccessEntries"): ("accessEntries", "eks/access/{clusterName}/{item}"),
    ("sagemaker", "ListClusters"): ("ClusterSummaries", "sagemaker/cluster/{item}"),
}


def install(world: World) -> None:
    """Register for EC2's create and describe calls, IAM's reads, and the owned objects."""
    for (service, name), key in _OWNED_MAKES.items():
        world.registry.guard(service, name)(functools.partial(_note_owned, key))
    for (service, name), refusal in _OWNED_GETS.items():
        world.registry.guard(service, name)(functools.partial(_get_owned, refusal))
    for (service, name), listing in _OWNED_LISTS.items():
        world.registry.guard(service, name)(functools.partial(_list_owned, listing))
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


def _note_owned(key: str, ctx: Context, params: dict[str, Any], proceed: Proceed) -> None:
    if not ctx.internal and ctx.world.settings.stale_reads:
        proceed()
        ctx.world.section("births").setdefault(f"{ctx.region}/{key.format(**params)}", ctx.clock.now())


def _get_owned(refusal: tuple[str, str, str, int], ctx: Context, params: dict[str, Any], proceed: Proceed) -> None:
    key, code, message, status = refusal
    named = collections.defaultdict(str, params)  # DescribeStacks may be asked for all
    if not ctx.internal and ctx.world.settings.stale_reads and f"{ctx.region}/{key.format_map(named)}" in _young(ctx):
        raise AwsError(code, message.format_map(named), status)


def _list_owned(listing: tuple[str, str], ctx: Context, params: dict[str, Any], proceed: Proceed) -> dict[str, Any] | None:
    if ctx.internal or not ctx.world.settings.stale_reads:
        return None
    member, key = listing
    answer, young = proceed(), _young(ctx)
    names = [item if isinstance(item, str) else item["ClusterName"] for item in answer.get(member, [])]
    kept = [
        item
        for item, name in zip(answer.get(member, []), names, strict=True)
        if f"{ctx.region}/{key.format(**{**params, 'item': name})}" not in young
    ]
    return {**answer, member: kept}


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
