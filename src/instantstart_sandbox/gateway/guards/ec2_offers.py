"""Which zone offers which instance type, in regions of which moto knows nothing (China, GovCloud): every zone every type, an assumption."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moto.ec2.models.availability_zones_and_regions import RegionsAndZonesBackend
from moto.ec2.models.instance_types import INSTANCE_TYPE_OFFERINGS, INSTANCE_TYPES

from instantstart_sandbox.gateway.registry import Context, Proceed

if TYPE_CHECKING:
    from instantstart_sandbox.world.state import World


#: features in moto's record of EC2's answers that are younger than the pinned service model: its clients would not know them
_YOUNGER_THAN_THE_MODEL = frozenset({"metal-compatibility"})


def install(world: World) -> None:
    """Fill moto's table of a region when it is first asked for; hold its record of the types to the service model."""
    for told in INSTANCE_TYPES.values():
        processor = told.get("ProcessorInfo", {})
        if "SupportedFeatures" in processor:
            processor["SupportedFeatures"] = [f for f in processor["SupportedFeatures"] if f not in _YOUNGER_THAN_THE_MODEL]
    world.registry.guard("ec2", "DescribeInstanceTypeOfferings")(_know_the_region)


def _know_the_region(ctx: Context, params: dict[str, Any], proceed: Proceed) -> None:
    zones = RegionsAndZonesBackend.zones.get(ctx.region, [])
    places = {
        "region": [ctx.region],
        "availability-zone": [zone.name for zone in zones],
        "availability-zone-id": [zone.zone_id for zone in zones],
    }
    for kind, locations in places.items():
        if ctx.region not in INSTANCE_TYPE_OFFERINGS[kind]:
            INSTANCE_TYPE_OFFERINGS[kind][ctx.region] = [
                {"InstanceType": name, "Location": location, "LocationType": kind} for name in INSTANCE_TYPES for location in locations
            ]
