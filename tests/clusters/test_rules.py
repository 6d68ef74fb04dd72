"""The rules alone: pure functions of what was asked and what was read."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instantstart.base import problems
from instantstart.base.names import Names
from instantstart.capabilities.clusters import reads, rules, specs
from instantstart.ensure import stacks
from instantstart.ensure.capacity import offers
from instantstart.ensure.findings import Finding, refusal
from instantstart.ensure.networking import network
from instantstart.ensure.sites import Site

TYPE = "ml.g5.8xlarge"
NOW = dt.datetime(2026, 11, 30, tzinfo=dt.UTC)
ZONES = (
    offers.Zone("us-west-2a", "usw2-az1", eks_control_plane=True),
    offers.Zone("us-west-2b", "usw2-az2", eks_control_plane=True),
    offers.Zone("us-west-2c", "usw2-az3", eks_control_plane=False),
)
#: a type that EC2, SageMaker's model and the quotas have never heard of
UNKNOWN_TYPE = {"type_facts": None, "known_types": (TYPE,), "quotas": {f"{TYPE} for cluster usage": 4.0}}
PLAN_ARN = "arn:aws:sagemaker:us-west-2:111122223333:training-plan/p"


def ask(**more: Any) -> specs.ClusterTarget:
    asked = {"tag": "demo", "region": "us-west-2", "zone": "usw2-az2", "instance_type": TYPE} | more
    return specs.ClusterTarget(**asked)


def subnet(number: int, zone: offers.Zone, free: int = 250) -> network.Subnet:
    return network.Subnet(f"subnet-0000000{number}", "vpc-00000001", zone.name, zone.zone_id, f"10.0.{number}.0/24", free, {})


def stack(tag: str = "demo", status: str = "CREATE_COMPLETE") -> stacks.Stack:
    return stacks.Stack("instantstart-demo-eks", "arn", status, "", {}, {"instantstart.dev/cluster": tag})


def eks(tag: str = "demo", mode: str = "API", version: str = "1.34", status: str = "ACTIVE") -> dict[str, Any]:
    return {
        "name": "eks-demo",
        "status": status,
        "version": version,
        "accessConfig": {"authenticationMode": mode},
        "tags": {"instantstart.dev/cluster": tag},
    }


def facts(**more: Any) -> reads.Facts:
    fine: dict[str, Any] = {
        "account": "111122223333",
        "principal_arn": "arn:aws:iam::111122223333:role/control",
        "region": "us-west-2",
        "zone": ZONES[1],
        "zones": ZONES,
        "type_zones": {"usw2-az2"},
        "type_facts": {"NetworkInfo": {"NetworkCards": [{}]}},
        "quotas": {f"{TYPE} for cluster usage": 4.0, f"{TYPE} for spot cluster usage": 1.0},
        "used": 1,
        "vpcs": 1,
        "vpc_quota": 5.0,
        "addresses": 0,
        "address_quota": 5.0,
        "versions": ("1.34", "1.33"),
        "plan": None,
        "subnet": None,
        "subnets": (),
        "stack": None,
        "eks": None,
        "denied": (),
        "now": NOW.timestamp(),
    }
    return reads.Facts(**(fine | more))


def plan(**more: Any) -> dict[str, Any]:
    fine = {
        "Status": "Active",
        "StartTime": NOW,
        "EndTime": NOW + dt.timedelta(hours=5),
        "AvailableInstanceCount": 4,
        "TargetResources": ["hyperpod-cluster"],
        "ReservedCapacitySummaries": [{"InstanceType": TYPE, "AvailabilityZone": "us-west-2b", "AvailabilityZoneId": "usw2-az2"}],
    }
    return fine | more


def planned(**more: Any) -> specs.ClusterTarget:
    return ask(capacity_type="training_plan", training_plan_arn=PLAN_ARN, **more)


OTHER_ZONE = {"zone": "usw2-az1"}
CASES = [
    # rule, asked, read, level, a piece of the sentence
    (rules.check_identity, {}, {}, "ok", "role/control"),
    (rules.check_permissions, {}, {}, "ok", "Every needed action"),
    (rules.check_permissions, {}, {"denied": None}, "unknown", "would not simulate"),
    (rules.check_permissions, {}, {"denied": ("iam:PassRole",)}, "fail", "iam:PassRole"),
    (rules.check_network_quota, {}, {}, "ok", "1 of 5"),
    (rules.check_network_quota, {}, {"vpcs": 5}, "fail", "VPC quota 5/5 in us-west-2"),
    (rules.check_network_quota, {}, {"addresses": 5}, "fail", "Elastic IP quota 5/5"),
    (rules.check_network_quota, {}, {"vpc_quota": None}, "unknown", "cannot be read"),
    (rules.check_network_quota, {}, {"vpcs": None}, "unknown", "VPCs in us-west-2 cannot be read"),
    (rules.check_network_quota, {}, {"addresses": None}, "ok", "1 of 5"),
    (rules.check_network_quota, {"vpc_id": "vpc-00000001"}, {"vpcs": 5}, None, ""),
    (rules.check_network_quota, {}, {"vpcs": 5, "stack": stack()}, None, ""),
    (rules.check_network_quota, {}, {"vpcs": 5, "stack": stack(status="ROLLBACK_COMPLETE")}, "fail", "VPC quota"),
    (rules.check_vpc_range, {}, {}, None, ""),
    (rules.check_vpc_range, {"vpc_cidr": "10.1.0.0/16"}, {}, None, ""),
    (rules.check_vpc_range, {"vpc_cidr": "10.1.0.0/24"}, {}, "fail", "/16 to /19"),
    (rules.check_vpc_range, {"vpc_id": "vpc-00000001"}, {}, "fail", "subnet_ids"),
    (
        rules.check_vpc_range,
        {"vpc_id": "vpc-00000001", "subnet_ids": ["subnet-00000001", "subnet-00000002"], "vpc_cidr": "10.1.0.0/16"},
        {},
        "fail",
        "not both",
    ),
    (rules.check_version, {}, {}, "ok", "1.34"),
    (rules.check_version, {"kubernetes_version": "1.33"}, {}, "ok", "1.33"),
    (rules.check_version, {"kubernetes_version": "1.27"}, {}, "fail", "1.34, 1.33"),
    (rules.check_zone, {}, {}, "ok", "us-west-2b"),
    (rules.check_zone, {"zone": "us-west-2q"}, {"zone": None}, "fail", "us-west-2q is no zone"),
    (rules.check_zone, {}, {"type_zones": None}, "unknown", "does not describe"),
    (rules.check_zone, {}, {"type_zones": {"usw2-az1"}}, "fail", "is not offered in us-west-2b"),
    (rules.check_zone, {}, {"type_zones": set()}, "fail", "is not offered"),
    (rules.check_type_quota, {}, {}, "ok", "1 of 4 in use"),
    (rules.check_type_quota, {"instance_count": 4}, {}, "fail", f'"{TYPE} for cluster usage" is 4 with 1 in use; 4 more'),
    (rules.check_type_quota, {"capacity_type": "spot"}, {"used": None}, "ok", "spot cluster usage"),
    (rules.check_type_quota, {}, {"quotas": None}, "unknown", "cannot be read"),
    (rules.check_type_quota, {}, {"quotas": {}}, "unknown", "cannot be read"),
    (rules.check_type_quota, {"capacity_type": "training_plan"}, {}, None, ""),
    (rules.check_capacity, {}, {}, None, ""),
    (rules.check_capacity, {"capacity_type": "training_plan"}, {}, "fail", "needs training_plan_arn"),
    (rules.check_capacity, {"training_plan_arn": PLAN_ARN}, {}, "fail", "does not go with capacity_type on_demand"),
    (rules.check_addresses, {}, {}, "ok", "new /20"),
    (rules.check_addresses, {"instance_count": 200}, {}, "fail", "take 6400 addresses"),
    (rules.check_addresses, {"subnet_id": "subnet-00000001"}, {"subnet": None}, "unknown", "cannot be read"),
    (rules.check_subnet, {"subnet_id": "subnet-00000001"}, {"subnet": None}, "fail", "is not in account 111122223333"),
    (rules.check_subnet, {"subnet_id": "subnet-00000001"}, {"subnet": subnet(1, ZONES[0])}, "fail", "not in us-west-2b"),
    (rules.check_subnet, {"subnet_id": "subnet-00000001"}, {"subnet": subnet(1, ZONES[1])}, "fail", "the cluster's network is a new one"),
    (rules.check_type, {"instance_type": "ml.g5.9xlarge"}, UNKNOWN_TYPE, "fail", f"those like it are {TYPE}."),
    (rules.check_bucket, {"bucket": "my-data"}, {"bucket_found": False}, "fail", "There is no bucket my-data."),
    (
        rules.check_addresses,
        {"subnet_id": "subnet-00000001", "instance_count": 16},
        {"subnet": subnet(1, ZONES[1], free=40)},
        "fail",
        "subnet-00000001 has 40",
    ),
    (rules.check_room_for_pods, {}, {}, None, ""),
    (rules.check_room_for_pods, {"instance_count": 0}, {}, "warn", "waiting_for_nodes"),
    (rules.check_room_for_pods, {"instance_type": "ml.g5.xlarge"}, {}, "warn", "14 pod slots, 15 needed"),
    (rules.check_room_for_pods, {"instance_type": "ml.g5.xlarge", "cert_manager": True}, {}, "warn", "14 pod slots, 18 needed"),
    (rules.check_room_for_pods, {}, {"type_facts": None}, None, ""),
    (rules.check_eks, {}, {}, None, ""),
    (rules.check_eks, {}, {"eks": eks()}, "ok", "fits"),
    (rules.check_eks, {}, {"eks": eks(mode="CONFIG_MAP")}, "fail", "CONFIG_MAP"),
    (rules.check_eks, {}, {"eks": eks(status="FAILED")}, "fail", "is FAILED"),
    (rules.check_eks, {}, {"eks": eks(version="1.27")}, "fail", "1.27"),
]


@pytest.mark.parametrize(("rule", "asked", "read", "level", "piece"), CASES)
def test_a_rule_says_what_it_found(rule: rules.Check, asked: dict[str, Any], read: dict[str, Any], level: str | None, piece: str) -> None:
    found = rule(ask(**asked), facts(**read))
    assert (found.level if found else None) == level
    if found:
        assert piece in found.detail
        assert found.detail.endswith(".")


PLANS = [
    ({}, {}, "ok", "active until"),
    ({}, {"Status": "Scheduled"}, "warn", "no node arrives before"),
    ({}, {"Status": "Expired"}, "fail", "The plan is Expired"),
    ({}, {"EndTime": NOW - dt.timedelta(minutes=1)}, "fail", "The plan ended"),
    ({}, {"EndTime": None}, "ok", "active"),
    ({}, {"TargetResources": ["training-job"]}, "fail", "not for HyperPod"),
    ({"instance_type": "ml.p5.48xlarge"}, {}, "fail", f"holds {TYPE}, not ml.p5.48xlarge"),
    (OTHER_ZONE, {}, "fail", "not in usw2-az1"),
    ({"instance_count": 8}, {}, "fail", "4 instances left; 8 are asked"),
]


@pytest.mark.parametrize("more", [{"type_facts": {}}, {"known_types": ("ml.new.9xlarge",)}, {"quotas": None},
                                   {"quotas": {"ml.new.9xlarge for spot cluster usage": 0.0}}])  # fmt: skip
def test_a_type_that_somebody_knows_is_no_slip(more: dict[str, Any]) -> None:
    assert rules.check_type(ask(instance_type="ml.new.9xlarge"), facts(**{**UNKNOWN_TYPE, **more})) is None


@pytest.mark.parametrize(("asked", "told", "level", "piece"), PLANS)
def test_a_training_plan_is_checked_before_anything_is_made(asked: dict[str, Any], told: dict[str, Any], level: str, piece: str) -> None:
    zone = ZONES[0] if asked.get("zone") == "usw2-az1" else ZONES[1]
    found = rules.check_capacity(planned(**asked), facts(plan=plan(**told), zone=zone))
    assert found is not None
    assert (found.level, piece in found.detail) == (level, True), found


def test_a_plan_of_another_account_is_told_with_the_place_that_was_looked_at() -> None:
    found = rules.check_capacity(planned(), facts(plan=None))
    assert found is not None
    assert "111122223333, region us-west-2" in found.detail


def test_given_subnets_must_be_in_the_vpc_and_in_two_zones_of_eks() -> None:
    given = {"vpc_id": "vpc-00000001", "subnet_ids": ["subnet-00000001", "subnet-00000002"]}

    def level(*subnets: network.Subnet) -> str:
        found = rules.check_vpc_range(ask(**given), facts(subnets=subnets))
        return f"{found.level} {found.detail}" if found else "none"

    assert level(subnet(1, ZONES[0]), subnet(2, ZONES[1])).startswith("ok")
    assert "subnet-00000002 is not in vpc-00000001" in level(subnet(1, ZONES[0]))
    assert "no control plane in the zone of subnet-00000002 (usw2-az3)" in level(subnet(1, ZONES[0]), subnet(2, ZONES[2]))
    assert "all in one zone" in level(subnet(1, ZONES[0]), subnet(2, ZONES[0]))
    unknown = rules.check_vpc_range(ask(**given), facts(subnets=None))
    assert unknown is not None
    assert unknown.level == "unknown"


def site(tag: str = "demo") -> Site:
    nowhere: Any = None
    extra = {"CostCenter": "1", "instantstart.dev/cluster": "x"}
    return Site(nowhere, Names(tag, "us-west-2", "111122223333"), extra)


def test_our_own_tag_wins_over_an_organisations_tags() -> None:
    assert site().tags == {"CostCenter": "1", "instantstart.dev/cluster": "demo"}


@pytest.mark.parametrize(("read", "word"), [({"stack": stack("other")}, "stack"), ({"eks": eks("other")}, "EKS cluster")])
def test_a_name_that_somebody_else_has_stands_in_the_way(read: dict[str, Any], word: str) -> None:
    found = rules.check_names(site(), facts(**read))
    assert found is not None
    assert (found.level, word in found.detail) == ("fail", True)


def test_our_own_stack_and_cluster_stand_in_nobodys_way() -> None:
    assert rules.check_names(site(), facts(stack=stack(), eks=eks())) is None


def test_only_the_rules_that_still_matter_are_asked() -> None:
    assert rules.rules_for(facts(), whole=True) == rules.RULES
    assert rules.rules_for(facts(), whole=False) == rules.EKS_RULES
    assert rules.rules_for(facts(eks=eks()), whole=True) == rules.GROUP_RULES
    assert rules.rules_for(facts(eks=eks()), whole=False) == (rules.check_eks,)


def test_findings_without_a_failure_refuse_nothing_and_failures_are_told_all_at_once() -> None:
    assert refusal(rules.findings(site(), ask(), facts())) is None
    refused = refusal(rules.findings(site(), ask(kubernetes_version="1.27"), facts(vpcs=5, zone=None)))
    assert isinstance(refused, problems.Invalid)
    assert {f.pointer for f in refused.fields} == {"/vpc_id", "/kubernetes_version", "/zone"}
    assert refused.hint
    quota = refusal(rules.findings(site(), ask(), facts(vpcs=5)))
    assert isinstance(quota, problems.OutOfQuota)
    bare = refusal([Finding("zone", "fail", "No.")])
    assert bare is not None
    assert bare.hint is None


DONE = ("eks", "connection", "dependencies", "hyperpod")


def steps(missing: str | None = None) -> rules.Steps:
    eks, connection, dependencies, hyperpod = (name != missing for name in DONE)
    return rules.Steps(eks, connection, dependencies, hyperpod)


def test_the_order_of_stages_names_the_first_missing_one() -> None:
    done = steps()
    for stage, needed in rules.ORDER.items():
        assert rules.check_order(stage, done) is None
        for missing in needed:
            refused = rules.check_order(stage, steps(missing))
            assert refused is not None
            assert refused.evidence["missing"] == missing
    told = rules.check_order("storage", rules.Steps(True, False, False, False, {"connection": "401"}))
    assert told is not None
    assert told.evidence["missing"] == "connection"
    assert "401" in told.detail


counts = st.integers(0, 6758)


@given(limit=st.integers(0, 200), used=st.integers(0, 200), count=st.integers(0, 200))
def test_a_quota_fails_exactly_when_it_would_be_exceeded(limit: int, used: int, count: int) -> None:
    read = facts(quotas={f"{TYPE} for cluster usage": float(limit)}, used=used)
    found = rules.check_type_quota(ask(instance_count=count), read)
    assert found is not None
    assert (found.level == "fail") == (used + count > limit)


@given(count=counts, cards=st.integers(1, 32))
def test_more_nodes_or_cards_never_need_fewer_addresses(count: int, cards: int) -> None:
    def fails(number: int, many: int) -> bool:
        read = facts(type_facts={"NetworkInfo": {"NetworkCards": [{}] * many}})
        return rules.check_addresses(ask(instance_count=number), read).level == "fail"

    if fails(count, cards):
        assert fails(count, cards + 1)
        assert count == 6758 or fails(count + 1, cards)


@given(
    count=st.integers(1, 100), size=st.sampled_from(["medium", "large", "xlarge", "2xlarge", "4xlarge", "8xlarge", "16xlarge", "48xlarge"])
)
def test_a_warning_about_pod_slots_is_true(count: int, size: str) -> None:
    kind = f"ml.g5.{size}"
    slots = rules.max_pods(kind, {})
    assert slots is not None
    found = rules.check_room_for_pods(ask(instance_type=kind, instance_count=count), facts())
    assert (found is not None) == (slots * count < rules.PODS_PER_NODE * count + rules.PODS_ONCE)
