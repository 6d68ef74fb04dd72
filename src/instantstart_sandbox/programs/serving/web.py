"""A small HTTP/1.1 server on asyncio streams: keep-alive, chunked bodies, event streams, and an end that lets running requests finish."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote

_HEAD_BYTES = 64 * 1024
_BODY_BYTES = 256 * 1024 * 1024
_IDLE_SECONDS, _LOOK_SECONDS = 75.0, 0.1


class BadRequestError(Exception):
    """Something that is no HTTP request."""


@dataclass
class Request:
    """One request. Header names are lower case; ``peer`` is ``host:port``."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes
    peer: str
    version: str = "HTTP/1.1"

    def json(self) -> Any:
        """The body as JSON; ValueError."""
        return json.loads(self.body)


@dataclass
class Response:
    """An answer: whole (``body``) or as it comes (``stream``)."""

    status: int = 200
    body: bytes = b""
    headers: list[tuple[str, str]] = field(default_factory=list)
    stream: AsyncIterator[bytes] | None = None


Handler = Callable[[Request], Awaitable[Response]]


def answer_json(value: Any, status: int = 200) -> Response:
    """An answer of JSON."""
    return Response(status, json.dumps(value).encode(), [("content-type", "application/json")])


def answer_text(text: str, status: int = 200, kind: str = "text/plain; charset=utf-8") -> Response:
    """An answer of text."""
    return Response(status, text.encode(), [("content-type", kind)])


async def read_head(reader: asyncio.StreamReader) -> tuple[str, dict[str, str]] | None:
    """(first line, headers); None at the end of the connection."""
    try:
        raw = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    except asyncio.LimitOverrunError as error:
        raise BadRequestError("request header too large") from error
    first, *lines = raw.decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in lines if line)
    return first, {name.strip().lower(): value.strip() for name, _, value in pairs}


async def read_body(reader: asyncio.StreamReader, headers: dict[str, str]) -> AsyncIterator[bytes]:
    """The body of a message by its headers, piece by piece. IncompleteReadError when the connection ends too soon."""
    if headers.get("transfer-encoding", "").lower() == "chunked":
        while size := int((await reader.readline()).split(b";")[0] or b"0", 16):
            yield await reader.readexactly(size)
            await reader.readline()
        while (await reader.readline()).strip():
            pass
        return
    left = int(headers.get("content-length") or 0)
    if left > _BODY_BYTES:
        raise BadRequestError("request body too large")
    while left:
        piece = await reader.read(min(left, 1 << 16))
        if not piece:
            raise asyncio.IncompleteReadError(b"", left)
        left -= len(piece)
        yield piece


class Server:
    """Listens, hands requests to the handler, and can be asked to end: it takes no new connection and finishes what it has begun."""

    def __init__(self, handler: Handler, told: Callable[[Request, int], None]) -> None:
        self._handler, self._told = handler, told
        self._listening: asyncio.Server | None = None
        self._busy: set[asyncio.Task[Any]] = set()
        self._idle: dict[asyncio.Task[Any], asyncio.StreamWriter] = {}
        self._ending = False

    async def listen(self, host: str, port: int) -> int:
        """Begin to listen; answers the port. OSError when it is taken."""
        self._listening = await asyncio.start_server(self._connection, host, port, limit=_HEAD_BYTES, backlog=512)
        return int(self._listening.sockets[0].getsockname()[1])

    async def end(self) -> None:
        """Take nothing new, finish what runs, close what is idle."""
        self._ending = True
        if self._listening is not None:
            self._listening.close()
        for writer in list(self._idle.values()):
            writer.close()
        while self._busy:
            await asyncio.wait(set(self._busy))

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            while not self._ending:
                self._idle[task] = writer
                async with asyncio.timeout(_IDLE_SECONDS):
                    head = await read_head(reader)
                self._idle.pop(task, None)
                if head is None:
                    return
                self._busy.add(task)
                watching = asyncio.create_task(_watch(reader, task))
                try:
                    if not await self._exchange(head, reader, writer):
                        return
                finally:
                    watching.cancel()
                    self._busy.discard(task)
        except asyncio.CancelledError:
            return  # the caller has gone: what was made for it ends
        except (BadRequestError, ConnectionError, asyncio.IncompleteReadError, TimeoutError, ValueError):
            return
        finally:
            self._idle.pop(task, None)
            writer.close()

    async def _exchange(self, head: tuple[str, dict[str, str]], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request and its answer; whether the connection may be used again."""
        method, target, version = head[0].split(" ", 2)
        path, _, query = target.partition("?")
        body = b"".join([piece async for piece in read_body(reader, head[1])])
        host, port = writer.get_extra_info("peername")[:2]
        request = Request(method, unquote(path), query, head[1], body, f"{host}:{port}", version)
        answer = await self._handler(request)
        self._told(request, answer.status)
        keep = head[1].get("connection", "").lower() != "close" and version == "HTTP/1.1" and not self._ending
        await self._send(writer, answer, request.method, keep)
        return keep

    async def _send(self, writer: asyncio.StreamWriter, answer: Response, method: str, keep: bool) -> None:
        phrase = HTTPStatus(answer.status).phrase if answer.status in HTTPStatus._value2member_map_ else "Unknown"
        framing = ("transfer-encoding", "chunked") if answer.stream is not None else ("content-length", str(len(answer.body)))
        headers = [*answer.headers, framing, ("connection", "keep-alive" if keep else "close")]
        lines = [f"HTTP/1.1 {answer.status} {phrase}", *(f"{k}: {v}" for k, v in headers), "", ""]
        writer.write("\r\n".join(lines).encode("latin-1"))
        if method == "HEAD":
            pass
        elif answer.stream is None:
            writer.write(answer.body)
        else:
            await _chunks(writer, answer.stream)
        await writer.drain()


async def _watch(reader: asyncio.StreamReader, exchange: asyncio.Task[Any]) -> None:
    """End an exchange whose caller has gone, as the real servers do."""
    while not reader.at_eof():  # noqa: ASYNC110 - the stream tells nobody of its end while nobody reads
        await asyncio.sleep(_LOOK_SECONDS)
    exchange.cancel()


async def _chunks(writer: asyncio.StreamWriter, stream: AsyncIterator[bytes]) -> None:
    try:
        async for piece in stream:
            if piece:
                writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                await writer.drain()
        writer.write(b"0\r\n\r\n")
    finally:
        with contextlib.suppress(Exception):
            await stream.aclose()  # type: ignore[attr-defined]
