"""The outermost layer: every request is followed, by its span, the ids in log lines, and its line in the access log.

A line tells who asked what and how it ended; no query, header or body, for those may hold what is secret or foreign.
"""

from __future__ import annotations

import time
from typing import Any

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from instantstart.base import log, tracing, trail

logger = log.get("instantstart.access")
#: asked every few seconds by machines, or only files: told at DEBUG
_QUIET = frozenset({"/healthz", "/readyz", "/metrics"})
_GUARDED = ("/api/", "/mcp")
_MOST_CHARACTERS = 300
_ACCEPTED = 101


class Following:
    """ASGI layer; see the module."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        method = str(scope.get("method", "WEBSOCKET"))
        given = Headers(scope=scope).getlist("traceparent")
        parent = tracing.parse(given[0]) if len(given) == 1 else None
        ended = _Ended(scope, method)
        with trail.following(), tracing.entered(method, parent, served=True, http__request__method=method) as span:
            note_place(span.place or parent)
            try:
                await self._app(scope, receive, ended.noting(send))
            finally:
                ended.tell(span)


def note_place(place: tracing.Parent | None) -> None:
    """Let log lines say where in a trace they are, by OpenTelemetry's names."""
    if place is not None:
        trail.note(trace_id=place.trace_id, span_id=place.span_id, trace_flags="01" if place.sampled else "00")


class _Ended:
    """What is told of one request when it is over."""

    def __init__(self, scope: Scope, method: str) -> None:
        self._scope, self._method = scope, method
        self._began = time.perf_counter()
        self._status = 0

    def noting(self, send: Send) -> Send:
        """``send``, with an eye on the status."""

        async def sender(message: Message) -> None:
            if message["type"] in ("http.response.start", "websocket.http.response.start"):
                self._status = int(message["status"])
            elif message["type"] == "websocket.accept":
                self._status = _ACCEPTED
            await send(message)

        return sender

    def tell(self, span: tracing.Span) -> None:
        """Into the access log and the span."""
        state: dict[str, Any] = self._scope.get("state", {})
        caller, path = state.get("caller"), str(self._scope["path"])
        route = state.get("route_pattern")
        if caller is not None:
            trail.note(identity_kind=str(caller.kind))
        span.named(f"{self._method} {route}" if route else self._method)
        span.note(http__route=route, http__response__status_code=self._status or None, instantstart__request_id=state.get("request_id"))
        if caller is not None:
            span.note(instantstart__face=str(caller.face), instantstart__identity_kind=str(caller.kind))
        if self._status >= 500:
            span.failed(str(self._status))
        client = self._scope.get("client")
        facts = {
            "method": self._method,
            "path": path[:_MOST_CHARACTERS],
            "status": self._status,
            "milliseconds": round((time.perf_counter() - self._began) * 1000, 1),
            "from": str(client[0]) if client else "",
            **({"identity": caller.id, "face": str(caller.face)} if caller is not None else {}),
        }
        told = path.startswith(_GUARDED) and path not in _QUIET
        logger.log(log.INFO if told else log.DEBUG, "request", extra={"facts": facts})
