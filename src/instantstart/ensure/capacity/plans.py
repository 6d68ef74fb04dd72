"""SageMaker training plans: reserved capacity with a zone, a type, a window and a count; what of it fits a group (case 39)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from instantstart.aws.session import Aws
from instantstart.base import problems
from instantstart.ensure.findings import Finding

#: the statuses in which a group may hang on a plan
USABLE = frozenset({"Active", "Scheduled"})
HYPERPOD = "hyperpod-cluster"
#: a plan that ends sooner than a node needs to come and do something is told
SHORT_SECONDS = 2 * 3600.0


@dataclass(frozen=True)
class Capacity:
    """One reserved capacity of a plan: so many of a type in one zone."""

    instance_type: str
    total: int
    zone: str
    zone_id: str | None
    status: str | None


@dataclass(frozen=True)
class TrainingPlan:
    """A training plan as DescribeTrainingPlan tells it. ``available`` is of the whole plan: no API tells it by zone."""

    arn: str
    name: str
    status: str
    status_message: str | None
    total: int
    available: int
    in_use: int
    starts_at: dt.datetime | None
    ends_at: dt.datetime | None
    duration_hours: int | None
    targets: tuple[str, ...]
    capacities: tuple[Capacity, ...]
    upfront_fee: str | None
    currency: str | None

    @property
    def instance_types(self) -> tuple[str, ...]:
        """The types it holds."""
        return tuple(sorted({c.instance_type for c in self.capacities}))

    def zones(self, instance_type: str | None = None) -> tuple[Capacity, ...]:
        """The capacities of a type, those that are usable first."""
        mine = [c for c in self.capacities if instance_type in (None, c.instance_type)]
        return tuple(sorted(mine, key=lambda c: (c.status not in USABLE, c.zone)))


def find(aws: Aws, name_or_arn: str) -> TrainingPlan | None:
    """A plan by name or ARN, or None when this account has none of that name in this region."""
    try:
        return read(aws.read("sagemaker", "describe_training_plan", TrainingPlanName=name_or_arn))
    except problems.NotFound:
        return None
    except problems.Invalid:  # an ARN of another account or region
        return None


def read(told: Mapping[str, Any]) -> TrainingPlan:
    """A plan of DescribeTrainingPlan or ListTrainingPlans."""
    capacities = tuple(
        Capacity(
            instance_type=str(c.get("InstanceType") or c.get("UltraServerType") or "unknown"),
            total=int(c.get("TotalInstanceCount", 0)),
            zone=str(c.get("AvailabilityZone") or ""),
            zone_id=c.get("AvailabilityZoneId"),
            status=c.get("Status"),
        )
        for c in told.get("ReservedCapacitySummaries", ())
    )
    return TrainingPlan(
        arn=str(told["TrainingPlanArn"]),
        name=str(told["TrainingPlanName"]),
        status=str(told["Status"]),
        status_message=told.get("StatusMessage"),
        total=int(told.get("TotalInstanceCount", 0)),
        available=int(told.get("AvailableInstanceCount", 0)),
        in_use=int(told.get("InUseInstanceCount", 0)),
        starts_at=told.get("StartTime"),
        ends_at=told.get("EndTime"),
        duration_hours=told.get("DurationHours"),
        targets=tuple(told.get("TargetResources", ())),
        capacities=capacities,
        upfront_fee=told.get("UpfrontFee"),
        currency=told.get("CurrencyCode"),
    )


def findings(plan: TrainingPlan, instance_type: str, count: int, now: dt.datetime) -> list[Finding]:
    """Everything about a plan that matters to ``count`` more nodes of a type; zones are checked apart. Pure."""
    at = "training_plan_arn"
    found: list[Finding] = []
    ended = plan.ends_at is not None and plan.ends_at <= now
    if plan.status not in USABLE or ended:
        told = f"ended at {when(plan.ends_at)}" if ended else f"is {plan.status}"
        found.append(Finding(at, "fail", f"The training plan {plan.name} {told}.", "Choose a plan that is Active or Scheduled."))
    if plan.targets and HYPERPOD not in plan.targets:
        found.append(Finding(at, "fail", f"The training plan {plan.name} is for {', '.join(plan.targets)}, not for HyperPod clusters."))
    if plan.capacities and instance_type not in plan.instance_types:
        have = ", ".join(plan.instance_types)
        found.append(Finding("instance_type", "fail", f"The training plan {plan.name} holds {have}, not {instance_type}."))
    if count > plan.available:
        left = f"The training plan {plan.name} has {plan.available} of {plan.total} instances left; {count} are asked."
        found.append(Finding("instance_count", "fail", left, "Ask for fewer, or scale down another group on this plan first."))
    return found or [_outlook(plan, now)]


def _outlook(plan: TrainingPlan, now: dt.datetime) -> Finding:
    at, ends = "training_plan_arn", when(plan.ends_at)
    if plan.status == "Scheduled":
        return Finding(
            at, "warn", f"The training plan {plan.name} starts at {when(plan.starts_at)}; no node arrives before. It ends at {ends}."
        )
    left = (plan.ends_at - now).total_seconds() if plan.ends_at else None
    if left is not None and left < SHORT_SECONDS:
        return Finding(at, "warn", f"The training plan {plan.name} ends in {left / 60:.0f} minutes, at {ends}; nodes are taken away then.")
    return Finding(at, "ok", f"The training plan {plan.name} is active until {ends}; nodes are taken away then.")


def when(moment: dt.datetime | None) -> str:
    """A moment for a person, in UTC."""
    return moment.astimezone(dt.UTC).strftime("%Y-%m-%d %H:%M UTC") if moment else "an unknown time"
