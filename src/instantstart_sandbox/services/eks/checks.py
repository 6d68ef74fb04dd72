"""What CreateCluster refuses (facts A5; texts as EKS words them where they are known)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from instantstart_sandbox.gateway.errors import AwsError
from instantstart_sandbox.services import lookups
from instantstart_sandbox.services.eks.state import clusters, invalid
from instantstart_sandbox.services.eks.versions import BY_NAME

if TYPE_CHECKING:
    from instantstart_sandbox.gateway.registry import Context

#: zone ids in which EKS puts no control plane (EKS user guide, "subnet requirements")
UNSUPPORTED_ZONE_IDS = frozenset({"use1-az3", "usw1-az2", "cac1-az3"})
_CLUSTERS_PER_REGION = 100
_FREE_ADDRESSES_NEEDED = 6
_NAME = re.compile(r"[0-9A-Za-z][A-Za-z0-9\-_]{0,99}")


def check_create(ctx: Context, params: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Refuse a bad CreateCluster; answers its subnets by id."""
    name = params["name"]
    if not _NAME.fullmatch(name):
        raise invalid(f"The cluster name {name!r} is invalid: it must match ^[0-9A-Za-z][A-Za-z0-9\\-_]*", clusterName=name)
    if sum(1 for arn in clusters(ctx.world) if f":{ctx.region}:" in arn) >= _CLUSTERS_PER_REGION:
        message = f"Cluster limit exceeded: {_CLUSTERS_PER_REGION} clusters per region"
        raise AwsError("ResourceLimitExceededException", message, clusterName=name)
    version = params.get("version")
    if version is not None and version not in BY_NAME:
        raise invalid(f"unsupported Kubernetes version {version}", clusterName=name)
    check_role(ctx, name, params["roleArn"])
    network = params["resourcesVpcConfig"]
    _check_endpoint(name, network)
    found = check_subnets(ctx, name, network.get("subnetIds") or [])
    check_groups(ctx, name, network.get("securityGroupIds") or [])
    return found


def check_role(ctx: Context, cluster: str, role_arn: str) -> None:
    """The cluster role must exist, be visible to EKS, and trust it."""
    if not lookups.role_trusts(ctx.world, role_arn, ctx.region, "eks"):
        message = f"Role with arn: {role_arn}, could not be assumed because it does not exist or the trusted entity is not correct"
        raise invalid(message, clusterName=cluster)


def check_subnets(ctx: Context, cluster: str, ids: list[str]) -> dict[str, dict[str, Any]]:
    """Subnets exist, share a VPC, lie in two supported zones and have room for the control plane's interfaces."""
    found = lookups.subnets(ctx.world, ctx.region, ids) if ids else {}
    for subnet_id in ids:
        if subnet_id not in found:
            raise invalid(f"The subnet ID '{subnet_id}' does not exist", clusterName=cluster)
    if len({s["VpcId"] for s in found.values()}) > 1:
        raise invalid("Subnets specified must be in the same VPC", clusterName=cluster)
    _check_zones(ctx, cluster, found)
    if len({s["AvailabilityZone"] for s in found.values()}) < 2:
        raise invalid("Subnets specified must be in at least two different AZs", clusterName=cluster)
    for subnet_id, subnet in found.items():
        if subnet["AvailableIpAddressCount"] < _FREE_ADDRESSES_NEEDED:
            message = f"Subnet {subnet_id} does not have enough free IP addresses: EKS needs {_FREE_ADDRESSES_NEEDED}"
            raise invalid(message, clusterName=cluster)
    return found


def _check_zones(ctx: Context, cluster: str, found: dict[str, dict[str, Any]]) -> None:
    zones = lookups.zones(ctx.world, ctx.region)
    usable = sorted(name for name, zone_id in zones.items() if zone_id not in UNSUPPORTED_ZONE_IDS)
    for subnet in found.values():
        if subnet["AvailabilityZone"] not in usable:
            message = (
                f"Cannot create cluster '{cluster}' because {subnet['AvailabilityZone']}, the targeted availability zone, does not "
                "currently have sufficient capacity to support the cluster. Retry and choose from these availability zones: "
                f"{', '.join(usable)}"
            )
            raise AwsError("UnsupportedAvailabilityZoneException", message, clusterName=cluster, validZones=usable)


def check_groups(ctx: Context, cluster: str, ids: list[str]) -> None:
    """Additional security groups must exist."""
    found = lookups.security_groups(ctx.world, ctx.region, ids) if ids else {}
    for group in ids:
        if group not in found:
            raise invalid(f"The security group '{group}' does not exist", clusterName=cluster)


def _check_endpoint(cluster: str, network: dict[str, Any]) -> None:
    if network.get("endpointPublicAccess") is False and not network.get("endpointPrivateAccess"):
        raise invalid("Private and public endpoint access cannot be false", clusterName=cluster)
