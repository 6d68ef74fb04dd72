"""What can be read of instance groups: one DescribeCluster for all of them, with zones, plans and owners beside it."""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from instantstart.base import problems
from instantstart.capabilities.activity import ActiveOperation
from instantstart.capabilities.capacity.groups import judging, specs
from instantstart.capabilities.room import Room
from instantstart.capabilities.vocabulary import CapacityType
from instantstart.ensure.capacity import arrivals, groups, hyperpod, karpenter, labels, plans, scaling
from instantstart.ensure.networking import network
from instantstart.ensure.sites import Site
from instantstart.operations.record import ACTIVE

#: seconds for which subnets and training plans of a list are kept: they change rarely, a console asks often
_KEPT_SECONDS = 30.0


@dataclass(frozen=True)
class PlanOfGroup:
    """The training plan that a group hangs on. Its nodes are taken away at ``ends_at``."""

    arn: str
    status: str | None
    ends_at: dt.datetime | None


@dataclass(frozen=True)
class GroupView:
    """One instance group. ``count`` is wished, ``current`` is there; ``why`` is the newest trouble of a group that lacks nodes.

    ``owner`` is the Karpenter node class that scales the group; ``unread`` names what could not be read.
    """

    name: str
    status: str
    count: int
    current: int
    min_count: int | None
    instance_types: tuple[str, ...]
    capacity_type: CapacityType
    training_plan: PlanOfGroup | None
    zones: tuple[str, ...]
    subnet_ids: tuple[str, ...]
    dedicated_subnet: bool
    network_interface: specs.InterfaceMode
    volume_gib: int | None
    labels: Mapping[str, str]
    taints: tuple[str, ...]
    deep_health_checks: tuple[str, ...]
    lifecycle: str | None
    image_release: str | None
    software_update: str | None
    owner: str | None
    operation: ActiveOperation | None
    why: str | None = None
    unread: tuple[str, ...] = ()


@dataclass(frozen=True)
class GroupList:
    """The instance groups of a cluster. ``left_subnets``: dedicated subnets whose groups are gone, for successors."""

    cluster: str
    continuous: bool
    items: tuple[GroupView, ...]
    left_subnets: tuple[str, ...]


@dataclass(frozen=True)
class GroupDetail:
    """One group with its nodes by status, and everything that SageMaker carries forward for it."""

    group: GroupView
    nodes: Mapping[str, int]
    settings: Mapping[str, Any]


def list_groups(room: Room, where: Site) -> GroupList:
    """Every group of the cluster. Raises NotFound without a HyperPod cluster."""
    cluster = scaling.get_cluster(where)
    around = _around(room, where, cluster)
    items = tuple(_view(where, g, around) for g in cluster.get("InstanceGroups", ()))
    used = {s for g in items for s in g.subnet_ids}
    left = (s for s in around.subnets.values() if network.dedicated_to(s, where.tag) and s.subnet_id not in used)
    told = tuple(f"{s.subnet_id} in {s.zone}, left by {s.tags[network.GROUP_TAG]}, {s.free_addresses} addresses free" for s in left)
    return GroupList(cluster["ClusterName"], scaling.is_continuous(cluster), items, told)


def get_group(room: Room, where: Site, name: str) -> GroupDetail:
    """One group, with why nodes are late. Raises NotFound naming the groups there are."""
    cluster = scaling.get_cluster(where)
    have = groups.get(cluster, name)
    seen = arrivals.read(where.aws, cluster["ClusterName"], name)
    by_status: dict[str, int] = {}
    for node in seen.items:
        status = node["InstanceStatus"]["Status"]
        by_status[status] = by_status.get(status, 0) + 1
    why = arrivals.why_late(where.aws, cluster, have, seen) if have["CurrentCount"] < have["TargetCount"] else None
    view = _view(where, have, _around(room, where, cluster), why)
    strange = groups.unknown_fields(have)
    return GroupDetail(view, by_status, groups.to_request(have) | ({"unknown": list(strange)} if strange else {}))


@dataclass(frozen=True)
class _Around:
    """What stands beside DescribeCluster; ``unread`` names what could not be read."""

    subnets: Mapping[str, network.Subnet]
    plans: Mapping[str, plans.TrainingPlan | None]
    owners: Mapping[str, str]
    operations: Mapping[str, ActiveOperation]
    default_subnets: tuple[str, ...]
    unread: tuple[str, ...]


def _around(room: Room, where: Site, cluster: Mapping[str, Any]) -> _Around:
    aws, unread = where.aws, []
    subnets: dict[str, network.Subnet] = {}
    owners: dict[str, str] = {}
    found: dict[str, plans.TrainingPlan | None] = {}
    try:
        subnets = _subnets(where, cluster)
    except problems.Problem as problem:
        unread.append(f"zones: {problem.detail}")
    try:
        owners = karpenter.karpenter_owners(where.kube(room))
    except problems.Problem as problem:
        unread.append(f"owners: {problem.detail}")
    for arn in {g["TrainingPlanArn"] for g in cluster.get("InstanceGroups", ()) if g.get("TrainingPlanArn")}:
        try:
            found[arn] = aws.cached(f"plan {arn}", _KEPT_SECONDS, functools.partial(plans.find, aws, arn))
        except problems.Problem as problem:
            unread.append(f"training plan: {problem.detail}")
    default = tuple(cluster.get("VpcConfig", {}).get("Subnets", ()))
    return _Around(subnets, found, owners, _operations(room, where), default, tuple(unread))


def _subnets(where: Site, cluster: Mapping[str, Any]) -> dict[str, network.Subnet]:
    """The subnets of the cluster's VPC, by id: kept for a while, unless a group has one that was not there then."""
    first = cluster["VpcConfig"]["Subnets"][0]

    def look() -> list[network.Subnet]:
        return network.list_subnets(where.aws, network.get_subnet(where.aws, first).vpc_id)

    known = {s.subnet_id: s for s in where.aws.cached(f"subnets around {first}", _KEPT_SECONDS, look)}
    used = {s for g in cluster.get("InstanceGroups", ()) for s in (g.get("OverrideVpcConfig") or {}).get("Subnets", ())}
    return known if used <= set(known) else {s.subnet_id: s for s in look()}


def _operations(room: Room, where: Site) -> dict[str, ActiveOperation]:
    """The operation that works on each group, by the group's name."""
    prefix = f"cluster/{where.aws.region}/{where.tag}/instance-group/"
    rows = [row for row in room.store.operations.list_active(sorted(ACTIVE)) if row.subject.startswith(prefix)]
    return {row.subject.removeprefix(prefix): ActiveOperation(row.id, row.workflow, str(row.status)) for row in rows}


def _view(where: Site, have: Mapping[str, Any], around: _Around, why: str | None = None) -> GroupView:
    asked, name = groups.to_request(have), have["InstanceGroupName"]
    kubernetes = asked.get("KubernetesConfig", {})
    subnets = tuple((have.get("OverrideVpcConfig") or {}).get("Subnets", ())) or around.default_subnets
    known = [around.subnets[s] for s in subnets if s in around.subnets]
    scripts = have.get("LifeCycleConfig")
    return GroupView(
        name=name,
        status=have["Status"],
        count=have["TargetCount"],
        current=have["CurrentCount"],
        min_count=have.get("MinCount"),
        instance_types=tuple(asked.get("InstanceRequirements", {}).get("InstanceTypes") or [have["InstanceType"]]),
        capacity_type=hyperpod.capacity_type(dict(have)),  # type: ignore[arg-type]
        training_plan=_plan(have, around),
        zones=tuple(sorted({f"{s.zone} ({s.zone_id})" for s in known})),
        subnet_ids=subnets,
        dedicated_subnet=any(network.dedicated_to(s, where.tag) for s in known),
        network_interface=judging.interface_of(have),
        volume_gib=judging.volume_of(have),
        labels=kubernetes.get("Labels", {}),
        taints=tuple(labels.show_taint(t) for t in kubernetes.get("Taints", ())),
        deep_health_checks=tuple(have.get("OnStartDeepHealthChecks", ())),
        lifecycle=f"{scripts.get('SourceS3Uri', '')}/{scripts.get('OnCreate', '')}" if scripts else None,
        image_release=have.get("CurrentImageReleaseVersion"),
        software_update=have.get("SoftwareUpdateStatus"),
        owner=around.owners.get(name),
        operation=around.operations.get(name),
        why=why,
        unread=around.unread,
    )


def _plan(have: Mapping[str, Any], around: _Around) -> PlanOfGroup | None:
    arn = have.get("TrainingPlanArn")
    if arn is None:
        return None
    plan = around.plans.get(arn)
    return PlanOfGroup(arn, plan.status if plan else have.get("TrainingPlanStatus"), plan.ends_at if plan else None)
