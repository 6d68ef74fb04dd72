"""The door of the images slice."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from instantstart.base import patterns
from instantstart.capabilities.doors import ClusterPath, RoomDep, Viewer
from instantstart.capabilities.storage.images import views
from instantstart.ensure.findings import Finding

router = APIRouter(tags=["storage"])


@router.get("/clusters/{cluster}/image-repositories", operation_id="image_repository_list", summary="List image repositories")
def list_repositories(
    room: RoomDep,
    _caller: Viewer,
    cluster: ClusterPath,
    contains: Annotated[str, Query(max_length=100, description="Only names that contain this.")] = "",
    limit: Annotated[int, Query(ge=1, le=200, description="Most repositories to answer.")] = 50,
    cursor: Annotated[str | None, Query(max_length=600, description="The cursor of the page before.")] = None,
) -> views.RepositoryPage:
    """The ECR repositories of the cluster's account and region."""
    return views.list_repositories(room, cluster, contains, limit, cursor)


@router.get("/clusters/{cluster}/images", operation_id="image_list", summary="List images")
def list_images(
    room: RoomDep,
    _caller: Viewer,
    cluster: ClusterPath,
    repository: Annotated[str, Query(min_length=2, max_length=256, pattern=patterns.PRINTABLE, description="Name of the ECR repository.")],
    limit: Annotated[int, Query(ge=1, le=200, description="Most images to answer.")] = 50,
) -> views.ImageList:
    """The images of one repository, newest first, each with the reference a form takes."""
    return views.list_images(room, cluster, repository, limit)


@router.get("/clusters/{cluster}/images/check", operation_id="image_check", summary="Check an image")
def check_image(
    room: RoomDep,
    _caller: Viewer,
    cluster: ClusterPath,
    image: Annotated[str, Query(min_length=1, max_length=512, pattern=patterns.PRINTABLE, description="The image's reference.")],
) -> Finding:
    """Whether an image is there. One in a registry of others is unknown, not wrong."""
    return views.check_image(room, cluster, image)
