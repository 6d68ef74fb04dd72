"""The door of the clusters slice. A body has at most five statements: the rules are in rules.py, the reads in views.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from instantstart.base import names, patterns, problems
from instantstart.capabilities import activity
from instantstart.capabilities.clusters import plans, rules, specs, views
from instantstart.capabilities.doors import (
    Admin,
    AdminOrAgent,
    Approval,
    Asking,
    ClusterPath,
    DryRun,
    IdempotencyKey,
    Operator,
    RoomDep,
    Viewer,
    Wish,
    approve,
    begin,
    begin_approved,
    promise,
)  # fmt: skip
from instantstart.capabilities.planning import Plan
from instantstart.capabilities.room import Room
from instantstart.capabilities.spending import exactly, spend
from instantstart.ensure import sites
from instantstart.ensure.capacity import offers
from instantstart.ensure.findings import Finding, refusal
from instantstart.ensure.sites import Site
from instantstart.operations.record import Operation

router = APIRouter(tags=["clusters"])

RegionQuery = Annotated[str | None, Query(pattern=patterns.REGION, description="AWS region; left out: the server's own.")]


@dataclass(frozen=True)
class ZoneList:
    """The usable zones of a region."""

    region: str
    items: tuple[offers.Zone, ...]


@dataclass(frozen=True)
class InstanceTypeList:
    """Instance types; a quota of null is unknown, not zero."""

    region: str
    items: tuple[offers.InstanceOffer, ...]
    total: int


@dataclass(frozen=True)
class EventList:
    """What AWS said, newest first."""

    items: tuple[views.EventItem, ...]


@dataclass(frozen=True)
class Preflight:
    """Every finding; ``ready`` is false when one of them fails."""

    ready: bool
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class Forgotten:
    """The cluster is off the list; nothing on AWS changed."""

    tag: str


@router.get("/clusters", operation_id="cluster_list", summary="List clusters")
def list_clusters(
    room: RoomDep,
    caller: Viewer,
    region: RegionQuery = None,
    contains: Annotated[str, Query(max_length=100, description="Only tags or states that contain this.")] = "",
    limit: Annotated[int, Query(ge=1, le=200, description="Most clusters to answer.")] = 50,
    cursor: Annotated[str | None, Query(max_length=200, description="The cursor of the page before.")] = None,
) -> views.ClusterPage:
    """Clusters with account, region and state; those of others are shown as not managed."""
    return views.list_clusters(room, caller.id, region, contains, limit, cursor)


@router.post("/clusters", operation_id="cluster_create", summary="Create a cluster", status_code=202, response_model=Operation | Plan)
def create_cluster(
    room: RoomDep, caller: Operator, ask: specs.CreateCluster, response: Response,
    approval: Approval = None, key: IdempotencyKey = None, dry_run: DryRun = False,
) -> Any:  # fmt: skip
    """EKS, dependencies, HyperPod, storage, verify. Left out, the tag is made up. An agent passes its plan's approval."""
    target = _target(room, specs.ClusterTarget, ask)
    asking = Asking(room, caller, response, key, dry_run, approval)
    wish = Wish("cluster.create", target, exact=exactly("cluster.create", ask))
    return spend(asking, wish, lambda: plans.plan_create(room, target, ask.tag), lambda: plans.admitted(room, target))


@router.post("/eks-clusters", operation_id="eks_create", summary="Create the EKS cluster", status_code=202, response_model=Operation | Plan)
def create_eks(
    room: RoomDep, caller: Operator, ask: specs.CreateEks, response: Response,
    approval: Approval = None, key: IdempotencyKey = None, dry_run: DryRun = False,
) -> Any:  # fmt: skip
    """Only the network and the EKS control plane: the first stage. Left out, the tag is made up. An agent passes its plan's approval."""
    target = _target(room, specs.EksTarget, ask)
    asking = Asking(room, caller, response, key, dry_run, approval)
    wish = Wish("eks.create", target, exact=exactly("eks.create", ask))
    return spend(asking, wish, lambda: plans.plan_eks(room, target, ask.tag), lambda: plans.admitted(room, target))


@router.get("/clusters/{cluster}", operation_id="cluster_get", summary="Get one cluster")
def get_cluster(room: RoomDep, caller: Viewer, cluster: ClusterPath) -> views.ClusterDetail:
    """Its state read anew: stages done and missing, EKS, HyperPod, components, storage."""
    return views.get_cluster(room, caller.id, cluster)


@router.post("/clusters/{cluster}/selection", operation_id="cluster_select", summary="Select a cluster", status_code=202)
def select_cluster(room: RoomDep, caller: Operator, cluster: ClusterPath, response: Response, key: IdempotencyKey = None) -> Operation:
    """Make it the caller's default, and connect to it: access entry, token, a verified answer of its API server."""
    where = sites.find(room, cluster)
    _check_order(room, where, "connection")
    room.store.identities.select_cluster(caller.id, cluster)
    return begin(room, caller, response, Wish("cluster.connect", specs.ConnectTarget(tag=cluster, region=where.aws.region), key))


@router.post(
    "/clusters/{cluster}/dependencies", operation_id="dependencies_configure", summary="Configure dependencies", status_code=202,
    response_model=Operation | Plan,
)  # fmt: skip
def configure_dependencies(
    room: RoomDep, caller: Operator, cluster: ClusterPath, ask: specs.ConfigureDependencies, response: Response,
    key: IdempotencyKey = None, dry_run: DryRun = False,
) -> Any:  # fmt: skip
    """Install what HyperPod needs in EKS, pinned: OIDC, pod identity agent, HyperPod dependencies, S3 driver."""
    where = sites.find(room, cluster)
    _check_order(room, where, "dependencies")
    if dry_run:
        return promise(response, plans.plan_dependencies(room, where))
    return begin(room, caller, response, Wish("dependencies.configure", _placed(specs.DependenciesTarget, where, ask), key))


@router.post(
    "/clusters/{cluster}/hyperpod", operation_id="hyperpod_create", summary="Create the HyperPod cluster", status_code=202,
    response_model=Operation | Plan,
)  # fmt: skip
def create_hyperpod(
    room: RoomDep, caller: Operator, cluster: ClusterPath, ask: specs.CreateHyperPod, response: Response,
    approval: Approval = None, key: IdempotencyKey = None, dry_run: DryRun = False,
) -> Any:  # fmt: skip
    """The HyperPod cluster on the EKS cluster, with its first instance group. An agent passes its plan's approval."""
    where = sites.find(room, cluster)
    _check_order(room, where, "hyperpod")
    target = plans.checked(room, where, _placed(specs.HyperPodTarget, where, ask))
    wish = Wish("hyperpod.create", target, exact=exactly("hyperpod.create", ask, cluster))
    return spend(Asking(room, caller, response, key, dry_run, approval), wish, lambda: plans.plan_hyperpod(room, where, target))


@router.post(
    "/clusters/{cluster}/storage/s3", operation_id="storage_configure", summary="Configure S3 storage", status_code=202,
    response_model=Operation | Plan,
)  # fmt: skip
def configure_storage(
    room: RoomDep, caller: Operator, cluster: ClusterPath, ask: specs.ConfigureStorage, response: Response,
    key: IdempotencyKey = None, dry_run: DryRun = False,
) -> Any:  # fmt: skip
    """Mount an S3 bucket as a volume claim that pods can name."""
    where = sites.find(room, cluster)
    _check_order(room, where, "storage")
    if dry_run:
        return promise(response, plans.plan_storage(where, ask))
    return begin(room, caller, response, Wish("storage.configure", _placed(specs.StorageTarget, where, ask), key))


@router.post("/clusters/{cluster}/verification", operation_id="cluster_verify", summary="Verify a cluster", status_code=202)
def verify_cluster(room: RoomDep, caller: Operator, cluster: ClusterPath, response: Response, key: IdempotencyKey = None) -> Operation:
    """Read everything anew; the operation's result is the summary."""
    where = sites.find(room, cluster)
    _check_order(room, where, "verify")
    return begin(room, caller, response, Wish("cluster.verify", specs.VerifyTarget(tag=cluster, region=where.aws.region), key))


@router.delete(
    "/clusters/{cluster}", operation_id="cluster_delete", summary="Delete a cluster", status_code=202, response_model=Operation | Plan
)
def delete_cluster(
    room: RoomDep, caller: AdminOrAgent, cluster: ClusterPath, response: Response,
    delete_data: Annotated[bool, Query(description="Delete the data bucket with everything in it.")] = False,
    approval: Annotated[str | None, Query(max_length=128, description="The approval that the plan (dry_run) gave.")] = None,
    key: IdempotencyKey = None, dry_run: DryRun = False,
) -> Any:  # fmt: skip
    """Delete everything the cluster is made of, dependants first. Ask for the plan first: it carries the approval.

    What an agent asks for waits until an administrator, a person, says yes.
    """
    where = sites.find(room, cluster)
    exact = f"cluster.delete {where.aws.region} {cluster} data={delete_data}"
    if dry_run:
        return promise(response, approve(room, caller, exact, plans.plan_delete(room, where, delete_data)))
    target = plans.deletable(where, specs.DeleteTarget(tag=cluster, region=where.aws.region, delete_data=delete_data))
    return begin_approved(room, caller, response, Wish("cluster.delete", target, key, exact, approval))


@router.post("/clusters/{cluster}/forget", operation_id="cluster_forget", summary="Forget a cluster")
def forget_cluster(room: RoomDep, _caller: Admin, cluster: ClusterPath) -> Forgotten:
    """Drop it from the list; nothing on AWS changes. A cluster whose EKS cluster bears our tag is found again by it."""
    if not room.store.clusters.delete(cluster):
        raise problems.NotFound("cluster.unknown", f"There is no cluster {cluster} on the list.", hint="List the clusters.")
    return Forgotten(cluster)


@router.get("/clusters/{cluster}/events", operation_id="cluster_events", summary="List events of a cluster")
def list_events(
    room: RoomDep, _caller: Viewer, cluster: ClusterPath, limit: Annotated[int, Query(ge=1, le=500, description="Most events.")] = 100
) -> EventList:
    """What CloudFormation and HyperPod said, newest first."""
    return EventList(tuple(views.list_events(room, cluster, limit)))


@router.get("/zones", operation_id="zone_list", summary="List zones")
def list_zones(
    room: RoomDep,
    _caller: Viewer,
    region: RegionQuery = None,
    instance_type: Annotated[
        str | None, Query(pattern=patterns.INSTANCE_TYPE, description="Say for each zone whether it offers this type.")
    ] = None,
) -> ZoneList:
    """The zones this account can use for HyperPod nodes."""
    return ZoneList(room.aws.region(region).region, tuple(views.list_zones(room, region, instance_type)))


@router.get("/instance-types", operation_id="instance_type_list", summary="List instance types")
def list_instance_types(
    room: RoomDep,
    _caller: Viewer,
    region: RegionQuery = None,
    zone: Annotated[str | None, Query(max_length=40, description="Only types offered in this zone (name or id).")] = None,
    contains: Annotated[str, Query(max_length=40, pattern=patterns.INSTANCE_TYPE_PART, description="Only names with this in them.")] = "",
    spot: Annotated[bool, Query(description="Show the Spot quota.")] = False,
    limit: Annotated[int, Query(ge=1, le=300, description="Most types to answer.")] = 50,
) -> InstanceTypeList:
    """Instance types HyperPod knows, with accelerators, zones and quota; types with quota first."""
    found = views.list_instance_types(room, region, zone, contains, spot)
    return InstanceTypeList(room.aws.region(region).region, tuple(found[:limit]), len(found))


@router.post("/preflight", operation_id="preflight_run", summary="Run the preflight")
def run_preflight(room: RoomDep, _caller: Viewer, ask: specs.RunPreflight) -> Preflight:
    """What would stand in the way of a cluster: identity, permissions, quotas, zone, type, addresses. Changes nothing."""
    found = plans.preflight(room, ask)
    return Preflight(refusal(found) is None, tuple(found))


def _target(room: Room, kind: type[Any], ask: Any) -> Any:
    """The spec of an operation that makes a new cluster: with a tag and a region, and nothing else added."""
    tag = ask.tag or names.generate_tag(room.clock.now().date())
    target = kind(**{**ask.model_dump(), "tag": tag, "region": room.aws.region(ask.region).region})
    rules.check_not_imported(room.store.clusters.find(tag))
    return target


def _placed(kind: type[Any], where: Site, ask: Any) -> Any:
    return kind(**ask.model_dump(), tag=where.tag, region=where.aws.region)


def _check_order(room: Room, where: Site, stage: str) -> None:
    activity.check_not_deleting(room, where.tag)
    refused = rules.check_order(stage, views.observe_steps(room, where))
    if refused:
        raise refused
