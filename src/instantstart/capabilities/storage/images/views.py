"""Container images of this account's ECR, for forms."""

from __future__ import annotations

from dataclasses import dataclass

from instantstart.capabilities.paging import page
from instantstart.capabilities.room import Room
from instantstart.ensure import sites
from instantstart.ensure.findings import Finding
from instantstart.ensure.storage import images


@dataclass(frozen=True)
class RepositoryPage:
    """One page of repositories."""

    items: tuple[images.ImageRepository, ...]
    cursor: str | None
    total: int


@dataclass(frozen=True)
class ImageList:
    """The newest images of a repository."""

    repository: str
    items: tuple[images.Image, ...]
    total: int


def list_repositories(room: Room, tag: str, contains: str, limit: int, cursor: str | None) -> RepositoryPage:
    """Repositories by name."""
    found = [r for r in images.list_repositories(sites.find(room, tag).aws) if contains.lower() in r.name]
    part = page(found, lambda r: r.name, limit, cursor)
    return RepositoryPage(part.items, part.cursor, part.total)


def list_images(room: Room, tag: str, repository: str, limit: int) -> ImageList:
    """Images of a repository, newest first."""
    found = images.list_images(sites.find(room, tag).aws, repository)
    return ImageList(repository, tuple(found[:limit]), len(found))


def check_image(room: Room, tag: str, image: str) -> Finding:
    """Whether an image is there, where that can be read."""
    return images.check(sites.find(room, tag).aws, image)
