"""A live copy of one kind in one cluster: list, then watch, and list anew when the server has forgotten where we were.

Everything that goes wrong with a watch (case 75) has its own answer: 410 at the start or inside the stream lists again; a stream that
ends or tears goes on from the last version seen; a half-open socket is noticed because bookmarks come each minute; a refusal backs off.
The copy says how old it is, so that nobody takes an old one for the present.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

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
_YIELD_EACH = 200
_log = log.get(__name__)


class HasMeta(Protocol):
    """Anything with object metadata."""

    metadata: Meta


T = TypeVar("T", bound=HasMeta)
Key = tuple[str | None, str]


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
class Snapshot(Generic[T]):
    """A moment of the copy. ``stale``: not heard from the server for too long; ``problem`` says why, when it is known."""

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
    """Keeps the copy. ``run`` lives in an event loop; ``snapshot`` may be called from any thread."""

    def __init__(self, connection: Connection, path: str, shape: type[T], *, silence_seconds: float = SILENCE_SECONDS) -> None:
        self._connection, self._path, self._silence = connection, path, silence_seconds
        self._decode = msgspec.json.Decoder(shape).decode
        self._decode_list = msgspec.json.Decoder(_list_of(shape)).decode
        self._decode_event = msgspec.json.Decoder(_Event).decode
        self._items: dict[Key, T] = {}
        self._version = ""
        self._lock = threading.Lock()
        self._revision = 0
        self._heard_at: float | None = None
        self._problem: problems.Problem | None = None
        self.counts = Counts()
        #: set once the first list is complete; for threads
        self.synced = threading.Event()

    def snapshot(self) -> Snapshot[T]:
        """The copy as of now."""
        with self._lock:
            age = float("inf") if self._heard_at is None else time.monotonic() - self._heard_at
            return Snapshot(dict(self._items), self._revision, age, age > self._silence, self._problem)

    async def run(self) -> None:
        """Keep the copy until cancelled."""
        async with self._connection.open_async() as http:
            listed, pause = False, BACKOFF_SECONDS[0]
            while True:
                try:
                    if not listed:
                        await self._list(http)
                        listed = True
                    await self._watch(http)
                    pause = BACKOFF_SECONDS[0]
                except _Expired:
                    listed = False
                except (problems.Problem, msgspec.MsgspecError) as error:
                    # An event that cannot be read would come again from the same version: only a new list gets past it.
                    listed = listed and isinstance(error, problems.Problem)
                    self._failed(error)
                    await asyncio.sleep(pause * random.uniform(0.5, 1.5))
                    pause = min(pause * 2, BACKOFF_SECONDS[1])

    async def _list(self, http: httpx2.AsyncClient) -> None:
        fresh: dict[Key, T] = {}
        params = {"limit": str(PAGE)}
        while True:
            async with self._ask(http, params) as response:
                page = self._decode_list(await response.aread())
            fresh.update((item.metadata.key, item) for item in page.items)
            if not page.metadata.continue_:
                break
            params["continue"] = page.metadata.continue_
        with self._lock:
            self._items = fresh
            self._revision += 1
        self._version = page.metadata.resource_version
        self.counts.lists += 1
        self._heard()
        self.synced.set()

    async def _watch(self, http: httpx2.AsyncClient) -> None:
        seconds = random.randint(*WATCH_SECONDS)
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
            async with http.stream("GET", self._path, params=dict(params), timeout=timeout) as response:
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
        item = self._decode(event.object)
        with self._lock:
            if event.type == "DELETED":
                self._items.pop(item.metadata.key, None)
            else:
                self._items[item.metadata.key] = item
            self._revision += 1
        self._version = item.metadata.resource_version
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
        _log.info("watch interrupted", extra={"facts": {"cluster": self._connection.ref.name, "path": self._path, "code": problem.code}})


def _refusal(code: int, body: bytes, headers: Mapping[str, str], call: errors.Call) -> Exception:
    problem = errors.from_response(code, body, headers, call)
    return _Expired() if problem.code == "kubernetes.expired" else problem


def _list_of(shape: type[T]) -> type[_Page[T]]:
    return _Page[shape]  # type: ignore[valid-type]


class _Page(msgspec.Struct, Generic[T]):
    items: list[T]
    metadata: _ListMeta
