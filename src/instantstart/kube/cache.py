"""A live copy of one kind in one cluster: list, then watch, and list anew when the server has forgotten where we were.

Everything that goes wrong with a watch (case 75) has its own answer: 410 at the start or inside the stream lists again; a stream that
ends or tears goes on from the last version seen; a half-open socket is noticed because bookmarks come each minute; a refusal backs off.
The copy says how old it is, so that nobody takes an old one for the present. What is kept of an object is the source's to say
(kube/briefs.py); who counts is told each change, so that nobody has to walk over the whole copy for a sum.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import random
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import httpx2
import msgspec

from instantstart.base import log, problems
from instantstart.kube import errors
from instantstart.kube.connection import CONNECT_SECONDS, Connection
from instantstart.kube.shapes import Meta

PAGE = 500
#: The server ends a watch after a time of our choosing; spread, so that many do not end together.
WATCH_SECONDS = (240, 480)
#: Bookmarks come about each minute: silence for longer means a dead socket (real seconds).
SILENCE_SECONDS = 90.0
BACKOFF_SECONDS = (0.2, 30.0)
#: what a watch lost without a word is found by a new list, this often (cases 67, 75)
RELIST_SECONDS = (1800.0, 3600.0)
#: a watch that ends sooner without having told anything is no watch: not tried again at once
_SHORT_SECONDS = 1.0
_YIELD_EACH = 200
#: a generator of its own: whoever seeds the shared one (a test, a library) neither steers nor is disturbed by these threads
_CHANCE = random.Random()
_log = log.get(__name__)

T = TypeVar("T")
Key = tuple[str | None, str]
#: told (before, after) of each change, None for "not there"; called in the loop, must not block
Listener = Callable[[T | None, T | None], None]


@dataclass(frozen=True)
class Source(Generic[T]):
    """What is copied: the list at ``path``, each item decoded as ``shape`` (it has ``metadata: Meta``) and kept as ``keep`` of it.

    ``selectors`` are ``labelSelector`` and ``fieldSelector``, for a copy of only some.
    """

    path: str
    shape: type[Any]
    keep: Callable[[Any], T]
    selectors: Mapping[str, str] = field(default_factory=dict)


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str | None = msgspec.field(default=None, name="continue")


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Bare(msgspec.Struct):
    metadata: Meta


class _Expired(Exception):  # noqa: N818 - the server's own word
    """The version we would go on from is too old: list anew."""


@dataclass(frozen=True)
class Freshness:
    """How true the copy is. ``stale``: the server is not heard; the copy is as of ``heard_at``, and ``problem`` says why, if known."""

    synced: bool
    heard_at: dt.datetime | None
    age_seconds: float
    stale: bool
    problem: problems.Problem | None


@dataclass(frozen=True)
class Snapshot(Generic[T]):
    """A moment of the copy; ``stale`` and ``problem`` as in ``Freshness``."""

    items: Mapping[Key, T]
    revision: int
    age_seconds: float
    stale: bool
    problem: problems.Problem | None


@dataclass
class Counts:
    """What has happened to a reflector, for metrics and tests."""

    lists: int = 0
    events: int = 0
    bookmarks: int = 0
    watches: int = 0
    failures: int = 0


class Reflector(Generic[T]):
    """Keeps the copy. ``run`` lives in an event loop; ``snapshot``, ``find`` and ``freshness`` may be called from any thread."""

    def __init__(self, connection: Connection, source: Source[T], *, silence_seconds: float = SILENCE_SECONDS) -> None:
        self._connection, self._path, self._keep, self._silence = connection, source.path, source.keep, silence_seconds
        self._selectors = source.selectors
        self._decode = msgspec.json.Decoder(source.shape).decode
        self._decode_list = msgspec.json.Decoder(_list_of(source.shape)).decode
        self._decode_event = msgspec.json.Decoder(_Event).decode
        self._items: dict[Key, T] = {}
        self._listeners: list[Listener[T]] = []
        self._version = ""
        self._listed = False
        self._list_due = 0.0
        self._lock = threading.Lock()
        self._revision = 0
        self._heard_at: float | None = None
        self._problem: problems.Problem | None = None
        self.counts = Counts()
        #: set once the first list is complete, and its listeners told; for threads
        self.synced = threading.Event()
        #: set once the first list is complete or has failed: what there is to know at first is known; for threads
        self.settled = threading.Event()

    def snapshot(self) -> Snapshot[T]:
        """The copy as of now. Copies the table of items: for sums over many, listen."""
        told = self.freshness()
        with self._lock:
            return Snapshot(dict(self._items), self._revision, told.age_seconds, told.stale, told.problem)

    def find(self, namespace: str | None, name: str) -> T | None:
        """One item of the copy."""
        return self._items.get((namespace, name))

    def freshness(self) -> Freshness:
        """How true the copy is now: a watch that was cut makes it stale at once, a silent one after ``silence_seconds``."""
        with self._lock:
            age = float("inf") if self._heard_at is None else time.monotonic() - self._heard_at
            heard = None if self._heard_at is None else dt.datetime.now(dt.UTC) - dt.timedelta(seconds=age)
            stale = age > self._silence or self._problem is not None
            return Freshness(self.synced.is_set(), heard, age, stale, self._problem)

    def listen(self, listener: Listener[T]) -> None:
        """Tell ``listener`` all there is, as new, and then each change. Called in the loop in which ``run`` lives."""
        for item in self._items.values():
            listener(None, item)
        self._listeners.append(listener)

    async def run(self) -> None:
        """Keep the copy until cancelled."""
        async with self._connection.open_async() as http:
            pause = BACKOFF_SECONDS[0]
            while True:
                began, told = time.monotonic(), self._told()
                failure = await self._turn(http)
                useful = self._told() > told or (failure is None and time.monotonic() - began > _SHORT_SECONDS)
                if useful:
                    pause = BACKOFF_SECONDS[0]
                if useful and failure is None:
                    continue
                asked = getattr(failure, "retry_after_seconds", None) or 0
                await asyncio.sleep(max(pause * _CHANCE.uniform(0.5, 1.5), min(asked, BACKOFF_SECONDS[1])))
                pause = min(pause * 2, BACKOFF_SECONDS[1])

    async def _turn(self, http: httpx2.AsyncClient) -> Exception | None:
        """List if that is due, and watch to the end of the watch. What went wrong, or None."""
        try:
            if not self._listed or time.monotonic() > self._list_due:
                await self._list(http)
                self._listed = True
            await self._watch(http)
        except _Expired:
            self._listed = False
        except (problems.Problem, msgspec.MsgspecError) as error:
            # An event that cannot be read would come again from the same version: only a new list gets past it.
            self._listed = self._listed and isinstance(error, problems.Problem)
            self._failed(error)
            return error
        return None

    def _told(self) -> int:
        """How much the watches have told so far."""
        return self.counts.events + self.counts.bookmarks

    async def _list(self, http: httpx2.AsyncClient) -> None:
        fresh, version = await self._read_all(http)
        with self._lock:
            before, self._items = self._items, fresh
            self._revision += 1
        self._version = version
        self._list_due = time.monotonic() + _CHANCE.uniform(*RELIST_SECONDS)
        self.counts.lists += 1
        self._heard()
        await self._tell_differences(before, fresh)
        self.synced.set()
        self.settled.set()

    async def _read_all(self, http: httpx2.AsyncClient) -> tuple[dict[Key, T], str]:
        fresh: dict[Key, T] = {}
        params = {"limit": str(PAGE)}
        while True:
            try:
                async with self._ask(http, params) as response:
                    page = self._decode_list(await response.aread())
            except _Expired:
                if "continue" not in params:
                    raise
                # The snapshot behind the pages was compacted away while we read: one unpaged read cannot expire.
                fresh, params = {}, {}
                continue
            fresh.update((item.metadata.key, self._keep(item)) for item in page.items)
            if not page.metadata.continue_:
                return fresh, page.metadata.resource_version
            params["continue"] = page.metadata.continue_

    async def _tell_differences(self, before: Mapping[Key, T], fresh: Mapping[Key, T]) -> None:
        listeners = tuple(self._listeners)  # whoever comes while this yields is told the fresh ones at once
        if not listeners:
            return
        changed = [(item, fresh.get(key)) for key, item in before.items() if fresh.get(key) != item]
        new = [(None, item) for key, item in fresh.items() if key not in before]
        for number, (old, item) in enumerate([*changed, *new]):
            for listener in listeners:
                listener(old, item)
            if number % _YIELD_EACH == 0:
                await asyncio.sleep(0)

    async def _watch(self, http: httpx2.AsyncClient) -> None:
        seconds = _CHANCE.randint(*WATCH_SECONDS)
        params = {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": str(seconds), "resourceVersion": self._version}
        async with self._ask(http, params) as response:
            self.counts.watches += 1
            self._heard()
            seen = 0
            async for line in response.aiter_lines():
                if not line:
                    continue
                self._take(self._decode_event(line))
                seen += 1
                if seen % _YIELD_EACH == 0:
                    await asyncio.sleep(0)

    @asynccontextmanager
    async def _ask(self, http: httpx2.AsyncClient, params: Mapping[str, str]) -> AsyncIterator[httpx2.Response]:
        """One GET, streamed; a refusal, a torn stream and silence raise Problems, 410 raises _Expired."""
        call = self._connection.call("GET", self._path)
        timeout = httpx2.Timeout(CONNECT_SECONDS, read=self._silence)
        try:
            async with http.stream("GET", self._path, params={**self._selectors, **params}, timeout=timeout) as response:
                if response.status_code >= 400:
                    raise _refusal(response.status_code, await response.aread(), response.headers, call)
                yield response
        except httpx2.RequestError as error:
            raise errors.from_transport(error, call) from error

    def _take(self, event: _Event) -> None:
        if event.type == "ERROR":
            raise _refusal(500, bytes(event.object), {}, self._connection.call("WATCH", self._path))
        if event.type == "BOOKMARK":
            self._version = msgspec.json.decode(event.object, type=_Bare).metadata.resource_version
            self.counts.bookmarks += 1
            self._heard()
            return
        wire = self._decode(event.object)
        key = wire.metadata.key
        version = wire.metadata.resource_version
        item = None if event.type == "DELETED" else self._keep(wire)
        with self._lock:
            before = self._items.pop(key, None) if item is None else self._items.get(key)
            if item is not None:
                self._items[key] = item
            self._revision += 1
        for listener in self._listeners:
            listener(before, item)
        self._version = version
        self.counts.events += 1
        self._heard()

    def _heard(self) -> None:
        with self._lock:
            self._heard_at, self._problem = time.monotonic(), None

    def _failed(self, error: Exception) -> None:
        """Remember why the copy is not being kept; a torn stream is daily life, anything else is worth a line."""
        self.counts.failures += 1
        problem = error if isinstance(error, problems.Problem) else problems.Broken("kubernetes.unreadable", f"{self._path}: {error}")
        with self._lock:
            self._problem = problem
        self.settled.set()
        _log.info("watch interrupted", extra={"facts": {"cluster": self._connection.ref.name, "path": self._path, "code": problem.code}})


def _refusal(code: int, body: bytes, headers: Mapping[str, str], call: errors.Call) -> Exception:
    problem = errors.from_response(code, body, headers, call)
    return _Expired() if problem.code == "kubernetes.expired" else problem


def _list_of(shape: type[Any]) -> type[_Page[Any]]:
    return _Page[shape]  # type: ignore[valid-type]


class _Page(msgspec.Struct, Generic[T]):
    items: list[T]
    metadata: _ListMeta
