"""The one way the command line speaks to the server: REST, with every failure a Problem."""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import httpx2

from instantstart.base import problems
from instantstart.faces.cli.contexts import Context

API = "/api/v1"
Json = dict[str, Any]


class Client:
    """Synchronous calls to one server as one identity."""

    def __init__(self, context: Context, transport: httpx2.BaseTransport | None = None) -> None:
        self.context = context
        headers = {"X-InstantStart-Face": "cli", "Accept": "application/json"}
        if context.token:
            headers["Authorization"] = f"Bearer {context.token}"
        self._http = httpx2.Client(base_url=context.url, headers=headers, timeout=httpx2.Timeout(70.0, connect=5.0), transport=transport)

    def call(self, method: str, path: str, *, body: Mapping[str, Any] | None = None, query: Mapping[str, Any] | None = None) -> Any:
        """The JSON that ``method path`` answers. Raises the Problem that the server tells, or Unreachable.

        A POST carries an Idempotency-Key, so a connection lost before the answer is safely asked again once.
        """
        asked = {name: value for name, value in (query or {}).items() if value is not None}
        headers = {"Idempotency-Key": uuid.uuid4().hex} if method == "POST" else {}
        attempts = 2 if method in ("GET", "POST") else 1
        for attempt in range(1, attempts + 1):
            try:
                answer = self._http.request(method, API + path, params=asked, json=body, headers=headers)
                return _read(answer)
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                raise self._unreachable(error) from error
            except httpx2.TransportError as error:
                if attempt == attempts:
                    raise self._unreachable(error) from error
        raise AssertionError("unreachable")

    def get(self, path: str, **query: Any) -> Any:
        """``call("GET", ...)``."""
        return self.call("GET", path, query=query)

    def download(self, path: str, query: Mapping[str, Any]) -> Iterator[bytes]:
        """The bytes that ``GET path`` answers, piece by piece. Raises as ``call``."""
        asked = {name: value for name, value in query.items() if value is not None}
        try:
            with self._http.stream("GET", API + path, params=asked, headers={"Accept": "*/*"}) as answer:
                if answer.status_code >= 400:
                    answer.read()
                    _read(answer)
                yield from answer.iter_bytes()
        except httpx2.TransportError as error:
            raise self._unreachable(error) from error

    def events(self, path: str, body: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        """The server-sent events that ``POST path`` answers: (name, data), as they come. Raises as ``call``.

        Data is JSON; what is none (the ``[DONE]`` of a model) is left out.
        """
        try:
            with self._http.stream("POST", API + path, json=body, headers={"Accept": "text/event-stream"}, timeout=None) as answer:
                if answer.status_code >= 400:
                    answer.read()
                    _read(answer)
                name = "message"
                for line in answer.iter_lines():
                    if line.startswith("event:"):
                        name = line[6:].strip()
                    elif line.startswith("data:"):
                        with contextlib.suppress(ValueError):
                            yield name, json.loads(line[5:])
                    elif not line:
                        name = "message"
        except httpx2.TransportError as error:
            raise self._unreachable(error) from error

    def pages(self, path: str, limit: int, **query: Any) -> Iterator[Json]:
        """The items of a paged list, at most ``limit`` of them."""
        cursor: str | None = None
        while limit > 0:
            page = self.get(path, limit=min(limit, 200), cursor=cursor, **query)
            yield from page["items"][:limit]
            limit -= len(page["items"])
            cursor = page.get("cursor")
            if not cursor:
                return

    def close(self) -> None:
        """Let go of the connection."""
        self._http.close()

    def _unreachable(self, error: Exception) -> problems.Unreachable:
        return problems.Unreachable(
            "server.unreachable",
            f"No InstantStart server answers at {self.context.url} ({type(error).__name__}).",
            hint="Start one with: instantstart serve. Or name another: instantstart login URL, or INSTANTSTART_URL.",
        )


def _read(answer: httpx2.Response) -> Any:
    if answer.status_code == 204:
        return None
    media = answer.headers.get("content-type", "")
    if answer.status_code < 400 and "json" in media:
        return answer.json()
    if problems.MEDIA_TYPE in media:
        raise problems.from_document(answer.json())
    raise problems.Unreachable(
        "server.not_instantstart",
        f"{answer.request.url.host}:{answer.request.url.port} answered {answer.status_code} in a way InstantStart does not.",
        hint="Is that address right, and is nothing in between?",
    )
