"""Every mutating call leaves a line: who, through which face, what, with which answer, and which operation it began."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from anyio import to_thread
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from instantstart.base import log, problems
from instantstart.capabilities.doors import Caller
from instantstart.faces.api.gate import MUTATING

_logger = log.get(__name__)
_OPERATION = re.compile(r"/operations/([A-Za-z0-9_-]+)")


@dataclass(frozen=True)
class Entry:
    """One line of the audit log, ready to be written."""

    caller: str
    kind: str
    role: str
    face: str
    method: str
    path: str
    summary: str
    status: int
    operation_id: str | None


class Writer(Protocol):
    """Who writes the line, blocking."""

    def __call__(self, entry: Entry) -> None: ...


class Audit:
    """ASGI layer inside authentication. The line is written before the first byte of the answer leaves."""

    def __init__(self, app: ASGIApp, write: Writer) -> None:
        self._app = app
        self._write = write

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        audited = scope["type"] == "http" and scope["method"] in MUTATING and scope["path"].startswith("/api/")
        if not audited:
            await self._app(scope, receive, send)
            return

        async def sender(message: Message) -> None:
            if message["type"] == "http.response.start":
                await self._note(_entry(scope, message))
            await send(message)

        await self._app(scope, receive, sender)

    async def _note(self, entry: Entry) -> None:
        """Write the line. While the database cannot be written it goes to the program's log: the answer stands, whatever it is."""
        try:
            await to_thread.run_sync(self._write, entry)
        except (problems.Busy, problems.Unreachable) as problem:
            _logger.error("audit line not stored", extra={"facts": {"code": problem.code, **dataclasses.asdict(entry)}})


def _entry(scope: Scope, start: Message) -> Entry:
    caller: Caller | None = scope.get("state", {}).get("caller")
    location = Headers(raw=start.get("headers", [])).get("location", "")
    found = _OPERATION.search(location) or _OPERATION.search(scope["path"])
    return Entry(
        caller=caller.id if caller else "anonymous",
        kind=str(caller.kind) if caller else "",
        role=str(caller.role) if caller else "",
        face=caller.face if caller else "console",
        method=scope["method"],
        path=str(log.redact(scope["path"]))[:512],
        summary=_summary(scope),
        status=int(start["status"]),
        operation_id=found.group(1) if found else None,
    )


def _summary(scope: Scope) -> str:
    """The operation's own name with its path values: ``cluster_delete cluster=hypd-1130 dry_run=true``."""
    route = scope.get("route")
    name = getattr(route, "operation_id", None) or getattr(route, "name", None) or "unknown route"
    values: Mapping[str, Any] = scope.get("path_params") or {}
    words = [str(name), *(f"{key}={value}" for key, value in values.items())]
    if b"dry_run=true" in scope.get("query_string", b""):
        words.append("dry_run=true")
    return str(log.redact(" ".join(words)))[:512]
