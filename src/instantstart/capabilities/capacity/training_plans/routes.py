"""The door of training plans. A body has at most five statements."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Response

from instantstart.base import patterns
from instantstart.capabilities.capacity.training_plans import plans, rules, specs, views
from instantstart.capabilities.doors import (
    Admin,
    DryRun,
    IdempotencyKey,
    RoomDep,
    Viewer,
    Wish,
    approve,
    begin_approved,
    promise,
)  # fmt: skip
from instantstart.capabilities.planning import Plan
from instantstart.ensure.capacity.plans import TrainingPlan
from instantstart.operations.record import Operation

router = APIRouter(tags=["capacity"])

RegionQuery = Annotated[str | None, Query(pattern=patterns.REGION, description="AWS region; left out: the server's own.")]
PlanPath = Annotated[str, Path(max_length=64, pattern=patterns.TRAINING_PLAN_NAME, description="Name of the training plan.")]
Moment = Annotated[dt.datetime | None, Query(description="A moment, as 2026-06-01T00:00:00Z.")]


@router.get("/training-plans", operation_id="training_plan_list", summary="List training plans")
def list_plans(room: RoomDep, _caller: Viewer, region: RegionQuery = None) -> views.TrainingPlanList:
    """Every training plan with status, window, type, zone, and how many instances are left."""
    return views.list_plans(room.aws.region(region))


@router.get("/training-plans/{plan}", operation_id="training_plan_get", summary="Get one training plan")
def get_plan(room: RoomDep, _caller: Viewer, plan: PlanPath, region: RegionQuery = None) -> TrainingPlan:
    """One training plan."""
    return views.get_plan(room.aws.region(region), plan)


@router.get("/training-plan-offerings", operation_id="training_plan_offerings", summary="Search what is offered")
def list_offerings(
    room: RoomDep, _caller: Viewer,
    instance_type: Annotated[str, Query(pattern=patterns.INSTANCE_TYPE, description="SageMaker instance type.")],
    instance_count: Annotated[int, Query(ge=1, le=256, description="How many instances.")] = 1,
    duration_hours: Annotated[int | None, Query(ge=1, le=87600, description="How long, in hours.")] = None,
    starts_after: Moment = None, ends_before: Moment = None, region: RegionQuery = None,
) -> views.OfferingList:  # fmt: skip
    """Capacity that can be bought for HyperPod: zone, window and price. Changes nothing, buys nothing."""
    wanted = rules.Search(instance_type, instance_count, duration_hours, starts_after, ends_before)
    return views.list_offerings(room.aws.region(region), wanted)


@router.post(
    "/training-plans", operation_id="training_plan_buy", summary="Buy a training plan", status_code=202, response_model=Operation | Plan
)
def buy_plan(
    room: RoomDep, caller: Admin, ask: specs.BuyTrainingPlan, response: Response,
    approval: Annotated[str | None, Query(max_length=128, description="The approval that the plan (dry_run) gave.")] = None,
    key: IdempotencyKey = None, dry_run: DryRun = False,
) -> Any:  # fmt: skip
    """A purchase: the fee is charged at once and cannot be taken back. Ask for the plan first: it shows the price and carries the approval.

    It is sent once and never repeated. It takes an administrator: an agent can look and plan, and a person buys.
    """
    purchase = plans.buy(room, ask)
    if dry_run:
        return promise(response, approve(room, caller, purchase.exact, purchase.plan))
    return begin_approved(room, caller, response, Wish("training_plan.buy", purchase.target, key, purchase.exact, approval))
