"""What the preflight reads of an account, side by side; what could not be read is None."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from instantstart.aws.session import Aws
from instantstart.base import problems
from instantstart.capabilities.clusters import specs
from instantstart.ensure import eks, stacks
from instantstart.ensure.capacity import hyperpod, offers
from instantstart.ensure.iam import permissions
from instantstart.ensure.networking import network
from instantstart.ensure.sites import Site
from instantstart.ensure.storage import buckets

#: calls at a time of one preflight: the quotas' twenty pages, and the rest beside them
_READERS = 4
VPC_QUOTA, ADDRESS_QUOTA = "L-F678F1CE", "L-0263D0A3"


@dataclass(frozen=True)
class Facts:
    """What the preflight read. None means "could not be read"."""

    account: str
    principal_arn: str
    region: str
    zone: offers.Zone | None
    zones: tuple[offers.Zone, ...]
    type_zones: set[str] | None
    type_facts: dict[str, Any] | None
    quotas: dict[str, float] | None
    used: int | None
    vpcs: int | None
    vpc_quota: float | None
    addresses: int | None
    address_quota: float | None
    versions: tuple[str, ...]
    plan: dict[str, Any] | None
    subnet: network.Subnet | None
    subnets: tuple[network.Subnet, ...] | None
    stack: stacks.Stack | None
    eks: dict[str, Any] | None
    denied: tuple[str, ...] | None
    now: float
    #: instance types of SageMaker's own model
    known_types: tuple[str, ...] = ()
    #: the bucket that was named: whether it is there and may be seen; None where none was, or it cannot be told
    bucket_found: bool | None = None


def observe(where: Site, ask: specs.RunPreflight | specs.ClusterTarget, now: float) -> Facts:
    """Read everything the checks need. Raises only what makes the whole preflight impossible (credentials, region)."""
    aws = where.aws
    zones = tuple(offers.list_zones(aws))
    identity = aws.identity()
    reads: dict[str, Callable[[], Any]] = {
        "type_zones": lambda: _maybe(lambda: offers.zones_of_type(aws, ask.instance_type)),
        "type_facts": lambda: offers.describe_type(aws, ask.instance_type),
        "quotas": lambda: offers.cluster_quotas(aws),
        "used": lambda: _used(aws, ask.instance_type),
        "vpcs": lambda: _maybe(lambda: len(aws.pages("ec2", "describe_vpcs", "Vpcs"))),
        "vpc_quota": lambda: offers.service_quota(aws, "vpc", VPC_QUOTA),
        "addresses": lambda: _maybe(lambda: len(aws.read("ec2", "describe_addresses")["Addresses"])),
        "address_quota": lambda: offers.service_quota(aws, "ec2", ADDRESS_QUOTA),
        "versions": lambda: tuple(offers.list_kubernetes_versions(aws)),
        "plan": lambda: _maybe(lambda: hyperpod.find_plan(aws, str(ask.training_plan_arn))) if ask.training_plan_arn else None,
        "subnet": lambda: _maybe(lambda: network.get_subnet(aws, str(ask.subnet_id))) if ask.subnet_id else None,
        "subnets": lambda: _maybe(lambda: tuple(network.list_subnets(aws, str(ask.vpc_id)))) if ask.vpc_id else (),
        "stack": lambda: stacks.find_stack(aws, where.names.stack),
        "eks": lambda: eks.find_cluster(aws, where.eks_cluster),
        "bucket_found": lambda: _found(aws, getattr(ask, "bucket", None)),
        "denied": lambda: permissions.unmet(aws, where.names, identity.principal_arn),
    }
    return Facts(
        account=identity.account,
        principal_arn=identity.principal_arn,
        region=aws.region,
        zone=next((z for z in zones if ask.zone in (z.name, z.zone_id)), None),
        zones=zones,
        known_types=tuple(offers.known_types(aws)),
        now=now,
        **_side_by_side(reads),
    )


def _side_by_side(reads: Mapping[str, Callable[[], Any]]) -> dict[str, Any]:
    """Every answer, by name. One after another they would be half of what a person waits for before anything happens."""
    with ThreadPoolExecutor(_READERS, thread_name_prefix="preflight") as pool:
        asked = {name: pool.submit(read) for name, read in reads.items()}
    return {name: each.result() for name, each in asked.items()}


def _maybe(read: Callable[[], Any]) -> Any:
    """The answer, or None when this identity may not read it. Passing weather is raised: it can be asked again."""
    try:
        return read()
    except (problems.Denied, problems.NotFound, problems.Invalid):
        return None


def _found(aws: Aws, bucket: str | None) -> bool | None:
    """Whether a named bucket is there; one that this identity may not see is the stage's to judge, with its words."""
    return None if bucket is None else _maybe(lambda: buckets.find_region(aws, bucket) is not None)


def _used(aws: Aws, instance_type: str) -> int | None:
    """How many nodes of a type the account's HyperPod clusters hold in this region; None when it cannot be read."""
    found = _maybe(
        lambda: [hyperpod.find_cluster(aws, c["ClusterName"]) for c in aws.pages("sagemaker", "list_clusters", "ClusterSummaries")]
    )
    if found is None:
        return None
    groups = [g for cluster in found if cluster for g in cluster.get("InstanceGroups", ())]
    return sum(int(g.get("TargetCount", 0)) for g in groups if g.get("InstanceType") == instance_type)
