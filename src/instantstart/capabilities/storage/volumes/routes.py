"""The door of the volumes slice."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Response

from instantstart.base import patterns
from instantstart.capabilities import activity
from instantstart.capabilities.doors import (
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
from instantstart.capabilities.spending import exactly, spend
from instantstart.capabilities.storage.volumes import plans, specs, views
from instantstart.ensure.sites import Site
from instantstart.operations.record import Operation

router = APIRouter(tags=["storage"])

NamespacePath = Annotated[str, Path(max_length=63, pattern=patterns.KUBERNETES_NAME, description="Namespace of the claim.")]
ClaimPath = Annotated[str, Path(max_length=63, pattern=patterns.KUBERNETES_NAME, description="Name of the claim.")]


@router.get("/clusters/{cluster}/volumes", operation_id="volume_list", summary="List volumes")
def list_volumes(
    room: RoomDep,
    _caller: Viewer,
    cluster: ClusterPath,
    namespace: Annotated[str, Query(max_length=63, pattern=patterns.ONLY_NAMESPACE, description="Only of this namespace.")] = "",
    kind: Annotated[views.Kind | None, Query(description="Only of this kind.")] = None,
    contains: Annotated[str, Query(max_length=100, description="Only claims that contain this.")] = "",
    limit: Annotated[int, Query(ge=1, le=200, description="Most volumes to answer.")] = 50,
    cursor: Annotated[str | None, Query(max_length=600, description="The cursor of the page before.")] = None,
) -> views.VolumePage:
    """Every volume claim with what it shows, whether it is bound, and the pods that use it."""
    return views.list_volumes(room, cluster, views.Filter(namespace, kind, contains), limit, cursor)


@router.get("/clusters/{cluster}/volumes/{namespace}/{claim}", operation_id="volume_get", summary="Get one volume")
def get_volume(room: RoomDep, _caller: Viewer, cluster: ClusterPath, namespace: NamespacePath, claim: ClaimPath) -> views.VolumeDetail:
    """One claim: what it shows, how it is mounted, who uses it, and why it is not bound."""
    return views.get_volume(room, cluster, namespace, claim)


@router.post(
    "/clusters/{cluster}/volumes/s3", operation_id="s3_volume_add", summary="Mount an S3 bucket", status_code=202,
    response_model=Operation | Plan,
)  # fmt: skip
def add_s3_volume(
    room: RoomDep, caller: Operator, cluster: ClusterPath, ask: specs.AddS3Volume, response: Response,
    key: IdempotencyKey = None, dry_run: DryRun = False,
) -> Any:  # fmt: skip
    """A bucket, or a folder of it, as a volume claim that pods can name."""
    where = activity.standing(room, cluster)
    if dry_run:
        return promise(response, plans.plan_s3(room, where, ask))
    target = _placed(specs.S3Target, where, plans.checked_s3(room, where, ask))
    return begin(room, caller, response, Wish("s3_volume.add", target, key))


@router.post(
    "/clusters/{cluster}/volumes/fsx", operation_id="fsx_volume_add", summary="Mount an FSx for Lustre file system", status_code=202,
    response_model=Operation | Plan,
)  # fmt: skip
def add_fsx_volume(
    room: RoomDep, caller: Operator, cluster: ClusterPath, ask: specs.AddFsxVolume, response: Response,
    approval: Approval = None, key: IdempotencyKey = None, dry_run: DryRun = False,
) -> Any:  # fmt: skip
    """A file system that is there, or a new one of size_gib, as a volume claim. For a new one an agent passes its plan's approval."""
    where = activity.standing(room, cluster)
    if ask.size_gib:
        return _new_fsx(Asking(room, caller, response, key, dry_run, approval), where, ask)
    if dry_run:
        return promise(response, plans.plan_fsx(room, where, ask))
    target = _placed(specs.FsxTarget, where, plans.checked_fsx(room, where, ask))
    return begin(room, caller, response, Wish("fsx_volume.add", target, key))


def _new_fsx(asking: Asking, where: Site, ask: specs.AddFsxVolume) -> Any:
    """A file system that will be paid for."""
    room, target = asking.room, _placed(specs.FsxTarget, where, ask)
    wish = Wish("fsx_volume.add", target, exact=exactly("fsx_volume.add", ask, where.tag))
    return spend(asking, wish, lambda: plans.plan_fsx(room, where, ask), lambda: plans.checked_fsx(room, where, ask) and target)


@router.delete(
    "/clusters/{cluster}/volumes/{namespace}/{claim}", operation_id="volume_remove", summary="Remove a volume", status_code=202,
    response_model=Operation | Plan,
)  # fmt: skip
def remove_volume(
    room: RoomDep, caller: AdminOrAgent, cluster: ClusterPath, namespace: NamespacePath, claim: ClaimPath, response: Response,
    delete_file_system: Annotated[bool, Query(description="Also delete the file system made for this claim, with its data.")] = False,
    approval: Approval = None,
    key: IdempotencyKey = None, dry_run: DryRun = False,
) -> Any:  # fmt: skip
    """Remove the claim and its volume; the bucket or file system stays with its data. Ask for the plan first: it carries the approval."""
    where = activity.standing(room, cluster)
    target = specs.RemoveTarget(
        tag=cluster, region=where.aws.region, namespace=namespace, claim_name=claim, delete_file_system=delete_file_system
    )
    exact = f"volume.remove {where.aws.region} {cluster} {namespace}/{claim} file_system={delete_file_system}"
    if dry_run:
        return promise(response, approve(room, caller, exact, plans.plan_remove(room, where, target)))
    return begin_approved(room, caller, response, Wish("volume.remove", target, key, exact, approval))


@router.get("/clusters/{cluster}/file-systems", operation_id="file_system_list", summary="List FSx file systems")
def list_file_systems(room: RoomDep, _caller: Viewer, cluster: ClusterPath) -> views.FileSystemList:
    """The FSx for Lustre file systems of the cluster's region, those that its nodes can mount first."""
    return views.list_file_systems(room, cluster)


def _placed(kind: type[Any], where: Site, ask: Any) -> Any:
    return kind(**ask.model_dump(), tag=where.tag, region=where.aws.region)
