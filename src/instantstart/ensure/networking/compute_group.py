"""The security group of HyperPod nodes in a VPC that no stack of ours made: with the rules that EFA needs, and gone with our nodes.

A cluster of our own has its group from its stack (templates/eks.yaml); an imported one gets this equal one, found again by our tags.
"""

from __future__ import annotations

from typing import Any

from instantstart.aws.session import Aws
from instantstart.base import names
from instantstart.base.outcome import Done, Outcome, Wait
from instantstart.ensure.networking import network

_ROLE_VALUE = "compute-group"


def ensure(aws: Aws, vpc_id: str, tags: dict[str, str]) -> Outcome:
    """Move one step towards the group. Done learns ``group_id``. Its name, one in a VPC, keeps a repeated request from making two."""
    found = _find(aws, vpc_id, tags[names.CLUSTER_TAG])
    if not found:
        name = f"hp-compute-{names.slug(tags[names.CLUSTER_TAG], 200)}"
        named = [{"Key": k, "Value": v} for k, v in {**tags, "Name": name, names.ROLE_TAG: _ROLE_VALUE}.items()]
        made = aws.create(
            "ec2",
            "create_security_group",
            GroupName=name,
            Description="Nodes of the HyperPod cluster, EFA between them, and the way out",
            VpcId=vpc_id,
            TagSpecifications=[{"ResourceType": "security-group", "Tags": named}],
        )
        return Wait(
            1, f"Made the security group {made['GroupId']} of the nodes" if made else f"The security group {name} appeared just now"
        )
    group_id = str(found[0]["GroupId"])
    missing = network.missing_efa_rules(aws, group_id)
    if missing:  # the way out to everywhere comes with the group, as EC2 makes it
        rule = [{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group_id, "Description": "EFA and node to node"}]}]
        if missing[0] == "ingress":
            aws.create("ec2", "authorize_security_group_ingress", GroupId=group_id, IpPermissions=rule)
        else:
            aws.create("ec2", "authorize_security_group_egress", GroupId=group_id, IpPermissions=rule)
        return Wait(1, f"Gave {group_id} the {missing[0]} rule that EFA needs")
    return Done({"group_id": group_id})


def remove_step(aws: Aws, vpc_id: str, cluster_tag: str) -> Wait | None:
    """Move one step towards the group being gone; None when it is. Its rules name itself, which holds nothing back."""
    for group in _find(aws, vpc_id, cluster_tag):
        held = aws.remove("ec2", "delete_security_group", GroupId=group["GroupId"])
        if held:
            return Wait(10, f"Waiting until nothing uses {group['GroupId']}: {held}")
        return Wait(0, f"Removed the security group {group['GroupId']}")
    return None


def _find(aws: Aws, vpc_id: str, cluster_tag: str) -> list[dict[str, Any]]:
    filters = [
        {"Name": "vpc-id", "Values": [vpc_id]},
        {"Name": f"tag:{names.CLUSTER_TAG}", "Values": [cluster_tag]},
        {"Name": f"tag:{names.ROLE_TAG}", "Values": [_ROLE_VALUE]},
    ]
    return aws.pages("ec2", "describe_security_groups", "SecurityGroups", Filters=filters)
