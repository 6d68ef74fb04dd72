"""Asking something inside a cluster through the API server's proxy, its answer read as it comes: bounded, and never buffered whole.

What the API server says itself (no such pod, nothing listens there) is told apart from what the thing behind it says: the first is a
Problem, the second an answer, whatever its status.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

import httpx2

from instantstart.base import problems
from instantstart.kube import errors
from instantstart.kube.client import Door, KubeCluster
from instantstart.kube.connection import CONNECT_SECONDS

_STATUS_LIMIT = 16_384


@dataclass(frozen=True)
class Passage:
    """One request through a door. ``silence_seconds``: how long the other side may say nothing (real seconds)."""

    door: Door
    path: str
    method: str = "POST"
    body: bytes | None = None
    silence_seconds: float = 60.0
    accept: str = "application/json, text/event-stream"


@dataclass(frozen=True)
class Stream:
    """An answer that is still coming."""

    status: int
    content_type: str
    chunks: AsyncIterator[bytes]


@dataclass(frozen=True)
class Flow:
    """The same, for a thread."""

    status: int
    content_type: str
    chunks: Iterator[bytes]


@asynccontextmanager
async def stream(cluster: KubeCluster, passage: Passage) -> AsyncIterator[Stream]:
    """Ask, and give the answer as it comes. Raises NotFound, Busy or Unreachable for what is wrong on the way."""
    call = cluster.connection.call(passage.method, passage.door.path(passage.path))
    try:
        async with cluster.connection.open_async() as http, http.stream(**_request(passage)) as response:
            if _may_be_ours(response):
                _refuse(response, await response.aread(), call)
                yield Stream(response.status_code, _type(response), _whole(response.content))
            else:
                yield Stream(response.status_code, _type(response), response.aiter_bytes())
    except httpx2.RequestError as error:
        raise _lost(error, call, passage) from error


@contextmanager
def flow(cluster: KubeCluster, passage: Passage) -> Iterator[Flow]:
    """The same, synchronously."""
    call = cluster.connection.call(passage.method, passage.door.path(passage.path))
    try:
        with cluster.connection.open() as http, http.stream(**_request(passage)) as response:
            if _may_be_ours(response):
                _refuse(response, response.read(), call)
                yield Flow(response.status_code, _type(response), iter((response.content,)))
            else:
                yield Flow(response.status_code, _type(response), response.iter_bytes())
    except httpx2.RequestError as error:
        raise _lost(error, call, passage) from error


def _request(passage: Passage) -> dict[str, Any]:
    headers = {"Accept": passage.accept}
    if passage.body is not None:
        headers["Content-Type"] = "application/json"
    timeout = httpx2.Timeout(CONNECT_SECONDS, read=passage.silence_seconds, write=passage.silence_seconds)
    path = passage.door.path(passage.path)
    return {"method": passage.method, "url": path, "content": passage.body, "headers": headers, "timeout": timeout}


def _may_be_ours(response: httpx2.Response) -> bool:
    """A short JSON of 400 or more: it may be a Status of the API server."""
    length = response.headers.get("content-length", "0")
    return bool(
        response.status_code >= 400
        and "json" in response.headers.get("content-type", "json")
        and length.isdigit()
        and int(length) < _STATUS_LIMIT
    )


def _refuse(response: httpx2.Response, content: bytes, call: errors.Call) -> None:
    if b'"kind":"Status"' not in content[:300].replace(b" ", b""):
        return
    problem = errors.from_response(response.status_code, content, response.headers, call)
    if isinstance(problem, problems.Busy):
        problem.code = "model.not_reached"
        problem.detail = f"The API server does not reach what is asked: {problem.detail}"
        problem.hint = problem.hint or "Ask again; where that does not help, look at what serves: it may have ended, or be starting anew."
    raise problem


async def _whole(content: bytes) -> AsyncIterator[bytes]:
    yield content


def _type(response: httpx2.Response) -> str:
    return str(response.headers.get("content-type", ""))


def _lost(error: httpx2.RequestError, call: errors.Call, passage: Passage) -> problems.Problem:
    if isinstance(error, httpx2.ReadTimeout):
        return problems.Unreachable(
            "model.silent",
            f"The server behind {passage.door.kind} {passage.door.namespace}/{passage.door.name} said nothing for"
            f" {passage.silence_seconds:.0f} seconds.",
            hint="Ask for less, or wait longer: it may be loading, or busy with others.",
        )
    return errors.from_transport(error, call)
