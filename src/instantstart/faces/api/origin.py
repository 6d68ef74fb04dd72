"""Where a request comes from: the peer's address, also for what an MCP tool asks inside this process on a caller's behalf."""

from __future__ import annotations

import contextlib
import ipaddress
from collections.abc import Iterator
from contextvars import ContextVar

from starlette.types import Scope

_outer: ContextVar[str | None] = ContextVar("outer", default=None)


def address_of(scope: Scope) -> str:
    """The caller's address: the one MCP was called from, else the peer's."""
    client = scope.get("client")
    return _outer.get() or (str(client[0]) if client else "unknown")


def is_inner(scope: Scope) -> bool:
    """Whether this request was made by a tool inside this process: its caller has passed the door already."""
    return _outer.get() is not None and not scope["path"].startswith("/mcp")


@contextlib.contextmanager
def remembered(scope: Scope) -> Iterator[None]:
    """What is asked in this context is asked for the caller of ``scope``."""
    token = _outer.set(address_of(scope))
    try:
        yield
    finally:
        _outer.reset(token)


def network_of(address: str) -> str:
    """What is counted as one place: an IPv4 address, or the /64 of an IPv6 one, which one household or host has for itself."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is None:
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return str(parsed)
