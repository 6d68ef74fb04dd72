"""Training plans: offered, bought, begun, used, over."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from .conftest import Account, code

TYPE = "ml.p5.48xlarge"
DAY = 86400


def _offerings(account: Account, **more: Any) -> list[dict[str, Any]]:
    wish: dict[str, Any] = {"InstanceType": TYPE, "InstanceCount": 4, "DurationHours": 24, "TargetResources": ["hyperpod-cluster"]}
    found: list[dict[str, Any]] = account.sagemaker.search_training_plan_offerings(**(wish | more))["TrainingPlanOfferings"]
    return found


def _buy(account: Account, zone: str) -> str:
    offering = next(o for o in _offerings(account) if o["ReservedCapacityOfferings"][0]["AvailabilityZone"] == zone)
    bought = account.sagemaker.create_training_plan(TrainingPlanName="plan", TrainingPlanOfferingId=offering["TrainingPlanOfferingId"])
    account.warp(60)
    arn: str = bought["TrainingPlanArn"]
    return arn


def _plan(account: Account) -> dict[str, Any]:
    found: dict[str, Any] = account.sagemaker.describe_training_plan(TrainingPlanName="plan")
    return found


def test_offerings_are_where_the_capacity_is(account: Account) -> None:
    zones = {o["ReservedCapacityOfferings"][0]["AvailabilityZone"] for o in _offerings(account)}
    assert zones
    for zone in zones:
        account.world.capacity.set(TYPE, zone, 3)
    assert _offerings(account) == []
    assert _offerings(account, InstanceCount=3)


def test_a_plan_gives_no_node_before_it_begins_and_takes_them_at_its_end(hyperpod_account: Account) -> None:
    zone = _offerings(hyperpod_account)[0]["ReservedCapacityOfferings"][0]["AvailabilityZone"]
    subnet = hyperpod_account.subnet(5, zone[-1])
    network = {"SecurityGroupIds": [hyperpod_account.group_id], "Subnets": [subnet]}
    arn = _buy(hyperpod_account, zone)
    assert _plan(hyperpod_account)["Status"] == "Scheduled"
    group = hyperpod_account.group(instance_type=TYPE, count=2, TrainingPlanArn=arn, OverrideVpcConfig=network)
    hyperpod_account.hyperpod(group)
    assert hyperpod_account.nodes() == []
    assert hyperpod_account.described_group()["TrainingPlanStatus"] == "Scheduled"
    plan = _plan(hyperpod_account)
    assert (plan["AvailableInstanceCount"], plan["InUseInstanceCount"]) == (2, 2)
    hyperpod_account.warp(max(plan["StartTime"].timestamp() - hyperpod_account.world.clock.now(), 0) + 600)
    assert hyperpod_account.described_group()["CurrentCount"] == 2
    hyperpod_account.warp(DAY)
    assert _plan(hyperpod_account)["Status"] == "Expired"
    assert hyperpod_account.described_group()["CurrentCount"] == 0


def test_a_plan_pins_zone_type_and_count(hyperpod_account: Account) -> None:
    zone = _offerings(hyperpod_account)[0]["ReservedCapacityOfferings"][0]["AvailabilityZone"]
    arn = _buy(hyperpod_account, zone)
    elsewhere = next(z for z in "abcd" if not zone.endswith(z))
    network = {"SecurityGroupIds": [hyperpod_account.group_id], "Subnets": [hyperpod_account.subnet(6, elsewhere)]}
    fitting = {"SecurityGroupIds": [hyperpod_account.group_id], "Subnets": [hyperpod_account.subnet(7, zone[-1])]}
    wrong = {
        "none of its subnets is in the Availability Zone": hyperpod_account.group(
            instance_type=TYPE, TrainingPlanArn=arn, OverrideVpcConfig=network
        ),
        "does not have instance type": hyperpod_account.group(TrainingPlanArn=arn, OverrideVpcConfig=fitting),
        "has 4 available instances, not 5": hyperpod_account.group(
            instance_type=TYPE, count=5, TrainingPlanArn=arn, OverrideVpcConfig=fitting
        ),
    }
    for sentence, group in wrong.items():
        with pytest.raises(ClientError, match=sentence):
            hyperpod_account.sagemaker.create_cluster(**hyperpod_account.request(group))


def test_a_name_buys_once(account: Account) -> None:
    zone = _offerings(account)[0]["ReservedCapacityOfferings"][0]["AvailabilityZone"]
    _buy(account, zone)
    with pytest.raises(ClientError) as twice:
        _buy(account, zone)
    assert code(twice) == "ResourceInUse"
    assert len(account.sagemaker.list_training_plans()["TrainingPlanSummaries"]) == 1
    with pytest.raises(ClientError) as unknown:
        account.sagemaker.create_training_plan(TrainingPlanName="other", TrainingPlanOfferingId="tpo-none")
    assert code(unknown) == "ResourceNotFound"
