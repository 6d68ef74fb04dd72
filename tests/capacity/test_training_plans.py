"""Training plans: what is reserved and offered, a purchase that is sent once, and groups that hang on a plan."""

from __future__ import annotations

from typing import Any

import pytest
from tests.capacity.doors import GROUPS, Door, counted, workflow
from tests.clusters.conftest import Job
from tests.clusters.crank import Crank, Turned
from tests.clusters.worlds import SandboxProcess

GPU = "ml.p5.48xlarge"


def offered(door: Door, count: int = 4) -> dict[str, Any]:
    """The first offering."""
    found: dict[str, Any] = door.get("/training-plan-offerings", instance_type=GPU, instance_count=count, duration_hours=72)["items"][0]
    return found


def wish(offering: dict[str, Any], name: str, **more: Any) -> dict[str, Any]:
    """The purchase of an offering."""
    copied = {key: offering[key] for key in ("offering_id", "instance_type", "instance_count", "upfront_fee")}
    return {"name": name, **copied, **more}


def bought(crank: Crank, offering: dict[str, Any], name: str) -> Turned:
    """The purchase, turned by hand."""
    asked = wish(offering, name, region="us-west-2", currency="USD", window="as shown")
    declared = workflow("training_plan.buy")
    return crank.run(declared, declared.spec(**asked))


@pytest.fixture(scope="module")
def plan(standing: Job, door: Door, shared_sandbox: SandboxProcess) -> dict[str, Any]:
    """A plan of four that is active."""
    done = bought(standing.crank, offered(door), "block")
    assert done.status == "succeeded", done.problem
    shared_sandbox.warp(30 * 3600)
    told: dict[str, Any] = door.get("/training-plans/block")
    assert (told["status"], told["total"], told["available"]) == ("Active", 4, 4)
    return told


def test_a_purchase_shows_its_price_and_needs_the_approval_of_that_plan(
    standing: Job, door: Door, crank: Crank, shared_sandbox: SandboxProcess
) -> None:
    body = wish(offered(door, 1), "june")
    with counted(shared_sandbox, "CreateTrainingPlan") as sent:
        told = door.well(200, "POST", "/training-plans", body, dry_run=True)
        assert f"{body['upfront_fee']} USD are charged at once" in told["warnings"][0]
        assert told["approval"]
        assert door.refusal(409, "POST", "/training-plans", body)["code"] == "approval.missing"
        other = door.refusal(409, "POST", "/training-plans", body | {"name": "july"}, approval=told["approval"])
        assert other["code"] == "approval.missing"
    assert sent == []
    begun = door.well(202, "POST", "/training-plans", body, approval=told["approval"])
    assert begun["workflow"] == "training_plan.buy"
    door.call("POST", f"/operations/{begun['id']}:cancel")
    assert door.refusal(409, "POST", "/training-plans", body, approval=told["approval"])["code"] in (
        "approval.missing",
        "training_plan.name_taken",
    )


def test_another_fee_than_was_seen_buys_nothing(standing: Job, door: Door, crank: Crank) -> None:
    told = door.refusal(409, "POST", "/training-plans", wish(offered(door), "dear", upfront_fee="1.00"), dry_run=True)
    assert told["code"] == "training_plan.offering_differs"
    assert [f["pointer"] for f in told["fields"]] == ["/upfront_fee"]
    gone = door.refusal(409, "POST", "/training-plans", wish(offered(door), "gone", offering_id="tpo-none"), dry_run=True)
    assert gone["code"] == "training_plan.offering_gone"


def test_a_lost_answer_is_looked_for_and_never_bought_again(
    standing: Job, door: Door, crank: Crank, shared_sandbox: SandboxProcess
) -> None:
    shared_sandbox.fault("sagemaker:CreateTrainingPlan", when="after")
    with counted(shared_sandbox, "CreateTrainingPlan") as sent:
        done = bought(crank, offered(door, 1), "lost")
    assert done.status == "succeeded", done.problem
    assert len(sent) == 1


def test_a_purchase_in_doubt_blocks_and_no_retry_buys(standing: Job, door: Door, crank: Crank, shared_sandbox: SandboxProcess) -> None:
    shared_sandbox.fault("sagemaker:CreateTrainingPlan", code="InternalFailure", status=500, message="no answer")
    offering = offered(door, 1)
    stuck = bought(crank, offering, "doubt")
    assert (stuck.status, stuck.problem and stuck.problem.code) == ("blocked", "training_plan.purchase_unknown")
    with counted(shared_sandbox, "CreateTrainingPlan") as sent:
        again = crank.retry(stuck)
    assert (again.status, sent) == ("blocked", [])
    shared_sandbox.client("sagemaker").create_training_plan(TrainingPlanName="doubt", TrainingPlanOfferingId=offering["offering_id"])
    assert crank.retry(again).status == "succeeded", "it is there after all, and found"


def test_a_name_that_is_taken_buys_nothing(plan: dict[str, Any], door: Door, crank: Crank, shared_sandbox: SandboxProcess) -> None:
    with counted(shared_sandbox, "CreateTrainingPlan") as sent:
        refused = bought(crank, offered(door, 1), "block")
    assert (refused.status, refused.problem and refused.problem.code) == ("failed", "training_plan.name_taken")
    assert sent == []


def planned(plan: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A group on the plan."""
    body = {"name": "planned", "instance_type": GPU, "instance_count": 2, "capacity_type": "training_plan"}
    return body | {"training_plan_arn": plan["arn"]} | more


def failing(door: Door, body: dict[str, Any]) -> dict[str, str]:
    """What of a request's plan fails: check -> sentence."""
    told = door.well(200, "POST", GROUPS, body, dry_run=True)
    return {f["check"]: f["detail"] for f in told["findings"] if f["level"] == "fail"}


def test_a_plan_that_does_not_fit_is_told_with_every_reason(plan: dict[str, Any], door: Door, crank: Crank) -> None:
    zone = plan["capacities"][0]["zone"]
    elsewhere = "us-west-2b" if zone != "us-west-2b" else "us-west-2a"
    told = failing(door, planned(plan, zone=elsewhere, instance_type="ml.p4d.24xlarge", instance_count=9))
    assert set(told) >= {"instance_type", "instance_count"}
    assert "holds ml.p5.48xlarge" in told["instance_type"]
    assert "has 4 of 4 instances left; 9 are asked" in told["instance_count"]
    contradiction = failing(door, planned(plan, zone=elsewhere))
    assert zone in contradiction["zone"]
    assert failing(door, planned(plan, capacity_type="spot")).keys() == {"capacity_type"}
    strange = plan["arn"].replace(":training-plan/", ":training-plan/other-")
    assert "not in this account" in failing(door, planned(plan, training_plan_arn=strange, zone=zone))["training_plan_arn"]


def test_a_group_takes_its_zone_from_the_plan_and_shows_its_end(
    plan: dict[str, Any], standing: Job, door: Door, crank: Crank, shared_sandbox: SandboxProcess
) -> None:
    declared = workflow("instance_group.add")
    done = crank.run(declared, declared.spec(tag="standing", region="us-west-2", **planned(plan)))
    assert done.status == "succeeded", done.problem
    seen = door.get(f"{GROUPS}/planned")["group"]
    assert seen["zones"] == [f"{c['zone']} ({c['zone_id']})" for c in plan["capacities"]]
    assert seen["training_plan"]["ends_at"] == plan["ends_at"]
    assert door.get("/training-plans/block")["available"] == 2
    standing.site.aws._kept.clear()
    more = door.refusal(422, "POST", f"{GROUPS}/planned/scale", {"instance_count": 6})
    assert "has 2 of 4 instances left; 4 are asked" in more["detail"]
    assert failing(door, planned(plan, name="second", instance_count=3)).keys() == {"instance_count"}, "two groups share one plan"


def test_a_plan_that_ends_soon_warns_and_one_that_ended_is_refused(
    plan: dict[str, Any], standing: Job, door: Door, crank: Crank, shared_sandbox: SandboxProcess
) -> None:
    shared_sandbox.warp(71 * 3600 - 29 * 3600)
    shared_sandbox.warp(40 * 3600)
    standing.site.aws._kept.clear()
    told = failing(door, planned(plan, name="late", instance_count=1))
    assert "training_plan_arn" in told
