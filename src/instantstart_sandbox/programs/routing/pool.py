"""The workers: added by discovery or by hand, checked, and passed over while they do not answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from ..serving.web import read_body, read_head

_FIRST_CHECK_SECONDS = 0.1


@dataclass
class Worker:
    """One worker. ``load``: requests that it answers now."""

    url: str
    healthy: bool = False
    load: int = 0
    handled: int = 0
    failures: int = 0
    prefixes: dict[str, float] = field(default_factory=dict)

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        parts = urlsplit(self.url)
        return parts.hostname or "127.0.0.1", parts.port or 80


class Pool:
    """Workers by URL."""

    def __init__(self, path: str, interval: float, log: Callable[[str], None]) -> None:
        self._path, self._interval, self._log = path, interval, log
        self.workers: dict[str, Worker] = {}
        self._checks: dict[str, asyncio.Task[None]] = {}

    def add(self, url: str) -> Worker:
        """Take a worker in; it gets requests as soon as it answers."""
        known = self.workers.get(url)
        if known is not None:
            return known
        self._log(f"Added worker {url}")
        worker = self.workers[url] = Worker(url)
        self._checks[url] = asyncio.create_task(self._check(worker))
        return worker

    def remove(self, url: str) -> bool:
        """Let a worker go: what it answers now is finished, nothing new is sent."""
        worker = self.workers.pop(url, None)
        if worker is None:
            return False
        self._log(f"Removed worker {url}")
        self._checks.pop(url).cancel()
        return True

    def ready(self, besides: set[str] = frozenset()) -> list[Worker]:  # type: ignore[assignment]
        """The workers that may get a request."""
        return [w for w in self.workers.values() if w.healthy and w.url not in besides]

    def failed(self, worker: Worker) -> None:
        """A connection was refused or broke: the worker is passed over until it answers again."""
        worker.failures += 1
        if worker.healthy:
            worker.healthy = False
            self._log(f"Worker {worker.url} is unhealthy")
            if worker.url in self._checks:
                self._checks[worker.url].cancel()
                self._checks[worker.url] = asyncio.create_task(self._check(worker))

    async def _check(self, worker: Worker) -> None:
        while True:
            well = await _answers(worker.address, self._path)
            if well != worker.healthy:
                self._log(f"Worker {worker.url} is {'healthy' if well else 'unhealthy'}")
                worker.healthy = well
            await asyncio.sleep(self._interval if well else _FIRST_CHECK_SECONDS)


async def _answers(address: tuple[str, int], path: str) -> bool:
    try:
        async with asyncio.timeout(2):
            reader, writer = await asyncio.open_connection(*address)
            try:
                writer.write(f"GET {path} HTTP/1.1\r\nHost: {address[0]}\r\nConnection: close\r\n\r\n".encode())
                head = await read_head(reader)
                async for _ in read_body(reader, head[1] if head else {}):
                    pass
            finally:
                writer.close()
    except (OSError, TimeoutError, asyncio.IncompleteReadError, ValueError):
        return False
    return head is not None and head[0].split(" ")[1] == "200"


def now() -> float:
    """Real seconds, for what is remembered a while."""
    return time.monotonic()
