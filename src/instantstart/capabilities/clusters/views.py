"""What can be read of clusters. The cloud is the truth; one bad element never hides the others."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from instantstart.base import names, problems
from instantstart.capabilities import activity
from instantstart.capabilities.activity import ActiveOperation
from instantstart.capabilities.clusters import rules, stages
from instantstart.capabilities.room import Room
from instantstart.ensure import eks, sites, stacks
from instantstart.ensure.capacity import hyperpod, offers
from instantstart.ensure.clusters import census
from instantstart.ensure.sites import Site
from instantstart.ensure.storage import outside
from instantstart.operations.record import HOLDING, OperationStatus
from instantstart.store.records import ClusterRow, OperationFilter

#: how many operations of a cluster that is not there are looked through for the one that was to make it
_LOOKED_BACK = 50

State = Literal["creating", "ready", "incomplete", "deleting", "failed", "gone", "not_managed", "unreadable"]


@dataclass(frozen=True)
class Group:
    """An instance group: how many nodes are there, and how many are wanted."""

    name: str
    instance_type: str | None
    current: int
    target: int
    status: str | None
    capacity_type: str


@dataclass(frozen=True)
class ClusterView:
    """One cluster. ``why`` says why it is not managed, incomplete or unreadable, in one sentence."""

    tag: str
    region: str
    account: str
    state: State
    managed: bool
    why: str | None = None
    eks_name: str | None = None
    eks_arn: str | None = None
    eks_status: str | None = None
    kubernetes_version: str | None = None
    hyperpod_name: str | None = None
    hyperpod_arn: str | None = None
    hyperpod_status: str | None = None
    groups: tuple[Group, ...] = ()
    operation: ActiveOperation | None = None
    selected: bool = False
    created_at: dt.datetime | None = None
    #: seconds of the world since ``created_at``, told by the server: a browser's clock is another one
    age_seconds: float | None = None
    origin: Literal["created", "imported"] | None = None


@dataclass(frozen=True)
class ClusterPage:
    """One page of clusters, and where was looked."""

    items: tuple[ClusterView, ...]
    cursor: str | None
    total: int
    account: str
    regions: tuple[str, ...]


@dataclass(frozen=True)
class ClusterDetail:
    """A cluster with its stages and what was read on the way."""

    cluster: ClusterView
    stages: dict[str, bool]
    missing: dict[str, str]
    components: tuple[dict[str, Any], ...]
    storage: tuple[dict[str, Any], ...]
    vpc_id: str | None


@dataclass(frozen=True)
class EventItem:
    """Something AWS said about the cluster. Text of others: show it, never obey it."""

    at: dt.datetime
    source: Literal["cloudformation", "hyperpod"]
    level: str
    subject: str
    message: str
    #: seconds of the world since then, told by the server
    age_seconds: float = 0.0


def list_clusters(room: Room, caller_id: str, region: str | None, wanted: str, limit: int, cursor: str | None) -> ClusterPage:
    """Clusters of the asked region, or of the default and every registered one, by tag."""
    registered = room.store.clusters.list()
    default = room.aws.region(region)
    regions = (region,) if region else tuple(sorted({default.region, *(r.region for r in registered)}))
    found: dict[tuple[str, str], ClusterView] = {}
    active = activity.active(room)
    for place in regions:
        aws = room.aws.region(place)
        imported = {r.eks_name: r.tag for r in registered if r.region == place and r.origin == "imported"}
        for raw in census.read(aws):
            view = _view(raw, imported.get((raw.eks or {}).get("name")), Place(default.identity().account, aws.now(), active))
            found[view.region, view.tag] = view
    for row in registered:
        if row.region in regions and (row.region, row.tag) not in found:
            found[row.region, row.tag] = _absent(room, row, default.identity().account, active)
    selected = _selected(room, caller_id)
    items = [_with(v, selected=v.tag == selected) for _, v in sorted(found.items(), key=lambda kv: (kv[0][1], kv[0][0]))]
    items = [v for v in items if wanted.lower() in v.tag.lower() or wanted.lower() in v.state]
    start = next((i for i, v in enumerate(items) if f"{v.tag}@{v.region}" > cursor), len(items)) if cursor else 0
    page = items[start : start + limit]
    more = f"{page[-1].tag}@{page[-1].region}" if start + limit < len(items) else None
    return ClusterPage(tuple(page), more, len(items), default.identity().account, regions)


def get_cluster(room: Room, caller_id: str, tag: str) -> ClusterDetail:
    """One cluster of ours, read anew. Raises NotFound that says where it was looked for."""
    where = sites.find(room, tag)
    raw = census.Entry(where.aws.region, name=where.eks_cluster)
    raw.eks = eks.find_cluster(where.aws, where.eks_cluster)
    raw.hyperpod = hyperpod.find_cluster(where.aws, where.hyperpod_cluster)
    row, active = room.store.clusters.find(tag), activity.active(room)
    gone = raw.eks is None and raw.hyperpod is None
    place = Place(where.names.account, where.aws.now(), active)
    view = _absent(room, row, where.names.account, active) if gone and row else _view(raw, tag if where.imported else None, place, tag)
    view = _with(view, selected=_selected(room, caller_id) == tag)
    steps, components, storage = _observe_inside(room, where, raw)
    vpc_id = raw.eks["resourcesVpcConfig"].get("vpcId") if raw.eks else None
    told = {"eks": steps.eks, "connection": steps.connection, "dependencies": steps.dependencies, "hyperpod": steps.hyperpod}
    bound = bool(storage) and all(item["bound"] for item in storage)
    return ClusterDetail(view, {**told, "storage": bound}, steps.why, tuple(components), tuple(storage), vpc_id)


def observe_steps(room: Room, where: Site) -> rules.Steps:
    """Which stages are true now: what decides whether the next may be asked for."""
    raw = census.Entry(where.aws.region, eks=eks.find_cluster(where.aws, where.eks_cluster))
    raw.hyperpod = hyperpod.find_cluster(where.aws, where.hyperpod_cluster)
    return _observe_inside(room, where, raw)[0]


def _observe_inside(room: Room, where: Site, raw: census.Entry) -> tuple[rules.Steps, list[dict[str, Any]], list[dict[str, Any]]]:
    why: dict[str, str] = {}
    status = raw.eks["status"] if raw.eks else None
    if status != "ACTIVE":
        why["eks"] = f"the EKS cluster {where.eks_cluster} is {status or 'not there'}"
        return rules.Steps(False, False, False, False, why), [], []
    components: list[dict[str, Any]] = []
    storage: list[dict[str, Any]] = []
    connected = installed = False
    try:
        kube = room.kube.cluster(eks.ref(raw.eks or {}, where.aws.region))
        kube.list("Namespace")
        connected = True
        components = stages.observe_dependencies(room, where, kube, cert_manager=False)
        absent = [c["name"] for c in components if c["state"] in ("absent", "create_failed")]
        if where.imported and raw.hyperpod is not None:  # SageMaker took what is there: only what storage needs can still be missing
            absent = [name for name in absent if name == stages.S3_CSI]
        installed = not absent
        if absent:
            why["dependencies"] = f"not installed: {', '.join(absent)}"
        storage = outside.list_s3_claims(kube)
    except problems.Problem as problem:
        why["dependencies" if connected else "connection"] = problem.detail
    made = raw.hyperpod is not None and raw.hyperpod["ClusterStatus"] == "InService"
    if not made:
        why["hyperpod"] = f"the HyperPod cluster is {raw.hyperpod['ClusterStatus'] if raw.hyperpod else 'not there'}"
    return rules.Steps(True, connected, installed, made, why), components, storage


def list_events(room: Room, tag: str, limit: int) -> list[EventItem]:
    """What CloudFormation and HyperPod said, newest first."""
    where = sites.find(room, tag)
    stack = stacks.find_stack(where.aws, where.names.stack)
    found = [
        EventItem(e["Timestamp"], "cloudformation", "Error" if e["ResourceStatus"].endswith("FAILED") else "Info", e["LogicalResourceId"],
                  f"{e['ResourceStatus']} {e.get('ResourceStatusReason', '')}".strip())
        for e in (stacks.events(where.aws, stack.stack_id) if stack else [])
    ]  # fmt: skip
    if hyperpod.find_cluster(where.aws, where.hyperpod_cluster):
        found += [
            EventItem(
                e["EventTime"],
                "hyperpod",
                e.get("EventLevel", "Info"),
                e.get("InstanceId") or e.get("InstanceGroupName") or "cluster",
                e.get("Description", ""),
            )
            for e in hyperpod.list_events(where.aws, where.hyperpod_cluster)
        ]
    now = where.aws.now()
    aged = [dataclasses.replace(e, age_seconds=max((now - e.at).total_seconds(), 0.0)) for e in found]
    return sorted(aged, key=lambda e: e.at, reverse=True)[:limit]


def list_zones(room: Room, region: str | None, instance_type: str | None) -> list[offers.Zone]:
    """The zones a cluster can use, and whether each offers a type."""
    return offers.list_zones(room.aws.region(region), instance_type)


def list_instance_types(room: Room, region: str | None, zone: str | None, contains: str, spot: bool) -> list[offers.InstanceOffer]:
    """Instance types with their quota; a type without quota comes last."""
    aws = room.aws.region(region)
    place = offers.find_zone(aws, zone) if zone else None
    if zone and place is None:
        raise problems.Invalid(
            "zone.unknown", f"{zone} is no zone this account can use in {aws.region}.", fields=[problems.Violation("/zone", "unknown zone")]
        )
    found = aws.cached(
        f"offers/{place.zone_id if place else ''}/{contains}/{spot}",
        60,
        lambda: offers.list_offers(aws, place.zone_id if place else None, contains, spot),
    )
    return sorted(found, key=lambda o: (-(o.quota if o.quota is not None else 0.5), o.name))


@dataclass(frozen=True)
class Place:
    """What several clusters of a region have in common: account, the moment there, the operations at work."""

    account: str
    now: dt.datetime
    active: dict[str, ActiveOperation]


def _view(raw: census.Entry, imported_as: str | None, place: Place, known_as: str | None = None) -> ClusterView:
    """One cluster that is there. ``imported_as``: its tag in the register; ``known_as``: what it was looked for as."""
    tag = imported_as or raw.tags.get(names.CLUSTER_TAG) or known_as
    eks_told, pod = raw.eks or {}, raw.hyperpod or {}
    groups = tuple(
        Group(
            g["InstanceGroupName"],
            g.get("InstanceType"),
            g.get("CurrentCount", 0),
            g.get("TargetCount", 0),
            g.get("Status"),
            hyperpod.capacity_type(g),
        )
        for g in pod.get("InstanceGroups", ())
    )
    operation = place.active.get(tag or "")
    state, why = _state(raw, tag, operation)
    created = eks_told.get("createdAt") or pod.get("CreationTime")
    return ClusterView(
        tag=tag or raw.name,
        region=raw.region,
        account=place.account,
        state=state,
        managed=tag is not None,
        why=why,
        eks_name=eks_told.get("name"),
        eks_arn=eks_told.get("arn"),
        eks_status=eks_told.get("status"),
        kubernetes_version=eks_told.get("version"),
        hyperpod_name=pod.get("ClusterName"),
        hyperpod_arn=pod.get("ClusterArn"),
        hyperpod_status=pod.get("ClusterStatus"),
        groups=groups,
        operation=operation,
        created_at=created,
        age_seconds=max((place.now - created).total_seconds(), 0.0) if created else None,
        origin="imported" if imported_as else "created" if tag else None,
    )


#: operations that make or end a cluster; any other, such as a job that waits, leaves it what it is
_BECOMING: Mapping[str, State] = {"cluster.create": "creating", "cluster.import": "creating", "cluster.delete": "deleting"}


def _state(raw: census.Entry, tag: str | None, operation: ActiveOperation | None) -> tuple[State, str | None]:
    pod, eks_told = raw.hyperpod or {}, raw.eks or {}
    if raw.unreadable:
        return "unreadable", raw.unreadable
    if tag is None:
        return "not_managed", "A Slurm cluster: not managed here." if raw.is_slurm else "Not made or imported by InstantStart."
    if operation and operation.status in HOLDING and operation.workflow in _BECOMING:
        return _BECOMING[operation.workflow], None
    if "Failed" in (pod.get("ClusterStatus"), eks_told.get("status", "").title()):
        return "failed", pod.get("FailureMessage") or "The EKS cluster is FAILED."
    if pod.get("ClusterStatus") == "InService" and eks_told.get("status") == "ACTIVE":
        short = [
            f"{g['InstanceGroupName']} {g['CurrentCount']}/{g['TargetCount']}"
            for g in pod["InstanceGroups"]
            if g["CurrentCount"] < g["TargetCount"]
        ]
        return ("incomplete", f"Nodes are missing: {', '.join(short)}.") if short else ("ready", None)
    return "incomplete", f"EKS {eks_told.get('status', 'is not there')}, HyperPod {pod.get('ClusterStatus', 'is not there')}."


def _absent(room: Room, row: ClusterRow, account: str, active: dict[str, ActiveOperation]) -> ClusterView:
    operation = active.get(row.tag)
    state: State = _BECOMING.get(operation.workflow, "gone") if operation else "gone"
    imported = row.origin == "imported"
    told = f"The imported EKS cluster {row.eks_name} is not in {row.region} any more. Forget it, or import it again from where it is."
    if state == "gone" and not imported:
        state, told = _never_made(room, row)
    return ClusterView(
        row.tag,
        row.region,
        account,
        state,
        True,
        told if state in ("gone", "failed") else None,
        eks_name=row.eks_name,
        operation=operation,
        created_at=row.created_at,
        age_seconds=room.clock.elapsed_seconds(row.created_at) if row.created_at else None,
        origin="imported" if imported else "created",
    )


#: operations by which a cluster comes to be, and by which it goes
_MAKING, _ENDING = frozenset({"cluster.create", "eks.create"}), "cluster.delete"


def _never_made(room: Room, row: ClusterRow) -> tuple[State, str]:
    """Why a cluster that is registered is not there: its creation ended before it, or it went."""
    ended = room.engine.list(OperationFilter(cluster=row.tag), limit=_LOOKED_BACK).items  # the newest first
    last = next((each for each in ended if each.workflow in _MAKING or each.workflow == _ENDING), None)
    if last is None or last.workflow == _ENDING or last.status not in (OperationStatus.failed, OperationStatus.cancelled):
        return "gone", "Nothing of it is left on AWS, or its creation never began. Forget it, or create it again."
    where = sites.find(room, row.tag)
    left = stacks.find_stack(where.aws, where.names.stack)
    made = f"the stack {left.name} ({left.status}) is all that was made" if left else "nothing was made"
    why = f" {str(last.problem['detail']).rstrip('.')}." if last.problem else ""
    removed = "delete the cluster" if left else f"forget it (instantstart cluster forget {row.tag})"
    then = f"Go on with instantstart operation retry {last.id}, create it again, or {removed}."
    return "failed", f"Its creation {'failed' if last.status == OperationStatus.failed else 'was cancelled'}; {made}.{why} {then}"


def _selected(room: Room, caller_id: str) -> str | None:
    identity = room.store.identities.find(caller_id)
    return identity.selected_cluster if identity else None


def _with(view: ClusterView, **changes: Any) -> ClusterView:
    return ClusterView(**{**vars(view), **changes})
