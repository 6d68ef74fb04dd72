"""The quotas of a region that moto does not count."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from instantstart_sandbox.gateway.errors import AwsError
from instantstart_sandbox.gateway.guards.backends import ec2, security_groups, subnets
from instantstart_sandbox.gateway.registry import Context, Proceed

if TYPE_CHECKING:
    from instantstart_sandbox.world.state import World

Count = Callable[[Any, dict[str, Any]], int]


def _in_vpc(found: Any, params: dict[str, Any]) -> int:
    return sum(1 for item in found if item.vpc_id == params.get("VpcId"))


def _nats_of_zone(backend: Any, params: dict[str, Any]) -> int:
    zones = {s.id: s.availability_zone for s in subnets(backend)}
    wanted = zones.get(params.get("SubnetId", ""))
    return sum(
        1 for n in backend.nat_gateways.values() if n.state in ("pending", "available", "deleting") and zones.get(n.subnet_id) == wanted
    )


#: operation -> (service code, quota's name, error's code, what is counted)
_LIMITS: dict[str, tuple[str, str, str, Count]] = {
    "CreateVpc": ("vpc", "VPCs per Region", "VpcLimitExceeded", lambda b, p: len(b.vpcs)),
    "CreateSubnet": ("vpc", "Subnets per VPC", "SubnetLimitExceeded", lambda b, p: _in_vpc(subnets(b), p)),
    "AllocateAddress": ("ec2", "EC2-VPC Elastic IPs", "AddressLimitExceeded", lambda b, p: len(b.addresses)),
    "CreateInternetGateway": (
        "vpc",
        "Internet gateways per Region",
        "InternetGatewayLimitExceeded",
        lambda b, p: len(b.internet_gateways),
    ),
    "CreateNatGateway": ("vpc", "NAT gateways per Availability Zone", "NatGatewayLimitExceeded", _nats_of_zone),
    "CreateNetworkInterface": ("vpc", "Network interfaces per Region", "NetworkInterfaceLimitExceeded", lambda b, p: len(b.enis)),
    "CreateSecurityGroup": (
        "vpc",
        "VPC security groups per Region",
        "SecurityGroupLimitExceeded",
        lambda b, p: sum(1 for _ in security_groups(b)),
    ),
    "CreateRouteTable": ("vpc", "Route tables per VPC", "RouteTableLimitExceeded", lambda b, p: _in_vpc(b.route_tables.values(), p)),
}
_WORDS = {
    "VpcLimitExceeded": "VPCs",
    "SubnetLimitExceeded": "subnets",
    "AddressLimitExceeded": "addresses",
    "InternetGatewayLimitExceeded": "internet gateways",
    "NatGatewayLimitExceeded": "NAT gateways",
    "NetworkInterfaceLimitExceeded": "network interfaces",
    "SecurityGroupLimitExceeded": "security groups",
    "RouteTableLimitExceeded": "route tables",
}


def install(world: World) -> None:
    """Register a guard for each create call with a quota."""
    for operation in _LIMITS:
        world.registry.guard("ec2", operation)(functools.partial(_within, operation))


def _within(operation: str, ctx: Context, params: dict[str, Any], proceed: Proceed) -> None:
    service, name, code, count = _LIMITS[operation]
    if count(ec2(ctx), params) >= ctx.world.quotas.value(service, name, ctx.region):
        raise AwsError(code, f"The maximum number of {_WORDS[code]} has been reached.")
