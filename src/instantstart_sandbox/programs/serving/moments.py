"""The sandbox's virtual time inside a process of one of its pods, read from a file that the kubelet keeps."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import json
import os
import time
from typing import Any

CLOCK = "INSTANTSTART_SANDBOX_CLOCK"
_LOOK_SECONDS = 0.05


class Moments:
    """Virtual now, and waiting for virtual time to pass. Without the file it is the time of the wall."""

    def __init__(self, path: str | None = None) -> None:
        self._path = path if path is not None else os.environ.get(CLOCK, "")
        self._seen = -1
        self._fact: dict[str, Any] = {"virtual": time.time(), "real": time.time(), "rate": 1.0}
        self._read()

    def _read(self) -> None:
        if not self._path:
            return
        with contextlib.suppress(OSError, ValueError):
            changed = os.stat(self._path).st_mtime_ns
            if changed != self._seen:
                with open(self._path, encoding="utf-8") as file:
                    self._fact = json.load(file)
                self._seen = changed

    @property
    def rate(self) -> float:
        """Virtual seconds for each real one."""
        self._read()
        return max(float(self._fact["rate"]), 1e-6)

    def now(self) -> float:
        """Virtual seconds since the epoch."""
        rate = self.rate
        return float(self._fact["virtual"]) + (time.time() - float(self._fact["real"])) * rate

    def stamp(self, form: str) -> str:
        """Virtual now as text (UTC)."""
        return dt.datetime.fromtimestamp(self.now(), dt.UTC).strftime(form)

    async def until(self, moment: float) -> None:
        """Wait until a virtual moment; a warp is noticed soon."""
        while (left := moment - self.now()) > 0:  # noqa: ASYNC110 - a warp must be noticed
            await asyncio.sleep(min(left / self.rate, _LOOK_SECONDS))
