"""Numbers of things in words: ``1 pod``, ``3 pods``. Nobody is told of ``3 pod(s)``."""

from __future__ import annotations


def counted(count: int, one: str, many: str | None = None) -> str:
    """``counted(1, "pod")`` -> ``1 pod``; ``counted(2, "entry", "entries")`` -> ``2 entries``."""
    return f"{count} {plural(count, one, many)}"


def plural(count: int, one: str, many: str | None = None) -> str:
    """The word alone; also for verbs: ``plural(n, "runs", "run")``."""
    return one if count == 1 else many if many is not None else f"{one}s"
