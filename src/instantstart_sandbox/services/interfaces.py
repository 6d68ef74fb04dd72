"""Network interfaces that a service puts into the user's subnets: counted, in use, and not the user's to delete.

They are made in moto's EC2 backend and not through the EC2 client, because only there can an interface be marked as
requester-managed, and because one p5 node alone takes 32 of them.
"""

from __future__ import annotations

import ipaddress
import itertools
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from moto.backends import get_backend

from instantstart_sandbox.services.arns import Arn

if TYPE_CHECKING:
    from instantstart_sandbox.world.state import World

#: EC2 keeps the first four addresses and the last one of every subnet
_RESERVED_FIRST, _RESERVED_LAST = 4, 1


@dataclass(frozen=True)
class Place:
    """A subnet in which an interface can stand; ``free`` counts its addresses."""

    subnet: str
    zone: str
    zone_id: str
    free: int


class NoInterface(Exception):  # noqa: N818 - a condition the callers turn into an event, not a programming error
    """An interface cannot be made: no free address, or the subnet or a security group is gone."""


def places(owner: str, ids: list[str]) -> list[Place]:
    """Those of the subnets that still exist, roomiest first."""
    backend = _backend(owner)
    found = [s for by_id in backend.subnets.values() for i, s in by_id.items() if i in ids]
    listed = [Place(s.id, s.availability_zone, s.availability_zone_id, s.available_ip_address_count) for s in found]
    return sorted(listed, key=lambda p: (-p.free, p.subnet))


def create(world: World, owner: str, subnet_id: str, groups: list[str], descriptions: list[str]) -> list[dict[str, str]]:
    """Make one requester-managed, in-use interface for each description, all or none, for the resource with the ARN ``owner``.

    Answers ``[{"id", "ip"}]`` in the order of ``descriptions``; raises NoInterface.
    """
    backend = _backend(owner)
    subnet = next((s for by_id in backend.subnets.values() for i, s in by_id.items() if i == subnet_id), None)
    if subnet is None:
        raise NoInterface(f"The subnet ID '{subnet_id}' does not exist")
    for group in groups:
        if backend.get_security_group_from_id(group) is None:
            raise NoInterface(f"The security group '{group}' does not exist")
    addresses = _free_addresses(backend, subnet, len(descriptions))
    made = []
    for address, description in zip(addresses, descriptions, strict=True):
        interface = backend.create_network_interface(subnet, address, group_ids=list(groups), description=description)
        interface.requester_managed, interface.status = True, "in-use"
        interface.requester_id = f"{Arn.parse(owner).service}-service"
        made.append({"id": interface.id, "ip": interface.private_ip_address})
    world.changed()
    return made


def delete(world: World, owner: str, ids: list[str]) -> None:
    """Remove interfaces made by ``create``; those that are gone already are fine."""
    backend = _backend(owner)
    for interface_id in ids:
        if interface_id in backend.enis:
            backend.delete_network_interface(interface_id)
    world.changed()


def _backend(owner: str) -> Any:
    place = Arn.parse(owner)
    return get_backend("ec2")[place.account][place.region]


def _free_addresses(backend: Any, subnet: Any, wanted: int) -> list[str]:
    """The lowest free addresses: moto draws one at random, which collides in a small subnet."""
    used = {a["PrivateIpAddress"] for e in backend.enis.values() if e.subnet.id == subnet.id for a in e.private_ip_addresses}
    network = ipaddress.IPv4Network(subnet.cidr_block)
    first = int(network.network_address) + _RESERVED_FIRST
    usable = range(first, int(network.broadcast_address) + 1 - _RESERVED_LAST)
    # inet_ntoa: ipaddress takes ten times as long, and a thousand nodes search a thousand addresses each
    addresses = (socket.inet_ntoa(n.to_bytes(4, "big")) for n in usable)
    free = list(itertools.islice((a for a in addresses if a not in used), wanted))
    if len(free) < wanted:
        raise NoInterface(f"There are not enough free addresses in subnet '{subnet.id}' to satisfy the requested number of instances.")
    return free
