"""What may be asked of training plans. Every description is read by a person in the console and by a model through MCP."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from instantstart.base import patterns
from instantstart.capabilities.vocabulary import Ask, Region


class BuyTrainingPlan(Ask):
    """Ask for a purchase: the whole fee is due at once, and nothing of it can be taken back."""

    name: Annotated[
        str, Field(min_length=1, max_length=64, pattern=patterns.TRAINING_PLAN_NAME, description="Name of the new plan.", examples=["june"])
    ]
    offering_id: Annotated[
        str,
        Field(min_length=1, max_length=256, pattern=patterns.OFFERING_ID, description="The offering, as the search for offerings told it."),
    ]
    instance_type: Annotated[str, Field(pattern=patterns.INSTANCE_TYPE, description="The type of that offering: it is looked up again.")]
    instance_count: Annotated[int, Field(ge=1, le=256, description="The count of that offering.")]
    upfront_fee: Annotated[
        str,
        Field(max_length=32, pattern=patterns.AMOUNT, description="The fee you saw. Another fee by now is a conflict, nothing is bought."),
    ]
    region: Region | None = None


class BuyTarget(BaseModel):
    """training_plan.buy with its place; ``starts_at`` and ``ends_at`` are the window that was approved."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    region: str
    name: str
    offering_id: str
    instance_type: str
    instance_count: int
    upfront_fee: str
    currency: str
    window: str


def subject(target: BuyTarget) -> str:
    """One purchase at a time for each name."""
    return f"training-plan/{target.region}/{target.name}"
