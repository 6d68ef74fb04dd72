"""What the product asks of AWS for instance groups and training plans: every workflow, plan and read of both slices, once."""

from __future__ import annotations

from typing import Any, Protocol

from instantstart.capabilities.capacity.groups import plans, specs, views, workflows
from instantstart.capabilities.capacity.training_plans import rules
from instantstart.capabilities.capacity.training_plans import specs as plan_specs
from instantstart.capabilities.capacity.training_plans import views as plan_views
from instantstart.capabilities.capacity.training_plans import workflows as plan_workflows
from instantstart.capabilities.room import Room
from instantstart.ensure.sites import Site

CPU, GPU = "ml.m5.2xlarge", "ml.p5.48xlarge"


class Runs(Protocol):
    """What of ``Everything`` is needed here."""

    room: Room
    region: str
    zones: list[str]

    @property
    def site(self) -> Site:
        """Where the cluster lives."""

    def run(self, workflow: Any, kind: Any, **asked: Any) -> Any:
        """One workflow to its end."""

    def act(self, workflow: Any, target: Any) -> Any:
        """The same for a target that has no cluster."""

    def tell(self, *answers: Any) -> None:
        """Remember answers."""


def instance_groups(run: Runs) -> None:
    """A group with a subnet of its own, seen, changed, scaled both ways, deleted; its plans."""
    room, where = run.room, run.site
    ask = specs.AddInstanceGroup(name="more", instance_type=CPU, instance_count=1, zone=run.zones[0], subnet="dedicated")
    run.tell(plans.add(room, where, ask))
    run.run(workflows.ADD_INSTANCE_GROUP, specs.AddTarget, **ask.model_dump())
    run.tell(views.list_groups(room, where), views.get_group(room, where, "more"))
    run.tell(plans.update(room, where, "more", specs.UpdateInstanceGroup(labels={"a": "b"})))
    run.run(workflows.UPDATE_INSTANCE_GROUP, specs.UpdateTarget, group="more", labels={"a": "b"})
    for count in (2, 1):
        run.tell(plans.scale(room, where, "more", specs.ScaleInstanceGroup(instance_count=count)))
        run.run(workflows.SCALE_INSTANCE_GROUP, specs.ScaleTarget, group="more", instance_count=count)
    run.tell(plans.delete(room, where, "more", 0))
    run.run(workflows.DELETE_INSTANCE_GROUP, specs.DeleteTarget, group="more", drain_minutes=0)


def training_plans(run: Runs) -> None:
    """An offering found and bought, and the plan read."""
    aws = run.room.aws.region(run.region)
    found = plan_views.list_offerings(aws, rules.Search(GPU, 1)).items
    run.tell(found)
    if not found:  # a region without the type
        return
    fields = {"offering_id": found[0].offering_id, "instance_type": GPU, "instance_count": 1}
    target = plan_specs.BuyTarget(region=run.region, name="block", upfront_fee="1.00", currency="USD", window="any", **fields)
    run.tell(plan_views.list_plans(aws))
    run.act(plan_workflows.BUY_TRAINING_PLAN, target)
    run.tell(plan_views.get_plan(aws, "block"))
