"""What a person is told when AWS has had no capacity until the deadline: of what, where, since when, and what else is to be had.

Looks around only then: the zones that offer the type, and types of the same family with quota in its zone (necessary, not sufficient:
no API tells what AWS has in stock).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from instantstart.aws.session import Aws
from instantstart.base import problems
from instantstart.ensure.capacity import offers
from instantstart.ensure.capacity.offers import InstanceOffer
from instantstart.ensure.networking import network

_FAMILY = re.compile(r"ml\.([a-z]+)")
_SHOWN = 5


@dataclass(frozen=True)
class Shortage:
    """Nodes that did not arrive. ``subnet``: its id, empty when it is not known; ``told``: AWS's own sentence."""

    instance_type: str
    subnet: str
    spot: bool
    running: int
    wanted: int
    waited_seconds: float
    told: str


def is_one(reason: str | None) -> bool:
    """Whether a reason why nodes are late is that AWS has none."""
    return reason is not None and "capacity" in reason.lower()


def exhausted(aws: Aws, shortage: Shortage) -> problems.NoCapacity:
    """The Problem that says it, with what else could be asked for."""
    zone = offers.find_zone(aws, network.get_subnet(aws, shortage.subnet).zone_id) if shortage.subnet else None
    where = f"{zone.name} ({zone.zone_id})" if zone else aws.region
    elsewhere = offers.other_zones(aws, shortage.instance_type, zone.name if zone else "")
    others = _others(aws, shortage, zone.zone_id if zone else None)
    kind = "Spot" if shortage.spot else "on-demand"
    told = (
        f"AWS has had no {kind} capacity of {shortage.instance_type} in {where} for {_hours(shortage.waited_seconds)}: "
        f"{shortage.running}/{shortage.wanted} nodes run. Last said: {shortage.told}"
    )
    ways = ["Retry to go on waiting: HyperPod keeps asking."]
    ways += [f"Or a group in another zone that offers the type: {', '.join(elsewhere)}."] if elsewhere else []
    ways += [f"Or another type with quota there: {', '.join(map(_sized, others[:_SHOWN]))}."] if others else []
    ways += [f"Or scale to {shortage.running}, which run."] if shortage.running else []
    ways += ["Or on-demand instead of Spot." if shortage.spot else "Or Spot, or a training plan, which reserves capacity."]
    evidence = {
        "instance_type": shortage.instance_type,
        "zone": where,
        "running": shortage.running,
        "wanted": shortage.wanted,
        "other_zones": elsewhere,
        "other_types": [each.name for each in others],
    }
    return problems.NoCapacity("capacity.exhausted", told, hint=" ".join(ways), evidence=evidence)


def _others(aws: Aws, shortage: Shortage, zone_id: str | None) -> list[InstanceOffer]:
    family = _FAMILY.match(shortage.instance_type)
    found = offers.list_offers(aws, zone_id, family[0] if family else "ml.", shortage.spot)
    missing = shortage.wanted - shortage.running
    fitting = [o for o in found if o.name != shortage.instance_type and o.zones and (o.quota or 0) >= missing]
    mine = next((o for o in found if o.name == shortage.instance_type), None)
    same = mine.accelerator if mine else None
    size = (mine.accelerators or 0, mine.vcpus or 0) if mine else (0, 0)
    return sorted(
        fitting, key=lambda o: (o.accelerator != same, abs((o.accelerators or 0) - size[0]), abs((o.vcpus or 0) - size[1]), o.name)
    )


def _sized(offer: InstanceOffer) -> str:
    return f"{offer.name} ({offer.accelerators} x {offer.accelerator})" if offer.accelerators else offer.name


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:.1f} hours" if seconds >= 5400 else f"{max(seconds / 60, 1):.0f} minutes"
