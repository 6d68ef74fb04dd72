"""The live copies of the process: nodes and pods of the clusters that somebody looks at, kept by watches in one background loop.

Any floor above may use them (``room.kube.watching``)::

    live = room.kube.watching.live(cluster)      # a KubeCluster; starts at the first look, waits for the first list
    live.nodes.find(None, "hyperpod-i-0123...")  # shapes.Node or None, without a request
    live.pods.snapshot().items                   # {(namespace, name): briefs.PodBrief}
    live.freshness()                             # synced, heard_at, stale, problem: show it, or ask the API when stale
    room.kube.watching.beside(cluster, Index)    # an index of your own, told each change (see ``Beside``)

What was not asked for in ten minutes is stopped, and no more than ``MOST_CLUSTERS`` are watched: the one that was asked for longest ago
makes room. Nothing here is saved: after a restart the first look lists anew.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from instantstart.base import log
from instantstart.kube import briefs, shapes
from instantstart.kube.briefs import PodBrief
from instantstart.kube.cache import Freshness, Reflector, Source
from instantstart.kube.client import KubeCluster
from instantstart.kube.shapes import Node

#: How long a first look waits for the first list before it answers what there is (real seconds).
FIRST_LIST_SECONDS = 10.0
IDLE_SECONDS = 600.0
MOST_CLUSTERS = 16
NODES: Source[Node] = Source("/api/v1/nodes", shapes.Node, briefs.slim)
PODS: Source[PodBrief] = Source("/api/v1/pods", briefs.PodWire, briefs.brief)
_BOTH = ("nodes", "pods")
_SWEEPS = 20
_log = log.get(__name__)
T = TypeVar("T")


class Beside(Protocol):
    """An index beside the copies. ``node`` and ``pod`` are called in the background loop only, one after another, and must not block."""

    def node(self, before: Node | None, after: Node | None) -> None:
        """A node is new (before None), changed, or gone (after None)."""

    def pod(self, before: PodBrief | None, after: PodBrief | None) -> None:
        """The same for a pod."""


B = TypeVar("B", bound=Beside)


@dataclass
class Live:
    """The copies of one cluster, and the indexes beside them."""

    cluster: KubeCluster
    nodes: Reflector[Node]
    pods: Reflector[PodBrief]
    running: dict[str, Future[None]] = field(default_factory=dict)
    indexes: dict[type[Any], Future[Any]] = field(default_factory=dict)
    asked_at: float = field(default_factory=time.monotonic)

    @property
    def synced(self) -> bool:
        """Whether both first lists are complete."""
        return self.nodes.synced.is_set() and self.pods.synced.is_set()

    def freshness(self) -> Freshness:
        """Of both copies the worse: stale when one is, as of the moment at which the older was heard."""
        both = (self.nodes.freshness(), self.pods.freshness())
        heard = [each.heard_at for each in both]
        return Freshness(
            self.synced,
            None if None in heard else min(each for each in heard if each),
            max(each.age_seconds for each in both),
            any(each.stale for each in both),
            next((each.problem for each in both if each.problem), None),
        )

    def wait(self, seconds: float) -> bool:
        """Wait until the first lists of what was started are complete or have failed; whether they are complete."""
        end = time.monotonic() + seconds
        for name in tuple(self.running):
            getattr(self, name).settled.wait(max(end - time.monotonic(), 0.0))
        return all(getattr(self, name).synced.is_set() for name in tuple(self.running))

    def start(self, loop: asyncio.AbstractEventLoop, wanted: Iterable[str]) -> None:
        """Start what is wanted of ``nodes`` and ``pods`` and is not running; one that crashed is logged, and mended by the next look."""
        for name in wanted:
            known = self.running.get(name)
            if known is None or known.done():
                self.running[name] = asyncio.run_coroutine_threadsafe(getattr(self, name).run(), loop)
                self.running[name].add_done_callback(_report)

    def stop(self) -> None:
        """End the watches."""
        for future in self.running.values():
            future.cancel()


class Watching:
    """Starts the copies of a cluster at the first look; stops them when nobody looks, when there are too many, or with the process."""

    def __init__(self, *, idle_seconds: float = IDLE_SECONDS, most: int = MOST_CLUSTERS) -> None:
        self._idle, self._most = idle_seconds, most
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._live: dict[str, Live] = {}

    def live(self, cluster: KubeCluster, wait_seconds: float | None = None) -> Live:
        """The copies of a cluster. A first look waits for the first lists (``FIRST_LIST_SECONDS``, or ``wait_seconds``)."""
        return self._look(cluster, _BOTH, wait_seconds)

    def beside(self, cluster: KubeCluster, kind: type[B], wait_seconds: float | None = None) -> tuple[Live, B]:
        """The copies and the index of that kind: made at the first look, told all there is and each change, gone with them."""
        with self._lock:
            found = self._found(cluster)
            if kind not in found.indexes:
                found.indexes[kind] = asyncio.run_coroutine_threadsafe(_attach(found, kind()), self._ensure_loop())
            attached: Future[B] = found.indexes[kind]
        return self.live(cluster, wait_seconds), attached.result(FIRST_LIST_SECONDS)

    def nodes(self, cluster: KubeCluster) -> Reflector[Node]:
        """The live nodes of a cluster; its pods are not watched for that."""
        return self._look(cluster, ("nodes",), None).nodes

    def pods(self, cluster: KubeCluster) -> Reflector[PodBrief]:
        """The live pods of a cluster, all namespaces."""
        return self._look(cluster, ("pods",), None).pods

    def run(self, reflector: Reflector[Any]) -> Future[None]:
        """Keep a copy of the caller's own in the same background loop, until what is answered is cancelled."""
        with self._lock:
            running = asyncio.run_coroutine_threadsafe(reflector.run(), self._ensure_loop())
        running.add_done_callback(_report)
        return running

    def tell(self, reflector: Reflector[T], listener: Callable[[T | None, T | None], None]) -> None:
        """Let ``listener`` know, in that loop, all there is in a copy and each change."""
        with self._lock:
            self._ensure_loop().call_soon_threadsafe(reflector.listen, listener)

    def watched(self) -> list[str]:
        """The ARNs of the clusters that are watched."""
        with self._lock:
            return sorted(self._live)

    def forget(self, arn: str) -> None:
        """Stop watching a cluster."""
        with self._lock:
            gone = self._live.pop(arn, None)
            if gone is not None:
                gone.stop()

    def stop(self) -> None:
        """Stop everything and end the background thread."""
        with self._lock:
            for live in self._live.values():
                live.stop()
            self._live.clear()
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(timeout=5)

    def _look(self, cluster: KubeCluster, wanted: tuple[str, ...], wait_seconds: float | None) -> Live:
        with self._lock:
            found = self._found(cluster)
            found.asked_at = time.monotonic()
            found.start(self._ensure_loop(), wanted)
        found.wait(FIRST_LIST_SECONDS if wait_seconds is None else wait_seconds)
        return found

    def _found(self, cluster: KubeCluster) -> Live:
        """The copies, made anew when the cluster was made anew behind the same ARN. Called under the lock."""
        known = self._live.get(cluster.ref.arn)
        if known is not None and known.cluster is cluster:
            return known
        if known is not None:
            known.stop()
        elif len(self._live) >= self._most:
            self._drop(min(self._live, key=lambda arn: self._live[arn].asked_at), "others are looked at")
        made = Live(cluster, Reflector(cluster.connection, NODES), Reflector(cluster.connection, PODS))
        self._live[cluster.ref.arn] = made
        return made

    def _drop(self, arn: str, why: str) -> None:
        self._live.pop(arn).stop()
        _log.info("cluster no longer watched", extra={"facts": {"cluster": arn, "because": why}})

    async def _sweep(self) -> None:
        """Stop what nobody asked for in a while."""
        while True:
            await asyncio.sleep(self._idle / _SWEEPS)
            with self._lock:
                oldest = time.monotonic() - self._idle
                for arn in [arn for arn, live in self._live.items() if live.asked_at < oldest]:
                    self._drop(arn, "nobody looks")

    def _ensure_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            loop = self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=_serve, args=(loop,), name="kube-watching", daemon=True)
            self._thread.start()
            asyncio.run_coroutine_threadsafe(self._sweep(), loop)
        return self._loop


def _report(ended: Future[None]) -> None:
    if not ended.cancelled() and ended.exception() is not None:
        _log.error("a watch crashed", exc_info=ended.exception())


async def _attach(live: Live, index: B) -> B:
    live.nodes.listen(index.node)
    live.pods.listen(index.pod)
    return index


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    loop.run_forever()
    for task in asyncio.all_tasks(loop):
        task.cancel()
    loop.run_until_complete(asyncio.sleep(0.05))
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()
