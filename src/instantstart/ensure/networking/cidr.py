"""Address arithmetic: pure functions over ``ipaddress``. No VPC range ever overlaps one we know; a /20 stays for compute."""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from instantstart.base import problems

Network = ipaddress.IPv4Network
COMPUTE_PREFIX = 20
#: ranges that EKS may give to Kubernetes services; a VPC there would shadow them (EKS CreateCluster, serviceIpv4Cidr)
_SERVICE_RANGES = (Network("10.100.0.0/16"), Network("172.20.0.0/16"))
_CANDIDATES = tuple(Network(f"10.{second}.0.0/16") for second in (*range(90, 200), *range(16, 90), *range(200, 256)))


@dataclass(frozen=True)
class Layout:
    """How a VPC range is cut: the first /20 holds the small subnets, everything after it is for compute."""

    vpc: Network
    public: tuple[Network, Network]
    control_plane: tuple[Network, Network]


def networks(texts: Iterable[str]) -> list[Network]:
    """The ranges of some CIDR texts."""
    return [Network(text, strict=False) for text in texts]


def overlaps(one: Network, others: Iterable[Network]) -> Network | None:
    """The first of ``others`` that shares an address with ``one``, or None."""
    return next((other for other in others if one.overlaps(other)), None)


def choose_vpc(taken: Sequence[Network], tag: str = "") -> Network:
    """A free /16. Raises Conflict when every candidate overlaps something.

    Clusters that are asked for at once see the same ranges taken: each begins to look at a place that its ``tag`` gives, so that they
    choose alike once in some hundreds of times, not always.
    """
    start = int.from_bytes(hashlib.sha256(tag.encode()).digest()[:4]) % len(_CANDIDATES) if tag else 0
    for candidate in (*_CANDIDATES[start:], *_CANDIDATES[:start]):
        if overlaps(candidate, (*taken, *_SERVICE_RANGES)) is None:
            return candidate
    raise problems.Conflict(
        "network.no_free_range",
        "Every /16 of 10.0.0.0/8 overlaps a VPC or peer of this region.",
        hint="Give vpc_cidr yourself, or an existing vpc_id.",
    )


def check_vpc(text: str) -> problems.Violation | None:
    """What is wrong with a VPC range a person gave, or None."""
    try:
        network = Network(text)
    except ValueError as error:
        return problems.Violation("/vpc_cidr", f"{text} is not a network: {error}.")
    if not 16 <= network.prefixlen <= 19:
        return problems.Violation(
            "/vpc_cidr", f"{text} must be a /16 to /19: AWS takes no larger one, and a /20 must stay free for compute."
        )
    if not network.is_private:
        return problems.Violation("/vpc_cidr", f"{text} is not a private range (RFC 1918).")
    shadow = overlaps(network, _SERVICE_RANGES)
    return problems.Violation("/vpc_cidr", f"{text} overlaps {shadow}, which EKS may use for Kubernetes services.") if shadow else None


def layout(vpc: Network) -> Layout:
    """Cut a /16 to /19 so that all but its first /20 stays for compute."""
    first = next(vpc.subnets(new_prefix=COMPUTE_PREFIX))
    public_1, public_2, small, *_ = first.subnets(new_prefix=24)
    control_1, control_2, *_ = small.subnets(new_prefix=28)
    return Layout(vpc, (public_1, public_2), (control_1, control_2))


def free_slots(blocks: Sequence[Network], taken: Sequence[Network], prefix: int = COMPUTE_PREFIX) -> list[Network]:
    """Every free range of ``prefix`` in the blocks, in order; the first slot of the first block is never used."""
    slots: list[Network] = []
    for index, block in enumerate(sorted(blocks, key=lambda b: b.prefixlen)):
        if block.prefixlen > prefix:
            continue
        for position, slot in enumerate(block.subnets(new_prefix=prefix)):
            if (index or position) and overlaps(slot, taken) is None:
                slots.append(slot)
    return slots
