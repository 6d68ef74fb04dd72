"""Zones, ranges, subnets and groups: from the APIs, never overlapping, one for each zone however many ask."""

from __future__ import annotations

import concurrent.futures
import threading
from typing import Any

import pytest
from tests.clusters.conftest import asked
from tests.clusters.crank import Crank
from tests.clusters.worlds import REGION, SandboxProcess, inventory

from instantstart.base import problems
from instantstart.base.outcome import Done
from instantstart.capabilities.clusters import specs, workflows
from instantstart.ensure.networking import cidr, network


def test_sixteen_parallel_calls_make_one_subnet_a_zone(job: Any, crank: Crank, sandbox: SandboxProcess) -> None:
    made = crank.run(workflows.CREATE_EKS, asked(specs.EksTarget, tag=job.tag, region=REGION))
    assert made.status == "succeeded", made.problem
    vpc_id, where = made.learned["stack"]["VpcId"], job.site
    zones = ("usw2-az1", "usw2-az2")
    start = threading.Barrier(16)

    def ensure(number: int) -> str:
        start.wait()
        for _ in range(200):
            try:
                outcome = network.ensure_compute_subnet(where.aws, vpc_id, zones[number % 2], None, where.tags, f"token-{number}")
            except problems.Busy:
                continue
            if isinstance(outcome, Done):
                return str(outcome.learned["subnet_id"])
        raise AssertionError("never done")

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        found = list(pool.map(ensure, range(16)))
    assert len(set(found)) == 2
    lines = inventory(sandbox)
    assert sum("hp-compute" in line for line in lines if line.startswith("subnet")) == 2
    tables = [line for line in lines if line.startswith("route-table") and "hp-compute" in line]
    assert len(tables) == 2
    assert all("0.0.0.0/0>nat" in line and "subnets=1" in line for line in tables)
    ranges = [cidr.Network(line.split()[1]) for line in lines if line.startswith("subnet")]
    assert not any(a.overlaps(b) for i, a in enumerate(ranges) for b in ranges[i + 1 :])
    assert [n.prefixlen for n in ranges].count(20) == 2


def own_vpc(sandbox: SandboxProcess) -> dict[str, Any]:
    """A person's VPC with two private subnets behind a NAT gateway."""
    ec2 = sandbox.client("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.7.0.0/16")["Vpc"]["VpcId"]
    ec2.modify_vpc_attribute(VpcId=vpc, EnableDnsHostnames={"Value": True})
    gateway = ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
    ec2.attach_internet_gateway(InternetGatewayId=gateway, VpcId=vpc)
    made = {
        name: ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.7.{number}.0/24", AvailabilityZone=f"{REGION}{zone}")["Subnet"]["SubnetId"]
        for number, (name, zone) in enumerate((("a", "a"), ("b", "b"), ("pub", "a")))
    }
    public = ec2.create_route_table(VpcId=vpc)["RouteTable"]["RouteTableId"]
    ec2.create_route(RouteTableId=public, DestinationCidrBlock="0.0.0.0/0", GatewayId=gateway)
    ec2.associate_route_table(RouteTableId=public, SubnetId=made["pub"])
    address = ec2.allocate_address(Domain="vpc")["AllocationId"]
    nat = ec2.create_nat_gateway(SubnetId=made["pub"], AllocationId=address)["NatGateway"]["NatGatewayId"]
    sandbox.warp(200)
    private = ec2.create_route_table(VpcId=vpc)["RouteTable"]["RouteTableId"]
    ec2.create_route(RouteTableId=private, DestinationCidrBlock="0.0.0.0/0", NatGatewayId=nat)
    for name in ("a", "b"):
        ec2.associate_route_table(RouteTableId=private, SubnetId=made[name])
    return {"vpc_id": vpc, "subnet_ids": [made["a"], made["b"]], "public": made["pub"]}


def test_a_given_vpc_is_built_in_and_left_as_it_was(job: Any, sandbox: SandboxProcess) -> None:
    own = own_vpc(sandbox)
    before = inventory(sandbox)
    made = job.create(vpc_id=own["vpc_id"], subnet_ids=own["subnet_ids"])
    assert made.status == "succeeded", (made.stopped_at, made.problem)
    assert made.learned["stack"]["VpcId"] == own["vpc_id"]
    gone = job.delete()
    assert gone.status == "succeeded", (gone.stopped_at, gone.problem)
    after = inventory(sandbox)
    # the S3 endpoint of the VPC is the one thing that stays: others may have begun to use it
    assert [line for line in after if not line.startswith("endpoint")] == before


@pytest.mark.slow
def test_two_clusters_in_one_vpc_leave_each_others_things_alone(job: Any, crank: Crank, sandbox: SandboxProcess) -> None:
    own = own_vpc(sandbox)
    more = {"vpc_id": own["vpc_id"], "subnet_ids": own["subnet_ids"]}
    assert job.create(**more).status == "succeeded"
    other = type(job)(crank, tag="other", zone="usw2-az1")
    assert other.create(**more).status == "succeeded"
    ec2 = sandbox.client("ec2")
    named = {"cluster.k8s.amazonaws.com/name": job.site.names.eks_cluster, "node.k8s.amazonaws.com/instance_id": "i-0abc"}
    foreign = ec2.create_network_interface(
        SubnetId=own["subnet_ids"][0],
        TagSpecifications=[{"ResourceType": "network-interface", "Tags": [{"Key": k, "Value": v} for k, v in named.items()]}],
    )["NetworkInterface"]["NetworkInterfaceId"]
    gone = other.delete()
    assert gone.status == "succeeded", (gone.stopped_at, gone.problem)
    assert ec2.describe_network_interfaces(NetworkInterfaceIds=[foreign])["NetworkInterfaces"]
    again = crank.run(workflows.VERIFY, asked(specs.VerifyTarget, tag=job.tag, region=REGION))
    assert again.result["verified"]


def test_a_public_or_misplaced_subnet_is_refused_at_its_field(job: Any, sandbox: SandboxProcess) -> None:
    own = own_vpc(sandbox)
    made = job.create(vpc_id=own["vpc_id"], subnet_ids=own["subnet_ids"], subnet_id=own["public"], zone="us-west-2a")
    assert (made.status, made.stopped_at) == ("failed", "subnet")
    assert made.problem is not None
    assert made.problem.fields[0].pointer == "/subnet_id"
    assert "public" in made.problem.detail


def test_a_vpc_quota_that_is_used_up_stops_before_any_stack(job: Any, sandbox: SandboxProcess) -> None:
    sandbox.admin("quota", service_code="vpc", name="VPCs per Region", value=1)
    stuck = job.create()
    assert (stuck.status, stuck.stopped_at, stuck.problem and stuck.problem.kind) == ("blocked", "account", "out_of_quota")
    assert stuck.problem is not None
    assert "VPC quota 1/1 in us-west-2" in stuck.problem.detail
    assert not sandbox.client("cloudformation").describe_stacks()["Stacks"]


def test_zones_that_eks_refuses_are_avoided_and_its_own_list_is_followed(job: Any, crank: Crank, sandbox: SandboxProcess) -> None:
    message = (
        "Cannot create cluster 'eks-demo' because us-west-2b, the targeted availability zone, does not currently have sufficient capacity "
        "to support the cluster. Retry and choose from these availability zones: us-west-2c, us-west-2d"
    )
    sandbox.fault("cloudformation:.*/Cluster/Create", code="UnsupportedAvailabilityZoneException", message=message)
    failed = job.create(until="stack")
    assert (failed.status, failed.stopped_at) == ("failed", "stack")
    assert failed.problem is not None
    assert failed.problem.evidence["usable_zones"] == ["us-west-2c", "us-west-2d"]
    assert "us-west-2c, us-west-2d" in (failed.problem.hint or "")
    again = crank.retry(failed, until="stack")
    assert again.learned.get("stack"), again.problem
    cluster = sandbox.client("eks").describe_cluster(name=job.site.names.eks_cluster)["cluster"]
    subnets = sandbox.client("ec2").describe_subnets(SubnetIds=cluster["resourcesVpcConfig"]["subnetIds"])["Subnets"]
    assert sorted(s["AvailabilityZone"] for s in subnets) == ["us-west-2c", "us-west-2d"]


def test_a_region_with_barred_zones_gets_its_control_plane_elsewhere(crank: Crank, sandbox: SandboxProcess) -> None:
    turned = crank.run(workflows.CREATE_EKS, asked(specs.EksTarget, tag="barred", region="us-east-1"), until="network")
    ids = {z["ZoneName"]: z["ZoneId"] for z in sandbox.client("ec2", "us-east-1").describe_availability_zones()["AvailabilityZones"]}
    chosen = {ids[name] for name in turned.learned["network"]["zones"]}
    assert len(chosen) == 2
    assert "use1-az3" not in chosen


def test_a_new_vpc_overlaps_no_other_and_no_peer(job: Any, sandbox: SandboxProcess) -> None:
    ec2 = sandbox.client("ec2")
    first = cidr.choose_vpc([], job.tag)
    second = cidr.choose_vpc([first], job.tag)
    for block in (first, list(second.subnets())[1]):
        ec2.create_vpc(CidrBlock=str(block))
    chosen = cidr.Network(job.create(until="network").learned["network"]["vpc"])
    assert not any(chosen.overlaps(cidr.Network(v["CidrBlock"])) for v in ec2.describe_vpcs()["Vpcs"])


def test_our_group_lets_efa_through_in_both_directions_and_a_missing_rule_is_told(job: Any, crank: Crank, sandbox: SandboxProcess) -> None:
    begun = job.create(until="subnet")
    group, where, ec2 = begun.learned["stack"]["ComputeSecurityGroupId"], job.site, sandbox.client("ec2")
    assert network.missing_efa_rules(where.aws, group) == []
    rules = ec2.describe_security_group_rules(Filters=[{"Name": "group-id", "Values": [group]}])["SecurityGroupRules"]
    own = next(r for r in rules if r["IsEgress"] and r.get("ReferencedGroupInfo", {}).get("GroupId") == group)
    ec2.revoke_security_group_egress(GroupId=group, SecurityGroupRuleIds=[own["SecurityGroupRuleId"]])
    stuck = crank.turn(begun)
    assert (stuck.status, stuck.problem and stuck.problem.code) == ("failed", "network.efa_rules_missing")
    assert stuck.problem is not None
    assert "egress" in stuck.problem.detail
