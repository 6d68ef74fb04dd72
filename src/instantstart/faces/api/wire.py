"""Bounds of a connection that the server's own protocol does not have: how large a request's head may be, and how slowly it may come.

Without them a caller without any token could fill the memory with one endless header, or hold every connection by a byte a minute.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from instantstart.base import problems

MAX_HEAD_BYTES = 64 * 1024
HEAD_SECONDS = 20.0
BODY_SECONDS = 60.0


class Bounded(HttpToolsProtocol):
    """HTTP as uvicorn speaks it, whose requests must arrive whole within their size and time."""

    _in_head = True
    #: whether the bytes at hand brought the end of a request
    _ended = False
    _head_bytes = 0
    _clock: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """The first request is waited for as long as any head."""
        super().connection_made(transport)
        self._wait(HEAD_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is waited for any more."""
        self._arrived()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Bytes of a head are counted until it is whole."""
        if self._in_head and self._clock is None:
            self._wait(HEAD_SECONDS)
        self._ended = False
        super().data_received(data)
        if not self._in_head or self._ended:
            self._head_bytes = 0
            return
        self._head_bytes += len(data)
        if self._head_bytes > MAX_HEAD_BYTES and not self.transport.is_closing():
            self._refuse(431, f"The head of the request is larger than {MAX_HEAD_BYTES} bytes.")

    def on_headers_complete(self) -> None:
        """The head is whole; its body has a time of its own."""
        self._in_head = False
        self._wait(BODY_SECONDS)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The request is whole."""
        self._arrived()
        self._in_head = self._ended = True
        super().on_message_complete()

    def handle_websocket_upgrade(self) -> None:
        """A socket has its own bounds."""
        self._arrived()
        super().handle_websocket_upgrade()

    def send_400_response(self, msg: str) -> None:
        """Bytes that are no request, or whose address is too long to be parsed."""
        self._refuse(400, msg)

    def _wait(self, seconds: float) -> None:
        self._arrived()
        self._clock = self.loop.call_later(seconds, self._late)

    def _arrived(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None

    def _late(self) -> None:
        self._clock = None
        if self.transport is not None and not self.transport.is_closing():
            self._refuse(408, "The request did not arrive in time.")

    def _refuse(self, status: int, detail: str) -> None:
        """Say why, unless an answer is on its way, and hang up."""
        if self.cycle is None or self.cycle.response_complete:
            told = problems.Invalid("request.not_received", detail).document() | {"status": status}
            body = json.dumps(told).encode()
            head = f"HTTP/1.1 {status} Refused", f"Content-Type: {problems.MEDIA_TYPE}", f"Content-Length: {len(body)}", "Connection: close"
            self.transport.write("\r\n".join((*head, "", "")).encode() + body)
        self.transport.close()
