"""How much may be asked: a bucket of tokens for each identity and each address, kept in the memory of this replica.

A request takes its price out of the bucket, which fills again at a steady rate; an empty one answers 429 and says when to come back.
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from starlette.types import ASGIApp, Receive, Scope, Send

from instantstart.base.settings import Settings
from instantstart.faces.api import origin
from instantstart.faces.api.gate import MUTATING, refuse
from instantstart.faces.api.problems import HttpProblem

READ_PRICE, WRITE_PRICE = 1.0, 5.0
#: people behind one proxy or port forwarding share an address
ADDRESS_SHARES = 4.0
#: when to ask again where too much is open
_OPEN_SECONDS = 5
_COUNTED = ("/api", "/mcp", "/openapi.json", "/metrics")


@dataclass
class _Bucket:
    left: float
    at: float


class Buckets:
    """A bucket for each key; the longest unused ones make room, so memory is bounded. ``per_second`` 0: no limit."""

    def __init__(self, per_second: float, burst: float, most: int = 8192) -> None:
        self._per_second, self._burst, self._most = per_second, burst, most
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()
        self._lock = threading.Lock()
        self.now: Callable[[], float] = time.monotonic

    def take(self, key: str, price: float) -> float:
        """Pay ``price`` from the bucket of ``key``: 0 when it was paid, else the seconds until it could be. A refusal costs nothing."""
        if self._per_second <= 0:
            return 0.0
        price = min(price, self._burst)
        with self._lock:
            now = self.now()
            bucket = self._buckets.setdefault(key, _Bucket(self._burst, now))
            self._buckets.move_to_end(key)
            while len(self._buckets) > self._most:
                self._buckets.popitem(last=False)
            bucket.left = min(self._burst, bucket.left + (now - bucket.at) * self._per_second)
            bucket.at = now
            if bucket.left >= price:
                bucket.left -= price
                return 0.0
            return (price - bucket.left) / self._per_second

    def __len__(self) -> int:
        return len(self._buckets)


def of_identities(settings: Settings) -> Buckets:
    """One bucket for each identity."""
    return Buckets(settings.rate_limit_per_second, settings.rate_limit_burst)


def of_addresses(settings: Settings) -> Buckets:
    """One bucket for each address, several times as large."""
    return Buckets(settings.rate_limit_per_second * ADDRESS_SHARES, settings.rate_limit_burst * ADDRESS_SHARES)


def address_key(scope: Scope) -> str | None:
    """The address as a key. What a tool asks inside was counted when the tool was called."""
    return None if origin.is_inner(scope) else origin.network_of(origin.address_of(scope))


def identity_key(scope: Scope) -> str | None:
    """The identity as a key; None for those without one."""
    caller = scope.get("state", {}).get("caller")
    return caller.id if caller else None


class Limiter:
    """ASGI layer: requests whose key has used up its bucket are refused."""

    def __init__(self, app: ASGIApp, buckets: Buckets, key: Callable[[Scope], str | None]) -> None:
        self._app, self._buckets, self._key = app, buckets, key

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket") and scope["path"].startswith(_COUNTED):
            key = self._key(scope)
            seconds = self._buckets.take(key, price_of(scope)) if key is not None else 0.0
            if seconds > 0:
                await refuse(too_many(seconds), scope, receive, send)
                return
        await self._app(scope, receive, send)


class AtOnce:
    """ASGI layer: an identity has only so many requests and streams open at the same time. ``most`` 0: no limit.

    What a tool asks inside belongs to the call of MCP, which was counted.
    """

    def __init__(self, app: ASGIApp, most: int) -> None:
        self._app, self._most = app, most
        self._open: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        key = identity_key(scope) if scope["type"] in ("http", "websocket") and not origin.is_inner(scope) else None
        if not self._most or key is None:
            await self._app(scope, receive, send)
            return
        if self._open[key] >= self._most:
            await refuse(too_many_open(self._most), scope, receive, send)
            return
        self._open[key] += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._open[key] -= 1
            if not self._open[key]:
                del self._open[key]


def price_of(scope: Scope) -> float:
    """What a request costs: reading is cheap, changing is dear. A call of MCP is counted by what its tool asks inside."""
    dear = scope.get("method") in MUTATING and not scope["path"].startswith("/mcp")
    return WRITE_PRICE if dear else READ_PRICE


def too_many(seconds: float) -> HttpProblem:
    """429 with Retry-After."""
    whole = max(1, math.ceil(seconds))
    problem = HttpProblem(
        429,
        f"More was asked than is taken at once; ask again in {whole} s.",
        hint="Wait as long as Retry-After says, and ask less often: wait for an operation instead of looking again and again. "
        "Administrators set INSTANTSTART_RATE_LIMIT_PER_SECOND.",
    )
    problem.retry_after_seconds = whole
    return problem


def too_many_open(most: int) -> HttpProblem:
    """429 with Retry-After."""
    problem = HttpProblem(
        429,
        f"{most} requests and streams of this identity are open already.",
        hint="Close streams that nobody reads, or give each program a token of its own. Administrators set "
        "INSTANTSTART_MAX_OPEN_PER_IDENTITY.",
    )
    problem.retry_after_seconds = _OPEN_SECONDS
    return problem
