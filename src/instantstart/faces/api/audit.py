"""Every change, and every refusal at the door, leaves a line: who, from where, through which face, what, with which answer.

Changes of known callers are always written. Refusals of strangers, and refused reads, are written up to a number a minute: more would let
anybody fill the disk. The next line that is written says how many were left out.
"""

from __future__ import annotations

import dataclasses
import json
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from anyio import to_thread
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from instantstart.base import log, problems
from instantstart.capabilities.doors import Caller
from instantstart.faces.api import made, origin
from instantstart.faces.api.gate import MUTATING

FACES = frozenset({"api", "console", "cli", "mcp"})
#: no identity, not allowed, another host, too many
REFUSALS = frozenset({401, 403, 421, 429})
_logger = log.get(__name__)
_OPERATION = re.compile(r"/operations/([A-Za-z0-9_-]+)")
_STARTS = ("http.response.start", "websocket.http.response.start")
_BODIES = ("http.response.body", "websocket.http.response.body")


@dataclass(frozen=True)
class Entry:
    """One line of the audit log, ready to be written."""

    caller: str
    name: str | None
    kind: str
    role: str
    face: str
    address: str
    method: str
    path: str
    action: str | None
    summary: str
    cluster: str | None
    status: int
    code: str | None
    operation_id: str | None
    #: what was made, begun or changed: its name and id
    target: str | None


class Writer(Protocol):
    """Who writes the line, blocking."""

    def __call__(self, entry: Entry) -> None: ...


class Sampler:
    """How many lines of one kind a minute are enough: for each key, and for all together. Bounded memory."""

    def __init__(self, each: int = 20, all_together: int = 200, window_seconds: float = 60.0, keys: int = 4096) -> None:
        self._each, self._all, self._window, self._keys = each, all_together, window_seconds, keys
        self._counts: OrderedDict[str, int] = OrderedDict()
        self._total = self._left_out = 0
        self._until = 0.0
        self._lock = threading.Lock()
        self.now: Callable[[], float] = time.monotonic

    def admit(self, key: str) -> int | None:
        """None: leave this one out. Else how many were left out since the last that was written."""
        with self._lock:
            if self.now() >= self._until:
                self._counts.clear()
                self._total, self._until = 0, self.now() + self._window
            count = self._counts.get(key, 0)
            if count >= self._each or self._total >= self._all or (count == 0 and len(self._counts) >= self._keys):
                self._left_out += 1
                return None
            self._counts[key] = count + 1
            self._total += 1
            left_out, self._left_out = self._left_out, 0
            return left_out


class Auditor:
    """Decides what is written, and writes it."""

    def __init__(self, write: Writer, sampler: Sampler | None = None) -> None:
        self._write = write
        self._sampler = sampler or Sampler()

    async def note(self, scope: Scope, status: int, body: bytes = b"", location: str = "") -> None:
        """One answer to one request; ``body`` where it is JSON."""
        known = scope.get("state", {}).get("caller") is not None
        changing = is_change(scope)
        if not changing and status not in REFUSALS:
            return
        entry = _entry(scope, status, body, location)
        if not (known and changing) and status >= 400:
            left_out = self._sampler.admit(entry.caller if known else origin.network_of(entry.address))
            if left_out is None:
                return
            more = f" ({left_out} refusals before this one were not listed)" if left_out else ""
            entry = dataclasses.replace(entry, summary=entry.summary + more)
        await self._put(entry)

    async def refused(self, scope: Scope, problem: problems.Problem) -> None:
        """A refusal by the outermost layer, which the layer below never sees."""
        document = problem.document()
        await self.note(scope, int(document["status"]), json.dumps({"code": document["code"]}).encode())

    async def _put(self, entry: Entry) -> None:
        """Write the line. While the database cannot be written it goes to the program's log: the answer stands, whatever it is."""
        try:
            await to_thread.run_sync(self._write, entry)
        except (problems.Busy, problems.Unreachable) as problem:
            facts = {**dataclasses.asdict(entry), "code": problem.code, "answered": entry.code}
            _logger.error("audit line not stored", extra={"facts": facts})


class Audit:
    """ASGI layer round authentication. The line is written before the first byte of the answer leaves."""

    def __init__(self, app: ASGIApp, auditor: Auditor) -> None:
        self._app = app
        self._auditor = auditor

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        held: Message | None = None

        async def sender(message: Message) -> None:
            nonlocal held
            if message["type"] in _STARTS:
                headers = Headers(raw=message.get("headers", []))
                media = headers.get("content-type", "")
                if media.startswith(problems.MEDIA_TYPE) or (media.startswith("application/json") and is_change(scope)):
                    held = message  # the code, or what was made, is in the body, which follows at once
                    return
                await self._auditor.note(scope, int(message["status"]), location=headers.get("location", ""))
            elif held is not None and message["type"] in _BODIES:
                start, held = held, None
                location = Headers(raw=start.get("headers", [])).get("location", "")
                await self._auditor.note(scope, int(start["status"]), message.get("body", b""), location)
                await send(start)
            await send(message)

        if scope["path"].startswith("/mcp"):
            with origin.remembered(scope):
                await self._app(scope, receive, sender)
            return
        await self._app(scope, receive, sender)


def _code(body: bytes) -> str | None:
    try:
        return str(json.loads(body).get("code"))
    except (ValueError, AttributeError, RecursionError):
        return None


def is_change(scope: Scope) -> bool:
    """Whether a request asks for a change of anything."""
    return bool(scope["type"] == "http" and scope["method"] in MUTATING and scope["path"].startswith("/api/"))


def _entry(scope: Scope, status: int, body: bytes, location: str) -> Entry:
    caller: Caller | None = scope.get("state", {}).get("caller")
    found = _OPERATION.search(location) or _OPERATION.search(scope["path"])
    action, values = _action(scope), scope.get("path_params") or {}
    target = made.of_address(values) if status >= 400 else made.target(body, values)
    return Entry(
        caller=caller.id if caller else "anonymous",
        name=caller.name if caller else None,
        kind=str(caller.kind) if caller else "",
        role=str(caller.role) if caller else "",
        face=caller.face if caller else _face(scope),
        address=origin.address_of(scope),
        method=scope.get("method", "GET"),
        path=_short(scope["path"]),
        action=action,
        summary=_summary(scope, action, values),
        cluster=_short(str(values["cluster"])) if "cluster" in values else None,
        status=status,
        code=_code(body) if status >= 400 and body else None,
        operation_id=found.group(1) if found else None,
        target=_short(target) if target else None,
    )


def _short(text: str) -> str:
    return str(log.redact(text.replace("\x00", "\N{REPLACEMENT CHARACTER}")))[:512]


def _face(scope: Scope) -> str:
    """The face that somebody without an identity says he comes through."""
    said = Headers(scope=scope).get("x-instantstart-face", "").lower()
    if said in FACES:
        return said
    if scope["path"].startswith("/mcp"):
        return "mcp"
    return "console" if scope["path"].startswith(("/api/v1/session", "/api/v1/sign-in")) else "api"


def _action(scope: Scope) -> str | None:
    route = scope.get("route")
    found = getattr(route, "operation_id", None) or getattr(route, "name", None)
    return str(found) if found else None


def _summary(scope: Scope, action: str | None, values: Mapping[str, Any]) -> str:
    """The operation's own name with its path values: ``cluster_delete cluster=hypd-1130 dry_run=true``."""
    words = [action or "unknown route", *(f"{key}={value}" for key, value in values.items())]
    if b"dry_run=true" in scope.get("query_string", b""):
        words.append("dry_run=true")
    return _short(" ".join(words))
