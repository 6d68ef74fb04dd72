"""The log monitoring of one job: its rules fed with the lines that its pods wrote since the last look."""

from __future__ import annotations

from pathlib import Path

from ..loops.objects import Object, seconds_of
from .rules import Finding, Rule

_LARGEST_BYTES = 4 * 1024 * 1024


class Monitor:
    """Rules from ``began`` on: a line that is older belongs to processes that are gone."""

    def __init__(self, specs: list[Object], began: float) -> None:
        self.began = began
        self._rules = [Rule(spec, began) for spec in specs]
        self._read: dict[Path, int] = {}

    def take(self, paths: list[Path]) -> None:
        """Read what was written since."""
        for path in paths:
            for moment, text in self._lines(path):
                if moment >= self.began:
                    for rule in self._rules:
                        rule.line(moment, text)

    def _lines(self, path: Path) -> list[tuple[float, str]]:
        done = self._read.get(path, 0)
        try:
            with path.open("rb") as file:
                if file.seek(0, 2) < done:
                    done = 0  # a new pod of that name has a new log
                file.seek(done)
                data = file.read(_LARGEST_BYTES)
        except OSError:
            return []
        whole = data.rfind(b"\n") + 1
        self._read[path] = done + whole
        rows = [row.partition(b" ") for row in data[:whole].splitlines()]
        return [(seconds_of(head.decode()[:26] + "Z"), text.decode(errors="replace")) for head, mark, text in rows if mark]

    def finding(self, now: float) -> Finding | None:
        """The first rule that sees trouble."""
        return next((found for rule in self._rules if (found := rule.finding(now))), None)

    def due(self) -> float | None:
        """The next moment at which silence becomes a finding."""
        return min((due for rule in self._rules if (due := rule.due()) is not None), default=None)
