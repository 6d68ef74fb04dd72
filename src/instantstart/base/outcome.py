"""What a stage answers: Done, or Wait. It never sleeps and never raises anything but a Problem."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from instantstart.base.problems import Problem


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
    """Ask again after ``seconds`` (of the world's time). ``because`` is one sentence a person can read.

    ``overdue`` makes what the stage is blocked with when its deadline passes in this wait (it may look around, once); left out,
    the engine says that it took too long.
    """

    seconds: float
    because: str
    progress: Progress | None = None
    overdue: Callable[[], Problem] | None = field(default=None, compare=False, repr=False)


Outcome = Done | Wait


#: seconds between two looks while the end is far, and around it
FAR_SECONDS, NEAR_SECONDS = 15.0, 2.5


def pace(waited_seconds: float, typical_seconds: float, near_from: float = 0.7) -> float:
    """Seconds to the next look: rare while the end is far, close together around the typical end.

    ``near_from`` is the part of the typical time after which the end may come. With one call a look, a watched resource
    is asked for less than 12 times a minute over the typical wait, and its end is noticed within 2.5 seconds.
    """
    near_at = typical_seconds * near_from
    if waited_seconds < near_at:
        return min(FAR_SECONDS, max(NEAR_SECONDS, near_at - waited_seconds))
    return NEAR_SECONDS if waited_seconds < typical_seconds * 2 else FAR_SECONDS
