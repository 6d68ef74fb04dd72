"""What stands in the way of deleting a VPC: load balancers, interfaces and groups that Kubernetes made outside any stack.

Only what carries this cluster's owner tag is removed; everything else is named with its owner (cases 4 and 5). In a VPC that
several clusters share, nothing of another cluster is touched.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from instantstart.aws.session import Aws
from instantstart.base import names, problems
from instantstart.base.outcome import Wait
from instantstart.ensure import stacks

#: tags of the VPC CNI plugin on the interfaces it makes
_CNI_TAG, _CNI_CLUSTER_TAG = "node.k8s.amazonaws.com/instance_id", "cluster.k8s.amazonaws.com/name"
#: what AWS's load balancer controller writes; the controller inside Kubernetes writes kubernetes.io/cluster/NAME=owned
_CONTROLLER_TAG = "elbv2.k8s.aws/cluster"
_EKS_GROUP = "eks-cluster-sg-"


@dataclass(frozen=True)
class Blocker:
    """One thing that keeps a deletion from ending, and why it is not ours to delete."""

    resource: str
    kind: str
    why: str


@dataclass(frozen=True)
class Vpc:
    """Where is looked, for which cluster. ``ours``: the VPC was made for it, so what its plugin left there is its own."""

    vpc_id: str
    eks_cluster: str
    tag: str
    ours: bool


def look(aws: Aws, vpc_id: str, eks_cluster: str, cluster_tag: str) -> Vpc | None:
    """The VPC as a place of this cluster; None when it is gone."""
    try:
        told = aws.read("ec2", "describe_vpcs", VpcIds=[vpc_id])["Vpcs"][0]
    except problems.NotFound:
        return None
    return Vpc(vpc_id, eks_cluster, cluster_tag, _tags(told.get("Tags")).get(names.CLUSTER_TAG) == cluster_tag)


def owner_tag(eks_cluster: str) -> str:
    """The tag key that Kubernetes' controllers put on what they make for a cluster (value ``owned``)."""
    return f"kubernetes.io/cluster/{eks_cluster}"


def remove_step(aws: Aws, place: Vpc) -> Wait | None:
    """Remove one owned leftover of the VPC; None when none is left."""
    return _load_balancer_step(aws, place) or _interface_step(aws, place) or _group_step(aws, place)


def _load_balancer_step(aws: Aws, place: Vpc) -> Wait | None:
    for balancer in _load_balancers(aws, place.vpc_id):
        if _owns(balancer.tags, place.eks_cluster):
            if balancer.arn:
                aws.remove("elbv2", "delete_load_balancer", LoadBalancerArn=balancer.arn)
            else:
                aws.remove("elb", "delete_load_balancer", LoadBalancerName=balancer.name)
            return Wait(5, f"Removed the load balancer {balancer.name} that a Service had made")
    for group in aws.pages("elbv2", "describe_target_groups", "TargetGroups"):
        if group.get("VpcId") == place.vpc_id and _owns(_v2_tags(aws, group["TargetGroupArn"]), place.eks_cluster):
            held = aws.remove("elbv2", "delete_target_group", TargetGroupArn=group["TargetGroupArn"])
            return Wait(5 if held else 0, f"Removing the target group {group['TargetGroupName']} of a Service")
    return None


def _interface_step(aws: Aws, place: Vpc) -> Wait | None:
    for interface in _interfaces(aws, place.vpc_id):
        if interface["Status"] == "available" and _is_of_plugin(interface, place):
            held = aws.remove("ec2", "delete_network_interface", NetworkInterfaceId=interface["NetworkInterfaceId"])
            if held:
                return Wait(10, f"Waiting for {interface['NetworkInterfaceId']} to be freed: {held}")
            return Wait(0, f"Removed the interface {interface['NetworkInterfaceId']} that the network plugin left behind")
    return None


def _is_of_plugin(interface: dict[str, Any], place: Vpc) -> bool:
    """Whether this cluster's network plugin made it. Older plugins do not name the cluster: then it counts in our own VPC only."""
    tags = _tags(interface.get("TagSet"))
    return _CNI_TAG in tags and (tags[_CNI_CLUSTER_TAG] == place.eks_cluster if _CNI_CLUSTER_TAG in tags else place.ours)


def _group_step(aws: Aws, place: Vpc) -> Wait | None:
    for group in _groups_of_services(aws, place):
        held = _break_references(aws, place, group["GroupId"]) or aws.remove("ec2", "delete_security_group", GroupId=group["GroupId"])
        if held:
            return Wait(10, f"Waiting until nothing uses {group['GroupId']}: {held}")
        return Wait(0, f"Removed the security group {group['GroupId']} that a Service had made")
    return None


def _groups_of_services(aws: Aws, place: Vpc) -> list[dict[str, Any]]:
    """Groups that Kubernetes made. EKS's own group and those of a stack are left to their makers."""
    groups = aws.pages("ec2", "describe_security_groups", "SecurityGroups", Filters=[{"Name": "vpc-id", "Values": [place.vpc_id]}])
    return [
        group
        for group in groups
        if _owns(_tags(group.get("Tags")), place.eks_cluster)
        and "aws:cloudformation:stack-name" not in _tags(group.get("Tags"))
        and not _is_of_aws(group)
    ]


def _is_of_aws(item: dict[str, Any]) -> bool:
    """A VPC's default group and EKS's own go with what they belong to."""
    name = str(item.get("GroupName", ""))
    return name == "default" or name.startswith(_EKS_GROUP)


def _break_references(aws: Aws, place: Vpc, group_id: str) -> str | None:
    """A group that other groups' rules name cannot be deleted: take those rules out where the other group is this cluster's too."""
    by_name = [{"Name": "vpc-id", "Values": [place.vpc_id]}, {"Name": "ip-permission.group-id", "Values": [group_id]}]
    for other in aws.pages("ec2", "describe_security_groups", "SecurityGroups", Filters=by_name):
        if other["GroupId"] == group_id:
            continue
        if not _owns(_tags(other.get("Tags")), place.eks_cluster):
            return f"a rule of {other['GroupId']} ({other['GroupName']}) names it"
        for rule in other["IpPermissions"]:
            pairs = [p for p in rule["UserIdGroupPairs"] if p["GroupId"] == group_id]
            if pairs:
                only = {k: v for k, v in rule.items() if k in ("IpProtocol", "FromPort", "ToPort")} | {"UserIdGroupPairs": pairs}
                aws.remove("ec2", "revoke_security_group_ingress", GroupId=other["GroupId"], IpPermissions=[only])
    return None


def blockers(aws: Aws, place: Vpc, subnet_ids: set[str] | None = None) -> list[Blocker]:
    """What is left that we did not make and will not delete, in all of a VPC of ours, or in ``subnet_ids`` only.

    In a VPC that is not ours, only what uses a security group of ours is in the way of our stack.
    """
    interfaces = [i for i in _interfaces(aws, place.vpc_id) if subnet_ids is None or i["SubnetId"] in subnet_ids]
    if subnet_ids is None and not place.ours:
        return [_interface_blocker(i) for i in _using_our_groups(aws, place, interfaces)]
    found = [
        Blocker(b.arn or b.name, "load balancer", f"not tagged {owner_tag(place.eks_cluster)}=owned: somebody else's")
        for b in _load_balancers(aws, place.vpc_id)
        if not _owns(b.tags, place.eks_cluster) and (subnet_ids is None or subnet_ids & set(b.subnets))
    ]
    for interface in interfaces:
        # what a service of AWS manages goes with its owner; in a subnet of ours it is named all the same once it has stayed too long
        named = subnet_ids is not None or not interface.get("RequesterManaged")
        if named and not _is_of_plugin(interface, place):
            found.append(_interface_blocker(interface))
    return found + (_other_blockers(aws, place) if place.ours and subnet_ids is None else [])


def _using_our_groups(aws: Aws, place: Vpc, interfaces: list[dict[str, Any]]) -> list[dict[str, Any]]:
    groups = aws.pages("ec2", "describe_security_groups", "SecurityGroups", Filters=[{"Name": "vpc-id", "Values": [place.vpc_id]}])
    ours = {g["GroupId"] for g in groups if _tags(g.get("Tags")).get(names.CLUSTER_TAG) == place.tag}
    used = [i for i in interfaces if ours & {g["GroupId"] for g in i.get("Groups", ())}]
    return [i for i in used if not i.get("RequesterManaged") and not _is_of_plugin(i, place)]


def _interface_blocker(interface: dict[str, Any]) -> Blocker:
    attached = interface.get("Attachment", {})
    who = attached.get("InstanceOwnerId") or interface.get("OwnerId")
    user = f", used by {attached['InstanceId']}" if attached.get("InstanceId") else ""
    told = f"{interface['Status']}{user}, owner {who}, {interface.get('Description') or 'no description'}"
    return Blocker(interface["NetworkInterfaceId"], "network interface", told)


def _other_blockers(aws: Aws, place: Vpc) -> list[Blocker]:
    """Subnets and security groups that somebody added to our VPC."""
    here = [{"Name": "vpc-id", "Values": [place.vpc_id]}]
    found = []
    for service, key, kind, ident in (
        ("describe_subnets", "Subnets", "subnet", "SubnetId"),
        ("describe_security_groups", "SecurityGroups", "security group", "GroupId"),
    ):
        for item in aws.pages("ec2", service, key, Filters=here):
            tags = _tags(item.get("Tags"))
            known = names.CLUSTER_TAG in tags or any(t.startswith("aws:") for t in tags) or _owns(tags, place.eks_cluster)
            if not known and not _is_of_aws(item):
                found.append(Blocker(item[ident], kind, "it carries no tag of ours: somebody else made it"))
    return found


@dataclass(frozen=True)
class _Balancer:
    """A load balancer of either API; the older kind has no ARN."""

    name: str
    arn: str | None
    tags: dict[str, str]
    subnets: tuple[str, ...]


def _load_balancers(aws: Aws, vpc_id: str) -> list[_Balancer]:
    newer = [b for b in aws.pages("elbv2", "describe_load_balancers", "LoadBalancers") if b.get("VpcId") == vpc_id]
    older = [b for b in aws.pages("elb", "describe_load_balancers", "LoadBalancerDescriptions") if b.get("VPCId") == vpc_id]
    found = [
        _Balancer(
            b["LoadBalancerName"],
            b["LoadBalancerArn"],
            _v2_tags(aws, b["LoadBalancerArn"]),
            tuple(z["SubnetId"] for z in b.get("AvailabilityZones", ()) if z.get("SubnetId")),
        )
        for b in newer
    ]
    for balancer in older:
        name = balancer["LoadBalancerName"]
        told = aws.read("elb", "describe_tags", LoadBalancerNames=[name])["TagDescriptions"]
        found.append(_Balancer(name, None, _tags(told[0]["Tags"]) if told else {}, tuple(balancer.get("Subnets", ()))))
    return found


def _v2_tags(aws: Aws, arn: str) -> dict[str, str]:
    told = aws.read("elbv2", "describe_tags", ResourceArns=[arn])["TagDescriptions"]
    return _tags(told[0]["Tags"]) if told else {}


def _interfaces(aws: Aws, vpc_id: str) -> list[dict[str, Any]]:
    return aws.pages("ec2", "describe_network_interfaces", "NetworkInterfaces", Filters=[{"Name": "vpc-id", "Values": [vpc_id]}])


def _owns(tags: dict[str, str], eks_cluster: str) -> bool:
    return tags.get(owner_tag(eks_cluster)) == "owned" or tags.get(_CONTROLLER_TAG) == eks_cluster


def _tags(tags: Any) -> dict[str, str]:
    return {t["Key"]: t["Value"] for t in tags or ()}


def refusal(aws: Aws, stack: stacks.Stack, place: Vpc | None) -> problems.Problem:
    """Why the stack cannot be deleted: CloudFormation's own reason, and every blocker with its owner."""
    found = blockers(aws, place) if place else []
    last = stacks.last_failure(aws, stack.stack_id)
    kept = f"; CloudFormation says: {last['type']} {last['resource']}: {last['reason']}" if last else f"; {stack.reason}"
    told = "; ".join(f"{b.kind} {b.resource} ({b.why})" for b in found[:5])
    return problems.Blocked(
        "cluster.delete_blocked",
        f"The network cannot be removed because of {told}{kept}." if told else f"The stack {stack.name} cannot be removed{kept}.",
        hint="What is named was not made by InstantStart. Remove it, then retry the deletion."
        if found
        else "Mend the reason, then retry the deletion.",
        evidence={"service": "cloudformation", "stack": stack.name, "blockers": [vars(b) for b in found], "last_event": last},
    )


def tagged(aws: Aws, cluster_tag: str) -> list[str]:
    """The EC2 resources of the region that still carry our cluster tag, as ids.

    A deleted NAT gateway stays listed for an hour (EC2 user guide) and is passed over.
    """
    filters = [{"Name": "key", "Values": [names.CLUSTER_TAG]}, {"Name": "value", "Values": [cluster_tag]}]
    found = aws.pages("ec2", "describe_tags", "Tags", Filters=filters)
    return [t["ResourceId"] for t in found if not t["ResourceId"].startswith("nat-")]
