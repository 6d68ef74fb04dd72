"""What is offered: capacity that can be bought for HyperPod, with price and window, as it is now."""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from instantstart.aws.session import Aws
from instantstart.base import problems
from instantstart.ensure.capacity import offers, plans

#: an offering is for HyperPod; others cannot be attached to a group
_TARGETS = [plans.HYPERPOD]
#: how long an offering counts as shown; after that it is searched for again
_OFFERED_SECONDS = 900.0


@dataclass(frozen=True)
class Offering:
    """Capacity that can be bought: so many of a type in one zone, from a moment to a moment, for a fee due at once."""

    offering_id: str
    instance_type: str
    instance_count: int
    zones: tuple[str, ...]
    starts_at: dt.datetime | None
    ends_at: dt.datetime | None
    duration_hours: int | None
    upfront_fee: str | None
    currency: str | None

    @property
    def window(self) -> str:
        """From when to when, for a person."""
        return f"{plans.when(self.starts_at)} to {plans.when(self.ends_at)}"


@dataclass(frozen=True)
class Search:
    """What is looked for."""

    instance_type: str
    instance_count: int = 1
    duration_hours: int | None = None
    starts_after: dt.datetime | None = None
    ends_before: dt.datetime | None = None


def search(aws: Aws, wanted: Search) -> tuple[Offering, ...]:
    """What is offered for HyperPod. Raises Invalid for a window that ends before it begins."""
    if wanted.starts_after and wanted.ends_before and wanted.ends_before <= wanted.starts_after:
        told = "ends_before must be after starts_after."
        raise problems.Invalid("training_plan.window", told, fields=[problems.Violation("/query/ends_before", told)])
    params: dict[str, Any] = {"InstanceType": wanted.instance_type, "InstanceCount": wanted.instance_count, "TargetResources": _TARGETS}
    optional = {"DurationHours": wanted.duration_hours, "StartTimeAfter": wanted.starts_after, "EndTimeBefore": wanted.ends_before}
    params |= {name: value for name, value in optional.items() if value is not None}
    told = aws.read("sagemaker", "search_training_plan_offerings", **params).get("TrainingPlanOfferings", [])
    found = tuple(_offering(aws, each) for each in told)
    return tuple(aws.cached(f"offering {o.offering_id}", _OFFERED_SECONDS, functools.partial(_same, o)) for o in found)


def _same(offering: Offering) -> Offering:
    return offering


def find_offering(aws: Aws, offering_id: str, wanted: Search) -> Offering:
    """The offering of that id: as it was shown, else as a fresh search tells it. Raises Conflict when it is not offered (any more)."""

    def look() -> Offering:
        found = next((o for o in search(aws, wanted) if o.offering_id == offering_id), None)
        if found is None:
            raise problems.Conflict(
                "training_plan.offering_gone",
                f"{offering_id} is not among what is offered now for {wanted.instance_count} x {wanted.instance_type}.",
                hint="Search the offerings again and take one of that list.",
            )
        return found

    return aws.cached(f"offering {offering_id}", _OFFERED_SECONDS, look)


def _offering(aws: Aws, told: Mapping[str, Any]) -> Offering:
    parts = told.get("ReservedCapacityOfferings", ())
    ids = {z.name: z.zone_id for z in offers.list_zones(aws)}
    zones = {str(p["AvailabilityZone"]) for p in parts if p.get("AvailabilityZone")}
    return Offering(
        offering_id=str(told["TrainingPlanOfferingId"]),
        instance_type=next((str(p["InstanceType"]) for p in parts if p.get("InstanceType")), "unknown"),
        instance_count=max((int(p.get("InstanceCount", 0)) for p in parts), default=0),
        zones=tuple(f"{z} ({ids[z]})" if z in ids else z for z in sorted(zones)),
        starts_at=min((p["StartTime"] for p in parts if p.get("StartTime")), default=None),
        ends_at=max((p["EndTime"] for p in parts if p.get("EndTime")), default=None),
        duration_hours=told.get("DurationHours"),
        upfront_fee=told.get("UpfrontFee"),
        currency=told.get("CurrencyCode"),
    )
