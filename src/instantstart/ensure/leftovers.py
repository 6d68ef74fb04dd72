"""What stands in the way of deleting a VPC: load balancers, interfaces and groups that Kubernetes made outside any stack.

Only what carries this cluster's owner tag is removed; everything else is named with its owner (cases 4 and 5).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from instantstart.aws.session import Aws
from instantstart.base import names, problems
from instantstart.base.outcome import Wait
from instantstart.ensure import stacks

_CNI_TAG = "node.k8s.amazonaws.com/instance_id"


@dataclass(frozen=True)
class Blocker:
    """One thing that keeps a deletion from ending, and why it is not ours to delete."""

    resource: str
    kind: str
    why: str


def owner_tag(eks_cluster: str) -> str:
    """The tag key that Kubernetes' controllers put on what they make for a cluster (value ``owned``)."""
    return f"kubernetes.io/cluster/{eks_cluster}"


def remove_step(aws: Aws, vpc_id: str, eks_cluster: str) -> Wait | None:
    """Remove one owned leftover of the VPC; None when none is left."""
    return _load_balancer_step(aws, vpc_id, eks_cluster) or _interface_step(aws, vpc_id) or _group_step(aws, vpc_id, eks_cluster)


def _load_balancer_step(aws: Aws, vpc_id: str, eks_cluster: str) -> Wait | None:
    for balancer in _load_balancers(aws, vpc_id):
        if _owns(_balancer_tags(aws, balancer["LoadBalancerArn"]), eks_cluster):
            aws.write("elbv2", "delete_load_balancer", LoadBalancerArn=balancer["LoadBalancerArn"])
            return Wait(5, f"Removed the load balancer {balancer['LoadBalancerName']} that a Service had made")
    return None


def _interface_step(aws: Aws, vpc_id: str) -> Wait | None:
    for interface in _interfaces(aws, vpc_id):
        if interface["Status"] == "available" and _CNI_TAG in _tags(interface.get("TagSet")):
            try:
                aws.write("ec2", "delete_network_interface", NetworkInterfaceId=interface["NetworkInterfaceId"])
            except problems.Conflict as problem:
                return Wait(10, f"Waiting for {interface['NetworkInterfaceId']} to be freed: {problem.detail}")
            return Wait(0, f"Removed the interface {interface['NetworkInterfaceId']} that the network plugin left behind")
    return None


def _group_step(aws: Aws, vpc_id: str, eks_cluster: str) -> Wait | None:
    for group in aws.pages("ec2", "describe_security_groups", "SecurityGroups", Filters=[{"Name": "vpc-id", "Values": [vpc_id]}]):
        made_by_stack = "aws:cloudformation:stack-name" in _tags(group.get("Tags"))
        if _owns(_tags(group.get("Tags")), eks_cluster) and not made_by_stack and group["GroupName"] != "default":
            if group["GroupName"].startswith("eks-cluster-sg-"):
                continue
            try:
                aws.write("ec2", "delete_security_group", GroupId=group["GroupId"])
            except problems.Conflict as problem:
                return Wait(10, f"Waiting until nothing uses {group['GroupId']}: {problem.detail}")
            return Wait(0, f"Removed the security group {group['GroupId']} that a Service had made")
    return None


def blockers(aws: Aws, vpc_id: str, eks_cluster: str) -> list[Blocker]:
    """What is left in the VPC that we did not make and will not delete."""
    found = [
        Blocker(b["LoadBalancerArn"], "load balancer", f"not tagged {owner_tag(eks_cluster)}=owned: somebody else's")
        for b in _load_balancers(aws, vpc_id)
        if not _owns(_balancer_tags(aws, b["LoadBalancerArn"]), eks_cluster)
    ]
    for interface in _interfaces(aws, vpc_id):
        tags = _tags(interface.get("TagSet"))
        if interface.get("RequesterManaged") or _CNI_TAG in tags:
            continue
        who = interface.get("Attachment", {}).get("InstanceOwnerId") or interface.get("OwnerId")
        found.append(
            Blocker(
                interface["NetworkInterfaceId"],
                "network interface",
                f"{interface['Status']}, owner {who}, {interface.get('Description') or 'no description'}",
            )
        )
    return found


def _load_balancers(aws: Aws, vpc_id: str) -> list[dict[str, Any]]:
    return [b for b in aws.pages("elbv2", "describe_load_balancers", "LoadBalancers") if b.get("VpcId") == vpc_id]


def _balancer_tags(aws: Aws, arn: str) -> dict[str, str]:
    told = aws.read("elbv2", "describe_tags", ResourceArns=[arn])["TagDescriptions"]
    return _tags(told[0]["Tags"]) if told else {}


def _interfaces(aws: Aws, vpc_id: str) -> list[dict[str, Any]]:
    return aws.pages("ec2", "describe_network_interfaces", "NetworkInterfaces", Filters=[{"Name": "vpc-id", "Values": [vpc_id]}])


def _owns(tags: dict[str, str], eks_cluster: str) -> bool:
    return tags.get(owner_tag(eks_cluster)) == "owned"


def _tags(tags: Any) -> dict[str, str]:
    return {t["Key"]: t["Value"] for t in tags or ()}


def refusal(aws: Aws, stack: stacks.Stack, vpc_id: str | None, eks_cluster: str) -> problems.Problem:
    """Why the stack cannot be deleted: CloudFormation's own reason, and every blocker with its owner."""
    found = blockers(aws, vpc_id, eks_cluster) if vpc_id else []
    first = stacks.first_failure(aws, stack.stack_id) or {}
    told = "; ".join(f"{b.kind} {b.resource} ({b.why})" for b in found[:5]) or first.get("reason") or stack.reason
    return problems.Blocked(
        "cluster.delete_blocked",
        f"The network cannot be removed because of: {told}.",
        hint="These were not made by InstantStart. Remove them, then retry the deletion.",
        evidence={"stack": stack.name, "blockers": [vars(b) for b in found], "last_event": first},
    )


def tagged(aws: Aws, cluster_tag: str) -> list[str]:
    """The EC2 resources of the region that still carry our cluster tag, as ids.

    A deleted NAT gateway stays listed for an hour (EC2 user guide) and is passed over.
    """
    filters = [{"Name": "key", "Values": [names.CLUSTER_TAG]}, {"Name": "value", "Values": [cluster_tag]}]
    found = aws.pages("ec2", "describe_tags", "Tags", Filters=filters)
    return [t["ResourceId"] for t in found if not t["ResourceId"].startswith("nat-")]
