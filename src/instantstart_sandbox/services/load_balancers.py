"""Network load balancers that Kubernetes makes for its Services: they outlive the EKS cluster unless Kubernetes removes them (case 4)."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from instantstart_sandbox.services import interfaces
from instantstart_sandbox.services.arns import Arn
from instantstart_sandbox.services.eks.state import clusters

if TYPE_CHECKING:
    from instantstart_sandbox.world.state import World

#: a subnet's tag that lets load balancers of a scheme stand in it (facts A6)
_ROLE_TAGS = {"internal": "kubernetes.io/role/internal-elb", "internet-facing": "kubernetes.io/role/elb"}


def _made(world: World) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = world.section("eks").setdefault("load_balancers", {})
    return found


def create(world: World, cluster: str, service: str, scheme: str) -> str:
    """Make it, or answer the one that is there: its DNS name. ``service`` is ``namespace/name``.

    Raises LookupError when no subnet of the VPC has the role tag, and KeyError for an unknown cluster.
    """
    key = f"{cluster}|{service}"
    if key in _made(world):
        return str(_made(world)[key]["dns"])
    view, place = clusters(world)[cluster]["view"], Arn.parse(cluster)
    vpc = view["resourcesVpcConfig"]["vpcId"]
    subnets = _subnets(world, place.region, vpc, scheme)
    short = hashlib.sha256(key.encode()).hexdigest()[:10]
    name = f"k8s-{service.replace('/', '-')[:16].rstrip('-')}-{short}"
    group = _security_group(world, place.region, view["name"], vpc, short)
    made = world.client("elbv2", place.region).create_load_balancer(
        Name=name,
        Type="network",
        Scheme=scheme,
        Subnets=subnets,
        SecurityGroups=[group],
        Tags=[{"Key": f"kubernetes.io/cluster/{view['name']}", "Value": "owned"}, {"Key": "kubernetes.io/service-name", "Value": service}],
    )["LoadBalancers"][0]
    text = f"ELB net/{name}/{made['LoadBalancerArn'].rsplit('/', 1)[-1]}"
    held = [one["id"] for subnet in subnets for one in interfaces.create(world, cluster, subnet, [group], [text])]
    _made(world)[key] = {"arn": made["LoadBalancerArn"], "dns": made["DNSName"], "group": group, "interfaces": held}
    world.changed()
    return str(made["DNSName"])


def target(world: World, host: str) -> tuple[str, str] | None:
    """(cluster, ``namespace/name``) of the load balancer with that DNS name; an Ingress' is ``ingress/namespace/name``."""
    found = next((k for k, held in _made(world).items() if held["dns"].lower() == host.lower()), None)
    return (found.partition("|")[0], found.partition("|")[2]) if found is not None else None


def open_to(world: World, cluster: str, service: str, ranges: list[str], ports: list[int]) -> None:
    """Let these CIDR ranges in at these ports: what the load balancer's security group says from now on."""
    held = _made(world)[f"{cluster}|{service}"]
    client = world.client("ec2", Arn.parse(cluster).region)
    group = client.describe_security_groups(GroupIds=[held["group"]])["SecurityGroups"][0]
    if group["IpPermissions"]:
        client.revoke_security_group_ingress(GroupId=held["group"], IpPermissions=group["IpPermissions"])
    wanted = [
        {
            "IpProtocol": "tcp",
            "FromPort": port,
            "ToPort": port,
            "IpRanges": [{"CidrIp": r} for r in ranges if ":" not in r],
            "Ipv6Ranges": [{"CidrIpv6": r} for r in ranges if ":" in r],
        }
        for port in ports
    ]
    if wanted:
        client.authorize_security_group_ingress(GroupId=held["group"], IpPermissions=wanted)


def _subnets(world: World, region: str, vpc: str, scheme: str) -> list[str]:
    """One subnet in each zone, as the service controller picks them: the first by id with the role tag."""
    wanted = [{"Name": "vpc-id", "Values": [vpc]}, {"Name": "tag-key", "Values": [_ROLE_TAGS[scheme]]}]
    by_zone: dict[str, str] = {}
    for subnet in sorted(world.client("ec2", region).describe_subnets(Filters=wanted)["Subnets"], key=lambda s: s["SubnetId"]):
        by_zone.setdefault(subnet["AvailabilityZone"], subnet["SubnetId"])
    if not by_zone:
        raise LookupError("could not find any suitable subnets for creating the ELB")
    return list(by_zone.values())


def _security_group(world: World, region: str, cluster: str, vpc: str, short: str) -> str:
    tags = [{"Key": f"kubernetes.io/cluster/{cluster}", "Value": "owned"}]
    made = world.client("ec2", region).create_security_group(
        GroupName=f"k8s-elb-{short}",
        Description="Security group for Kubernetes ELB",
        VpcId=vpc,
        TagSpecifications=[{"ResourceType": "security-group", "Tags": tags}],
    )
    return str(made["GroupId"])


def delete(world: World, cluster: str, service: str) -> None:
    """Remove it with its interfaces and security group; one that is not there is fine."""
    held = _made(world).pop(f"{cluster}|{service}", None)
    if held is None:
        return
    region = Arn.parse(cluster).region
    try:
        world.client("elbv2", region).delete_load_balancer(LoadBalancerArn=held["arn"])
        interfaces.delete(world, cluster, held["interfaces"])
        world.client("ec2", region).delete_security_group(GroupId=held["group"])
    except ClientError as error:
        # somebody removed a part by hand, or uses the group elsewhere: the rest is theirs
        if error.response["Error"]["Code"] not in ("LoadBalancerNotFound", "InvalidGroup.NotFound", "DependencyViolation"):
            raise
    world.changed()
