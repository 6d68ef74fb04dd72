"""What a purchase would do before it does it: the price, the window and the zone that are approved."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from instantstart.base import problems
from instantstart.capabilities.capacity.training_plans import rules, specs
from instantstart.capabilities.planning import Plan
from instantstart.capabilities.room import Room
from instantstart.ensure.capacity import plans


@dataclass(frozen=True)
class Purchase:
    """A purchase thought through. ``exact`` is what its approval is for: name, offering, price and window."""

    plan: Plan
    target: specs.BuyTarget
    exact: str


def buy(room: Room, ask: specs.BuyTrainingPlan) -> Purchase:
    """The purchase of an offering. Raises Conflict when the offering is gone, its fee is another, or the name is taken."""
    aws = room.aws.region(ask.region)
    offering = rules.find_offering(aws, ask.offering_id, rules.Search(ask.instance_type, ask.instance_count))
    _check_offering(ask, offering)
    have = plans.find(aws, ask.name)
    if have is not None:
        told = f"There is a training plan {ask.name} already ({have.status})."
        raise problems.Conflict("training_plan.name_taken", told, hint="Choose another name.", evidence={"training_plan_arn": have.arn})
    target = specs.BuyTarget(
        region=aws.region,
        name=ask.name,
        offering_id=ask.offering_id,
        instance_type=offering.instance_type,
        instance_count=offering.instance_count,
        upfront_fee=str(offering.upfront_fee),
        currency=offering.currency or "",
        window=offering.window,
    )
    price = f"{offering.upfront_fee} {offering.currency}"
    plan = Plan(
        make=(
            f"in account {aws.identity().account}, region {aws.region}:",
            f"training plan {ask.name}: {offering.instance_count} x {offering.instance_type} in {', '.join(offering.zones)}",
            f"from {offering.window}",
        ),
        warnings=(f"This is a purchase: {price} are charged at once, and it cannot be cancelled.",),
    )
    return Purchase(plan, target, f"training_plan.buy {aws.region} {ask.name} {ask.offering_id} {price} {offering.window}")


def _check_offering(ask: specs.BuyTrainingPlan, offering: rules.Offering) -> None:
    wrong = []
    if _amount(offering.upfront_fee) != _amount(ask.upfront_fee):
        wrong.append(problems.Violation("/upfront_fee", f"The fee is {offering.upfront_fee} {offering.currency}, not {ask.upfront_fee}."))
    if offering.instance_type != ask.instance_type:
        wrong.append(problems.Violation("/instance_type", f"The offering is of {offering.instance_type}."))
    if offering.instance_count != ask.instance_count:
        wrong.append(problems.Violation("/instance_count", f"The offering is of {offering.instance_count} instances."))
    if wrong:
        told = " ".join(v.message for v in wrong)
        raise problems.Conflict(
            "training_plan.offering_differs", f"{told} Nothing was bought.", fields=wrong, hint="Search the offerings again."
        )


def _amount(text: str | None) -> Decimal | str | None:
    """A fee as a number, so that 10 and 10.00 are one; a text that is none stays as it is (no API page says how fees are written)."""
    try:
        return Decimal(text) if text is not None else None
    except InvalidOperation:
        return text
