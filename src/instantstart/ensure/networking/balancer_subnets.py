"""Subnets that load balancers may use, tagged as the load balancer controller looks for them (facts A13)."""

from __future__ import annotations

from typing import Any

from instantstart.base.outcome import Wait
from instantstart.ensure.networking import network
from instantstart.ensure.sites import Site

PUBLIC, PRIVATE = "kubernetes.io/role/elb", "kubernetes.io/role/internal-elb"


def step(where: Site, vpc_id: str) -> Wait | None:
    """Tag what is lacking in one call for each kind; None when nothing is. Compute subnets are tagged when they are made."""
    open_ones: dict[str, list[str]] = {PUBLIC: [], PRIVATE: []}
    tables = where.aws.pages("ec2", "describe_route_tables", "RouteTables", Filters=[{"Name": "vpc-id", "Values": [vpc_id]}])
    led = {a.get("SubnetId"): _is_open(table) for table in tables for a in table["Associations"]}
    for subnet in network.list_subnets(where.aws, vpc_id):
        tag = PUBLIC if led.get(subnet.subnet_id, led.get(None, False)) else PRIVATE
        if tag not in subnet.tags:
            open_ones[tag].append(subnet.subnet_id)
    for tag, ids in open_ones.items():
        if ids:
            where.aws.write("ec2", "create_tags", Resources=ids, Tags=[{"Key": tag, "Value": "1"}])
            return Wait(0, f"Tagged {len(ids)} subnets for {'public' if tag == PUBLIC else 'internal'} load balancers")
    return None


def _is_open(table: dict[str, Any]) -> bool:
    """Whether a route table leads to an internet gateway. (The association without a subnet is the main table's: all the others.)"""
    return any(str(route.get("GatewayId", "")).startswith("igw-") for route in table["Routes"])
