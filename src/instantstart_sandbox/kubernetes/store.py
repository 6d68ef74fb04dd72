"""The versioned store: objects as JSON bytes, one revision counter for all, a bounded log of changes, a journal on disk.

One asyncio loop owns the store and is the only writer. Reading single entries from another thread is safe (entries are
immutable and dictionary look-ups atomic); everything else goes through ``Cluster.in_loop``.

Past states are not kept as versions: the state at an older revision is the present one with the log undone. What the log no
longer reaches (``Collection.floor``) is what a client is told to be expired (410).
"""

from __future__ import annotations

import bisect
import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path
from typing import Any

import orjson

Object = dict[str, Any]
Extract = Callable[[Object], dict[str, str]]
Listener = Callable[["Change"], None]

ADDED, MODIFIED, DELETED = "ADDED", "MODIFIED", "DELETED"
LOG_LENGTH = 20_000
#: a log longer than this is cut when its bytes are too many
_LEAST_LOG, _LOG_BYTES = 2_000, 96 * 1024 * 1024
#: so many of the newest changes keep their encoded frames
_FRAMES_KEPT = 256
#: sorts behind every key
_BEHIND_ALL = "\U0010ffff"
_COMPACT_BYTES = 64 * 1024 * 1024


class StorageError(Exception):
    """The disk did not take a write; the store is as it was before."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One object at one revision: its bytes, and what selectors look at."""

    revision: int
    raw: bytes
    labels: Mapping[str, str]
    fields: Mapping[str, str]

    def object(self) -> Object:
        """A fresh copy of the object."""
        return orjson.loads(self.raw)  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class Change:
    """One write. For DELETED, ``entry`` is the last state with the revision of the deletion."""

    revision: int
    type: str
    key: str
    entry: Entry
    previous: Entry | None
    #: watch frames by event type and apiVersion, made once and sent to every watcher
    frames: dict[str, bytes] = field(default_factory=dict)


class Collection:
    """All objects of one resource, in key order, and the log of their changes."""

    def __init__(self, name: str, extract: Extract, floor: int) -> None:
        self.name, self.extract, self.floor = name, extract, floor
        self.current: dict[str, Entry] = {}
        self.keys: list[str] = []
        self.log: deque[Change] = deque()
        self.listeners: set[Listener] = set()
        #: called when the resource is served no longer: its watches end
        self.enders: set[Callable[[], None]] = set()
        self._log_bytes = 0

    def get(self, key: str) -> Entry | None:
        """The present entry."""
        return self.current.get(key)

    def scan(self, prefix: str = "", start: str = "", revision: int | None = None) -> Iterator[tuple[str, Entry]]:
        """Entries in key order from ``start`` on, as they were at ``revision`` (None: now). The caller checks ``floor``."""
        past = self._undone(revision) if revision is not None else {}
        keys = self.keys if not past else sorted(set(self.keys) | past.keys())
        for index in range(bisect.bisect_left(keys, max(prefix, start)), len(keys)):
            key = keys[index]
            if not key.startswith(prefix):
                return
            entry = past[key] if key in past else self.current.get(key)
            if entry is not None:
                yield key, entry

    def count(self, prefix: str, start: str, revision: int | None = None) -> int:
        """How many entries ``scan`` would give, found without a walk while nothing has changed since ``revision``."""
        if revision is not None and self.log and self.log[-1].revision > revision:
            return sum(1 for _ in self.scan(prefix, start, revision))
        end = bisect.bisect_left(self.keys, prefix + _BEHIND_ALL) if prefix else len(self.keys)
        return max(end - bisect.bisect_left(self.keys, max(prefix, start)), 0)

    def _undone(self, revision: int) -> dict[str, Entry | None]:
        past: dict[str, Entry | None] = {}
        for change in reversed(self.log):
            if change.revision <= revision:
                break
            past[change.key] = change.previous
        return past

    def since(self, revision: int) -> list[Change]:
        """Changes after a revision, oldest first. The caller checks ``floor``."""
        newer = []
        for change in reversed(self.log):
            if change.revision <= revision:
                break
            newer.append(change)
        return newer[::-1]

    def record(self, change: Change) -> None:
        """Take a change into the present state and the log, and tell the listeners."""
        if change.type == DELETED:
            self.current.pop(change.key, None)
            index = bisect.bisect_left(self.keys, change.key)
            if index < len(self.keys) and self.keys[index] == change.key:
                del self.keys[index]
        else:
            if change.key not in self.current:
                bisect.insort(self.keys, change.key)
            self.current[change.key] = change.entry
        self._remember(change)
        for listener in tuple(self.listeners):
            listener(change)

    def _remember(self, change: Change) -> None:
        """Put a change into the log, which is bounded in length and bytes."""
        self.log.append(change)
        self._log_bytes += len(change.entry.raw)
        if len(self.log) > _FRAMES_KEPT:
            self.log[-_FRAMES_KEPT - 1].frames.clear()
        while len(self.log) > LOG_LENGTH or (self._log_bytes > _LOG_BYTES and len(self.log) > _LEAST_LOG):
            self.floor = self._drop_oldest()

    def _drop_oldest(self) -> int:
        oldest = self.log.popleft()
        self._log_bytes -= len(oldest.entry.raw)
        return oldest.revision

    def end_watches(self) -> None:
        """End every watch over HTTP: the resource is gone."""
        for end in tuple(self.enders):
            end()

    def forget(self, revision: int) -> None:
        """Drop the log up to a revision: older lists and watches are expired from now on."""
        while self.log and self.log[0].revision <= revision:
            self._drop_oldest()
        self.floor = max(self.floor, revision)


class Store:
    """Every collection of one cluster. ``folder`` None: nothing is written to disk."""

    def __init__(self, folder: Path | None = None) -> None:
        self.revision = 1
        self.collections: dict[str, Collection] = {}
        self._uids: dict[str, tuple[str, str]] = {}
        self._owned: dict[str, set[tuple[str, str]]] = {}
        self._owners: dict[tuple[str, str], tuple[str, ...]] = {}
        self._folder = folder
        self._journal: FileIO | None = None
        self._compact_at = _COMPACT_BYTES
        self._closed = False
        self._snapshot_revision = 0
        self._pending: dict[str, list[tuple[int, str, str, bytes]]] = {}
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            self._load(folder)

    # ------------------------------------------------------------------ reading

    def collection(self, name: str, extract: Extract | None = None) -> Collection:
        """The collection ``pods`` or ``deployments.apps``; made, and filled from disk, when it is first asked for."""
        found = self.collections.get(name)
        if found is None:
            found = self.collections[name] = Collection(name, extract or (lambda _: {}), self._snapshot_revision)
            for revision, kind, key, raw in self._pending.pop(name, []):
                self._replay(found, revision, kind, key, raw)
            found.forget(self._snapshot_revision)
        return found

    def owned_by(self, uid: str) -> list[tuple[str, str]]:
        """(collection, key) of every object with an ownerReference to ``uid``."""
        return sorted(self._owned.get(uid, ()))

    def find_uid(self, uid: str) -> tuple[str, str] | None:
        """(collection, key) of the object with this uid, or None."""
        return self._uids.get(uid)

    # ------------------------------------------------------------------ writing

    def commit(self, collection: Collection, kind: str, key: str, obj: Object) -> Object:
        """Write one change; answers ``obj`` with its new resourceVersion. The caller has checked every precondition.

        StorageError when the disk does not take it (nothing is changed then) or when the store is closed.
        """
        revision = self.revision + 1
        metadata = {**obj["metadata"], "resourceVersion": str(revision)}
        obj = {"kind": obj["kind"], "apiVersion": obj["apiVersion"], **obj, "metadata": metadata}
        raw = orjson.dumps(obj)
        self._append(_line(revision, kind, collection.name, key, raw))
        self.revision = revision
        self._record(collection, revision, kind, key, (obj, raw))
        if self._journal is not None and self._journal.tell() > self._compact_at:
            self.snapshot()
        return obj

    def _record(self, collection: Collection, revision: int, kind: str, key: str, body: tuple[Object, bytes]) -> None:
        obj, raw = body
        entry = Entry(revision, raw, obj["metadata"].get("labels") or {}, collection.extract(obj))
        self._index(collection.name, key, obj, kind == DELETED)
        collection.record(Change(revision, kind, key, entry, collection.get(key)))

    def _index(self, name: str, key: str, obj: Object, gone: bool) -> None:
        place, metadata = (name, key), obj["metadata"]
        owners = () if gone else tuple(r.get("uid", "") for r in metadata.get("ownerReferences") or ())
        before = self._owners.get(place, ())
        if owners != before:
            for uid in before:
                self._owned.get(uid, set()).discard(place)
            for uid in owners:
                self._owned.setdefault(uid, set()).add(place)
            self._owners[place] = owners
            if not owners:
                del self._owners[place]
        if gone:
            self._uids.pop(metadata.get("uid", ""), None)
        else:
            self._uids[metadata.get("uid", "")] = place

    def compact(self) -> None:
        """Forget all past revisions, as etcd does every five minutes."""
        for collection in self.collections.values():
            collection.forget(self.revision)

    # ------------------------------------------------------------------ the disk

    def _append(self, line: bytes) -> None:
        """Put one line on disk whole, or not at all."""
        if self._closed:
            raise StorageError("the store is closed")
        if self._journal is None:
            return
        before = self._journal.tell()
        try:
            if self._journal.write(line) == len(line):
                return
            why = "no space left for a whole line"
        except OSError as failure:
            why = str(failure)
        self._journal.truncate(before)
        self._journal.seek(before)
        raise StorageError(why)

    def snapshot(self) -> None:
        """Write the present state to one file and begin a new journal. A crash at any point loses nothing."""
        if self._folder is None:
            return
        target, fresh = self._folder / "snapshot", self._folder / "snapshot.new"
        with fresh.open("wb") as out:
            out.write(b"%d\n" % self.revision)
            for name, rows in self._pending.items():
                out.writelines(_line(revision, kind, name, key, raw) for revision, kind, key, raw in rows)
            for name, collection in self.collections.items():
                out.writelines(_line(e.revision, ADDED, name, k, e.raw) for k, e in collection.scan())
            self._compact_at = max(_COMPACT_BYTES, 2 * out.tell())
        fresh.replace(target)
        if self._journal is not None:
            self._journal.close()
        self._journal = (self._folder / "journal").open("wb", buffering=0)

    def close(self) -> None:
        """Close the journal; every commit is already in it, and no other is taken."""
        self._closed = True
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    def _load(self, folder: Path) -> None:
        snapshot, journal = folder / "snapshot", folder / "journal"
        kept = 0
        if snapshot.exists():
            with snapshot.open("rb") as lines:
                kept = self.revision = self._snapshot_revision = int(lines.readline())
                for line in lines:
                    self._remember(line, 0)
        good = 0
        if journal.exists():
            with journal.open("rb") as lines:
                for line in lines:
                    if not line.endswith(b"\n"):
                        break
                    good += len(line)
                    self._remember(line, kept)
            os.truncate(journal, good)
        self._journal = journal.open("ab", buffering=0)

    def _remember(self, line: bytes, after: int) -> None:
        head, raw = line.rstrip(b"\n").split(b"\t", 1)
        revision, kind, name, key = head.decode().split(" ", 3)
        if int(revision) > after:
            self._pending.setdefault(name, []).append((int(revision), kind, key, raw))
            self.revision = max(self.revision, int(revision))

    def _replay(self, collection: Collection, revision: int, kind: str, key: str, raw: bytes) -> None:
        self._record(collection, revision, kind, key, (orjson.loads(raw), raw))


def _line(revision: int, kind: str, name: str, key: str, raw: bytes) -> bytes:
    return f"{revision} {kind} {name} {key}\t".encode() + raw + b"\n"
