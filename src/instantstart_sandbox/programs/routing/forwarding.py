"""One request: a worker chosen, the request sent on, its answer passed back as it comes; another worker when the first does not answer."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from ..serving.web import Request, Response, answer_json, read_body, read_head
from .gauges import Counts
from .policies import Chooser, text_of
from .pool import Pool, Worker, now

_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length", "te", "trailer", "upgrade", "host"})
_RETRIED = frozenset({408, 429, 500, 502, 503, 504})
_KEY_HEADERS = ("x-smg-routing-key", "x-session-id", "x-user-id", "x-flow-id")


@dataclass
class Limits:
    """How often a request is tried, how many run at once, how many wait for how long (real seconds)."""

    tries: int = 5
    running: int = 256
    waiting: int = 100
    wait_seconds: float = 60.0
    session_key: str = ""


class Forwarder:
    """Forwards."""

    def __init__(self, pool: Pool, chooser: Chooser, limits: Limits, counts: Counts, log: Callable[[str], None]) -> None:
        self._pool, self._chooser, self._limits, self._counts, self._log = pool, chooser, limits, counts, log
        self._places = asyncio.Semaphore(limits.running if limits.running > 0 else 1 << 20)

    async def __call__(self, request: Request) -> Response:
        """The worker's answer, or why there is none."""
        counts = self._counts
        if self._places.locked():
            if counts.queued >= self._limits.waiting:
                return _refused(429, "Rate limit exceeded: the queue is full")
            counts.queued += 1
            try:
                async with asyncio.timeout(self._limits.wait_seconds):
                    await self._places.acquire()
            except TimeoutError:
                return _refused(408, "Request timed out in the queue")
            finally:
                counts.queued -= 1
        else:
            await self._places.acquire()
        began, answer = now(), None
        try:
            answer = await self._tried(request)
            counts.observe(request.path, answer.status, now() - began)
        finally:
            if answer is None or answer.stream is None:
                self._places.release()
        if answer.stream is not None:
            answer.stream = self._released(answer.stream)
        return answer

    async def _released(self, stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        try:
            async for piece in stream:
                yield piece
        finally:
            self._places.release()

    async def _tried(self, request: Request) -> Response:
        body = _document(request)
        text, key = text_of(body), self._session(request, body)
        tried: set[str] = set()
        last: Response | None = None
        for attempt in range(max(self._limits.tries, 1)):
            ready = self._pool.ready(tried) or self._pool.ready()
            if not ready:
                break
            if attempt:
                self._counts.retries += 1
                await asyncio.sleep(min(0.05 * 1.5**attempt, 1.0) if ready[0].url in tried else 0)
            worker = self._chooser.pick(ready, text, key)
            tried.add(worker.url)
            try:
                last = await self._send(worker, request)
            except (OSError, asyncio.IncompleteReadError, ValueError) as failure:
                self._log(f"Failed to send request to {worker.url}: {failure}")
                self._pool.failed(worker)
                continue
            if last.status not in _RETRIED:
                return last
            if last.stream is not None:
                last.body, last.stream = b"".join([piece async for piece in last.stream]), None
        return last or _refused(503, "No available workers (all circuits open or unhealthy)")

    def _session(self, request: Request, body: object) -> str:
        found = next((request.headers[h] for h in _KEY_HEADERS if h in request.headers), "")
        if not found and isinstance(body, dict):
            found = str(body.get(self._limits.session_key or "user") or body.get("session_id") or "")
        return found

    async def _send(self, worker: Worker, request: Request) -> Response:
        """Send it; the head has come when this answers. The worker's load falls when the body has been passed on."""
        worker.load += 1
        try:
            reader, writer = await asyncio.open_connection(*worker.address)
            headers = {k: v for k, v in request.headers.items() if k not in _HOP}
            target = request.path + (f"?{request.query}" if request.query else "")
            lines = [f"{request.method} {target} HTTP/1.1", f"host: {worker.address[0]}:{worker.address[1]}", "connection: close"]
            lines += [f"{k}: {v}" for k, v in headers.items()] + [f"content-length: {len(request.body)}", "", ""]
            writer.write("\r\n".join(lines).encode("latin-1") + request.body)
            head = await read_head(reader)
            if head is None:
                writer.close()
                raise ConnectionResetError("the worker closed the connection")
        except BaseException:
            worker.load -= 1
            raise
        kept = [(k, v) for k, v in head[1].items() if k not in _HOP]
        answer = Response(int(head[0].split(" ")[1]), headers=kept, stream=self._body(worker, reader, writer, head[1]))
        if "event-stream" not in head[1].get("content-type", "") and answer.stream is not None:
            answer.body = b"".join([piece async for piece in answer.stream])
            answer.stream = None
        return answer

    async def _body(
        self, worker: Worker, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, headers: dict[str, str]
    ) -> AsyncIterator[bytes]:
        try:
            async for piece in read_body(reader, headers):
                yield piece
            worker.handled += 1
        finally:
            worker.load -= 1
            with contextlib.suppress(OSError):
                writer.close()


def _document(request: Request) -> object:
    try:
        return json.loads(request.body) if request.body else None
    except ValueError:
        return None


def _refused(status: int, message: str) -> Response:
    kind = {503: "Service Unavailable", 429: "Too Many Requests", 408: "Request Timeout"}[status]
    return answer_json({"error": {"type": kind, "code": kind.lower().replace(" ", "_"), "message": message}}, status)
