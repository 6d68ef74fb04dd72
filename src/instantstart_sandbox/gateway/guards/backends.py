"""moto's EC2 of the region a call is for."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Any

from moto.ec2.models import ec2_backends

from instantstart_sandbox.gateway.registry import Context


def ec2(ctx: Context) -> Any:
    """moto's EC2 backend; typed loosely, since moto's mixins cannot be told apart."""
    return ec2_in(ctx.account, ctx.region)


def ec2_in(account: str, region: str) -> Any:
    """moto's EC2 backend of an account and region."""
    return ec2_backends[account][region]


def subnets(backend: Any) -> Iterator[Any]:
    """Every subnet of the region."""
    for by_id in backend.subnets.values():
        yield from by_id.values()


def security_groups(backend: Any) -> Iterator[Any]:
    """Every security group of the region."""
    for by_id in backend.groups.values():
        yield from by_id.values()


def free_address(backend: Any, subnet: Any) -> str:
    """The lowest address of a subnet that nothing has; EC2 keeps the first four and the last one."""
    used = {a["PrivateIpAddress"] for e in backend.enis.values() if e.subnet.id == subnet.id for a in e.private_ip_addresses}
    network = ipaddress.ip_network(subnet.cidr_block)
    return next(str(address) for address in list(network)[4:-1] if str(address) not in used)


def settle_address(backend: Any, interface: Any) -> str:
    """Give an interface of a service an address of its own subnet (moto draws one from all of 10/8) and mark it as the service's."""
    address = free_address(backend, interface.subnet)
    interface.private_ip_address = address
    interface.private_ip_addresses = [{"Primary": True, "PrivateIpAddress": address}]
    interface.requester_managed, interface.status = True, "in-use"
    return address
