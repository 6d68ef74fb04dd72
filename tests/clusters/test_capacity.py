"""Nodes that come late, in part, for Spot, from a training plan, or not at all: told as it is, with the way out."""

from __future__ import annotations

from typing import Any

import pytest
from tests.clusters.conftest import TYPE
from tests.clusters.crank import Crank
from tests.clusters.worlds import SandboxProcess

PLAN_TYPE = "ml.p5.48xlarge"


@pytest.fixture
def ready(job: Any) -> Any:
    """Everything before the HyperPod cluster is not of interest here."""
    return job


def test_a_partial_arrival_is_kept_and_shown_with_its_reason_and_other_zones(ready: Any, crank: Crank, sandbox: SandboxProcess) -> None:
    sandbox.admin("capacity", instance_type=TYPE, zone="us-west-2a", available=3)
    sandbox.admin("quota", service_code="sagemaker", name=f"{TYPE} for cluster usage", value=16)
    begun = ready.create(until="hyperpod", instance_count=8)
    assert begun.status == "cancelled", begun.problem
    late = crank.turn(begun, ticks=60)
    assert late.status == "running", late.problem
    told = late.sentences("nodes")
    assert "3/8 nodes Running" in told
    assert "capacity" in told
    assert "is also offered in us-west-2" in told
    assert "us-west-2a" not in told.partition("also offered in")[2].splitlines()[0]
    requests = [c for c in sandbox.calls() if c["operation"] in ("CreateCluster", "UpdateCluster") and c["service"] == "sagemaker"]
    assert len(requests) == 1, "no hot loop: the wish is asked once"
    sandbox.admin("capacity", instance_type=TYPE, zone="us-west-2a", available=16)
    done = crank.turn(late)
    assert done.status == "succeeded", done.problem
    assert done.result["nodes"]["ready"] == 8


@pytest.mark.slow
def test_capacity_that_never_comes_blocks_with_the_reason_after_the_deadline_and_keeps_what_arrived(
    ready: Any, crank: Crank, sandbox: SandboxProcess
) -> None:
    sandbox.admin("capacity", instance_type=TYPE, zone="us-west-2a", available=1)
    sandbox.admin("quota", service_code="sagemaker", name=f"{TYPE} for cluster usage", value=16)
    begun = ready.create(until="hyperpod", instance_count=2)
    crank.turn(begun, ticks=10)
    sandbox.warp(3 * 3600)
    begun.seconds += 3 * 3600
    stuck = crank.turn(begun)
    assert (stuck.status, stuck.stopped_at) == ("blocked", "nodes")
    assert stuck.problem is not None
    assert stuck.problem.code == "capacity.exhausted"
    assert f"no on-demand capacity of {TYPE} in us-west-2a (usw2-az2) for 3." in stuck.problem.detail
    assert "1/2 nodes run" in stuck.problem.detail
    hint = str(stuck.problem.hint)
    assert "Retry to go on waiting" in hint
    assert "another zone that offers the type: us-west-2" in hint
    assert "us-west-2a" not in hint
    assert "scale to 1, which run" in hint
    assert stuck.problem.evidence["other_types"], "types of the family that this account has quota for"
    cluster = sandbox.client("sagemaker").describe_cluster(ClusterName=ready.site.names.hyperpod_cluster)
    assert cluster["ClusterStatus"] == "InService"


def test_spot_nodes_are_asked_for_and_told_as_spot(ready: Any, sandbox: SandboxProcess) -> None:
    sandbox.admin("quota", service_code="sagemaker", name=f"{TYPE} for spot cluster usage", value=4)
    made = ready.create(capacity_type="spot")
    assert made.status == "succeeded", made.problem
    assert [n["capacity_type"] for n in made.result["nodes"]["items"]] == ["spot"]
    group = sandbox.client("sagemaker").describe_cluster(ClusterName=ready.site.names.hyperpod_cluster)["InstanceGroups"][0]
    assert group["CapacityRequirements"] == {"Spot": {}}


@pytest.mark.slow
def test_nodes_of_a_training_plan_arrive_in_its_zone_without_quota(ready: Any, sandbox: SandboxProcess) -> None:
    sagemaker = sandbox.client("sagemaker")
    sandbox.admin("quota", service_code="sagemaker", name=f"{PLAN_TYPE} for cluster usage", value=0)
    offers = sagemaker.search_training_plan_offerings(InstanceType=PLAN_TYPE, InstanceCount=2, TargetResources=["hyperpod-cluster"])
    offer = offers["TrainingPlanOfferings"][0]
    plan = sagemaker.create_training_plan(TrainingPlanName="block", TrainingPlanOfferingId=offer["TrainingPlanOfferingId"])
    sandbox.warp(26 * 3600)
    told = sagemaker.describe_training_plan(TrainingPlanName="block")
    assert told["Status"] == "Active"
    zone = told["ReservedCapacitySummaries"][0]["AvailabilityZone"]
    asked = {"instance_type": PLAN_TYPE, "capacity_type": "training_plan", "training_plan_arn": plan["TrainingPlanArn"]}
    elsewhere = "us-west-2a" if zone != "us-west-2a" else "us-west-2b"
    wrong = ready.create(zone=elsewhere, **asked)
    assert (wrong.status, wrong.stopped_at) == ("failed", "account")
    assert wrong.problem is not None
    assert zone in wrong.problem.detail
    made = ready.create(zone=zone, **asked)
    assert made.status == "succeeded", made.problem
    assert [(n["capacity_type"], n["zone"]) for n in made.result["nodes"]["items"]] == [("training_plan", zone)]


@pytest.mark.slow
def test_deep_health_checks_are_waited_for_within_the_deadline(ready: Any, sandbox: SandboxProcess) -> None:
    made = ready.create(deep_health_checks=["InstanceStress"])
    assert made.status == "succeeded", (made.stopped_at, made.problem)
    assert made.seconds > 3000


@pytest.mark.slow
def test_a_failing_lifecycle_script_is_told_with_the_place_of_its_log(ready: Any, crank: Crank, sandbox: SandboxProcess) -> None:
    sandbox.admin("settings", node_running_seconds=300.0)
    begun = ready.create(until="hyperpod")
    name = ready.site.names.hyperpod_cluster
    sandbox.admin("scenario/lifecycle-failure", cluster=name, group="workers", on=True)
    told = crank.turn(begun, ticks=60).sentences("nodes")
    assert "ifecycle" in told
    assert f"log group /aws/sagemaker/Clusters/{name}/" in told
    sandbox.admin("scenario/lifecycle-failure", cluster=name, group="workers", on=False)
    assert crank.turn(begun).status == "succeeded", begun.problem


def test_a_role_that_stays_invisible_is_waited_for_and_a_wrong_request_is_not(ready: Any, crank: Crank, sandbox: SandboxProcess) -> None:
    message = "Could not assume the execution role arn:x. Unable to assume it."
    sandbox.fault("sagemaker:CreateCluster", code="ValidationException", message=message, count=2)
    begun = ready.create(until="hyperpod")
    assert begun.status == "cancelled", begun.problem
    assert "not visible to sagemaker yet" in begun.sentences("hyperpod")


def test_another_validation_error_surfaces_at_once(ready: Any, sandbox: SandboxProcess) -> None:
    sandbox.fault("sagemaker:CreateCluster", code="ValidationException", message="InstanceType is invalid", count=None)
    failed = ready.create()
    assert (failed.status, failed.stopped_at) == ("failed", "hyperpod")
    assert failed.problem is not None
    assert "InstanceType is invalid" in failed.problem.detail
    assert failed.problem.evidence["request_id"]
    assert sum(c["operation"] == "CreateCluster" and c["service"] == "sagemaker" for c in sandbox.calls()) == 1


def test_a_role_that_can_never_be_assumed_blocks_after_five_minutes(ready: Any, crank: Crank, sandbox: SandboxProcess) -> None:
    message = "The execution role cannot be assumed"
    sandbox.fault("sagemaker:CreateCluster", code="ValidationException", message=message, count=None)
    stuck = ready.create()
    assert (stuck.status, stuck.problem and stuck.problem.code) == ("blocked", "hyperpod.role_not_assumable")
    sandbox.clear()
    assert crank.retry(stuck).status == "succeeded"
