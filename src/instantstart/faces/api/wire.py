"""Bounds of a connection that the server's own protocol does not have: how large a request's head may be, how slowly it may come, how
slowly its answer may be taken, and how many connections there may be (crowd.py).

Without them a caller without any token could fill the memory with one endless header, or hold every connection by a byte a minute.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any, ClassVar

from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from instantstart.base import problems
from instantstart.faces.api.crowd import Crowd
from instantstart.faces.api.gate import refuse

MAX_HEAD_BYTES = 64 * 1024
HEAD_SECONDS = 20.0
#: a body has this long, and again as long as it comes at the least speed
BODY_SECONDS = 60.0
BODY_BYTES_A_SECOND = 1024
#: how long an answer waits for a caller that takes nothing of it
TAKING_SECONDS = 60.0
#: answered where there is no room for more
_HEALTH = (b"/healthz", b"/readyz")


def crowded() -> problems.Busy:
    """There is no room for this connection."""
    return problems.Busy(
        "server.crowded",
        "As many connections are open as this server keeps at once.",
        hint="Close connections that are not needed, or try again after Retry-After. Administrators set INSTANTSTART_MAX_CONNECTIONS and "
        "INSTANTSTART_MAX_CONNECTIONS_PER_ADDRESS.",
    )


async def _turn_away(scope: Scope, receive: Receive, send: Send) -> None:
    async def last(message: Any) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], (b"connection", b"close")]}
        await send(message)

    await refuse(crowded(), scope, receive, last)


def within(crowd: Crowd) -> type[Bounded]:
    """The protocol of a server whose connections belong to ``crowd``."""
    return type("Bounded", (Bounded,), {"crowd": crowd})


class Bounded(HttpToolsProtocol):
    """HTTP as uvicorn speaks it, whose requests must arrive whole within their size and time."""

    crowd: ClassVar[Crowd] = Crowd()
    _has_place = True
    _in_head = True
    #: whether the bytes at hand brought the end of a request
    _ended = False
    _head_bytes = 0
    _body_bytes = 0
    _clock: asyncio.TimerHandle | None = None
    _taking: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """The first request is waited for as long as any head."""
        super().connection_made(transport)
        self._has_place = self.crowd.enter(self, self.client[0] if self.client else "unknown")
        self._wait(HEAD_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is waited for any more."""
        self.crowd.leave(self)
        self._arrived()
        self._taken()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Bytes of a head are counted until it is whole."""
        if self._in_head and self._clock is None:
            self._wait(HEAD_SECONDS)
        self._ended = False
        self._body_bytes += 0 if self._in_head else len(data)
        super().data_received(data)
        if not self._in_head or self._ended:
            self._head_bytes = 0
            return
        self._head_bytes += len(data)
        if self._head_bytes > MAX_HEAD_BYTES and not self.transport.is_closing():
            self._refuse(_not_received(431, f"The head of the request is larger than {MAX_HEAD_BYTES} bytes."))

    def on_headers_complete(self) -> None:
        """The head is whole; its body has a time of its own."""
        self._in_head = False
        self._body_bytes = 0
        self._wait(BODY_SECONDS)
        app = self.app
        if not self._has_place and self.url.partition(b"?")[0] not in _HEALTH:
            self.app = _turn_away
        super().on_headers_complete()
        self.app = app

    def on_message_complete(self) -> None:
        """The request is whole."""
        self._arrived()
        self._in_head = self._ended = True
        super().on_message_complete()

    def handle_websocket_upgrade(self) -> None:
        """A socket has its own bounds."""
        self._arrived()
        if not self._has_place:
            self._refuse(crowded())
            return
        self._in_head = False
        super().handle_websocket_upgrade()

    def send_400_response(self, msg: str) -> None:
        """Bytes that are no request, or whose address is too long to be parsed."""
        self._refuse(_not_received(400, msg))

    @property
    def is_waiting(self) -> bool:
        """Whether no request of this connection is at work."""
        return self._in_head and (self.cycle is None or self.cycle.response_complete)

    def give_up(self) -> None:
        """Close it, for others need its place; without a word where nothing was asked, which a client takes for an end of idleness."""
        self._arrived()
        if self._head_bytes:
            self._refuse(crowded())
        else:
            self.transport.close()

    def pause_writing(self) -> None:
        """The caller does not take what was sent: not for ever."""
        super().pause_writing()
        self._taking = self.loop.call_later(TAKING_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """It does."""
        self._taken()
        super().resume_writing()

    def _taken(self) -> None:
        if self._taking is not None:
            self._taking.cancel()
            self._taking = None

    def _wait(self, seconds: float) -> None:
        self._arrived()
        self._clock = self.loop.call_later(seconds, self._late)

    def _arrived(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None

    def _late(self) -> None:
        self._clock = None
        if not self._in_head and self._body_bytes >= BODY_SECONDS * BODY_BYTES_A_SECOND:
            self._body_bytes = 0
            self._wait(BODY_SECONDS)
        elif self.transport is not None and not self.transport.is_closing():
            self._refuse(_not_received(408, "The request did not arrive in time."))

    def _refuse(self, told: problems.Problem | dict[str, Any]) -> None:
        """Say why, unless an answer is on its way, and hang up."""
        begun = self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete
        if not begun:
            if self.cycle is not None:
                self.cycle.disconnected = True  # whoever is at work on it need not answer any more
            document = told if isinstance(told, dict) else told.document()
            after = [f"Retry-After: {told.retry_after_seconds}"] if isinstance(told, problems.Busy) else []
            body = json.dumps(document).encode()
            head = (
                f"HTTP/1.1 {document['status']} Refused",
                f"Content-Type: {problems.MEDIA_TYPE}",
                f"Content-Length: {len(body)}",
                *after,
                "Connection: close",
            )
            self.transport.write("\r\n".join((*head, "", "")).encode() + body)
        self.transport.close()


def _not_received(status: int, detail: str) -> dict[str, Any]:
    return problems.Invalid("request.not_received", detail).document() | {"status": status}
