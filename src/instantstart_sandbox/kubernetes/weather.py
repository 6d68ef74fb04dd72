"""Bad weather at an API server: the fault rules whose ``match`` begins with ``kubernetes``, and watches that are cut.

A call is named ``kubernetes:verb/plural`` (``kubernetes:patch/daemonsets``, ``kubernetes:get/pods/log``), a document
``kubernetes:get/version``. Words of the refusals: API Priority and Fairness (429) and an API server that is shutting down (503).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable
from typing import Any, Final

from instantstart_sandbox.kubernetes.errors import ApiError
from instantstart_sandbox.kubernetes.http import Request
from instantstart_sandbox.world.clock import Clock
from instantstart_sandbox.world.faults import KUBERNETES, Fault, Faults

_HELD_SECONDS: Final = 0.02
_REFUSALS: Final = {
    "throttle": (429, "TooManyRequests", "Too many requests, please try again later."),
    "unavailable": (503, "ServiceUnavailable", "apiserver is shutting down"),
    "denied": (403, "Forbidden", "forbidden by a fault rule of the sandbox"),
}
_VERBS: Final = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class HungUpError(Exception):
    """The socket was closed without an answer."""


class Weather:
    """What stands between a caller and the API server. Without rules it does nothing."""

    def __init__(self, faults: Faults, clock: Clock) -> None:
        self._faults, self._clock = faults, clock

    async def begin(self, request: Request) -> Fault | None:
        """Draw a rule for a request: wait, refuse (ApiError) or hang up (HungUpError); the rule, when the reply is still to be lost."""
        fault = self._faults.draw(KUBERNETES, name_of(request), "")
        if fault is None:
            return None
        if fault.delay:
            await self._clock.sleep(fault.delay)
        if fault.when == "halt":
            await self._held(fault)
        if fault.when == "halt" or fault.code == "away":
            await hang_up(request)
        if fault.when == "before" and fault.code:
            code, reason, told = _REFUSALS.get(fault.code, (fault.status, fault.code, fault.message))
            details = {"retryAfterSeconds": 1} if code in (429, 503) else None
            raise ApiError(code, reason, told, details) if details else ApiError(code, reason, told)
        return fault if fault.loses_reply else None

    async def lose(self, request: Request, fault: Fault) -> None:
        """The act is done; nobody hears of it."""
        await self._held(fault)
        await hang_up(request)

    async def _held(self, fault: Fault) -> None:
        while fault.when in ("halt", "hold") and self._faults.stands(fault):  # noqa: ASYNC110 - another thread takes the rule away
            await asyncio.sleep(_HELD_SECONDS)

    async def cut(self, request: Request, stream: Awaitable[None]) -> None:
        """Serve a watch, and hang up in the middle of it after ``watch_cut_seconds``."""
        seconds = self._faults.settings.watch_cut_seconds
        if not seconds:
            await stream
            return
        try:
            await asyncio.wait_for(stream, seconds)
        except TimeoutError:
            await hang_up(request)


def name_of(request: Request) -> str:
    """``verb/plural``, with the subresource when there is one."""
    parts = request.path.strip("/").split("/")
    rest = parts[2:] if parts[0] == "api" else parts[3:] if parts[0] == "apis" else []
    if rest[:1] == ["namespaces"] and len(rest) >= 3 and rest[2] not in ("status", "finalize"):
        rest = rest[2:]
    if not rest:
        return f"get/{'/'.join(parts[:1])}"
    verb = _VERBS.get(request.method, request.method.lower())
    if verb == "get" and len(rest) == 1:
        verb = "watch" if request.flag("watch") else "list"
    return "/".join([verb, rest[0], *rest[2:3]])


async def hang_up(request: Request) -> None:
    """Close the caller's socket at once. Never returns."""
    transport: Any = getattr(getattr(request.send, "__self__", None), "transport", None)
    if transport is not None:
        transport.abort()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(request.gone(), 5.0)
    raise HungUpError
