"""The gateway on a loopback socket, and the ticker that lets time pass when nobody asks."""

from __future__ import annotations

import errno
import socket
import threading
import traceback
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from cheroot import wsgi

from instantstart_sandbox.gateway.errors import ReplyLost

if TYPE_CHECKING:
    from instantstart_sandbox.world.state import World

_THREADS = 32
_TICK_SECONDS = 0.1


class _Http(wsgi.Server):
    """cheroot's server, on a socket whose port can be had again at once after a kill, also one the system chose."""

    keep_alive_conn_limit = 1000

    @classmethod
    def prepare_socket(cls, *args: Any, **more: Any) -> socket.socket:
        """As cheroot does, with SO_REUSEADDR for every port."""
        prepared: socket.socket = super().prepare_socket(*args, **more)
        prepared.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        return prepared


class Server:
    """Serves the world's gateway on 127.0.0.1; port 0 lets the system choose."""

    def __init__(self, world: World, port: int = 0) -> None:
        self._world = world
        self._http = _Http(("127.0.0.1", port), self._application, numthreads=_THREADS, request_queue_size=128, timeout=60)
        self._http.shutdown_timeout = 1
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self) -> str:
        """Begin to listen; the endpoint's URL. OSError when the port is taken."""
        self._http.prepare()
        self._threads = [
            threading.Thread(target=self._http.serve, name="gateway", daemon=True),
            threading.Thread(target=self._tick, name="ticker", daemon=True),
        ]
        for thread in self._threads:
            thread.start()
        return f"http://127.0.0.1:{self._http.bind_addr[1]}"

    def stop(self) -> None:
        """End the requests under way and stop listening."""
        self._stopping.set()
        self._http.stop()
        for thread in self._threads:
            thread.join(timeout=5)

    def _application(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        try:
            return self._world.gateway(environ, start_response)
        except ReplyLost:
            # The server closes the connection without a word when it meets an error of the socket
            raise ConnectionResetError(errno.ECONNRESET, "reply lost by a fault rule") from None

    def _tick(self) -> None:
        while not self._stopping.wait(_TICK_SECONDS):
            try:
                self._world.tick()
            except Exception as crash:  # noqa: BLE001 - a boundary: time must go on; the crash is in the ledger
                self._world.journal.crashed("clock", "tick", repr(crash), traceback.format_exc())
