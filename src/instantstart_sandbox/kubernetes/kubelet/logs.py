"""A container's log file: one line for each line of output, with the virtual time in front."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import BinaryIO

#: A log file ends here; what comes after is dropped, so that a runaway process cannot fill the disk.
_LARGEST_BYTES = 64 * 1024 * 1024


def stamped(seconds: float) -> bytes:
    """RFC 3339 with nanoseconds, UTC."""
    moment = dt.datetime.fromtimestamp(seconds, dt.UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%f").encode() + b"000Z"


class Log:
    """An open log. Each ``line`` reaches the file at once, so followers see it."""

    def __init__(self, path: Path, previous: Path | None = None) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        if previous is not None and path.exists():
            path.replace(previous)
        self._file: BinaryIO = path.open("ab", buffering=0)
        self._size = path.stat().st_size

    def line(self, moment: float, text: bytes) -> None:
        """Append one line (its line end, if any, is replaced). What a process says after its log was closed is lost."""
        if self._file.closed:
            return
        row = stamped(moment) + b" " + text.rstrip(b"\r\n") + b"\n"
        if self._size + len(row) <= _LARGEST_BYTES:
            self._file.write(row)
            self._size += len(row)

    def close(self) -> None:
        """Close the file; twice is fine."""
        self._file.close()
