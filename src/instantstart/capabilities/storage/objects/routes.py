"""The door of the objects slice."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from instantstart.base import patterns
from instantstart.capabilities.doors import ClusterPath, OperatorInPerson, RoomDep, Viewer
from instantstart.capabilities.storage.objects import views

router = APIRouter(tags=["storage"])

BucketQuery = Annotated[str | None, Query(pattern=patterns.BUCKET, description="The bucket; left out: the cluster's data bucket.")]


@router.get("/clusters/{cluster}/objects", operation_id="object_list", summary="Browse objects")
def list_objects(
    room: RoomDep,
    _caller: Viewer,
    cluster: ClusterPath,
    bucket: BucketQuery = None,
    prefix: Annotated[str, Query(max_length=1024, description="The folder to look into; ends with a slash.")] = "",
    limit: Annotated[int, Query(ge=1, le=1000, description="Most folders and objects to answer.")] = 100,
    cursor: Annotated[str | None, Query(max_length=2048, description="The cursor of the page before.")] = None,
) -> views.ObjectPage:
    """Folders and objects of a bucket with their sizes, page by page."""
    return views.list_objects(room, cluster, bucket, prefix, limit, cursor)


@router.get("/clusters/{cluster}/objects/link", operation_id="object_link", summary="Get a download link")
def get_link(
    room: RoomDep,
    _caller: OperatorInPerson,
    cluster: ClusterPath,
    key: Annotated[str, Query(min_length=1, max_length=1024, description="Key of the object.")],
    bucket: BucketQuery = None,
) -> views.ObjectLink:
    """A link that gives one object to whoever has it, for five minutes. Off unless the settings allow it."""
    return views.get_link(room, cluster, bucket, key)
