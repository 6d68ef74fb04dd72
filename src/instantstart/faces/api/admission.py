"""Whoever was let in stays in only as long as he would be let in again: long answers end when a token, session or role does."""

from __future__ import annotations

import asyncio
from typing import Any

from anyio import to_thread
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from instantstart.base import problems
from instantstart.capabilities.doors import Caller, Role
from instantstart.faces.api import auth
from instantstart.faces.api.gate import refuse

#: how often an open connection's right to be open is looked at (real seconds)
LOOK_SECONDS = 2.0
_RANK = list(Role)


def ended() -> problems.Problem:
    """What is told to whom it happens."""
    return problems.Unauthenticated(
        "identity.ended", "The token was revoked, the session has ended, or the role was lowered.", hint="Sign in again."
    )


async def still_admitted(finder: auth.Finder, headers: Headers, caller: Caller | None = None) -> bool:
    """Whether what opened a long connection would open it now; with ``caller``: in no lower role than then.

    A database that cannot be asked ends nobody's connection.
    """
    try:
        identity = await to_thread.run_sync(auth.identity_behind, finder, headers)
    except (problems.Busy, problems.Unreachable):
        return True
    if identity is None:
        return False
    return caller is None or _RANK.index(Role(identity.role)) >= _RANK.index(caller.role)


class Admission:
    """ASGI layer inside authentication, for HTTP; WebSockets look themselves (streams.py), because they say why they close.

    A change that has not been answered is never broken off: what it did would be unknown.
    """

    def __init__(self, app: ASGIApp, finder: auth.Finder) -> None:
        self._app, self._finder = app, finder

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        caller = scope.get("state", {}).get("caller")
        if scope["type"] != "http" or caller is None:
            await self._app(scope, receive, send)
            return
        watch = _Watch(self._finder, scope, caller, send)
        try:
            await self._app(scope, receive, watch.send)
        except asyncio.CancelledError:
            if not watch.cut:
                raise
            asyncio.current_task().uncancel()  # type: ignore[union-attr]
            if not watch.started:
                await refuse(ended(), scope, receive, send)
        finally:
            watch.stop()


class _Watch:
    """Costs a timer; only a request that outlives it is looked at."""

    def __init__(self, finder: auth.Finder, scope: Scope, caller: Caller, send: Send) -> None:
        self._finder, self._scope, self._caller, self._send = finder, scope, caller, send
        self._request: asyncio.Task[Any] | None = asyncio.current_task()
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(LOOK_SECONDS, self._begin)
        self._looking: asyncio.Task[None] | None = None
        self.cut = self.started = False

    async def send(self, message: Message) -> None:
        """Pass on, and note that the answer has begun."""
        self.started = True
        await self._send(message)

    def _begin(self) -> None:
        self._looking = self._loop.create_task(self._look())

    async def _look(self) -> None:
        while True:
            may_end = self.started or self._scope["method"] == "GET"
            if may_end and not await still_admitted(self._finder, Headers(scope=self._scope), self._caller):
                break
            await asyncio.sleep(LOOK_SECONDS)
        if self._request is not None and not self._request.done():
            self.cut = True
            self._request.cancel()

    def stop(self) -> None:
        """The answer is out."""
        self._timer.cancel()
        if self._looking is not None:
            self._looking.cancel()
