"""Where moto is kinder than EC2, the sandbox is not."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError


def test_a_dry_run_makes_nothing(sandbox: Any, vpc: Any, refused: Any) -> None:
    ec2 = sandbox.client("ec2")
    assert refused(ec2.create_subnet, VpcId=vpc["vpc"], CidrBlock="10.0.64.0/20", DryRun=True) == "DryRunOperation"
    assert len(ec2.describe_subnets(Filters=[{"Name": "vpc-id", "Values": [vpc["vpc"]]}])["Subnets"]) == 2


def test_an_unknown_filter_is_refused_and_a_tag_filter_is_not(sandbox: Any, vpc: Any, refused: Any) -> None:
    ec2 = sandbox.client("ec2")
    assert refused(ec2.describe_subnets, Filters=[{"Name": "colour", "Values": ["red"]}]) == "InvalidParameterValue"
    ec2.create_tags(Resources=[vpc["subnet"]], Tags=[{"Key": "role", "Value": "compute-a"}])
    found = ec2.describe_subnets(Filters=[{"Name": "tag:role", "Values": ["comp*"]}])["Subnets"]
    assert [s["SubnetId"] for s in found] == [vpc["subnet"]]


def test_pages_hold_as_many_as_asked_for_and_go_to_the_end(sandbox: Any, vpc: Any, refused: Any) -> None:
    ec2 = sandbox.client("ec2")
    pages = list(ec2.get_paginator("describe_subnets").paginate(PaginationConfig={"PageSize": 5}))
    everything = {s["SubnetId"] for s in ec2.describe_subnets()["Subnets"]}
    assert [len(page["Subnets"]) for page in pages][:-1] == [5] * (len(pages) - 1)
    assert {s["SubnetId"] for page in pages for s in page["Subnets"]} == everything
    assert refused(ec2.describe_subnets, NextToken="nonsense") == "InvalidParameterValue"


def test_a_subnet_goes_where_it_is_asked_to_and_only_in_the_region(sandbox: Any, vpc: Any, refused: Any) -> None:
    ec2 = sandbox.client("ec2")
    assert refused(ec2.create_subnet, VpcId=vpc["vpc"], CidrBlock="10.0.64.0/20", AvailabilityZone="eu-west-1a") == "InvalidParameterValue"
    made = ec2.create_subnet(VpcId=vpc["vpc"], CidrBlock="10.0.64.0/20")["Subnet"]
    assert made["AvailabilityZone"].startswith("us-west-2")
    zone_id = ec2.describe_availability_zones()["AvailabilityZones"][1]["ZoneId"]
    by_id = ec2.create_subnet(VpcId=vpc["vpc"], CidrBlock="10.0.80.0/20", AvailabilityZoneId=zone_id)["Subnet"]
    assert ec2.describe_subnets(SubnetIds=[by_id["SubnetId"]])["Subnets"][0]["AvailabilityZoneId"] == zone_id
    assert refused(ec2.create_subnet, VpcId=vpc["vpc"], CidrBlock="10.0.96.0/29") == "InvalidSubnet.Range"


def test_the_fifth_vpc_is_the_last_one_until_the_quota_is_raised(sandbox: Any, refused: Any) -> None:
    ec2 = sandbox.client("ec2")
    for n in range(4):  # the default VPC is the first
        ec2.create_vpc(CidrBlock=f"10.{n}.0.0/16")
    assert refused(ec2.create_vpc, CidrBlock="10.9.0.0/16") == "VpcLimitExceeded"
    sandbox.admin("quota", service_code="vpc", name="VPCs per Region", value=6)
    ec2.create_vpc(CidrBlock="10.9.0.0/16")


def test_a_route_table_is_not_silently_kept(sandbox: Any, vpc: Any, refused: Any) -> None:
    ec2 = sandbox.client("ec2")
    ec2.associate_route_table(RouteTableId=vpc["table"], SubnetId=vpc["subnet"])
    other = ec2.create_route_table(VpcId=vpc["vpc"])["RouteTable"]["RouteTableId"]
    assert refused(ec2.associate_route_table, RouteTableId=other, SubnetId=vpc["subnet"]) == "Resource.AlreadyAssociated"


def test_what_is_in_use_cannot_be_deleted(sandbox: Any, vpc: Any, refused: Any) -> None:
    ec2 = sandbox.client("ec2")
    group = ec2.create_security_group(GroupName="g", Description="d", VpcId=vpc["vpc"])["GroupId"]
    other = ec2.create_security_group(GroupName="h", Description="d", VpcId=vpc["vpc"])["GroupId"]
    permission = {"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group}]}
    ec2.authorize_security_group_ingress(GroupId=other, IpPermissions=[permission])
    assert refused(ec2.delete_security_group, GroupId=group) == "DependencyViolation"
    ec2.revoke_security_group_ingress(GroupId=other, IpPermissions=[permission])
    eni = ec2.create_network_interface(SubnetId=vpc["subnet"], Groups=[group])["NetworkInterface"]["NetworkInterfaceId"]
    assert refused(ec2.delete_security_group, GroupId=group) == "DependencyViolation"
    assert refused(ec2.delete_subnet, SubnetId=vpc["subnet"]) == "DependencyViolation"
    assert refused(ec2.delete_vpc, VpcId=vpc["vpc"]) == "DependencyViolation"
    ec2.delete_network_interface(NetworkInterfaceId=eni)
    ec2.delete_security_group(GroupId=group)
    ec2.delete_subnet(SubnetId=vpc["subnet"])


def test_a_group_that_names_itself_can_be_deleted(sandbox: Any, vpc: Any) -> None:
    ec2 = sandbox.client("ec2")
    group = ec2.create_security_group(GroupName="efa", Description="d", VpcId=vpc["vpc"])["GroupId"]
    permission = {"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group}]}
    ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=[permission])
    ec2.authorize_security_group_egress(GroupId=group, IpPermissions=[permission])
    ec2.delete_security_group(GroupId=group)


def test_a_gateway_endpoint_gets_its_type_and_routes_and_can_be_deleted(sandbox: Any, vpc: Any, refused: Any) -> None:
    ec2, service = sandbox.client("ec2"), "com.amazonaws.us-west-2.s3"

    def prefix_routes(table: str) -> int:
        routes = ec2.describe_route_tables(RouteTableIds=[table])["RouteTables"][0]["Routes"]
        return sum("DestinationPrefixListId" in r for r in routes)

    assert refused(ec2.create_vpc_endpoint, VpcId=vpc["vpc"], ServiceName="com.amazonaws.us-west-2.nope") == "InvalidServiceName"
    endpoint = ec2.create_vpc_endpoint(VpcId=vpc["vpc"], ServiceName=service, RouteTableIds=[vpc["table"]])["VpcEndpoint"]
    assert endpoint["VpcEndpointType"] == "Gateway"
    assert refused(ec2.create_vpc_endpoint, VpcId=vpc["vpc"], ServiceName=service, RouteTableIds=[vpc["table"]]) == "RouteAlreadyExists"
    second = ec2.create_route_table(VpcId=vpc["vpc"])["RouteTable"]["RouteTableId"]
    ec2.modify_vpc_endpoint(VpcEndpointId=endpoint["VpcEndpointId"], AddRouteTableIds=[second])
    assert (prefix_routes(vpc["table"]), prefix_routes(second)) == (1, 1)
    ec2.modify_vpc_endpoint(VpcEndpointId=endpoint["VpcEndpointId"], RemoveRouteTableIds=[vpc["table"]])
    assert (prefix_routes(vpc["table"]), prefix_routes(second)) == (0, 1)
    assert ec2.delete_vpc_endpoints(VpcEndpointIds=[endpoint["VpcEndpointId"]])["Unsuccessful"] == []
    assert prefix_routes(second) == 0
    sandbox.admin("warp", seconds=60)
    assert ec2.describe_vpc_endpoints(Filters=[{"Name": "vpc-id", "Values": [vpc["vpc"]]}])["VpcEndpoints"] == []
    gone = ec2.delete_vpc_endpoints(VpcEndpointIds=[endpoint["VpcEndpointId"]])["Unsuccessful"]
    assert gone[0]["Error"]["Code"] == "InvalidVpcEndpoint.NotFound"


def test_an_interface_endpoint_is_pending_first_and_its_interfaces_are_the_services(sandbox: Any, vpc: Any, refused: Any) -> None:
    ec2 = sandbox.client("ec2")
    made = ec2.create_vpc_endpoint(
        VpcId=vpc["vpc"], ServiceName="com.amazonaws.us-west-2.ec2", VpcEndpointType="Interface", SubnetIds=[vpc["subnet"]]
    )["VpcEndpoint"]
    assert made["State"] == "pending"
    eni = made["NetworkInterfaceIds"][0]
    view = ec2.describe_network_interfaces(NetworkInterfaceIds=[eni])["NetworkInterfaces"][0]
    assert view["RequesterManaged"]
    assert view["PrivateIpAddress"].startswith("10.0.")
    assert refused(ec2.delete_network_interface, NetworkInterfaceId=eni) == "InvalidParameterValue"
    sandbox.admin("warp", seconds=30)
    assert ec2.describe_vpc_endpoints(VpcEndpointIds=[made["VpcEndpointId"]])["VpcEndpoints"][0]["State"] == "available"


def test_a_nat_gateway_is_pending_then_available_and_one_token_makes_one(sandbox: Any, vpc: Any, refused: Any) -> None:
    ec2 = sandbox.client("ec2")
    allocation = ec2.allocate_address(Domain="vpc")["AllocationId"]
    made = [ec2.create_nat_gateway(SubnetId=vpc["subnet"], AllocationId=allocation, ClientToken="one")["NatGateway"] for _ in range(2)]
    assert made[0]["NatGatewayId"] == made[1]["NatGatewayId"]
    assert made[0]["State"] == "pending"
    assert (
        refused(ec2.create_nat_gateway, SubnetId=vpc["other_subnet"], AllocationId=allocation, ClientToken="one")
        == "IdempotentParameterMismatch"
    )
    nat = made[0]["NatGatewayId"]
    sandbox.admin("warp", seconds=100)
    assert ec2.describe_nat_gateways(NatGatewayIds=[nat])["NatGateways"][0]["State"] == "available"
    assert refused(ec2.release_address, AllocationId=allocation) == "InvalidIPAddress.InUse"
    assert refused(ec2.delete_subnet, SubnetId=vpc["subnet"]) == "DependencyViolation"
    assert refused(ec2.detach_internet_gateway, InternetGatewayId=vpc["gateway"], VpcId=vpc["vpc"]) == "DependencyViolation"
    ec2.delete_nat_gateway(NatGatewayId=nat)
    assert ec2.describe_nat_gateways(NatGatewayIds=[nat])["NatGateways"][0]["State"] == "deleting"
    sandbox.admin("warp", seconds=100)
    assert ec2.describe_nat_gateways(NatGatewayIds=[nat])["NatGateways"][0]["State"] == "deleted"
    ec2.release_address(AllocationId=allocation)
    ec2.delete_subnet(SubnetId=vpc["subnet"])
    sandbox.admin("warp", seconds=4000)
    assert refused(ec2.describe_nat_gateways, NatGatewayIds=[nat]) == "NatGatewayNotFound"


def test_a_nat_gateway_without_an_internet_gateway_fails(sandbox: Any, vpc: Any) -> None:
    ec2 = sandbox.client("ec2")
    ec2.detach_internet_gateway(InternetGatewayId=vpc["gateway"], VpcId=vpc["vpc"])
    allocation = ec2.allocate_address(Domain="vpc")["AllocationId"]
    nat = ec2.create_nat_gateway(SubnetId=vpc["subnet"], AllocationId=allocation)["NatGateway"]["NatGatewayId"]
    sandbox.admin("warp", seconds=30)
    view = ec2.describe_nat_gateways(NatGatewayIds=[nat])["NatGateways"][0]
    assert (view["State"], view["FailureCode"]) == ("failed", "Gateway.NotAttached")


def test_an_efa_only_interface_stays_one(sandbox: Any, vpc: Any) -> None:
    ec2 = sandbox.client("ec2")
    made = ec2.create_network_interface(SubnetId=vpc["subnet"], InterfaceType="efa-only")["NetworkInterface"]
    assert made["InterfaceType"] == "efa-only"
    view = ec2.describe_network_interfaces(NetworkInterfaceIds=[made["NetworkInterfaceId"]])["NetworkInterfaces"][0]
    assert view["InterfaceType"] == "efa-only"


def test_the_elastic_ip_quota_is_five(sandbox: Any, refused: Any) -> None:
    ec2 = sandbox.client("ec2")
    for _ in range(5):
        ec2.allocate_address(Domain="vpc")
    assert refused(ec2.allocate_address, Domain="vpc") == "AddressLimitExceeded"


@pytest.mark.parametrize("region", ["cn-north-1", "us-gov-west-1", "eu-central-1"])
def test_every_partition_has_its_default_vpc(sandbox: Any, region: Any) -> None:
    ec2 = sandbox.client("ec2", region)
    vpcs = ec2.describe_vpcs()["Vpcs"]
    assert [v["IsDefault"] for v in vpcs] == [True]
    identity = sandbox.client("sts", region).get_caller_identity()["Arn"]
    assert identity.split(":")[1] == {"cn-north-1": "aws-cn", "us-gov-west-1": "aws-us-gov"}.get(region, "aws")


def test_an_operation_that_is_not_offered_is_an_aws_error_and_in_the_ledger(sandbox: Any) -> None:
    with pytest.raises(ClientError, match="NotImplementedInSandbox"):
        sandbox.client("ec2").describe_capacity_reservations()
    assert sandbox.admin("unsupported") == {"ec2:DescribeCapacityReservations": 1}


def test_tags_go_with_their_resource(sandbox: Any, vpc: Any) -> None:
    ec2 = sandbox.client("ec2")
    allocation = ec2.allocate_address(Domain="vpc")["AllocationId"]
    ec2.create_tags(Resources=[vpc["subnet"], allocation], Tags=[{"Key": "owner", "Value": "ann"}])
    ec2.delete_subnet(SubnetId=vpc["subnet"])
    assert [t["ResourceId"] for t in ec2.describe_tags(Filters=[{"Name": "key", "Values": ["owner"]}])["Tags"]] == [allocation]
