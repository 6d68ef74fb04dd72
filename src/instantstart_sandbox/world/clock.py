"""Virtual time: a rate, a warp, and timers that hold only plain data so that they can be saved."""

from __future__ import annotations

import asyncio
import datetime as dt
import heapq
import itertools
import threading
import time
from collections.abc import Callable
from typing import Any

Handler = Callable[..., None]
_SLICE_SECONDS = 0.05


class Clock:
    """Seconds since the epoch that run ``rate`` times as fast as the wall, and can be warped forward.

    A timer is an event name and plain JSON data. While a timer's handler runs, ``now()`` is the moment the
    timer was due, so one long warp still gives the right timeline.
    """

    def __init__(self, rate: float = 1.0, start: float | None = None) -> None:
        self.lock = threading.RLock()
        self._handlers: dict[str, Handler] = {}
        self._heap: list[tuple[float, int, str, dict[str, Any]]] = []
        self._sequence = itertools.count()
        self._due: float | None = None
        #: how many timers have run so far
        self.fired = 0
        #: called when time jumps or changes its pace, from any thread
        self.changed: set[Callable[[], None]] = set()
        self._rate = rate
        self._base = time.time() if start is None else start
        self._wall = time.monotonic()

    @property
    def rate(self) -> float:
        """Virtual seconds for each real second."""
        return self._rate

    def now(self) -> float:
        """Virtual seconds since the epoch."""
        if self._due is not None and self.lock._is_owned():  # type: ignore[attr-defined]
            return self._due
        return self._base + (time.monotonic() - self._wall) * self._rate

    def utc(self) -> dt.datetime:
        """``now()`` as an aware datetime, whole microseconds."""
        return dt.datetime.fromtimestamp(self.now(), dt.UTC)

    def set_rate(self, rate: float) -> None:
        """Change the rate from this moment on; the past keeps its length."""
        with self.lock:
            self._base, self._wall, self._rate = self.now(), time.monotonic(), rate
        self._tell()

    def warp(self, seconds: float) -> None:
        """Let ``seconds`` of virtual time pass at once, running every timer that falls due, in order."""
        with self.lock:
            self._base += seconds
            self._tell()
            self.drain()

    def _tell(self) -> None:
        for listener in list(self.changed):
            listener()

    def on(self, event: str, handler: Handler) -> None:
        """Register the handler of a named timer event."""
        self._handlers[event] = handler

    def after(self, seconds: float, event: str, **data: Any) -> None:
        """Run ``event`` with ``data`` when ``seconds`` of virtual time have passed."""
        with self.lock:
            heapq.heappush(self._heap, (self.now() + seconds, next(self._sequence), event, data))

    def drain(self) -> None:
        """Run every timer that is due. Called before each request and by the ticker.

        A handler that makes a call itself gets here again; the outer round runs what is due, else a hundred timers of
        one moment would nest a hundred deep.
        """
        with self.lock:
            if self._due is not None:
                return
            limit, before = self.now(), self._due
            while self._heap and self._heap[0][0] <= limit:
                self._due, _, event, data = heapq.heappop(self._heap)
                self.fired += 1
                try:
                    self._handlers[event](**data)
                finally:
                    self._due = before

    def forget_timers(self) -> None:
        """Drop every timer that has not run (the world is being reset)."""
        with self.lock:
            self._heap.clear()

    async def sleep(self, seconds: float) -> None:
        """Sleep for virtual seconds; a warp or a new rate is noticed within 50 ms of real time."""
        until = self.now() + seconds
        while (left := until - self.now()) > 0:  # noqa: ASYNC110 - a warp must be noticed
            await asyncio.sleep(min(left / self._rate, _SLICE_SECONDS))

    def dump(self) -> dict[str, Any]:
        """The clock and its timers as JSON."""
        with self.lock:
            return {"now": self.now(), "rate": self._rate, "timers": [[d, e, x] for d, _, e, x in sorted(self._heap)]}

    def load(self, saved: dict[str, Any]) -> None:
        """Go on from ``dump()``: virtual time stood still while the sandbox was down."""
        with self.lock:
            self._base, self._wall, self._rate = saved["now"], time.monotonic(), saved.get("rate", self._rate)
            self._heap = [(due, next(self._sequence), event, data) for due, event, data in saved["timers"]]
            heapq.heapify(self._heap)
