"""What the background checks found, by cluster: kept in memory, read by whoever shows it. A restart begins it anew."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Note:
    """One cluster at the last check: when, and since when which features have drifted."""

    checked_at: dt.datetime
    drifted: Mapping[str, dt.datetime] = field(default_factory=dict)


class Board:
    """Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._notes: dict[str, Note] = {}

    def get(self, cluster: str) -> Note | None:
        """The last note about a cluster, or None."""
        with self._lock:
            return self._notes.get(cluster)

    def put(self, cluster: str, at: dt.datetime, drifted: Collection[str]) -> set[str]:
        """Write down what has drifted at a check. Answers what had not before."""
        with self._lock:
            before = self._notes[cluster].drifted if cluster in self._notes else {}
            self._notes[cluster] = Note(at, {name: before.get(name, at) for name in drifted})
            return set(drifted) - set(before)

    def keep_only(self, clusters: Collection[str]) -> None:
        """Drop notes about clusters that are gone."""
        with self._lock:
            self._notes = {tag: note for tag, note in self._notes.items() if tag in clusters}
