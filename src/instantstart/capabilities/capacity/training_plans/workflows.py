"""What can be done with training plans: buy one. Declarations only."""

from __future__ import annotations

from instantstart.base.clock import minutes
from instantstart.capabilities.capacity.training_plans import specs, stages
from instantstart.operations.declare import Stage, Workflow

BUY_TRAINING_PLAN = Workflow(
    "training_plan.buy",
    "Buy a training plan",
    specs.BuyTarget,
    specs.subject,
    (
        Stage("baseline", stages.baseline, "See that no plan bears the name", within=minutes(30), typical=3),
        Stage("buy", stages.buy, "Send the purchase, once", within=minutes(30), typical=3),
        Stage("settled", stages.settle, "See the capacity reserved", within=minutes(60), typical=60),
    ),
    destructive=True,
)

WORKFLOWS = (BUY_TRAINING_PLAN,)
