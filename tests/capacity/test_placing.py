"""Where a new group goes: subnets shared, dedicated and left over; addresses, blocks, rules and zones, before anything is made."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.capacity.doors import GROUPS, Door, turn
from tests.clusters.conftest import ZONE, Job
from tests.clusters.crank import Crank
from tests.clusters.worlds import SandboxProcess

from instantstart.capabilities.room import Room
from instantstart.ensure.networking import addresses, cidr

CPU, GPU = "ml.m5.2xlarge", "ml.p5.48xlarge"


def failing(door: Door, body: dict[str, Any]) -> dict[str, str]:
    """What of a request's plan fails: check -> sentence."""
    plan = door.well(200, "POST", GROUPS, body, dry_run=True)
    return {f["check"]: f["detail"] for f in plan["findings"] if f["level"] == "fail"}


def test_a_dedicated_subnet_outlives_its_group_and_is_offered_to_the_successor(
    standing: Job, door: Door, crank: Crank, shared_sandbox: SandboxProcess
) -> None:
    body = {"name": "own", "instance_type": CPU, "instance_count": 1, "zone": ZONE, "subnet": "dedicated"}
    assert turn(crank, "instance_group.add", **body).status == "succeeded"
    seen = door.get(f"{GROUPS}/own")["group"]
    assert seen["dedicated_subnet"]
    (subnet,) = seen["subnet_ids"]
    plan = door.well(200, "DELETE", f"{GROUPS}/own", dry_run=True)
    assert plan["keep"] == [f"dedicated subnet {subnet}, for a successor"]
    assert turn(crank, "instance_group.delete", group="own").status == "succeeded"
    standing.site.aws._kept.clear()
    assert subnet in door.get(GROUPS)["left_subnets"][0]
    heir = {"name": "heir", "instance_type": CPU, "instance_count": 1, "zone": ZONE, "subnet": "dedicated"}
    assert door.well(200, "POST", GROUPS, heir, dry_run=True)["keep"] == [f"subnet {subnet}, which the group own left, is used again"]
    assert turn(crank, "instance_group.add", **heir).status == "succeeded"
    assert door.get(f"{GROUPS}/heir")["group"]["subnet_ids"] == [subnet]
    assert turn(crank, "instance_group.delete", group="heir", drain_minutes=0).status == "succeeded"


def test_a_subnet_is_made_once_though_the_process_dies_after_each_act(standing: Job, crank: Crank, shared_sandbox: SandboxProcess) -> None:
    lost = iter([True, True, True])
    crank.discard = lambda stage, outcome: stage == "subnet" and next(lost, False)
    made = turn(crank, "instance_group.add", name="once", instance_type=CPU, instance_count=0, zone="usw2-az1", subnet="dedicated")
    crank.discard = lambda stage, outcome: False
    assert made.status == "succeeded", made.problem
    filters = [{"Name": "tag:instantstart.dev/instance-group", "Values": ["once"]}]
    assert len(shared_sandbox.client("ec2").describe_subnets(Filters=filters)["Subnets"]) == 1
    assert turn(crank, "instance_group.delete", group="once").status == "succeeded"


def test_addresses_are_counted_by_type_and_mode_before_anything_is_made(standing: Job, door: Door, crank: Crank) -> None:
    body = {"name": "big", "instance_type": GPU, "instance_count": 60, "zone": ZONE}
    assert "60 x ml.p5.48xlarge take 4860 addresses" in failing(door, body)["addresses"]
    assert failing(door, body | {"network_interface": "efa_only"}) == {}
    assert failing(door, body | {"subnet": "dedicated"}) == {}, "a dedicated subnet is made as large as is needed"


def test_free_blocks_count_where_the_network_plugin_takes_whole_ones(
    standing: Job, door: Door, crank: Crank, shared_room: Room, shared_sandbox: SandboxProcess
) -> None:
    ec2, kube = shared_sandbox.client("ec2"), standing.site.kube(shared_room)
    vpc = ec2.describe_subnets(SubnetIds=door.get(f"{GROUPS}/workers")["group"]["subnet_ids"])["Subnets"][0]["VpcId"]
    taken = [cidr.Network(s["CidrBlock"]) for s in ec2.describe_subnets(Filters=[{"Name": "vpc-id", "Values": [vpc]}])["Subnets"]]
    blocks = [cidr.Network(b["CidrBlock"]) for b in ec2.describe_vpcs(VpcIds=[vpc])["Vpcs"][0]["CidrBlockAssociationSet"]]
    small = cidr.free_slots(blocks, taken, 25)[-1]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock=str(small), AvailabilityZoneId=ZONE)["Subnet"]["SubnetId"]
    made = []
    for offset in range(20, 120, 16):  # one address in almost every block: 110 are free, hardly a block is
        address = str(small.network_address + offset)
        made.append(ec2.create_network_interface(SubnetId=subnet, PrivateIpAddress=address)["NetworkInterface"]["NetworkInterfaceId"])
    body = {"name": "blocks", "instance_type": CPU, "instance_count": 2, "subnet_id": subnet}
    switch(kube, "true")
    told = failing(door, body)["addresses"]
    assert "/28 blocks" in told
    assert "has 0 free" in told or "has 1 free" in told
    switch(kube, "false")
    assert failing(door, body) == {}, "single addresses are enough then"
    switch(kube, "true")
    for interface in made:
        ec2.delete_network_interface(NetworkInterfaceId=interface)
    ec2.delete_subnet(SubnetId=subnet)


def switch(kube: Any, value: str) -> None:
    """Turn the prefix delegation of the network plugin on or off."""
    have = kube.get("DaemonSet", "aws-node", "kube-system")["spec"]["template"]["spec"]["containers"]
    env = [{"name": "ENABLE_PREFIX_DELEGATION", "value": value}]
    containers = [c | {"env": env} if c["name"] == "aws-node" else c for c in have]
    kube.patch("DaemonSet", "aws-node", {"spec": {"template": {"spec": {"containers": containers}}}}, namespace="kube-system")


@pytest.mark.parametrize(
    ("more", "check", "word"),
    [
        ({"subnet_id": "subnet-0123456789abcdef0"}, "subnet_id", "not in the VPC"),
        ({"zone": "us-west-2z"}, "zone", "no zone this account can use"),
        ({"instance_count": 3, "min_instance_count": 4}, "min_instance_count", "exceed"),
        ({"lifecycle_script": "x.sh"}, "lifecycle_uri", "folder"),
        ({"taints": ["a=b:NoSchedule"], "deep_health_checks": ["InstanceStress"]}, "taints", "cannot be combined"),
        ({"taints": ["a=b:NoSchedule", "a=c:NoSchedule"]}, "taints/1", "twice"),
        ({"capacity_type": "training_plan"}, "training_plan_arn", "needs training_plan_arn"),
    ],
)
def test_what_cannot_be_is_told_at_its_field(standing: Job, door: Door, crank: Crank, more: dict[str, Any], check: str, word: str) -> None:
    told = failing(door, {"name": "no", "instance_type": CPU, "instance_count": 1, "zone": ZONE} | more)
    assert set(told) == {check}
    assert word in told[check]


def test_an_unknown_type_is_creatable_with_a_warning(standing: Job, door: Door, crank: Crank) -> None:
    plan = door.well(200, "POST", GROUPS, {"name": "new", "instance_type": "ml.q9.48xlarge", "zone": ZONE}, dry_run=True)
    levels = {f["check"]: f["level"] for f in plan["findings"]}
    assert levels["instance_type"] == "warn"
    assert "fail" not in levels.values()
    assert levels["instance_quota"] == "unknown", "a quota that nobody tells is not zero"


def test_a_security_group_without_the_rules_of_efa_is_told_for_types_that_need_them(
    standing: Job, door: Door, crank: Crank, shared_sandbox: SandboxProcess
) -> None:
    ec2 = shared_sandbox.client("ec2")
    cluster = shared_sandbox.client("sagemaker").describe_cluster(ClusterName=standing.site.hyperpod_cluster)
    removed = []
    for group in cluster["VpcConfig"]["SecurityGroupIds"]:
        rules = ec2.describe_security_groups(GroupIds=[group])["SecurityGroups"][0]["IpPermissionsEgress"]
        removed += [(group, rule) for rule in rules if any(pair["GroupId"] == group for pair in rule.get("UserIdGroupPairs", []))]
    assert removed
    for group, rule in removed:
        ec2.revoke_security_group_egress(GroupId=group, IpPermissions=[rule])
    told = failing(door, {"name": "efa", "instance_type": GPU, "zone": ZONE})
    plain = failing(door, {"name": "plain", "instance_type": CPU, "zone": ZONE})
    for group, rule in removed:
        ec2.authorize_security_group_egress(GroupId=group, IpPermissions=[rule])
    assert "egress" in told["security_groups"]
    assert plain == {}


@pytest.mark.parametrize(
    ("instance_type", "cards", "efa", "mode", "total"),
    [
        ("ml.p5.48xlarge", 32, 32, False, 81),
        ("ml.p5.48xlarge", 32, 32, True, 50),
        ("ml.m5.large", 1, 0, False, 10),
        ("ml.g5.8xlarge", 1, 1, False, 30),
    ],
)
def test_addresses_of_one_node(instance_type: str, cards: int, efa: int, mode: bool, total: int) -> None:
    facts = {"NetworkInfo": {"MaximumNetworkCards": cards, "EfaInfo": {"MaximumEfaInterfaces": efa}}}
    assert addresses.per_node(instance_type, facts, mode).total == total


@given(st.sets(st.integers(4, 254), max_size=60))
def test_a_block_is_free_when_nothing_in_it_is_taken(used: set[int]) -> None:
    subnet = cidr.Network("10.9.8.0/24")
    found = addresses.free_blocks(subnet, [str(subnet.network_address + n) for n in used])
    assert found == sum(not any(n // 16 == block for n in (*used, 0, 1, 2, 3, 255)) for block in range(16))


@given(st.integers(0, 70000))
def test_a_subnet_is_large_enough_or_as_large_as_a_vpc_can_hold(need: int) -> None:
    prefix = addresses.prefix_for(need)
    assert 16 <= prefix <= cidr.COMPUTE_PREFIX
    assert prefix == 16 or 2 ** (32 - prefix) - 5 >= need
