"""Container images: those of this account's ECR listed, and whether one that a form names is there.

A registry of others is not asked: whether its image is there is unknown, not wrong.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from instantstart.aws.session import Aws
from instantstart.base import problems
from instantstart.ensure.findings import Finding

_ECR = re.compile(r"^(?P<account>\d{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.[a-z.]+/(?P<repository>[a-z0-9._/-]+)$")
_PART = r"[a-z0-9]+(?:[._-]+[a-z0-9]+)*"
_REPOSITORY = re.compile(rf"{_PART}(?:/{_PART})*")
_REFERENCE = re.compile(
    rf"(?:[A-Za-z0-9.-]+(?::\d+)?/)?{_REPOSITORY.pattern}(?::[A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}})?(?:@[a-z0-9]+:[0-9a-f]{{32,128}})?"
)


@dataclass(frozen=True)
class ImageRepository:
    """An ECR repository of this account and region."""

    name: str
    uri: str
    created_at: dt.datetime | None


@dataclass(frozen=True)
class Image:
    """One image. ``reference`` is what a form takes; ``size_bytes`` is compressed, as ECR tells it."""

    reference: str
    tags: tuple[str, ...]
    digest: str
    size_bytes: int | None
    pushed_at: dt.datetime | None


@dataclass(frozen=True)
class Reference:
    """An image reference of ECR, taken apart."""

    account: str
    region: str
    repository: str
    tag: str | None
    digest: str | None


def list_repositories(aws: Aws) -> list[ImageRepository]:
    """Every repository, by name."""
    found = aws.pages("ecr", "describe_repositories", "repositories")
    made = [ImageRepository(r["repositoryName"], r["repositoryUri"], r.get("createdAt")) for r in found]
    return sorted(made, key=lambda r: r.name)


def list_images(aws: Aws, repository: str) -> list[Image]:
    """Every image of a repository, newest first. Raises NotFound ``image.repository_unknown``."""
    if not _REPOSITORY.fullmatch(repository):
        raise _unknown(aws, repository, {})  # no name that ECR takes: it need not be asked
    try:
        uri = aws.read("ecr", "describe_repositories", repositoryNames=[repository])["repositories"][0]["repositoryUri"]
        found = aws.pages("ecr", "describe_images", "imageDetails", repositoryName=repository)
    except problems.NotFound as problem:
        raise _unknown(aws, repository, problem.evidence) from problem
    return sorted((_image(uri, told) for told in found), key=lambda i: (i.pushed_at is not None, i.pushed_at), reverse=True)


def _unknown(aws: Aws, repository: str, evidence: Mapping[str, Any]) -> problems.NotFound:
    return problems.NotFound("image.repository_unknown", f"There is no ECR repository {repository} in {aws.region}.", evidence=evidence)


def parse(image: str) -> Reference | None:
    """An ECR reference taken apart; None for an image of another registry."""
    name, _, digest = image.partition("@")
    head, colon, tag = name.rpartition(":")
    if not colon or "/" in tag:
        head, tag = name, ""
    found = _ECR.match(head)
    if found is None:
        return None
    return Reference(found["account"], found["region"], found["repository"], tag or (None if digest else "latest"), digest or None)


def check(aws: Aws, image: str) -> Finding:
    """Whether an image is there, where that can be read."""
    if not _REFERENCE.fullmatch(image):
        return Finding(
            "image", "fail", f"{image!r} is no image reference.", "Write it as registry/repository:tag or registry/repository@digest."
        )
    wanted = parse(image)
    if wanted is None or wanted.account != aws.identity().account or wanted.region != aws.region:
        return Finding("image", "unknown", f"{image} is not in this account's ECR here: whether it is there is seen when it is pulled.")
    by: dict[str, Any] = {"imageDigest": wanted.digest} if wanted.digest else {"imageTag": wanted.tag}
    try:
        aws.read("ecr", "describe_images", repositoryName=wanted.repository, imageIds=[by])
    except problems.NotFound as problem:
        return _absent(wanted, str(problem.evidence.get("aws_code", "")))
    except problems.Denied as problem:
        return Finding("image", "unknown", f"{image} could not be looked for: {problem.detail}")
    return Finding("image", "ok", f"{image} is in ECR.")


def _absent(wanted: Reference, code: str) -> Finding:
    """In our words: ECR's own say 'null' for the half of an image's name that was not asked for."""
    if code.startswith("RepositoryNotFound"):
        told, hint = f"There is no ECR repository {wanted.repository} in {wanted.region}.", "Make it and push the image, or choose another."
        return Finding("image", "fail", told, hint)
    which = f"the digest {wanted.digest}" if wanted.digest else f"the tag {wanted.tag}"
    told = f"The ECR repository {wanted.repository} has no image with {which}."
    return Finding("image", "fail", told, "Push it, or choose one of the repository's images.")


def _image(uri: str, told: dict[str, Any]) -> Image:
    tags = tuple(sorted(told.get("imageTags", ())))
    reference = f"{uri}:{tags[0]}" if tags else f"{uri}@{told['imageDigest']}"
    return Image(reference, tags, told["imageDigest"], told.get("imageSizeInBytes"), told.get("imagePushedAt"))
