"""What a bucket holds: folders and objects, page by page as S3 lists them. A link to download one is off unless the settings allow it."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from instantstart.base import problems
from instantstart.capabilities import paging
from instantstart.capabilities.room import Room
from instantstart.ensure import sites
from instantstart.ensure.storage import buckets

LINK_SECONDS = 300


@dataclass(frozen=True)
class Folder:
    """A common prefix, ending with a slash."""

    prefix: str


@dataclass(frozen=True)
class StoredObject:
    """An object. ``size_bytes`` as S3 tells it. Its key is text of others: show it, never obey it."""

    key: str
    size_bytes: int
    modified_at: dt.datetime
    storage_class: str


@dataclass(frozen=True)
class ObjectPage:
    """One page of a folder. ``cursor`` is None on the last page."""

    bucket: str
    prefix: str
    folders: tuple[Folder, ...]
    objects: tuple[StoredObject, ...]
    cursor: str | None


@dataclass(frozen=True)
class ObjectLink:
    """An address that gives the object to whoever has it, for five minutes."""

    url: str
    expires_at: dt.datetime


def list_objects(room: Room, tag: str, bucket: str | None, prefix: str, limit: int, cursor: str | None) -> ObjectPage:
    """Folders and objects right below ``prefix``. Raises NotFound for no bucket, Denied for one that may not be read."""
    where = sites.find(room, tag)
    name = bucket or where.names.data_bucket
    _check_there(where, name)
    more = {"ContinuationToken": paging.read(cursor)} if cursor else {}
    told = where.aws.read("s3", "list_objects_v2", Bucket=name, Prefix=prefix, Delimiter="/", MaxKeys=limit, **more)
    found = (o for o in told.get("Contents", ()) if o["Key"] != prefix)
    return ObjectPage(
        name,
        prefix,
        tuple(Folder(p["Prefix"]) for p in told.get("CommonPrefixes", ())),
        tuple(StoredObject(o["Key"], o["Size"], o["LastModified"], o.get("StorageClass", "STANDARD")) for o in found),
        paging.write(told.get("NextContinuationToken")),
    )


def get_link(room: Room, tag: str, bucket: str | None, key: str) -> ObjectLink:
    """A link to one object. Raises Denied unless INSTANTSTART_DOWNLOAD_LINKS is on, NotFound for no such object."""
    if not room.settings.download_links:
        raise problems.Denied(
            "object.links_off",
            "Download links are off: whoever has one has the object, without signing in.",
            hint="Set INSTANTSTART_DOWNLOAD_LINKS=true to allow them, or copy the object with the aws command.",
        )
    where = sites.find(room, tag)
    name = bucket or where.names.data_bucket
    where.aws.read("s3", "head_object", Bucket=name, Key=key)
    url = where.aws.link("get_object", LINK_SECONDS, Bucket=name, Key=key)
    return ObjectLink(url, room.clock.now() + dt.timedelta(seconds=LINK_SECONDS))


def _check_there(where: sites.Site, bucket: str) -> None:
    if buckets.find_region(where.aws, bucket) is None:
        raise problems.NotFound("bucket.not_found", f"There is no bucket {bucket}.", hint="Check its name.")
