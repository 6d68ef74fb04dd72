"""The keeper of pools: a business whose worker died gets another free one, within seconds, whoever is watching.

One list of pools for each cluster and round; where there is none, or nobody answers, it looks only now and then. What it does is small
and safe to do twice (ensure/inference/pools.py says why): several replicas of this server may keep the same pools.
"""

from __future__ import annotations

import threading

from instantstart.base import log, problems
from instantstart.capabilities.room import Room
from instantstart.ensure import sites
from instantstart.ensure.inference import pools, serving

logger = log.get("instantstart.pool_keeper")
#: rounds that a cluster without pools is left alone
_REST = 5


class PoolKeeper:
    """One thread a process. ``start`` and ``stop`` it around the engine's life."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._seen: dict[str, pools.Seen] = {}
        #: cluster -> rounds to come in which it is not looked at
        self._rests: dict[str, int] = {}

    def start(self) -> None:
        """Begin the rounds; nothing is started when the interval is 0."""
        if self._room.settings.pool_check_seconds > 0 and self._thread is None:
            self._thread = threading.Thread(target=self._rounds, name="pool-keeper", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End after the look in flight. Again: no change."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(timeout=30)
            self._thread = None

    def _rounds(self) -> None:
        pause = self._room.clock.real_seconds(self._room.settings.pool_check_seconds)
        while not self._stopping.wait(pause):
            self.round()

    def round(self) -> None:
        """Look at every pool of every cluster once. What cannot be read is passed over: the next round comes."""
        for row in self._room.store.clusters.list():
            if self._stopping.is_set():
                return
            if self._rests.get(row.tag, 0) > 0:
                self._rests[row.tag] -= 1
                continue
            try:
                found = self._look(row.tag)
            except problems.Problem as problem:
                found = 0
                logger.debug("pools of %s could not be looked at: %s", row.tag, problem.detail)
            self._rests[row.tag] = 0 if found else _REST

    def _look(self, tag: str) -> int:
        """Settle every pool of a cluster; how many there are."""
        kube = pools.near(self._room, sites.find(self._room, tag))
        found = kube.list("Deployment", labels=serving.selector("model-pool"))
        for each in found:
            namespace, name = each["metadata"]["namespace"], each["metadata"]["name"]
            for told in pools.settle(kube, namespace, name, self._seen.setdefault(f"{tag}/{namespace}/{name}", {})):
                logger.warning("pool %s/%s of %s: %s", namespace, name, tag, told)
        return len(found)
