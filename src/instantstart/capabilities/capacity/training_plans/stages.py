"""The stages of a purchase. CreateTrainingPlan takes no client token and cannot be undone: it is sent once, and never repeated.

First the baseline: no plan bears the name. Then the one call. When its answer is lost, the next look finds the plan or does not;
a plan of our name and our tag is the purchase, and "not there" is never taken for "not bought".
"""

from __future__ import annotations

from instantstart.base import names, problems
from instantstart.base.outcome import Done, Outcome, Wait
from instantstart.capabilities.room import Room
from instantstart.ensure.capacity import plans
from instantstart.operations.declare import Run
from instantstart.store.records import Repeat

#: how long a plan whose purchase was not answered may stay out of the lists before a person has to look
_LOOK_SECONDS = 300.0


def baseline(room: Room, run: Run) -> Outcome:
    """No plan bears the name: what is there afterwards is this purchase. Raises Conflict otherwise."""
    have = plans.find(room.aws.region(run.spec.region), run.spec.name)
    if have is not None:
        raise problems.Conflict(
            "training_plan.name_taken",
            f"There is a training plan {run.spec.name} already ({have.status}); nothing was bought.",
            hint="Choose another name.",
            evidence={"training_plan_arn": have.arn},
        )
    return Done({"absent": True})


def buy(room: Room, run: Run) -> Outcome:
    """Send the purchase, once in the life of the operation; every later look searches for what it bought.

    No name and no tag of AWS's tells "sent" from "not sent", so the mark stands in our own database, written before the call.
    """
    aws, spec = room.aws.region(run.spec.region), run.spec
    have = plans.find(aws, spec.name)
    if have is not None:
        return Done({"training_plan_arn": have.arn})
    key = f"purchase/{run.id}"
    if room.store.operations.find_repeat(key, run.caller) is not None:
        return _look_on(run)
    room.store.operations.add_repeat(key, run.caller, Repeat(run.id, {"operation_id": run.id}))
    tags = [{"Key": names.OPERATION_TAG, "Value": run.id}]
    try:
        made = aws.write(
            "sagemaker", "create_training_plan", TrainingPlanName=spec.name, TrainingPlanOfferingId=spec.offering_id, Tags=tags
        )
    except problems.Busy as problem:
        if problem.code == "aws.throttled":
            raise problems.Conflict(
                "training_plan.not_taken",
                f"Nothing was bought: {problem.detail}",
                hint="Ask for the purchase anew.",
                evidence=problem.evidence,
            ) from problem
        return Wait(5, f"The purchase was sent and not answered ({problem.detail}); it is looked for, not repeated")
    except problems.Unreachable as problem:
        return Wait(5, f"The purchase was sent and not answered ({problem.detail}); it is looked for, not repeated")
    return Done({"training_plan_arn": made["TrainingPlanArn"]}, note=f"Bought for {spec.upfront_fee} {spec.currency}")


def _look_on(run: Run) -> Wait:
    if run.waited_seconds < _LOOK_SECONDS and run.attempt == 1:
        return Wait(15, f"The purchase was sent once; the plan {run.spec.name} is looked for")
    raise problems.Blocked(
        "training_plan.purchase_unknown",
        f"The purchase of {run.spec.name} was sent and its answer was lost; no plan of that name can be found.",
        hint="Look at the training plans and the bill in the AWS console. If it is there, retry: it is found. If not, cancel and buy anew.",
        evidence={"offering_id": run.spec.offering_id, "upfront_fee": run.spec.upfront_fee},
    )


def settle(room: Room, run: Run) -> Outcome:
    """See the plan scheduled or active: only then is the capacity reserved."""
    found = plans.find(room.aws.region(run.spec.region), run.learned["buy"]["training_plan_arn"])
    if found is None:
        return Wait(5, f"SageMaker does not show the plan {run.spec.name} yet")
    if found.status in plans.USABLE:
        zones = sorted({c.zone_id or c.zone for c in found.capacities})
        window = {"starts_at": plans.when(found.starts_at), "ends_at": plans.when(found.ends_at)}
        return Done({"training_plan_arn": found.arn, "status": found.status, "zones": zones, **window})
    if found.status in ("Failed", "Expired"):
        raise problems.Conflict(
            "training_plan.failed",
            f"The training plan {found.name} is {found.status}: {found.status_message or 'no reason told'}",
            hint="Look at the bill; AWS support can tell what was charged. Buy another offering under another name.",
            evidence={"training_plan_arn": found.arn},
        )
    return Wait(10, f"The training plan is {found.status}")
