"""Watches: replay from a revision, bookmarks, 410 in the stream, selectors, timeouts; each event is encoded once for all watchers."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Final

import orjson

from instantstart_sandbox.kubernetes.errors import ApiError, expired
from instantstart_sandbox.kubernetes.resources import Resource
from instantstart_sandbox.kubernetes.selectors import Match
from instantstart_sandbox.kubernetes.store import ADDED, DELETED, MODIFIED, Change, Collection, Entry

Object = dict[str, Any]

_BOOKMARK_SECONDS: Final = 60.0
_LAST_BOOKMARK_SECONDS: Final = 2.0
_LONGEST_QUEUE: Final = 50_000


@dataclass(frozen=True)
class Watching:
    """What a watch asks for. ``revision`` None: begin with everything there is. Times are real seconds."""

    resource: Resource
    namespace: str | None = None
    match: Match | None = None
    revision: int | None = None
    bookmarks: bool = False
    initial_events: bool = False
    timeout: float | None = None
    #: from an object to what the watcher gets to see (Table rows, metadata only); None: the object itself
    view: Callable[[Object], Object] | None = None


class Subscription:
    """A bounded queue of the changes of one collection that a watcher wants."""

    def __init__(self, collection: Collection, namespace: str | None) -> None:
        self.collection, self.prefix = collection, f"{namespace}/" if namespace else ""
        self.queue: deque[Change] = deque()
        self.wake = asyncio.Event()
        self.ended = False

    def __enter__(self) -> Subscription:
        self.collection.listeners.add(self._feed)
        return self

    def __exit__(self, *_: object) -> None:
        self.collection.listeners.discard(self._feed)
        self.collection.enders.discard(self.end)

    def end(self) -> None:
        """Let the watcher go."""
        self.ended = True
        self.wake.set()

    def _feed(self, change: Change) -> None:
        if not change.key.startswith(self.prefix):
            return
        self.queue.append(change)
        if len(self.queue) > _LONGEST_QUEUE:
            self.ended = True
        self.wake.set()

    def replay(self, revision: int) -> None:
        """Take in the changes after a revision."""
        for change in self.collection.since(revision):
            self._feed(change)

    async def wait(self, seconds: float) -> None:
        """Until something is queued, or for ``seconds``."""
        if self.queue:
            return
        self.wake.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.wake.wait(), seconds)


class Stream:
    """The frames of one watch."""

    def __init__(self, collection: Collection, wanted: Watching, current: Callable[[], int]) -> None:
        self.collection, self.wanted, self.current = collection, wanted, current
        self.seen = wanted.revision or 0

    async def frames(self) -> AsyncIterator[bytes]:
        """Chunks of newline-terminated events, until the timeout; an empty first chunk opens the stream."""
        wanted = self.wanted
        with Subscription(self.collection, wanted.namespace) as subscription:
            self.collection.enders.add(subscription.end)
            if wanted.revision is not None and wanted.revision < self.collection.floor:
                yield too_old(wanted.revision, self.collection.floor)
                return
            yield b"".join(self._begin(subscription))
            async for chunk in self._follow(subscription):
                yield chunk

    def _begin(self, subscription: Subscription) -> list[bytes]:
        wanted, out = self.wanted, []
        if wanted.revision is None or wanted.initial_events:
            for _, entry in self.collection.scan(subscription.prefix):
                if wanted.match is None or wanted.match(entry):
                    out.append(self._frame(ADDED, entry))
            self.seen = self.current()
            if wanted.initial_events and wanted.bookmarks:
                out.append(self._bookmark({"k8s.io/initial-events-end": "true"}))
        else:
            subscription.replay(wanted.revision)
        return out

    async def _follow(self, subscription: Subscription) -> AsyncIterator[bytes]:
        end = time.monotonic() + (self.wanted.timeout or random.uniform(1800, 3600))
        next_mark = min(time.monotonic() + _BOOKMARK_SECONDS, end - _LAST_BOOKMARK_SECONDS)
        while (now := time.monotonic()) < end and not subscription.ended:
            if chunk := b"".join(self._drain(subscription)):
                yield chunk
            if self.wanted.bookmarks and now >= next_mark:
                yield self._bookmark(None)
                next_mark = min(now + _BOOKMARK_SECONDS, end - _LAST_BOOKMARK_SECONDS) if now < end - _LAST_BOOKMARK_SECONDS else end
            until = min(end, next_mark) if self.wanted.bookmarks else end
            await subscription.wait(max(until - time.monotonic(), 0.01))
        if chunk := b"".join(self._drain(subscription)):
            yield chunk

    def _drain(self, subscription: Subscription) -> list[bytes]:
        out = []
        while subscription.queue:
            change = subscription.queue.popleft()
            if change.revision > self.seen:
                self.seen = change.revision
                out.append(self._event(change))
        return out

    def _event(self, change: Change) -> bytes:
        match = self.wanted.match
        if match is None:
            return self._shared(change.type, change)
        before = change.previous is not None and match(change.previous)
        after = change.type != DELETED and match(change.entry)
        if after:
            return self._shared(MODIFIED if before else ADDED, change)
        if not before or change.previous is None:
            return b""
        return self._frame(DELETED, _at_revision(change.previous, change.revision))

    def _shared(self, kind: str, change: Change) -> bytes:
        if self.wanted.view is not None:
            return self._frame(kind, change.entry)
        label = f"{kind} {self.wanted.resource.api_version}"
        frame = change.frames.get(label)
        if frame is None:
            frame = change.frames[label] = self._frame(kind, change.entry)
        return frame

    def _frame(self, kind: str, entry: Entry) -> bytes:
        if self.wanted.view is None:
            body = versioned(entry.raw, self.wanted.resource)
        else:
            body = orjson.dumps(self.wanted.view(orjson.loads(versioned(entry.raw, self.wanted.resource))))
        return b'{"type":"' + kind.encode() + b'","object":' + body + b"}\n"

    def _bookmark(self, annotations: dict[str, str] | None) -> bytes:
        resource = self.wanted.resource
        metadata: Object = {"resourceVersion": str(self.current())}
        if annotations:
            metadata["annotations"] = annotations
        obj = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata, **_empty_parts(resource)}
        shown = obj if self.wanted.view is None else self.wanted.view(obj)
        return b'{"type":"BOOKMARK","object":' + orjson.dumps(shown) + b"}\n"


def _empty_parts(resource: Resource) -> Object:
    """Spec and status as Go prints them for an empty object of a built-in kind (a Pod's has ``containers: null``)."""
    if resource.custom:
        return {}
    out: Object = {}
    for part in ("spec", "status"):
        child = resource.node.child(part)
        if child is not None:
            out[part] = dict.fromkeys(child.required) if part == "spec" else {}
    return out


def too_old(revision: int, floor: int) -> bytes:
    """The event with which a watch from a forgotten revision ends."""
    return error_frame(expired(f"too old resource version: {revision} ({floor})"))


def error_frame(error: ApiError) -> bytes:
    """An ERROR event."""
    return b'{"type":"ERROR","object":' + orjson.dumps(error.status()) + b"}\n"


def versioned(raw: bytes, resource: Resource) -> bytes:
    """An object's bytes in the version of ``resource`` (stored objects carry the storage version; nothing else differs)."""
    if not resource.custom or resource.api_version == resource.storage_api_version:
        return raw
    old = f'"apiVersion":"{resource.storage_api_version}"'.encode()
    return raw.replace(old, f'"apiVersion":"{resource.api_version}"'.encode(), 1)


def _at_revision(entry: Entry, revision: int) -> Entry:
    """The entry with another resourceVersion: how a watcher sees an object leave its selection."""
    obj = entry.object()
    obj["metadata"]["resourceVersion"] = str(revision)
    return Entry(revision, orjson.dumps(obj), entry.labels, entry.fields)
