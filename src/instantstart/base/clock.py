"""The house's clock. Wall time, and the world's time when the world is a sandbox that runs faster."""

from __future__ import annotations

import datetime as dt
import time


class Clock:
    """``rate`` is how many seconds of the world pass in one real second: 1 on AWS, more in the sandbox.

    Every wait and every deadline is written in seconds of the world; only this class divides.
    """

    def __init__(self, rate: float = 1.0) -> None:
        self.rate = rate

    def now(self) -> dt.datetime:
        """The present as an aware UTC datetime (wall)."""
        return dt.datetime.now(dt.UTC)

    def real_seconds(self, seconds: float) -> float:
        """How long to really wait for ``seconds`` of the world."""
        return max(seconds, 0.0) / self.rate

    def elapsed_seconds(self, since: dt.datetime, until: dt.datetime | None = None) -> float:
        """Seconds of the world between two wall moments."""
        return ((until or self.now()) - since).total_seconds() * self.rate

    def sleep(self, seconds: float) -> None:
        """Block this thread for ``seconds`` of the world. Never called by a stage."""
        time.sleep(self.real_seconds(seconds))


def minutes(count: float) -> float:
    """``count`` minutes in seconds."""
    return count * 60.0
