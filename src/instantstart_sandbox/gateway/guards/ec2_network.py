"""Subnets, security groups, route tables and VPCs: what is in use cannot be deleted, and zones are the region's own."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from instantstart_sandbox.gateway.errors import AwsError
from instantstart_sandbox.gateway.guarding import refuse_if
from instantstart_sandbox.gateway.guards.backends import ec2, security_groups, subnets
from instantstart_sandbox.gateway.registry import Context, Proceed

if TYPE_CHECKING:
    from instantstart_sandbox.world.state import World

_NAT_THERE = ("pending", "available", "deleting")


def install(world: World) -> None:
    """Register the guards."""
    guard = world.registry.guard
    guard("ec2", "CreateSubnet")(_create_subnet)
    guard("ec2", "DeleteSubnet")(_delete_subnet)
    guard("ec2", "DeleteSecurityGroup")(_delete_security_group)
    guard("ec2", "DeleteVpc")(_delete_vpc)
    guard("ec2", "AssociateRouteTable")(_associate_route_table)
    guard("ec2", "CreateRoute", "ReplaceRoute")(_route)
    guard("ec2", "DetachInternetGateway")(_detach_internet_gateway)


def _create_subnet(ctx: Context, params: dict[str, Any], proceed: Proceed) -> dict[str, Any] | None:
    backend = ec2(ctx)
    zones = {zone.name: zone.zone_id for zone in backend.describe_availability_zones()}
    zone, zone_id, cidr = params.get("AvailabilityZone"), params.get("AvailabilityZoneId"), params.get("CidrBlock")
    for value, known, name in ((zone, zones, "availabilityZone"), (zone_id, zones.values(), "availabilityZoneId")):
        refuse_if(
            value and value not in known,
            "InvalidParameterValue",
            f"Value ({value}) for parameter {name} is invalid. Subnets can currently only be created in the following "
            f"availability zones: {', '.join(sorted(zones))}.",
        )
    if cidr and not 16 <= _prefix(cidr) <= 28:
        raise AwsError("InvalidSubnet.Range", f"The CIDR '{cidr}' is invalid.")
    answer = proceed()
    subnet = backend.get_subnet(answer["Subnet"]["SubnetId"])
    chosen = zone or next((name for name, zid in zones.items() if zid == zone_id), sorted(zones)[0])
    _move(backend, subnet, next(z for z in backend.describe_availability_zones() if z.name == chosen))
    subnet.default_for_az = False
    subnet.map_public_ip_on_launch = False
    fixed = {"AvailabilityZone": chosen, "AvailabilityZoneId": zones[chosen], "DefaultForAz": False, "MapPublicIpOnLaunch": False}
    return {"Subnet": {**answer["Subnet"], **fixed}}


def _prefix(cidr: str) -> int:
    try:
        return ipaddress.ip_network(cidr, strict=False).prefixlen
    except ValueError as error:
        raise AwsError(
            "InvalidParameterValue", f"Value ({cidr}) for parameter cidrBlock is invalid. This is not a valid CIDR block."
        ) from error


def _move(backend: Any, subnet: Any, zone: Any) -> None:
    """moto puts a subnet without a zone into us-east-1a, and files one with a zone id under None."""
    for by_id in backend.subnets.values():
        by_id.pop(subnet.id, None)
    subnet._availability_zone = zone
    backend.subnets[zone.name][subnet.id] = subnet


def _delete_subnet(ctx: Context, params: dict[str, Any], proceed: Proceed) -> None:
    backend, subnet = ec2(ctx), params["SubnetId"]
    used = any(e.subnet.id == subnet for e in backend.enis.values())
    used = used or any(n.subnet_id == subnet and n.state in _NAT_THERE for n in backend.nat_gateways.values())
    refuse_if(used, "DependencyViolation", f"The subnet '{subnet}' has dependencies and cannot be deleted.")
    for table in backend.route_tables.values():
        # the association goes with the subnet
        table._associations = {a: s for a, s in table._associations.items() if s != subnet or not _exists(backend, subnet)}


def _exists(backend: Any, subnet_id: str) -> bool:
    return any(s.id == subnet_id for s in subnets(backend))


def _delete_security_group(ctx: Context, params: dict[str, Any], proceed: Proceed) -> None:
    backend = ec2(ctx)
    group = next((g for g in security_groups(backend) if g.id == params.get("GroupId")), None)
    if group is None:
        return
    refuse_if(group.name == "default", "CannotDelete", f'the specified group: "{group.id}" name: "default" cannot be deleted by a user')
    used = any(g.id == group.id for e in backend.enis.values() for g in e.group_set)
    used = used or any(group.id in _referenced(other) for other in security_groups(backend) if other.id != group.id)
    refuse_if(used, "DependencyViolation", f"resource {group.id} has a dependent object")


def _referenced(group: Any) -> Iterator[str]:
    for rule in (*group.ingress_rules, *group.egress_rules):
        if rule.source_group:
            yield str(rule.source_group.get("GroupId"))


def _delete_vpc(ctx: Context, params: dict[str, Any], proceed: Proceed) -> None:
    backend, vpc = ec2(ctx), params["VpcId"]
    held = any(e.subnet.vpc_id == vpc for e in backend.enis.values())
    held = held or any(g.vpc_id == vpc and g.name != "default" for g in security_groups(backend))
    held = held or any(e.vpc_id == vpc and e.state not in ("deleted",) for e in backend.vpc_end_points.values())
    held = held or any(n.vpc_id == vpc and n.state in _NAT_THERE for n in backend.nat_gateways.values())
    held = held or any(i.vpc is not None and i.vpc.id == vpc for i in backend.internet_gateways.values())
    refuse_if(held, "DependencyViolation", f"The vpc '{vpc}' has dependencies and cannot be deleted.")


def _associate_route_table(ctx: Context, params: dict[str, Any], proceed: Proceed) -> None:
    subnet, wanted = params.get("SubnetId"), params["RouteTableId"]
    for table in ec2(ctx).route_tables.values():
        if subnet and subnet in table._associations.values() and table.id != wanted:
            raise AwsError(
                "Resource.AlreadyAssociated", f"the specified association for route table {wanted} conflicts with an existing association"
            )


def _route(ctx: Context, params: dict[str, Any], proceed: Proceed) -> None:
    nat = params.get("NatGatewayId")
    gateway = ec2(ctx).nat_gateways.get(nat) if nat else None
    refuse_if(
        nat and (gateway is None or gateway.state not in ("pending", "available")),
        "InvalidNatGatewayID.NotFound",
        f"The natGateway ID '{nat}' does not exist",
    )


def _detach_internet_gateway(ctx: Context, params: dict[str, Any], proceed: Proceed) -> None:
    vpc = params["VpcId"]
    mapped = any(a.eni is not None and a.eni.subnet.vpc_id == vpc for a in ec2(ctx).addresses)
    refuse_if(
        mapped,
        "DependencyViolation",
        f"Network {vpc} has some mapped public address(es). Please unmap those public address(es) before detaching the gateway.",
    )
