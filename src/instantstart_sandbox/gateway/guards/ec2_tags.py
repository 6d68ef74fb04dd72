"""DescribeTags tells the tags of what is there: moto keeps those of what was deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from instantstart_sandbox.gateway.guards.backends import ec2, security_groups, subnets
from instantstart_sandbox.gateway.registry import Context, Proceed

if TYPE_CHECKING:
    from instantstart_sandbox.world.state import World

#: the kinds whose end is watched, by the beginning of their ids; others keep what moto says
_KINDS = ("vpc-", "subnet-", "rtb-", "sg-", "igw-", "nat-", "eipalloc-", "vpce-", "eni-")

#: moto's word -> EC2's (the service model's enum ResourceType)
_TYPES = {"nat-gateway": "natgateway"}


def install(world: World) -> None:
    """Register the guard."""
    world.registry.guard("ec2", "DescribeTags")(_describe)


def _describe(ctx: Context, params: dict[str, Any], proceed: Proceed) -> dict[str, Any]:
    backend = ec2(ctx)
    living = _living(backend)
    for resource in [r for r in backend.tags if r.startswith(_KINDS) and r not in living]:
        del backend.tags[resource]
    answer = proceed()
    for tag in answer.get("Tags", []):
        tag["ResourceType"] = _TYPES.get(tag["ResourceType"], tag["ResourceType"])
    return answer


def _living(backend: Any) -> set[str]:
    found = {s.id for s in subnets(backend)} | {g.id for g in security_groups(backend)}
    for kept in (backend.vpcs, backend.route_tables, backend.internet_gateways, backend.nat_gateways, backend.vpc_end_points, backend.enis):
        found |= set(kept)
    return found | {a.allocation_id for a in backend.addresses}
