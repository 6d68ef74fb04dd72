"""The background check: every known cluster's features and identity chains are read again now and then; what has drifted is written down.

It changes nothing: a repair is a person's click or an agent's tool. It costs one look (at most twelve AWS calls) for each cluster and
round, and nothing where there is no cluster, or while an operation works on the cluster anyway.
"""

from __future__ import annotations

import threading

from instantstart.base import log, problems
from instantstart.capabilities.room import Room
from instantstart.ensure import sites
from instantstart.ensure.managed import component_reads, component_state
from instantstart.ensure.managed.component_state import State
from instantstart.operations.record import EXECUTING
from instantstart.store.records import OperationFilter

logger = log.get("instantstart.watchman")


class Watchman:
    """One thread a process. ``start`` and ``stop`` it around the engine's life."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin the rounds; nothing is started when the interval is 0."""
        if self._room.settings.drift_check_seconds > 0 and self._thread is None:
            self._thread = threading.Thread(target=self._rounds, name="watchman", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End after the look in flight. Again: no change."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(timeout=30)
            self._thread = None

    def _rounds(self) -> None:
        pause = self._room.clock.real_seconds(self._room.settings.drift_check_seconds)
        while not self._stopping.wait(pause):
            self.round()

    def round(self) -> None:
        """Look at every cluster once. What cannot be read is passed over: the next round comes."""
        rows = self._room.store.clusters.list()
        self._room.board.keep_only([row.tag for row in rows])
        busy = self._busy() if rows else set()
        for row in rows:
            if self._stopping.is_set():
                return
            if row.tag not in busy:
                self._look(row.tag)

    def _busy(self) -> set[str]:
        """Clusters that an operation works on: what it has half done is no drift."""
        page = self._room.engine.list(OperationFilter(statuses=tuple(sorted(EXECUTING))), limit=200)
        return {operation.cluster for operation in page.items if operation.cluster}

    def _look(self, tag: str) -> None:
        try:
            where = sites.find(self._room, tag)
            statuses = component_state.judge(component_reads.read(where, self._room))
        except problems.Problem as problem:
            logger.info("features of %s could not be checked: %s", tag, problem.detail)
            return
        drifted = {name: status for name, status in statuses.items() if status.state is State.drifted}
        for name in sorted(self._room.board.put(tag, self._room.clock.now(), drifted)):
            logger.warning("%s of %s has drifted: %s", name, tag, drifted[name].why)
