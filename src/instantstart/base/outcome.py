"""What a stage answers: Done, or Wait. It never sleeps and never raises anything but a Problem."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Progress:
    """How far a wait has come, in things a person counts: ``Progress(3, 8, "nodes")``."""

    done: int
    total: int
    unit: str


@dataclass(frozen=True)
class Done:
    """The stage's wish is true. ``learned`` is small JSON for later stages; ``already`` says that nothing was done."""

    learned: Mapping[str, Any] = field(default_factory=dict)
    already: bool = False
    note: str | None = None


@dataclass(frozen=True)
class Wait:
    """Ask again after ``seconds`` (of the world's time). ``because`` is one sentence a person can read."""

    seconds: float
    because: str
    progress: Progress | None = None


Outcome = Done | Wait


def pace(waited_seconds: float, typical_seconds: float, near_seconds: float = 4.0, far_seconds: float = 15.0) -> float:
    """Seconds to the next look: rare while the end is far, close together around the typical end.

    Keeps a watched resource under 12 calls a minute on average and its end noticed within ``near_seconds``
    from 70 % of the typical time on.
    """
    if waited_seconds < typical_seconds * 0.7:
        return min(far_seconds, max(near_seconds, typical_seconds * 0.7 - waited_seconds))
    if waited_seconds < typical_seconds * 2:
        return near_seconds
    return far_seconds
