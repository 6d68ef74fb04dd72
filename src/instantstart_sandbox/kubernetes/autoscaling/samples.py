"""What was scraped: for each series its last values with their virtual moments."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import deque
from dataclasses import dataclass, field

Labels = tuple[tuple[str, str], ...]
_LINE = re.compile(r"^(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(?P<labels>.*)\})?\s+(?P<value>\S+)")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')
#: a series without a fresh value for so long is gone, as in Prometheus
STALE_SECONDS = 300.0
_KEPT = 512


@dataclass
class Series:
    """One series: its labels (the name among them, as ``__name__``) and its values, oldest first."""

    labels: dict[str, str]
    values: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=_KEPT))


class Samples:
    """All series of a cluster, by name."""

    def __init__(self) -> None:
        self._by_name: dict[str, dict[Labels, Series]] = {}

    def take(self, text: str, more: dict[str, str], moment: float) -> int:
        """Take in a page of metrics; ``more`` are labels of the target. Answers how many samples there were."""
        count = 0
        for line in text.splitlines():
            found = _LINE.match(line) if line and not line.startswith("#") else None
            if found is None:
                continue
            try:
                value = float(found["value"])
            except ValueError:
                continue
            labels = dict(_LABEL.findall(found["labels"] or ""))
            self.put(found["name"], {**labels, **more}, moment, value)
            count += 1
        return count

    def put(self, name: str, labels: dict[str, str], moment: float, value: float) -> None:
        """One sample."""
        whole = {"__name__": name, **labels}
        key = tuple(sorted(whole.items()))
        series = self._by_name.setdefault(name, {}).setdefault(key, Series(whole))
        if not series.values or series.values[-1][0] <= moment:
            series.values.append((moment, value))

    def named(self, name: str) -> list[Series]:
        """The series of a metric."""
        return list(self._by_name.get(name, {}).values())

    def names(self) -> list[str]:
        """Every metric's name."""
        return sorted(self._by_name)

    def forget(self, moment: float) -> None:
        """Drop series that have been silent for an hour."""
        for name, held in list(self._by_name.items()):
            fresh = {k: s for k, s in held.items() if s.values and s.values[-1][0] > moment - 3600}
            if fresh:
                self._by_name[name] = fresh
            else:
                del self._by_name[name]


def latest(series: Series, moment: float) -> float | None:
    """The value at a moment; None when the last one is stale."""
    for when, value in reversed(series.values):
        if when <= moment:
            return value if moment - when <= STALE_SECONDS else None
    return None


def within(series: Series, start: float, end: float) -> list[tuple[float, float]]:
    """The values of a span of time."""
    moments = [m for m, _ in series.values]
    first = bisect_left(moments, start)
    return [v for v in list(series.values)[first:] if v[0] <= end]
