"""Training plans: offerings, purchase, and their life (facts A2)."""

from __future__ import annotations

import datetime as dt
import hashlib
import secrets
from typing import TYPE_CHECKING, Any

from instantstart_sandbox.gateway.errors import AwsError
from instantstart_sandbox.services import lookups
from instantstart_sandbox.services.hyperpod import received
from instantstart_sandbox.services.hyperpod.plan_state import in_use, plans
from instantstart_sandbox.services.hyperpod.provision import retire
from instantstart_sandbox.services.hyperpod.state import clusters, invalid, nudge
from instantstart_sandbox.services.paging import page

if TYPE_CHECKING:
    from instantstart_sandbox.gateway.registry import Context
    from instantstart_sandbox.world.state import World

#: dollars an hour and instance: invented, round, and in the right order of magnitude
_PRICE = {"ml.p4d.24xlarge": 12, "ml.p5.4xlarge": 5, "ml.p5.48xlarge": 35, "ml.trn1.32xlarge": 10}
_PRICE_OTHER = 45
#: capacity blocks begin at a fixed hour of the day, from tomorrow on
_START_HOUR = 11
_PENDING_SECONDS = 30.0
_ANY_HOURS = (24, 48, 72, 168)


def search_training_plan_offerings(ctx: Context, **params: Any) -> dict[str, Any]:
    """SearchTrainingPlanOfferings: one offering for each zone that has the type in capacity, and each length that fits."""
    instance_type, count = params.get("InstanceType"), params.get("InstanceCount") or 1
    if params.get("UltraServerType") or params.get("TrainingPlanArn"):
        return {"TrainingPlanOfferings": [], "TrainingPlanExtensionOfferings": []}
    if not instance_type:
        raise invalid("InstanceType or UltraServerType must be specified.")
    names = lookups.zones(ctx.world, ctx.region)
    offered = lookups.offered_zones(ctx.world, ctx.region, instance_type)
    zones = [z for z in sorted(names) if z in offered and ctx.world.capacity.left(instance_type, z) >= count]
    lengths = [params["DurationHours"]] if params.get("DurationHours") else list(_ANY_HOURS)
    start = max(params.get("StartTimeAfter") or ctx.clock.utc(), ctx.clock.utc())
    found = [_offering(ctx, params, zone, hours, _next_start(start)) for zone in zones for hours in lengths]
    latest = params.get("EndTimeBefore")
    fitting = [o for o in found if not latest or o["ReservedCapacityOfferings"][0]["EndTime"] <= latest]
    for offering in fitting:
        ctx.world.section("hyperpod").setdefault("offerings", {})[offering["TrainingPlanOfferingId"]] = offering
    return {"TrainingPlanOfferings": fitting}


def _next_start(after: dt.datetime) -> dt.datetime:
    day = after.replace(hour=_START_HOUR, minute=30, second=0, microsecond=0)
    return day if day > after else day + dt.timedelta(days=1)


def _offering(ctx: Context, params: dict[str, Any], zone: str, hours: int, start: dt.datetime) -> dict[str, Any]:
    instance_type, count = params["InstanceType"], params.get("InstanceCount") or 1
    fee = _PRICE.get(instance_type, _PRICE_OTHER) * hours * count
    capacity = {
        "ReservedCapacityType": "Instance",
        "InstanceType": instance_type,
        "InstanceCount": count,
        "AvailabilityZone": zone,
        "DurationHours": hours,
        "DurationMinutes": 0,
        "StartTime": start,
        "EndTime": start + dt.timedelta(hours=hours),
    }
    return {
        "TrainingPlanOfferingId": f"tpo-{_offering_digest(capacity)}",
        "TargetResources": params.get("TargetResources") or ["hyperpod-cluster"],
        "DurationHours": hours,
        "DurationMinutes": 0,
        "UpfrontFee": f"{fee:.2f}",
        "CurrencyCode": "USD",
        "ReservedCapacityOfferings": [capacity],
    }


def _offering_digest(capacity: dict[str, Any]) -> str:
    """The same capacity in the same window is the same offering, however often it is searched for."""
    return hashlib.sha256(repr(sorted(capacity.items())).encode()).hexdigest()[:16]


def create_training_plan(ctx: Context, **params: Any) -> dict[str, Any]:
    """CreateTrainingPlan: a purchase. It takes no token: the name is what keeps a repetition from buying twice."""
    received.record(ctx, "CreateTrainingPlan", params)
    name, offering_id = params["TrainingPlanName"], params["TrainingPlanOfferingId"]
    offering = ctx.world.section("hyperpod").setdefault("offerings", {}).get(offering_id)
    if offering is None:
        raise AwsError("ResourceNotFound", f"Training plan offering {offering_id} does not exist or has expired.")
    arn = ctx.arn("sagemaker", f"training-plan/{name}")
    if arn in plans(ctx.world):
        raise AwsError("ResourceInUse", f"Training plan {name} already exists.")
    capacity = offering["ReservedCapacityOfferings"][0]
    if not ctx.world.capacity.take(capacity["InstanceType"], capacity["AvailabilityZone"], capacity["InstanceCount"]):
        raise AwsError("ResourceLimitExceeded", f"The capacity of offering {offering_id} is no longer available.")
    plans(ctx.world)[arn] = {"view": _plan(ctx, arn, name, offering), "tags": list(params.get("Tags") or [])}
    now = ctx.clock.now()
    ctx.clock.after(_PENDING_SECONDS, "hyperpod.plan", arn=arn, status="Scheduled")
    ctx.clock.after(max(capacity["StartTime"].timestamp() - now, _PENDING_SECONDS), "hyperpod.plan", arn=arn, status="Active")
    ctx.clock.after(capacity["EndTime"].timestamp() - now, "hyperpod.plan", arn=arn, status="Expired")
    return {"TrainingPlanArn": arn}


def _plan(ctx: Context, arn: str, name: str, offering: dict[str, Any]) -> dict[str, Any]:
    capacity = offering["ReservedCapacityOfferings"][0]
    summary = {k: v for k, v in capacity.items() if k != "InstanceCount"}
    summary |= {
        "ReservedCapacityArn": ctx.arn("sagemaker", f"reserved-capacity/{name}-{secrets.token_hex(4)}"),
        "TotalInstanceCount": capacity["InstanceCount"],
        "Status": "Pending",
        "AvailabilityZoneId": lookups.zones(ctx.world, ctx.region)[capacity["AvailabilityZone"]],
    }
    view = {"TrainingPlanArn": arn, "TrainingPlanName": name, "Status": "Pending", "TotalInstanceCount": capacity["InstanceCount"]}
    view |= {k: offering[k] for k in ("TargetResources", "DurationHours", "DurationMinutes", "UpfrontFee", "CurrencyCode")}
    return view | {"StartTime": capacity["StartTime"], "EndTime": capacity["EndTime"], "ReservedCapacitySummaries": [summary]}


def change_status(world: World, arn: str, status: str) -> None:
    """A plan begins or ends. At its end the nodes are taken away; the groups' targets stay."""
    plan = plans(world).get(arn)
    if plan is None:
        return
    plan["view"]["Status"] = status
    for summary in plan["view"]["ReservedCapacitySummaries"]:
        summary["Status"] = status
        if status == "Expired":
            world.capacity.give_back(summary["InstanceType"], summary["AvailabilityZone"], summary["TotalInstanceCount"])
    if status == "Expired":
        _take_nodes(world, arn)
    world.changed()


def _take_nodes(world: World, arn: str) -> None:
    for cluster in clusters(world).values():
        for node in list(cluster["nodes"].values()):
            if cluster["groups"][node["group"]]["spec"].get("TrainingPlanArn") == arn:
                retire(world, cluster, node)
        nudge(world, cluster)


def _shown(world: World, view: dict[str, Any]) -> dict[str, Any]:
    used = min(in_use(world, view["TrainingPlanArn"]), view["TotalInstanceCount"])
    return view | {"InUseInstanceCount": used, "AvailableInstanceCount": view["TotalInstanceCount"] - used}


def describe_training_plan(ctx: Context, **params: Any) -> dict[str, Any]:
    """DescribeTrainingPlan, by name or ARN."""
    name = params["TrainingPlanName"]
    arn = name if name.startswith("arn:") else ctx.arn("sagemaker", f"training-plan/{name}")
    plan = plans(ctx.world).get(arn)
    if plan is None:
        raise AwsError("ResourceNotFound", f"Training plan {name} does not exist.")
    return _shown(ctx.world, plan["view"]) | {"UnhealthyInstanceCount": 0, "AvailableSpareInstanceCount": 0}


def list_training_plans(ctx: Context, **params: Any) -> dict[str, Any]:
    """ListTrainingPlans, newest first unless asked otherwise."""
    prefix = ctx.arn("sagemaker", "training-plan/")
    found = [_shown(ctx.world, p["view"]) for arn, p in plans(ctx.world).items() if arn.startswith(prefix)]
    found = [v for v in found if _wanted(v, params)]
    found.sort(key=lambda v: v[params.get("SortBy") or "StartTime"], reverse=params.get("SortOrder") != "Ascending")
    some, token = page(found, params.get("NextToken"), params.get("MaxResults"))
    return {"TrainingPlanSummaries": some} | ({"NextToken": token} if token else {})


def _wanted(view: dict[str, Any], params: dict[str, Any]) -> bool:
    after, before = params.get("StartTimeAfter"), params.get("StartTimeBefore")
    statuses = {f["Value"] for f in params.get("Filters") or []}
    inside = not (after and view["StartTime"] <= after) and not (before and view["StartTime"] >= before)
    return inside and (not statuses or view["Status"] in statuses)


OPERATIONS = {
    "SearchTrainingPlanOfferings": search_training_plan_offerings,
    "CreateTrainingPlan": create_training_plan,
    "DescribeTrainingPlan": describe_training_plan,
    "ListTrainingPlans": list_training_plans,
}
TIMERS = {"hyperpod.plan": change_status}
