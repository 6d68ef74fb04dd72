"""What happens to a cluster with time: its network, its API server, and its end."""

from __future__ import annotations

import base64
import secrets
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from instantstart_sandbox.services import interfaces, lookups
from instantstart_sandbox.services.arns import Arn, dns_suffix
from instantstart_sandbox.services.eks.state import Record, clusters

if TYPE_CHECKING:
    from instantstart_sandbox.world.state import World

#: EKS puts two to four interfaces into the given subnets
_CONTROL_PLANE_INTERFACES = 2


def lay_network(world: World, arn: str) -> None:
    """Make the cluster security group and the control plane's interfaces; a missing subnet fails the cluster."""
    record = clusters(world).get(arn)
    if record is None or record["view"]["status"] != "CREATING":
        return
    view, network = record["view"], record["view"]["resourcesVpcConfig"]
    region = Arn.parse(arn).region
    chosen = _one_per_zone(world, region, network["subnetIds"])
    try:
        network["clusterSecurityGroupId"] = _security_group(world, region, view["name"], network["vpcId"])
        groups = [network["clusterSecurityGroupId"], *network["securityGroupIds"]]
        for subnet in chosen:
            made = interfaces.create(world, arn, subnet, groups, [f"Amazon EKS {view['name']}"])
            record["interfaces"] += [m["id"] for m in made]
        if len(chosen) < _CONTROL_PLANE_INTERFACES:
            raise interfaces.NoInterface("One or more of the cluster's subnets do not exist")
    except (interfaces.NoInterface, ClientError) as error:
        view["status"] = "FAILED"
        issue = {"code": "Ec2SubnetNotFound", "message": str(error), "resourceIds": list(network["subnetIds"])}
        view["health"]["issues"].append(issue)
    world.changed()


def _one_per_zone(world: World, region: str, ids: list[str]) -> list[str]:
    by_zone: dict[str, str] = {}
    for subnet_id, subnet in lookups.subnets(world, region, ids).items():
        by_zone.setdefault(subnet["AvailabilityZone"], subnet_id)
    return list(by_zone.values())[:_CONTROL_PLANE_INTERFACES]


def _security_group(world: World, region: str, name: str, vpc: str) -> str:
    """The group EKS makes itself: everything among its members, everything out."""
    ec2 = world.client("ec2", region)
    group_name = f"eks-cluster-sg-{name}-{secrets.randbelow(10**9):09d}"
    tags = [{"Key": "Name", "Value": group_name}, {"Key": f"kubernetes.io/cluster/{name}", "Value": "owned"}]
    group = str(
        ec2.create_security_group(
            GroupName=group_name,
            Description="EKS created security group applied to ENI that is attached to EKS Control Plane master nodes, "
            "as well as any managed workloads.",
            VpcId=vpc,
            TagSpecifications=[{"ResourceType": "security-group", "Tags": tags}],
        )["GroupId"]
    )
    rule = {"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group}]}
    ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=[rule])
    return group


def become_active(world: World, arn: str) -> None:
    """Start the API server and say where it is."""
    record = clusters(world).get(arn)
    if record is None or record["view"]["status"] != "CREATING":
        return
    view, place = record["view"], Arn.parse(arn)
    endpoint = world.kubernetes.create_cluster(arn, view["name"], place.region, view["version"])
    issuer = f"https://oidc.eks.{place.region}.{dns_suffix(place.partition)}/id/{secrets.token_hex(16).upper()}"
    view |= {
        "endpoint": endpoint.url,
        "certificateAuthority": {"data": base64.b64encode(endpoint.ca_pem.encode()).decode()},
        "identity": {"oidc": {"issuer": issuer}},
        "status": "ACTIVE",
    }
    world.kubernetes.nudge(arn)
    world.changed()


def vanish(world: World, arn: str) -> None:
    """The end: API server, interfaces and cluster security group go; a group in use by others stays."""
    record = clusters(world).pop(arn, None)
    if record is None:
        return
    world.kubernetes.delete_cluster(arn)
    interfaces.delete(world, arn, record["interfaces"])
    _drop_group(world, Arn.parse(arn).region, record)
    world.changed()


def _drop_group(world: World, region: str, record: Record) -> None:
    group: Any = record["view"]["resourcesVpcConfig"].get("clusterSecurityGroupId")
    if not group:
        return
    try:
        world.client("ec2", region).delete_security_group(GroupId=group)
    except ClientError as error:
        if error.response["Error"]["Code"] not in ("DependencyViolation", "InvalidGroup.NotFound"):
            raise


TIMERS = {"eks.cluster.network": lay_network, "eks.cluster.active": become_active, "eks.cluster.gone": vanish}
