"""What can be read of downloads: those that were asked for, and what lies in the buckets that a cluster mounts."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from instantstart.aws.session import Aws
from instantstart.base import problems
from instantstart.capabilities.room import Room
from instantstart.capabilities.storage.downloads import specs
from instantstart.ensure import sites
from instantstart.ensure.storage import outside
from instantstart.operations.record import Operation, OperationStatus
from instantstart.store.records import OperationFilter

_MARKER = ".instantstart.json"
#: folders looked into for one answer: a bucket with more is browsed instead
_MOST_FOLDERS = 200


@dataclass(frozen=True)
class DownloadItem:
    """A download that was asked for. ``operation_id`` tells its progress and its end; bytes and files as the hub listed them."""

    operation_id: str
    repository: str
    kind: str
    revision: str
    commit: str | None
    claim: str
    folder: str
    status: str
    because: str | None
    done_mib: int | None
    total_mib: int | None
    files: int | None
    asked_at: dt.datetime


@dataclass(frozen=True)
class DownloadPage:
    """One page of downloads, newest first."""

    items: tuple[DownloadItem, ...]
    cursor: str | None


@dataclass(frozen=True)
class ModelItem:
    """A repository that a download of ours completed in a mounted bucket: what its marker says."""

    repository: str
    kind: str
    revision: str
    commit: str
    files: int
    bytes: int
    finished_at: str
    claim: str
    folder: str


@dataclass(frozen=True)
class ModelList:
    """What lies in the buckets. ``unread``: claims whose bucket could not be looked into, with the reason."""

    items: tuple[ModelItem, ...]
    unread: dict[str, str]


def list_downloads(room: Room, tag: str, limit: int, cursor: str | None) -> DownloadPage:
    """Downloads of a cluster, newest first."""
    page = room.engine.list(OperationFilter(workflow="model.download", cluster=tag), limit=limit, cursor=cursor)
    return DownloadPage(tuple(_download(o) for o in page.items), page.cursor)


def get_download(room: Room, tag: str, operation_id: str) -> Operation:
    """One download's operation. Raises NotFound for an operation that is none."""
    found = room.engine.get(operation_id)
    if found.workflow != "model.download" or found.cluster != tag:
        raise problems.NotFound("download.unknown", f"{operation_id} is no download of {tag}.", hint="List the downloads.")
    return found


def asked(operation: Operation) -> specs.DownloadTarget:
    """What a download was asked for, as it is kept: what would be refused now is shown all the same."""
    return specs.DownloadTarget.model_construct(**operation.spec)


def _download(operation: Operation) -> DownloadItem:
    spec = asked(operation)
    told = next((s.learned for s in operation.stages if s.name == "inspect"), None) or {}
    transfer = next((s for s in operation.stages if s.name == "transfer"), None)
    progress: Any = transfer.progress if transfer else None
    return DownloadItem(
        operation_id=operation.id,
        repository=spec.repository,
        kind=spec.kind,
        revision=spec.revision,
        commit=told.get("commit"),
        claim=f"{spec.namespace}/{spec.claim_name}",
        folder=spec.place,
        status=operation.status,
        because=transfer.because if transfer else None,
        done_mib=_done(operation, progress),
        total_mib=progress["total"] if progress else None,
        files=told.get("files"),
        asked_at=operation.created_at,
    )


def _done(operation: Operation, progress: Any) -> int | None:
    """How far it came; the job ends between two sayings, so what has succeeded has all."""
    if not progress:
        return None
    return int(progress["total" if operation.status == OperationStatus.succeeded else "done"])


def list_models(room: Room, tag: str) -> ModelList:
    """What downloads of ours left in the buckets that are mounted, by folder."""
    where = sites.find(room, tag)
    items: list[ModelItem] = []
    unread: dict[str, str] = {}
    for claim in outside.list_s3_claims(where.kube(room)):
        name = f"{claim['namespace']}/{claim['claim']}"
        try:
            items += [_model(told, name, folder) for folder, told in _markers(where.aws, str(claim["bucket"]), str(claim["prefix"]))]
        except problems.Problem as problem:
            unread[name] = problem.detail
    return ModelList(tuple(sorted(items, key=lambda i: (i.claim, i.folder))), unread)


def _markers(aws: Aws, bucket: str, prefix: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Folder and marker of everything two levels below ``models/`` and ``datasets/``."""
    owners = [p for top in ("models/", "datasets/") for p in _folders(aws, bucket, prefix + top)]
    places = [*owners, *(p for owner in owners for p in _folders(aws, bucket, owner))][:_MOST_FOLDERS]
    for place in places:
        try:
            body = aws.read("s3", "get_object", Bucket=bucket, Key=place + _MARKER)["Body"].read()
            yield place.removeprefix(prefix).rstrip("/"), json.loads(body)
        except (problems.NotFound, ValueError):
            continue


def _folders(aws: Aws, bucket: str, prefix: str) -> list[str]:
    told = aws.read("s3", "list_objects_v2", Bucket=bucket, Prefix=prefix, Delimiter="/", MaxKeys=_MOST_FOLDERS)
    return [p["Prefix"] for p in told.get("CommonPrefixes", ())]


def _model(told: dict[str, Any], claim: str, folder: str) -> ModelItem:
    return ModelItem(
        repository=str(told.get("repository")),
        kind=str(told.get("kind")),
        revision=str(told.get("revision")),
        commit=str(told.get("commit")),
        files=int(told.get("files") or 0),
        bytes=int(told.get("bytes") or 0),
        finished_at=str(told.get("finished_at")),
        claim=claim,
        folder=folder,
    )
