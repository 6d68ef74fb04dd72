"""Waiting for news of operations: woken at once by changes made in this process, polling for those made elsewhere."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

Seen = TypeVar("Seen")
POLL_SECONDS = 1.0


class Watch:
    """One bell for all operations: whoever hears it looks whether it was for him."""

    def __init__(self) -> None:
        self._bell = threading.Condition()
        self._rung = 0

    def ring(self) -> None:
        """Something has changed and is committed."""
        with self._bell:
            self._rung += 1
            self._bell.notify_all()

    def until(self, look: Callable[[], Seen], enough: Callable[[Seen], bool], timeout: float) -> Seen:
        """``look`` until ``enough``, or until ``timeout`` real seconds have passed; the answer is what was seen last."""
        deadline = time.monotonic() + timeout
        while True:
            with self._bell:
                heard = self._rung
            seen = look()
            left = deadline - time.monotonic()
            if enough(seen) or left <= 0:
                return seen
            with self._bell:
                if self._rung == heard:
                    self._bell.wait(min(left, POLL_SECONDS))
