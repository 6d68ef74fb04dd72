"""The network: what address ranges are taken, and the compute subnet of a zone, made once even by many hands.

A compute subnet is chosen by a fixed order: the one asked for, the shared one of the zone, a new one. A dedicated one belongs to one
instance group, and outlives it. Making one takes several acts; :func:`ensure_subnet` does at most one a call, so a kill between two
leaves nothing to guess.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from instantstart.aws.session import Aws
from instantstart.base import names, problems
from instantstart.base.outcome import Done, Outcome, Wait
from instantstart.ensure.networking import cidr

_LOCK = threading.Lock()
_ROLE_VALUE = "compute-subnet"
#: on a compute subnet that is kept for one instance group: the group's name
GROUP_TAG = "instantstart.dev/instance-group"
_DEFAULT_ROUTE = "0.0.0.0/0"


@dataclass(frozen=True)
class Subnet:
    """A subnet as DescribeSubnets tells it."""

    subnet_id: str
    vpc_id: str
    zone: str
    zone_id: str
    cidr: str
    free_addresses: int
    tags: dict[str, str]


@dataclass(frozen=True)
class Wanted:
    """Which compute subnet: ``subnet_id`` an existing one; else that of ``group`` alone, or the shared one of the zone."""

    vpc_id: str
    zone_id: str
    subnet_id: str | None = None
    group: str | None = None
    #: of a new one: a smaller number holds more addresses
    prefix: int = cidr.COMPUTE_PREFIX


def taken_ranges(aws: Aws) -> list[cidr.Network]:
    """Every range that a new VPC must not overlap: all VPCs' primary and secondary ranges, and their peers'."""
    texts: list[str] = []
    for vpc in aws.pages("ec2", "describe_vpcs", "Vpcs"):
        texts.append(vpc["CidrBlock"])
        texts += [
            a["CidrBlock"] for a in vpc.get("CidrBlockAssociationSet", ()) if a["CidrBlockState"]["State"] in ("associated", "associating")
        ]
    for peering in aws.pages("ec2", "describe_vpc_peering_connections", "VpcPeeringConnections"):
        for side in ("AccepterVpcInfo", "RequesterVpcInfo"):
            texts += [block["CidrBlock"] for block in peering.get(side, {}).get("CidrBlockSet", ())]
    return cidr.networks(sorted(set(texts)))


def vpc_blocks(aws: Aws, vpc_id: str) -> list[cidr.Network]:
    """The associated ranges of one VPC. Raises NotFound."""
    vpc = aws.read("ec2", "describe_vpcs", VpcIds=[vpc_id])["Vpcs"][0]
    blocks = [a["CidrBlock"] for a in vpc.get("CidrBlockAssociationSet", ()) if a["CidrBlockState"]["State"] == "associated"]
    return cidr.networks(blocks or [vpc["CidrBlock"]])


def get_subnet(aws: Aws, subnet_id: str) -> Subnet:
    """One subnet. Raises NotFound."""
    return _subnet(aws.read("ec2", "describe_subnets", SubnetIds=[subnet_id])["Subnets"][0])


def list_subnets(aws: Aws, vpc_id: str) -> list[Subnet]:
    """Every subnet of a VPC."""
    return [_subnet(s) for s in aws.pages("ec2", "describe_subnets", "Subnets", Filters=[{"Name": "vpc-id", "Values": [vpc_id]}])]


def find_compute_subnets(aws: Aws, vpc_id: str, zone_id: str) -> list[Subnet]:
    """Our shared compute subnets of a zone, lowest range first: more than one only after a lost race."""
    mine = [s for s in list_subnets(aws, vpc_id) if s.zone_id == zone_id and is_shared_compute(s)]
    return sorted(mine, key=lambda s: cidr.Network(s.cidr))


def find_dedicated_subnets(aws: Aws, vpc_id: str, cluster_tag: str) -> list[Subnet]:
    """The subnets that were made for one instance group each, of one cluster; also those whose group is gone."""
    return [s for s in list_subnets(aws, vpc_id) if dedicated_to(s, cluster_tag)]


def dedicated_to(subnet: Subnet, cluster_tag: str) -> bool:
    """Whether a subnet was made for one instance group of a cluster."""
    return GROUP_TAG in subnet.tags and subnet.tags.get(names.CLUSTER_TAG) == cluster_tag


def is_shared_compute(subnet: Subnet) -> bool:
    """Whether a subnet is a compute subnet of ours that all groups of its zone share."""
    return subnet.tags.get(names.ROLE_TAG) == _ROLE_VALUE and GROUP_TAG not in subnet.tags


def ensure_compute_subnet(aws: Aws, vpc_id: str, zone_id: str, explicit: str | None, tags: dict[str, str], token: str) -> Outcome:
    """The shared compute subnet of a zone, or the explicit one; see :func:`ensure_subnet`."""
    return ensure_subnet(aws, Wanted(vpc_id, zone_id, explicit), tags, token)


def ensure_subnet(aws: Aws, wanted: Wanted, tags: dict[str, str], token: str) -> Outcome:
    """Move one step towards a compute subnet with a way out and a way to S3. Done learns ``subnet_id``.

    Safe under parallel calls: AWS refuses a second subnet on the same range, and the loser looks again.
    Raises Invalid (the explicit subnet does not fit), Conflict (no room), and AWS's own Problems.
    """
    vpc_id, zone_id, explicit = wanted.vpc_id, wanted.zone_id, wanted.subnet_id
    subnet = _explicit(aws, vpc_id, zone_id, explicit) if explicit else _standing(aws, wanted, tags)
    if subnet is None:
        return _create_subnet(aws, wanted, tags)
    learned = {
        "subnet_id": subnet.subnet_id,
        "zone": subnet.zone,
        "zone_id": subnet.zone_id,
        "cidr": subnet.cidr,
        "free_addresses": subnet.free_addresses,
    }
    if explicit:
        return Done(learned, already=True)
    step = _route_step(aws, subnet, tags, token)
    return step or Done(learned)


def _explicit(aws: Aws, vpc_id: str, zone_id: str, subnet_id: str) -> Subnet:
    subnet = get_subnet(aws, subnet_id)
    for wrong, told in (
        (subnet.vpc_id != vpc_id, f"{subnet_id} is in {subnet.vpc_id}; the cluster is in {vpc_id}"),
        (subnet.zone_id != zone_id, f"{subnet_id} is in {subnet.zone} ({subnet.zone_id}), not in the asked zone {zone_id}"),
        (_is_public(aws, subnet), f"{subnet_id} is public (a route to an internet gateway); HyperPod nodes take private subnets only"),
    ):
        if wrong:
            raise problems.Invalid("subnet.does_not_fit", f"{told}.", fields=[problems.Violation("/subnet_id", told)])
    return subnet


def _standing(aws: Aws, wanted: Wanted, tags: dict[str, str]) -> Subnet | None:
    """The shared subnet of the zone, or the one of a group of this very cluster."""
    if wanted.group is None:
        return next(iter(find_compute_subnets(aws, wanted.vpc_id, wanted.zone_id)), None)
    mine = find_dedicated_subnets(aws, wanted.vpc_id, tags[names.CLUSTER_TAG])
    return next((s for s in mine if s.zone_id == wanted.zone_id and s.tags[GROUP_TAG] == wanted.group), None)


def _create_subnet(aws: Aws, wanted: Wanted, tags: dict[str, str]) -> Outcome:
    vpc_id, zone_id, group = wanted.vpc_id, wanted.zone_id, wanted.group
    with _LOCK:
        if _standing(aws, wanted, tags):
            return Wait(1, f"Another operation just made the compute subnet of {zone_id}")
        slots = cidr.free_slots(vpc_blocks(aws, vpc_id), cidr.networks(s.cidr for s in list_subnets(aws, vpc_id)), wanted.prefix)
        if not slots:
            raise problems.Conflict(
                "subnet.no_room",
                f"{vpc_id} has no free /{wanted.prefix} left for the compute subnet of {zone_id}.",
                hint="Associate a secondary range with the VPC, or name an existing private subnet as subnet_id.",
            )
        zone = _zone_name(aws, zone_id)
        called = {"Name": f"hp-group-{group}", GROUP_TAG: group} if group else {"Name": f"hp-compute-{zone}"}
        named = {**tags, **called, names.ROLE_TAG: _ROLE_VALUE, "kubernetes.io/role/internal-elb": "1"}
        spec = [{"ResourceType": "subnet", "Tags": _tag_list(named)}]
        try:
            made = aws.write(
                "ec2", "create_subnet", VpcId=vpc_id, CidrBlock=str(slots[0]), AvailabilityZoneId=zone_id, TagSpecifications=spec
            )
        except problems.Invalid as problem:
            if "Conflict" in str(problem.evidence.get("aws_code")):
                return Wait(2, f"{slots[0]} was taken a moment ago; looking for the next free range")
            raise
    return Wait(0, f"Made the compute subnet {made['Subnet']['SubnetId']} ({slots[0]})")


def _route_step(aws: Aws, subnet: Subnet, tags: dict[str, str], token: str) -> Wait | None:
    name = f"hp-compute-{subnet.zone}-rt"
    own = _route_tables(aws, [{"Name": "association.subnet-id", "Values": [subnet.subnet_id]}])
    if not own:
        by_name = [{"Name": "vpc-id", "Values": [subnet.vpc_id]}, {"Name": "tag:Name", "Values": [name]}]
        with _LOCK:  # two operations of this process would make one each; EC2 knows no unique name
            named = _route_tables(aws, by_name)
            if not named:
                spec = [{"ResourceType": "route-table", "Tags": _tag_list({**tags, "Name": name, names.ROLE_TAG: _ROLE_VALUE})}]
                aws.write("ec2", "create_route_table", VpcId=subnet.vpc_id, TagSpecifications=spec, ClientToken=token)
                return Wait(1, f"Made the route table of {subnet.subnet_id}")
        if aws.create("ec2", "associate_route_table", RouteTableId=named[0]["RouteTableId"], SubnetId=subnet.subnet_id) is None:
            return Wait(2, f"{subnet.subnet_id} got its route table a moment ago")
        return Wait(1, f"Gave {subnet.subnet_id} its route table")
    return _way_out(aws, subnet, own[0]) or _way_to_s3(aws, subnet.vpc_id, own[0]["RouteTableId"], tags, token)


def _way_out(aws: Aws, subnet: Subnet, table: dict[str, Any]) -> Wait | None:
    if any(r.get("DestinationCidrBlock") == _DEFAULT_ROUTE for r in table["Routes"]):
        return None
    gateways = aws.pages("ec2", "describe_nat_gateways", "NatGateways", Filters=[{"Name": "vpc-id", "Values": [subnet.vpc_id]}])
    usable = [g["NatGatewayId"] for g in gateways if g["State"] == "available"]
    if not usable:
        if any(g["State"] == "pending" for g in gateways):
            return Wait(10, "The NAT gateway is still being made")
        raise problems.Conflict(
            "network.no_nat_gateway",
            f"{subnet.vpc_id} has no NAT gateway, so nodes in {subnet.subnet_id} could not reach AWS.",
            hint="Make a NAT gateway in that VPC, or name a private subnet with its own way out as subnet_id.",
        )
    aws.create("ec2", "create_route", RouteTableId=table["RouteTableId"], DestinationCidrBlock=_DEFAULT_ROUTE, NatGatewayId=usable[0])
    return Wait(0, f"Routed {subnet.subnet_id} through {usable[0]}")


def _way_to_s3(aws: Aws, vpc_id: str, table_id: str, tags: dict[str, str], token: str) -> Wait | None:
    ours = [{"Name": "vpc-id", "Values": [vpc_id]}, {"Name": "vpc-endpoint-type", "Values": ["Gateway"]}]
    endpoints = [e for e in aws.pages("ec2", "describe_vpc_endpoints", "VpcEndpoints", Filters=ours) if e["ServiceName"].endswith(".s3")]
    if any(table_id in e.get("RouteTableIds", ()) for e in endpoints):
        return None
    if endpoints:
        aws.write("ec2", "modify_vpc_endpoint", VpcEndpointId=endpoints[0]["VpcEndpointId"], AddRouteTableIds=[table_id])
        return Wait(1, "Added the subnet to the S3 gateway endpoint")
    services = aws.read("ec2", "describe_vpc_endpoint_services", Filters=[{"Name": "service-type", "Values": ["Gateway"]}])["ServiceNames"]
    service = next((s for s in services if s.endswith(".s3")), None)
    if service is None:
        return None
    aws.create(
        "ec2",
        "create_vpc_endpoint",
        VpcId=vpc_id,
        ServiceName=service,
        VpcEndpointType="Gateway",
        RouteTableIds=[table_id],
        TagSpecifications=[{"ResourceType": "vpc-endpoint", "Tags": _tag_list(tags)}],
        ClientToken=token,
    )
    return Wait(2, "Made the S3 gateway endpoint")


def _is_public(aws: Aws, subnet: Subnet) -> bool:
    tables = _route_tables(aws, [{"Name": "association.subnet-id", "Values": [subnet.subnet_id]}])
    tables = tables or _route_tables(aws, [{"Name": "vpc-id", "Values": [subnet.vpc_id]}, {"Name": "association.main", "Values": ["true"]}])
    return any(str(r.get("GatewayId", "")).startswith("igw-") for table in tables for r in table["Routes"])


def _route_tables(aws: Aws, filters: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return aws.pages("ec2", "describe_route_tables", "RouteTables", Filters=list(filters))


def _zone_name(aws: Aws, zone_id: str) -> str:
    return str(aws.read("ec2", "describe_availability_zones", ZoneIds=[zone_id])["AvailabilityZones"][0]["ZoneName"])


def _tag_list(tags: dict[str, str]) -> list[dict[str, str]]:
    return [{"Key": k, "Value": v} for k, v in tags.items()]


def _subnet(told: dict[str, Any]) -> Subnet:
    return Subnet(
        subnet_id=told["SubnetId"],
        vpc_id=told["VpcId"],
        zone=told["AvailabilityZone"],
        zone_id=told["AvailabilityZoneId"],
        cidr=told["CidrBlock"],
        free_addresses=told["AvailableIpAddressCount"],
        tags={t["Key"]: t["Value"] for t in told.get("Tags", ())},
    )


def check_efa_rules(aws: Aws, group_id: str) -> None:
    """Raise Conflict when the nodes' security group lacks a rule that EFA needs: without it NCCL hangs and says nothing (case 44)."""
    missing = missing_efa_rules(aws, group_id)
    if missing:
        told = " and ".join(missing)
        raise problems.Conflict(
            "network.efa_rules_missing",
            f"The security group {group_id} has no {told} rule for all traffic that names the group itself; EFA does not work without.",
            hint=f"Add to {group_id} a rule for all traffic with {group_id} as the other side ({told}), then retry.",
            evidence={"security_group": group_id, "missing": missing},
        )


def missing_efa_rules(aws: Aws, group_id: str) -> list[str]:
    """The directions in which a security group lacks the all-traffic rule naming itself that EFA needs (case 44)."""
    rules = aws.pages("ec2", "describe_security_group_rules", "SecurityGroupRules", Filters=[{"Name": "group-id", "Values": [group_id]}])
    have = {r["IsEgress"] for r in rules if r["IpProtocol"] == "-1" and r.get("ReferencedGroupInfo", {}).get("GroupId") == group_id}
    return [word for word, egress in (("ingress", False), ("egress", True)) if egress not in have]


def remove_compute_subnet_step(aws: Aws, vpc_id: str, cluster_tag: str) -> Wait | None:
    """Remove one thing of our compute subnets in a VPC: endpoint membership, route table, subnet. None when nothing is left."""
    ours = [{"Name": "vpc-id", "Values": [vpc_id]}, {"Name": f"tag:{names.CLUSTER_TAG}", "Values": [cluster_tag]}]
    for table in _route_tables(aws, [*ours, {"Name": f"tag:{names.ROLE_TAG}", "Values": [_ROLE_VALUE]}]):
        table_id = table["RouteTableId"]
        endpoint_filter = [{"Name": "vpc-id", "Values": [vpc_id]}]
        for endpoint in aws.pages("ec2", "describe_vpc_endpoints", "VpcEndpoints", Filters=endpoint_filter):
            if table_id in endpoint.get("RouteTableIds", ()):
                aws.write("ec2", "modify_vpc_endpoint", VpcEndpointId=endpoint["VpcEndpointId"], RemoveRouteTableIds=[table_id])
                return Wait(0, f"Took {table_id} off the S3 gateway endpoint")
        for association in table.get("Associations", ()):
            if not association.get("Main"):
                aws.remove("ec2", "disassociate_route_table", AssociationId=association["RouteTableAssociationId"])
                return Wait(0, f"Took the subnet off {table_id}")
        held = aws.remove("ec2", "delete_route_table", RouteTableId=table_id)
        return Wait(5, f"{table_id} cannot be removed yet: {held}") if held else Wait(0, f"Removed the route table {table_id}")
    return _remove_subnet_step(aws, [*ours, {"Name": f"tag:{names.ROLE_TAG}", "Values": [_ROLE_VALUE]}])


def remove_endpoint_step(aws: Aws, vpc_id: str, cluster_tag: str) -> Wait | None:
    """Remove the S3 gateway endpoint that we made in a VPC of others, once no route table uses it; None when there is none."""
    filters = [{"Name": "vpc-id", "Values": [vpc_id]}, {"Name": f"tag:{names.CLUSTER_TAG}", "Values": [cluster_tag]}]
    for endpoint in aws.pages("ec2", "describe_vpc_endpoints", "VpcEndpoints", Filters=filters):
        if not endpoint.get("RouteTableIds") and endpoint["State"].lower() not in ("deleting", "deleted"):
            aws.remove("ec2", "delete_vpc_endpoints", VpcEndpointIds=[endpoint["VpcEndpointId"]])
            return Wait(2, f"Removed the endpoint {endpoint['VpcEndpointId']}")
    return None


def _remove_subnet_step(aws: Aws, filters: list[dict[str, Any]]) -> Wait | None:
    for told in aws.pages("ec2", "describe_subnets", "Subnets", Filters=filters):
        held = aws.remove("ec2", "delete_subnet", SubnetId=told["SubnetId"])
        if held:
            return Wait(10, f"Waiting until nothing is left in {told['SubnetId']}: {held}")
        return Wait(0, f"Removed the subnet {told['SubnetId']}")
    return None


def find_tagged_vpc(aws: Aws, cluster_tag: str) -> str | None:
    """The VPC that carries our cluster tag, or holds a subnet that does: how a deletion finds its way when stack and cluster are gone."""
    ours = [{"Name": f"tag:{names.CLUSTER_TAG}", "Values": [cluster_tag]}]
    found = aws.pages("ec2", "describe_vpcs", "Vpcs", Filters=ours) or aws.pages("ec2", "describe_subnets", "Subnets", Filters=ours)
    return str(found[0]["VpcId"]) if found else None
