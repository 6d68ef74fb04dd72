"""A bucket's objects as files: what the S3 driver's mount shows to processes, kept in step with the emulated S3 both ways.

A mount is a plain folder here, not Mountpoint: a file may be renamed or appended to, which Mountpoint refuses.
"""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...world.seams import BucketWorld

if TYPE_CHECKING:
    from ..cluster import Cluster

log = logging.getLogger(__name__)
#: While a process runs, its buckets are compared this often, real seconds.
SYNC_SECONDS = 3.0


@dataclass(frozen=True)
class BucketFolder:
    """``prefix`` of ``bucket`` as ``folder``; ``index`` remembers both sides as they were after the last comparison."""

    bucket: str
    prefix: str
    folder: Path
    index: Path

    def sync(self, client: Any) -> None:
        """Compare and carry over: a changed file wins over its object, a deletion on either side is repeated on the other."""
        self.folder.mkdir(parents=True, exist_ok=True)
        known: dict[str, list[Any]] = json.loads(self.index.read_text()) if self.index.exists() else {}
        objects, files = self._objects(client), self._files()
        kept: dict[str, list[Any]] = {}
        for name in sorted(objects.keys() | files.keys() | known.keys()):
            entry = self._one(client, name, (objects.get(name), files.get(name), known.get(name)))
            if entry is not None:
                kept[name] = entry
        self.index.parent.mkdir(parents=True, exist_ok=True)
        self.index.write_text(json.dumps(kept))

    def _one(self, client: Any, name: str, sides: tuple[str | None, list[int] | None, list[Any] | None]) -> list[Any] | None:
        etag, stat, known = sides
        if stat is not None and (known is None or known[1] != stat):
            answer = client.put_object(Bucket=self.bucket, Key=self.prefix + name, Body=(self.folder / name).read_bytes())
            return [answer["ETag"], stat]
        if etag is not None and (known is None or known[0] != etag):
            return self._fetch(client, name, etag)
        if etag is not None and stat is None:
            client.delete_object(Bucket=self.bucket, Key=self.prefix + name)
            return None
        if etag is None and stat is not None:
            (self.folder / name).unlink(missing_ok=True)
            return None
        return known if etag is not None else None

    def _fetch(self, client: Any, name: str, etag: str) -> list[Any] | None:
        target = self.folder / name
        if not target.resolve().is_relative_to(self.folder.resolve()) or target.is_dir():
            return None
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(client.get_object(Bucket=self.bucket, Key=self.prefix + name)["Body"].read())
        return [etag, _stat(target)]

    def _objects(self, client: Any) -> dict[str, str]:
        found: dict[str, str] = {}
        for page in client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=self.prefix):
            for each in page.get("Contents", []):
                name = each["Key"][len(self.prefix) :]
                if name and not name.endswith("/"):
                    found[name] = each["ETag"]
        return found

    def _files(self) -> dict[str, list[int]]:
        return {str(p.relative_to(self.folder)): _stat(p) for p in self.folder.rglob("*") if p.is_file() and not p.is_symlink()}


def _stat(path: Path) -> list[int]:
    found = path.stat()
    return [found.st_mtime_ns, found.st_size]


class Mounts:
    """Carries the folders of running processes over, in threads; one comparison of a folder at a time."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._locks: dict[BucketFolder, asyncio.Lock] = {}

    async def sync(self, folders: list[BucketFolder]) -> None:
        """Compare each folder with its bucket; nothing where the AWS side offers no S3 client."""
        aws = self._cluster.aws
        if not isinstance(aws, BucketWorld):
            return
        for folder in folders:
            async with self._locks.setdefault(folder, asyncio.Lock()):
                try:
                    await self._cluster.ask_aws(folder.sync, aws.bucket_client())
                except Exception as error:  # noqa: BLE001  whatever S3 answers (a bucket deleted meanwhile), the processes go on
                    log.warning("bucket %s cannot be kept in step: %s", folder.bucket, error)

    async def keep(self, folders: list[BucketFolder]) -> None:
        """Compare again and again until cancelled."""
        while folders:
            await asyncio.sleep(SYNC_SECONDS)
            await self.sync(folders)
