"""AWS::EC2 security groups and their rules."""

from __future__ import annotations

from typing import Any

from instantstart_sandbox.services.cloudformation.resources.ec2_network import TaggedEc2
from instantstart_sandbox.services.cloudformation.resources.handler import Failure, Handler, Request
from instantstart_sandbox.services.cloudformation.resources.shapes import shape

_INGRESS = "CidrIp CidrIpv6 Description FromPort IpProtocol* SourcePrefixListId SourceSecurityGroupId SourceSecurityGroupOwnerId ToPort"
_EGRESS = "CidrIp CidrIpv6 Description DestinationPrefixListId DestinationSecurityGroupId FromPort IpProtocol* ToPort"
#: what CloudFormation puts in place of the default rule, because EC2 knows no group with "no egress" in a template
_EVERYWHERE = {"IpProtocol": "-1", "CidrIp": "0.0.0.0/0"}


def permission(rule: dict[str, Any]) -> dict[str, Any]:
    """A rule of a template as EC2's IpPermission; Failure when it names no source or several."""
    why = {"Description": rule["Description"]} if rule.get("Description") else {}
    peers = {
        "CidrIp": ("IpRanges", "CidrIp"),
        "CidrIpv6": ("Ipv6Ranges", "CidrIpv6"),
        "SourcePrefixListId": ("PrefixListIds", "PrefixListId"),
        "DestinationPrefixListId": ("PrefixListIds", "PrefixListId"),
        "SourceSecurityGroupId": ("UserIdGroupPairs", "GroupId"),
        "DestinationSecurityGroupId": ("UserIdGroupPairs", "GroupId"),
    }
    named = [name for name in peers if rule.get(name)]
    if len(named) != 1:
        raise Failure("Exactly one source or destination of a security group rule must be specified", "InvalidRequest")
    member, key = peers[named[0]]
    ports: dict[str, Any] = {name: int(rule[name]) for name in ("FromPort", "ToPort") if name in rule}
    return {"IpProtocol": str(rule["IpProtocol"]), **ports, member: [{key: rule[named[0]], **why}]}


class SecurityGroup(TaggedEc2):
    """AWS::EC2::SecurityGroup. Ref and GroupId are both the group's id in a VPC."""

    type = "AWS::EC2::SecurityGroup"
    name_property = "GroupName"
    shape = shape(
        "GroupDescription*! GroupName! SecurityGroupEgress[] SecurityGroupIngress[] Tags[] VpcId!",
        SecurityGroupEgress=shape(_EGRESS),
        SecurityGroupIngress=shape(_INGRESS, unsupported="SourceSecurityGroupName"),
    )
    seconds = 5.0

    def create(self, request: Request) -> None:
        """CreateSecurityGroup, then its rules; egress rules of the template take the place of the default one."""
        made = request.call(
            "ec2",
            "CreateSecurityGroup",
            GroupName=request.get("GroupName") or request.name(255),
            Description=request.get("GroupDescription"),
            VpcId=request.get("VpcId"),
            TagSpecifications=request.tag_specifications("security-group"),
        )
        request.physical = made["GroupId"]
        self.modify(request, {})

    def modify(self, request: Request, old: dict[str, Any]) -> None:
        """Revoke the rules that went and authorize those that came."""
        for member, direction in (("SecurityGroupIngress", "Ingress"), ("SecurityGroupEgress", "Egress")):
            before, after = self._rules(old, member), self._rules(request.properties, member)
            gone, come = [r for r in before if r not in after], [r for r in after if r not in before]
            for rule in gone:
                self._change(request, f"RevokeSecurityGroup{direction}", rule, "NotFound")
            for rule in come:
                self._change(request, f"AuthorizeSecurityGroup{direction}", rule, "AlreadyExists" if old else "")

    def _change(self, request: Request, operation: str, rule: dict[str, Any], already: str) -> None:
        """One rule; ``already`` is the code that says it is as wished (an update that is tried again, or taken back)."""
        try:
            request.call("ec2", operation, GroupId=request.physical, IpPermissions=[permission(rule)])
        except Failure as failure:
            if failure.code != already:
                raise

    def _rules(self, properties: dict[str, Any], member: str) -> list[dict[str, Any]]:
        rules = list(properties.get(member) or [])
        return rules or ([_EVERYWHERE] if member == "SecurityGroupEgress" else [])

    def delete(self, request: Request) -> None:
        """DeleteSecurityGroup."""
        request.call("ec2", "DeleteSecurityGroup", GroupId=request.physical)

    def attributes(self, request: Request) -> dict[str, Any]:
        """The ids."""
        group = request.call("ec2", "DescribeSecurityGroups", GroupIds=[request.physical])["SecurityGroups"][0]
        return {"GroupId": request.physical, "Id": request.physical, "VpcId": group.get("VpcId", "")}


class _Rule(Handler):
    """One rule as a resource of its own; its physical id is the rule id ``sgr-...``."""

    direction = ""

    def create(self, request: Request) -> None:
        """Authorize the rule."""
        made = request.call(
            "ec2", f"AuthorizeSecurityGroup{self.direction}", GroupId=request.get("GroupId"), IpPermissions=[permission(request.properties)]
        )
        request.physical = made["SecurityGroupRules"][0]["SecurityGroupRuleId"]

    def delete(self, request: Request) -> None:
        """Revoke the rule."""
        request.call("ec2", f"RevokeSecurityGroup{self.direction}", GroupId=request.get("GroupId"), SecurityGroupRuleIds=[request.physical])

    def attributes(self, request: Request) -> dict[str, Any]:
        """The rule id."""
        return {"Id": request.physical}


class SecurityGroupIngress(_Rule):
    """AWS::EC2::SecurityGroupIngress."""

    type = "AWS::EC2::SecurityGroupIngress"
    direction = "Ingress"
    shape = shape(
        "CidrIp! CidrIpv6! Description FromPort! GroupId! IpProtocol*! SourcePrefixListId! SourceSecurityGroupId! "
        "SourceSecurityGroupOwnerId! ToPort!",
        unsupported="GroupName SourceSecurityGroupName",
    )


class SecurityGroupEgress(_Rule):
    """AWS::EC2::SecurityGroupEgress."""

    type = "AWS::EC2::SecurityGroupEgress"
    direction = "Egress"
    shape = shape(
        "CidrIp! CidrIpv6! Description DestinationPrefixListId! DestinationSecurityGroupId! FromPort! GroupId*! IpProtocol*! ToPort!"
    )


HANDLERS: tuple[type[Handler], ...] = (SecurityGroup, SecurityGroupIngress, SecurityGroupEgress)
