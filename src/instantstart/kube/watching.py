"""The reflectors of the process: one background loop keeps the nodes and pods of the clusters that somebody looks at."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from instantstart.kube.cache import Reflector
from instantstart.kube.client import KubeCluster
from instantstart.kube.shapes import Node, Pod

#: How long a first look waits for the first list before it answers what there is (real seconds).
FIRST_LIST_SECONDS = 10.0


class Watching:
    """Starts a reflector at the first look and keeps it until the cluster is forgotten or the process ends."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._running: dict[tuple[str, str], tuple[KubeCluster, Reflector[Any], Any]] = {}

    def nodes(self, cluster: KubeCluster) -> Reflector[Node]:
        """The live nodes of a cluster."""
        return self._reflector(cluster, "/api/v1/nodes", Node)

    def pods(self, cluster: KubeCluster) -> Reflector[Pod]:
        """The live pods of a cluster, all namespaces."""
        return self._reflector(cluster, "/api/v1/pods", Pod)

    def forget(self, arn: str) -> None:
        """Stop watching a cluster."""
        with self._lock:
            gone = [key for key in self._running if key[0] == arn]
            for key in gone:
                self._running.pop(key)[2].cancel()

    def stop(self) -> None:
        """Stop everything and end the background thread."""
        with self._lock:
            for _, _, future in self._running.values():
                future.cancel()
            self._running.clear()
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(timeout=5)

    def _reflector(self, cluster: KubeCluster, path: str, shape: type[Any]) -> Reflector[Any]:
        key = (cluster.ref.arn, path)
        with self._lock:
            known = self._running.get(key)
            if known is None or known[0] is not cluster:
                if known is not None:
                    known[2].cancel()  # the cluster was made anew behind the same ARN
                made: Reflector[Any] = Reflector(cluster.connection, path, shape)
                future = asyncio.run_coroutine_threadsafe(made.run(), self._ensure_loop())
                known = self._running[key] = (cluster, made, future)
        known[1].synced.wait(FIRST_LIST_SECONDS)
        return known[1]

    def _ensure_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            loop = self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=_serve, args=(loop,), name="kube-watching", daemon=True)
            self._thread.start()
        return self._loop


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    loop.run_forever()
    for task in asyncio.all_tasks(loop):
        task.cancel()
    loop.run_until_complete(asyncio.sleep(0.05))
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()
