"""How many addresses nodes take in a subnet, by type and interface mode, and how many are really to be had (case 43).

The VPC CNI gives pods addresses of the node's subnet, and every network card of a type with several takes one of its own, unless the
group is efa-only (aws-facts A6, A14). With prefix delegation the CNI takes whole /28 blocks: then thousands of single free addresses
in a fragmented subnet are worth nothing.
"""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from instantstart.aws.session import Aws
from instantstart.ensure.networking import cidr
from instantstart.ensure.networking.network import Subnet
from instantstart.kube.client import KubeCluster

#: FALLBACK, aws-facts A10 (HyperPod user guide): pods a node may hold, which HyperPod fixes and no API tells; by size
_PODS_BY_SIZE = {"medium": 3, "large": 9, "xlarge": 14, "2xlarge": 14, "4xlarge": 29, "8xlarge": 29}
#: the same: of these families the middle sizes hold as many as the small ones
_PODS_BY_FAMILY = {
    "g5": {"16xlarge": 29},
    "g6": {"12xlarge": 29},
    "g6e": {"12xlarge": 29},
    "g4dn": {"xlarge": 9, "2xlarge": 9, "4xlarge": 9},
}
_PODS_OTHERWISE = 49
_BLOCK = 28
_BLOCK_SIZE = 16
#: EC2 keeps the first four addresses and the last one of every subnet
_RESERVED_FIRST = 4
_CNI, _SWITCH = ("kube-system", "aws-node"), "ENABLE_PREFIX_DELEGATION"


@dataclass(frozen=True)
class Need:
    """What one node takes: ``interfaces`` for its cards, ``pods`` for its pods; with prefix delegation ``blocks`` of 16."""

    interfaces: int
    pods: int

    @property
    def total(self) -> int:
        """Addresses of one node without prefix delegation."""
        return self.interfaces + self.pods

    @property
    def blocks(self) -> int:
        """/28 blocks of one node with prefix delegation."""
        return math.ceil(self.pods / _BLOCK_SIZE)


def max_pods(instance_type: str) -> int:
    """Pods that HyperPod lets a node of this type hold."""
    _, family, size = instance_type.split(".", 2)
    return _PODS_BY_FAMILY.get(family, {}).get(size) or _PODS_BY_SIZE.get(size, _PODS_OTHERWISE)


def network_cards(facts: Mapping[str, Any] | None) -> int | None:
    """Network cards of a type, from DescribeInstanceTypes; None when EC2 does not know it."""
    if facts is None:
        return None
    network = facts.get("NetworkInfo", {})
    return int(network.get("MaximumNetworkCards") or len(network.get("NetworkCards", ())) or 1)


def efa_interfaces(facts: Mapping[str, Any] | None) -> int:
    """EFA interfaces of a type; 0 when it has none, or EC2 does not know it."""
    return int((facts or {}).get("NetworkInfo", {}).get("EfaInfo", {}).get("MaximumEfaInterfaces", 0))


def per_node(instance_type: str, facts: Mapping[str, Any] | None, efa_only: bool) -> Need:
    """What one node takes: a p5.48xlarge 81 addresses (32 cards, 49 pods), efa-only 50."""
    cards = 1 if efa_only else network_cards(facts) or 1
    return Need(cards if efa_interfaces(facts) else 1, max_pods(instance_type))


def prefix_for(addresses: int) -> int:
    """The prefix of a subnet that holds so many, never smaller than the usual compute subnet, never larger than a VPC range."""
    needed = 32 - math.ceil(math.log2(max(addresses, 1) + 5))
    return max(16, min(needed, cidr.COMPUTE_PREFIX))


def delegates_prefixes(kube: KubeCluster) -> bool:
    """Whether the VPC CNI of the cluster takes whole /28 blocks: the environment of its DaemonSet says so."""
    found = kube.find("DaemonSet", _CNI[1], _CNI[0])
    containers = (found or {}).get("spec", {}).get("template", {}).get("spec", {}).get("containers", ())
    return any(e.get("name") == _SWITCH and str(e.get("value")).lower() == "true" for c in containers for e in c.get("env") or ())


def read_free_blocks(aws: Aws, subnet: Subnet) -> int:
    """The free /28 blocks of a subnet, from the addresses and prefixes of every interface in it."""
    filters = [{"Name": "subnet-id", "Values": [subnet.subnet_id]}]
    interfaces = aws.pages("ec2", "describe_network_interfaces", "NetworkInterfaces", Filters=filters)
    used = [a["PrivateIpAddress"] for i in interfaces for a in i.get("PrivateIpAddresses", ())]
    prefixes = [p["Ipv4Prefix"] for i in interfaces for p in i.get("Ipv4Prefixes", ())]
    return free_blocks(cidr.Network(subnet.cidr), used, prefixes)


def free_blocks(subnet: cidr.Network, used: Iterable[str], prefixes: Iterable[str] = ()) -> int:
    """How many aligned /28 blocks hold no address that is taken or that EC2 keeps. Pure."""
    if subnet.prefixlen > _BLOCK:
        return 0
    first, last = int(subnet.network_address), int(subnet.broadcast_address)
    taken = {int(ipaddress.IPv4Address(address)) // _BLOCK_SIZE for address in used}
    taken |= {address // _BLOCK_SIZE for address in (*range(first, first + _RESERVED_FIRST), last)}
    for text in prefixes:
        block = cidr.Network(text)
        taken |= set(range(int(block.network_address) // _BLOCK_SIZE, int(block.broadcast_address) // _BLOCK_SIZE + 1))
    return sum(number not in taken for number in range(first // _BLOCK_SIZE, last // _BLOCK_SIZE + 1))
