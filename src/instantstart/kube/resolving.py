"""The name of a cluster's endpoint, looked up in bounded time: the system's own resolver may hang for half a minute and more.

When a private hosted zone or a VPN is gone, the name does not fail, it just never answers (case 17), and no timeout of a connection
covers that. The look-up runs in a thread of its own; whoever waits for it goes away after some seconds, as from a dead address.
"""

from __future__ import annotations

import concurrent.futures
import ipaddress
import socket
import threading
import time

import httpx2

#: how long a name that was found is not looked up again (real seconds)
_KEPT_SECONDS = 60.0


class Names:
    """Looks names up; safe from any thread. Of one name one look-up is under way, however many wait for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[str, float] = {}
        self._asked: dict[str, concurrent.futures.Future[None]] = {}

    def check(self, url: httpx2.URL, seconds: float) -> None:
        """Return when the host of ``url`` has an address. Raises ConnectTimeout when none came in time, ConnectError when there is none."""
        host = url.host
        if _is_address(host) or self._found.get(host, 0.0) > time.monotonic():
            return
        try:
            self._ask(host).result(seconds)
        except TimeoutError as late:
            raise httpx2.ConnectTimeout(f"the name {host} was not resolved within {seconds:.0f} seconds") from late
        except OSError as error:
            raise httpx2.ConnectError(f"the name {host} cannot be resolved: {error}") from error
        self._found[host] = time.monotonic() + _KEPT_SECONDS

    def _ask(self, host: str) -> concurrent.futures.Future[None]:
        with self._lock:
            under_way = self._asked.get(host)
            if under_way is None:
                under_way = self._asked[host] = concurrent.futures.Future()
                threading.Thread(target=self._look_up, args=(host, under_way), name=f"resolve {host}", daemon=True).start()
            return under_way

    def _look_up(self, host: str, answer: concurrent.futures.Future[None]) -> None:
        try:
            socket.getaddrinfo(host, 443, type=socket.SOCK_STREAM)
        except OSError as error:
            outcome: OSError | None = error
        else:
            outcome = None
        with self._lock:
            del self._asked[host]
        answer.set_exception(outcome) if outcome else answer.set_result(None)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
