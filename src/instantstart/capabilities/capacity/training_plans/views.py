"""What can be read of training plans: those of the account, and what is offered, with price and window."""

from __future__ import annotations

from dataclasses import dataclass

from instantstart.aws.session import Aws
from instantstart.base import problems
from instantstart.capabilities.capacity.training_plans import rules
from instantstart.ensure.capacity import plans


@dataclass(frozen=True)
class TrainingPlanList:
    """The training plans of a region, newest first."""

    region: str
    items: tuple[plans.TrainingPlan, ...]


@dataclass(frozen=True)
class OfferingList:
    """What is offered now. The API keeps an offering for some minutes only: buy from a fresh list."""

    region: str
    items: tuple[rules.Offering, ...]


def list_plans(aws: Aws) -> TrainingPlanList:
    """Every plan of the account in a region."""
    found = aws.pages("sagemaker", "list_training_plans", "TrainingPlanSummaries", SortBy="StartTime", SortOrder="Descending")
    return TrainingPlanList(aws.region, tuple(plans.read(told) for told in found))


def get_plan(aws: Aws, name: str) -> plans.TrainingPlan:
    """One plan by name or ARN. Raises NotFound."""
    found = plans.find(aws, name)
    if found is None:
        raise problems.NotFound(
            "training_plan.unknown", f"There is no training plan {name} in this account, in {aws.region}.", hint="List the training plans."
        )
    return found


def list_offerings(aws: Aws, wanted: rules.Search) -> OfferingList:
    """What is offered for HyperPod now. Raises Invalid for a window that ends before it begins."""
    return OfferingList(aws.region, rules.search(aws, wanted))
