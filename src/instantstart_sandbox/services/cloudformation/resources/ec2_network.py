"""AWS::EC2 network types: VPC, subnets, gateways, routes, endpoints."""

from __future__ import annotations

import json
from typing import Any

from instantstart_sandbox.services.cloudformation.resources.handler import Failure, Handler, Request, is_true
from instantstart_sandbox.services.cloudformation.resources.shapes import shape


class TaggedEc2(Handler):
    """An EC2 resource whose tags an update may change."""

    def update(self, request: Request, old: dict[str, Any]) -> None:
        """Set the tags as they are now; then what else the type can change."""
        self.retag(request, old)
        self.modify(request, old)

    def modify(self, request: Request, old: dict[str, Any]) -> None:
        """Change what the type can change in place, besides tags."""

    def retag(self, request: Request, old: dict[str, Any]) -> None:
        """Remove the tags that the template no longer has and set the others."""
        removed = {t["Key"] for t in old.get("Tags") or []} - set(request.tags())
        if removed:
            request.call("ec2", "DeleteTags", Resources=[request.physical], Tags=[{"Key": key} for key in sorted(removed)])
        request.call("ec2", "CreateTags", Resources=[request.physical], Tags=request.tag_list())


class Vpc(TaggedEc2):
    """AWS::EC2::VPC."""

    type = "AWS::EC2::VPC"
    shape = shape(
        "CidrBlock! EnableDnsHostnames EnableDnsSupport InstanceTenancy Tags[]",
        unsupported="Ipv4IpamPoolId Ipv4NetmaskLength VpcEncryptionControl",
    )
    seconds = 12.0

    def create(self, request: Request) -> None:
        """CreateVpc, then its DNS attributes."""
        if not request.get("CidrBlock"):
            raise Failure("Either CIDR Block or IPv4 IPAM Pool and IPv4 Netmask Length must be provided", "InvalidRequest")
        made = request.call(
            "ec2", "CreateVpc", **request.only("CidrBlock", "InstanceTenancy"), TagSpecifications=request.tag_specifications("vpc")
        )
        request.physical = made["Vpc"]["VpcId"]
        self._dns(request)

    def modify(self, request: Request, old: dict[str, Any]) -> None:
        """The DNS attributes."""
        self._dns(request)

    def _dns(self, request: Request) -> None:
        for name in ("EnableDnsSupport", "EnableDnsHostnames"):
            if name in request.properties:
                request.call("ec2", "ModifyVpcAttribute", VpcId=request.physical, **{name: {"Value": is_true(request.get(name))}})

    def delete(self, request: Request) -> None:
        """DeleteVpc."""
        request.call("ec2", "DeleteVpc", VpcId=request.physical)

    def attributes(self, request: Request) -> dict[str, Any]:
        """As DescribeVpcs and the default group and ACL say."""
        vpc = request.call("ec2", "DescribeVpcs", VpcIds=[request.physical])["Vpcs"][0]
        mine = [{"Name": "vpc-id", "Values": [request.physical]}]
        groups = request.call("ec2", "DescribeSecurityGroups", Filters=[*mine, {"Name": "group-name", "Values": ["default"]}])[
            "SecurityGroups"
        ]
        acls = request.call("ec2", "DescribeNetworkAcls", Filters=[*mine, {"Name": "default", "Values": ["true"]}])["NetworkAcls"]
        return {
            "VpcId": request.physical,
            "CidrBlock": vpc["CidrBlock"],
            "CidrBlockAssociations": [a["AssociationId"] for a in vpc.get("CidrBlockAssociationSet", [])],
            "DefaultSecurityGroup": groups[0]["GroupId"] if groups else "",
            "DefaultNetworkAcl": acls[0]["NetworkAclId"] if acls else "",
            "Ipv6CidrBlocks": [a["Ipv6CidrBlock"] for a in vpc.get("Ipv6CidrBlockAssociationSet", [])],
        }


class VpcCidrBlock(Handler):
    """AWS::EC2::VPCCidrBlock, IPv4."""

    type = "AWS::EC2::VPCCidrBlock"
    shape = shape(
        "CidrBlock! VpcId*!",
        unsupported="AmazonProvidedIpv6CidrBlock Ipv4IpamPoolId Ipv4NetmaskLength Ipv6CidrBlock Ipv6CidrBlockNetworkBorderGroup "
        "Ipv6IpamPoolId Ipv6NetmaskLength Ipv6Pool",
    )
    poll_seconds = 3.0

    def create(self, request: Request) -> None:
        """AssociateVpcCidrBlock."""
        made = request.call("ec2", "AssociateVpcCidrBlock", VpcId=request.get("VpcId"), CidrBlock=request.get("CidrBlock"))
        request.physical = made["CidrBlockAssociation"]["AssociationId"]

    def ready(self, request: Request) -> bool:
        """Whether the block is ``associated``."""
        return self._state(request) == "associated"

    def _state(self, request: Request) -> str:
        vpcs = request.call("ec2", "DescribeVpcs", VpcIds=[request.get("VpcId")])["Vpcs"]
        blocks = {b["AssociationId"]: b["CidrBlockState"]["State"] for v in vpcs for b in v.get("CidrBlockAssociationSet", [])}
        return str(blocks.get(request.physical, "disassociated"))

    def delete(self, request: Request) -> None:
        """DisassociateVpcCidrBlock."""
        request.call("ec2", "DisassociateVpcCidrBlock", AssociationId=request.physical)

    def gone(self, request: Request) -> bool:
        """Whether the block is no longer associated."""
        return self._state(request) == "disassociated"

    def attributes(self, request: Request) -> dict[str, Any]:
        """The association's id."""
        return {"Id": request.physical}


class Subnet(TaggedEc2):
    """AWS::EC2::Subnet, IPv4."""

    type = "AWS::EC2::Subnet"
    shape = shape(
        "AvailabilityZone! AvailabilityZoneId! CidrBlock! MapPublicIpOnLaunch Tags[] VpcId*!",
        unsupported="AssignIpv6AddressOnCreation EnableDns64 EnableLniAtDeviceIndex Ipv4IpamPoolId Ipv4NetmaskLength Ipv6CidrBlock "
        "Ipv6CidrBlocks Ipv6IpamPoolId Ipv6Native Ipv6NetmaskLength OutpostArn PrivateDnsNameOptionsOnLaunch",
    )

    def create(self, request: Request) -> None:
        """CreateSubnet, then whether instances get a public address."""
        asked = request.only("VpcId", "CidrBlock", "AvailabilityZone", "AvailabilityZoneId")
        made = request.call("ec2", "CreateSubnet", **asked, TagSpecifications=request.tag_specifications("subnet"))
        request.physical = made["Subnet"]["SubnetId"]
        self.modify(request, {})

    def modify(self, request: Request, old: dict[str, Any]) -> None:
        """MapPublicIpOnLaunch; false when the template no longer says."""
        wanted = is_true(request.get("MapPublicIpOnLaunch"))
        if wanted != is_true(old.get("MapPublicIpOnLaunch")):
            request.call("ec2", "ModifySubnetAttribute", SubnetId=request.physical, MapPublicIpOnLaunch={"Value": wanted})

    def delete(self, request: Request) -> None:
        """DeleteSubnet."""
        request.call("ec2", "DeleteSubnet", SubnetId=request.physical)

    def attributes(self, request: Request) -> dict[str, Any]:
        """As DescribeSubnets says."""
        subnet = request.call("ec2", "DescribeSubnets", SubnetIds=[request.physical])["Subnets"][0]
        acls = request.call("ec2", "DescribeNetworkAcls", Filters=[{"Name": "association.subnet-id", "Values": [request.physical]}])[
            "NetworkAcls"
        ]
        associations = [a["NetworkAclAssociationId"] for acl in acls for a in acl["Associations"] if a["SubnetId"] == request.physical]
        names = ("SubnetId", "VpcId", "CidrBlock", "AvailabilityZone", "AvailabilityZoneId")
        return {
            **{n: subnet[n] for n in names if n in subnet},
            "NetworkAclAssociationId": associations[0] if associations else "",
            "Ipv6CidrBlocks": [],
        }


class InternetGateway(TaggedEc2):
    """AWS::EC2::InternetGateway."""

    type = "AWS::EC2::InternetGateway"
    shape = shape("Tags[]")
    seconds = 15.0

    def create(self, request: Request) -> None:
        """CreateInternetGateway."""
        made = request.call("ec2", "CreateInternetGateway", TagSpecifications=request.tag_specifications("internet-gateway"))
        request.physical = made["InternetGateway"]["InternetGatewayId"]

    def delete(self, request: Request) -> None:
        """DeleteInternetGateway."""
        request.call("ec2", "DeleteInternetGateway", InternetGatewayId=request.physical)

    def attributes(self, request: Request) -> dict[str, Any]:
        """The id."""
        return {"InternetGatewayId": request.physical}


class VpcGatewayAttachment(Handler):
    """AWS::EC2::VPCGatewayAttachment of an internet gateway."""

    type = "AWS::EC2::VPCGatewayAttachment"
    shape = shape("InternetGatewayId VpcId*!", unsupported="VpnGatewayId")

    def create(self, request: Request) -> None:
        """AttachInternetGateway."""
        if not request.get("InternetGatewayId"):
            raise Failure("Either InternetGatewayId or VpnGatewayId must be specified", "InvalidRequest")
        request.call("ec2", "AttachInternetGateway", InternetGatewayId=request.get("InternetGatewayId"), VpcId=request.get("VpcId"))
        request.physical = f"IGW|{request.get('VpcId')}"

    def delete(self, request: Request) -> None:
        """DetachInternetGateway."""
        request.call("ec2", "DetachInternetGateway", InternetGatewayId=request.get("InternetGatewayId"), VpcId=request.get("VpcId"))

    def update(self, request: Request, old: dict[str, Any]) -> None:
        """Detach the old gateway and attach the new one."""
        request.call("ec2", "DetachInternetGateway", InternetGatewayId=old["InternetGatewayId"], VpcId=old["VpcId"])
        self.create(request)

    def attributes(self, request: Request) -> dict[str, Any]:
        """``IGW``."""
        return {"AttachmentType": "IGW"}


class Eip(TaggedEc2):
    """AWS::EC2::EIP. Ref is the public address; the allocation is an attribute."""

    type = "AWS::EC2::EIP"
    shape = shape("Domain Tags[]", unsupported="Address InstanceId IpamPoolId NetworkBorderGroup PublicIpv4Pool TransferAddress")
    seconds = 15.0

    def create(self, request: Request) -> None:
        """AllocateAddress."""
        made = request.call("ec2", "AllocateAddress", Domain="vpc", TagSpecifications=request.tag_specifications("elastic-ip"))
        request.work["allocation"] = made["AllocationId"]
        request.physical = made["PublicIp"]

    def retag(self, request: Request, old: dict[str, Any]) -> None:
        """Tags belong to the allocation, not to the address."""
        removed = {t["Key"] for t in old.get("Tags") or []} - set(request.tags())
        if removed:
            request.call("ec2", "DeleteTags", Resources=[request.work["allocation"]], Tags=[{"Key": key} for key in sorted(removed)])
        request.call("ec2", "CreateTags", Resources=[request.work["allocation"]], Tags=request.tag_list())

    def delete(self, request: Request) -> None:
        """ReleaseAddress."""
        request.call("ec2", "ReleaseAddress", AllocationId=request.work["allocation"])

    def attributes(self, request: Request) -> dict[str, Any]:
        """The allocation and the address."""
        return {"AllocationId": request.work["allocation"], "PublicIp": request.physical}


class NatGateway(TaggedEc2):
    """AWS::EC2::NatGateway."""

    type = "AWS::EC2::NatGateway"
    shape = shape(
        "AllocationId! ConnectivityType! SubnetId! Tags[]",
        unsupported="AvailabilityMode AvailabilityZoneAddresses MaxDrainDurationSeconds PrivateIpAddress SecondaryAllocationIds "
        "SecondaryPrivateIpAddressCount SecondaryPrivateIpAddresses VpcId",
    )

    def create(self, request: Request) -> None:
        """CreateNatGateway with a client token, so that it is made once."""
        made = request.call(
            "ec2",
            "CreateNatGateway",
            **request.only("SubnetId", "AllocationId", "ConnectivityType"),
            ClientToken=request.record["token"],
            TagSpecifications=request.tag_specifications("natgateway"),
        )
        request.physical = made["NatGateway"]["NatGatewayId"]

    def ready(self, request: Request) -> bool:
        """Whether it is ``available``; ``failed`` ends the creation."""
        gateway = self._describe(request)
        if gateway["State"] == "failed":
            raise Failure(f"NatGateway {request.physical} is in state failed: {gateway.get('FailureMessage', '')}", "NotStabilized")
        return bool(gateway["State"] == "available")

    def _describe(self, request: Request) -> dict[str, Any]:
        found = request.call("ec2", "DescribeNatGateways", NatGatewayIds=[request.physical])["NatGateways"]
        if not found:
            raise Failure(f"NatGateway {request.physical} was not found", "NotFound")
        return dict(found[0])

    def delete(self, request: Request) -> None:
        """DeleteNatGateway."""
        request.call("ec2", "DeleteNatGateway", NatGatewayId=request.physical)

    def gone(self, request: Request) -> bool:
        """Whether it is ``deleted``: its address and subnet are free only then."""
        return bool(self._describe(request)["State"] == "deleted")

    def attributes(self, request: Request) -> dict[str, Any]:
        """The id and its interface."""
        addresses = self._describe(request).get("NatGatewayAddresses") or [{}]
        return {"NatGatewayId": request.physical, "EniId": addresses[0].get("NetworkInterfaceId", "")}


class RouteTable(TaggedEc2):
    """AWS::EC2::RouteTable."""

    type = "AWS::EC2::RouteTable"
    shape = shape("Tags[] VpcId*!")

    def create(self, request: Request) -> None:
        """CreateRouteTable."""
        made = request.call(
            "ec2", "CreateRouteTable", VpcId=request.get("VpcId"), TagSpecifications=request.tag_specifications("route-table")
        )
        request.physical = made["RouteTable"]["RouteTableId"]

    def delete(self, request: Request) -> None:
        """DeleteRouteTable."""
        request.call("ec2", "DeleteRouteTable", RouteTableId=request.physical)

    def attributes(self, request: Request) -> dict[str, Any]:
        """The id."""
        return {"RouteTableId": request.physical}


_ROUTE_TARGETS = (
    "EgressOnlyInternetGatewayId", "GatewayId", "InstanceId", "NatGatewayId", "NetworkInterfaceId", "TransitGatewayId", "VpcEndpointId",
    "VpcPeeringConnectionId",
)  # fmt: skip


class Route(Handler):
    """AWS::EC2::Route. Its physical id is ``table|destination``, as the registry type has it."""

    type = "AWS::EC2::Route"
    shape = shape(
        "DestinationCidrBlock! DestinationIpv6CidrBlock! DestinationPrefixListId! RouteTableId*! " + " ".join(_ROUTE_TARGETS),
        unsupported="CarrierGatewayId CoreNetworkArn LocalGatewayId OdbNetworkArn",
    )

    def _destination(self, request: Request) -> dict[str, Any]:
        return request.only("DestinationCidrBlock", "DestinationIpv6CidrBlock", "DestinationPrefixListId")

    def create(self, request: Request) -> None:
        """CreateRoute."""
        destination = self._destination(request)
        if len(destination) != 1:
            raise Failure("Exactly one of the destinations must be specified", "InvalidRequest")
        request.call("ec2", "CreateRoute", RouteTableId=request.get("RouteTableId"), **destination, **request.only(*_ROUTE_TARGETS))
        request.physical = f"{request.get('RouteTableId')}|{next(iter(destination.values()))}"

    def update(self, request: Request, old: dict[str, Any]) -> None:
        """ReplaceRoute."""
        request.call(
            "ec2", "ReplaceRoute", RouteTableId=request.get("RouteTableId"), **self._destination(request), **request.only(*_ROUTE_TARGETS)
        )

    def delete(self, request: Request) -> None:
        """DeleteRoute."""
        request.call("ec2", "DeleteRoute", RouteTableId=request.get("RouteTableId"), **self._destination(request))

    def attributes(self, request: Request) -> dict[str, Any]:
        """The destination."""
        return {"CidrBlock": next(iter(self._destination(request).values()))}


class SubnetRouteTableAssociation(Handler):
    """AWS::EC2::SubnetRouteTableAssociation."""

    type = "AWS::EC2::SubnetRouteTableAssociation"
    shape = shape("RouteTableId*! SubnetId*!")

    def create(self, request: Request) -> None:
        """AssociateRouteTable."""
        made = request.call("ec2", "AssociateRouteTable", **request.only("RouteTableId", "SubnetId"))
        request.physical = made["AssociationId"]

    def delete(self, request: Request) -> None:
        """DisassociateRouteTable."""
        request.call("ec2", "DisassociateRouteTable", AssociationId=request.physical)

    def attributes(self, request: Request) -> dict[str, Any]:
        """The id."""
        return {"Id": request.physical}


class VpcEndpoint(TaggedEc2):
    """AWS::EC2::VPCEndpoint, gateway and interface."""

    type = "AWS::EC2::VPCEndpoint"
    shape = shape(
        "PolicyDocument PrivateDnsEnabled RouteTableIds[] SecurityGroupIds[] ServiceName! SubnetIds[] Tags[] VpcEndpointType! VpcId*!",
        unsupported="DnsOptions IpAddressType ResourceConfigurationArn ServiceNetworkArn ServiceRegion",
    )

    def create(self, request: Request) -> None:
        """CreateVpcEndpoint; the type defaults to Gateway, as on AWS."""
        asked = request.only("VpcId", "ServiceName", "PrivateDnsEnabled", "RouteTableIds", "SecurityGroupIds", "SubnetIds")
        if policy := request.get("PolicyDocument"):
            asked["PolicyDocument"] = policy if isinstance(policy, str) else json.dumps(policy)
        made = request.call(
            "ec2",
            "CreateVpcEndpoint",
            VpcEndpointType=request.get("VpcEndpointType", "Gateway"),
            ClientToken=request.record["token"],
            TagSpecifications=request.tag_specifications("vpc-endpoint"),
            **asked,
        )
        request.physical = made["VpcEndpoint"]["VpcEndpointId"]

    def _describe(self, request: Request) -> dict[str, Any]:
        found = request.call("ec2", "DescribeVpcEndpoints", VpcEndpointIds=[request.physical])["VpcEndpoints"]
        if not found:
            raise Failure(f"The VPC endpoint {request.physical} does not exist", "NotFound")
        return dict(found[0])

    def ready(self, request: Request) -> bool:
        """Whether it is ``available``."""
        endpoint = self._describe(request)
        if str(endpoint["State"]).lower() in ("failed", "rejected", "deleted"):
            raise Failure(f"VpcEndpoint {request.physical} did not stabilize", "NotStabilized")
        return str(endpoint["State"]).lower() == "available"

    def modify(self, request: Request, old: dict[str, Any]) -> None:
        """ModifyVpcEndpoint with what was added and removed."""
        changes: dict[str, Any] = {}
        for name, words in (("RouteTableIds", "RouteTableIds"), ("SubnetIds", "SubnetIds"), ("SecurityGroupIds", "SecurityGroupIds")):
            before, after = set(old.get(name) or []), set(request.get(name) or [])
            if after - before:
                changes[f"Add{words}"] = sorted(after - before)
            if before - after:
                changes[f"Remove{words}"] = sorted(before - after)
        policy = request.get("PolicyDocument")
        if policy != old.get("PolicyDocument"):
            changes |= (
                {"ResetPolicy": True} if policy is None else {"PolicyDocument": policy if isinstance(policy, str) else json.dumps(policy)}
            )
        if request.get("PrivateDnsEnabled") != old.get("PrivateDnsEnabled"):
            changes["PrivateDnsEnabled"] = request.get("PrivateDnsEnabled", False)
        if changes:
            request.call("ec2", "ModifyVpcEndpoint", VpcEndpointId=request.physical, **changes)

    def delete(self, request: Request) -> None:
        """DeleteVpcEndpoints; an entry in ``Unsuccessful`` is a failure."""
        answer = request.call("ec2", "DeleteVpcEndpoints", VpcEndpointIds=[request.physical])
        for failed in answer.get("Unsuccessful") or []:
            code = failed["Error"]["Code"]
            raise Failure(failed["Error"]["Message"], "NotFound" if "NotFound" in code else "GeneralServiceException")

    def gone(self, request: Request) -> bool:
        """Whether no trace is left but the state ``deleted``."""
        return str(self._describe(request)["State"]).lower() == "deleted"

    def attributes(self, request: Request) -> dict[str, Any]:
        """As DescribeVpcEndpoints says."""
        endpoint = self._describe(request)
        return {
            "Id": request.physical,
            "CreationTimestamp": str(endpoint.get("CreationTimestamp", "")),
            "DnsEntries": [f"{d.get('HostedZoneId', '')}:{d.get('DnsName', '')}" for d in endpoint.get("DnsEntries", [])],
            "NetworkInterfaceIds": endpoint.get("NetworkInterfaceIds", []),
        }


HANDLERS: tuple[type[Handler], ...] = (
    Vpc, VpcCidrBlock, Subnet, InternetGateway, VpcGatewayAttachment, Eip, NatGateway, RouteTable, Route, SubnetRouteTableAssociation,
    VpcEndpoint,
)  # fmt: skip
