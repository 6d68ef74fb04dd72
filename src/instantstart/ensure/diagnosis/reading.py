"""Reads evidence side by side within a bounded time; a part that cannot be read is told as such and hides no other part."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Generic, Self, TypeVar

from instantstart.base import problems
from instantstart.ensure.diagnosis.findings import DiagnosisUnread

T = TypeVar("T")
#: real seconds for all parts together
SECONDS = 20.0
_AT_ONCE = 8


class Part(Generic[T]):
    """One part of the evidence, being read."""

    def __init__(self, reader: Reader, name: str, future: Future[T]) -> None:
        self._reader, self._name, self._future = reader, name, future

    def get(self) -> T | None:
        """What was read; None when it could not be read in time, or at all."""
        try:
            found = self._future.result(timeout=self._reader.left())
        except TimeoutError:
            self._reader.missed(self._name, f"It took longer than {self._reader.seconds:g} seconds.", "diagnosis.slow")
            return None
        except problems.Problem as problem:
            self._reader.missed(self._name, problem.detail, problem.code)
            return None
        self._reader.looked.append(f"{self._name}{_size(found)}")
        return found


class Reader:
    """Begins reads and keeps the account of them: ``looked`` at, ``unread``."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self.seconds = seconds
        self.looked: list[str] = []
        self.unread: list[DiagnosisUnread] = []
        self._until = time.monotonic() + seconds
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="diagnosis")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def begin(self, part: str, ask: Callable[[], T]) -> Part[T]:
        """Read a part beside the others."""
        return Part(self, part, self._pool.submit(ask))

    def read(self, part: str, ask: Callable[[], T]) -> T | None:
        """Read a part now; None when it could not be read."""
        return self.begin(part, ask).get()

    def has_missed(self, *parts: str) -> bool:
        """Whether one of these parts could not be read."""
        return any(each.part in parts for each in self.unread)

    def left(self) -> float:
        """Seconds that are left; a part that is there already is always taken."""
        return max(self._until - time.monotonic(), 0.01)

    def missed(self, part: str, because: str, code: str | None = None) -> None:
        """Write down that a part was not read."""
        self.unread.append(DiagnosisUnread(part, because, code))


def _size(found: Any) -> str:
    """How much there was."""
    if found is None:
        return " (none)"
    return f" ({len(found)})" if isinstance(found, (list, tuple, Mapping)) and not _is_object(found) else ""


def _is_object(found: Any) -> bool:
    """An object of Kubernetes or an answer of AWS, whose size says nothing."""
    return isinstance(found, Mapping) and bool({"metadata", "ClusterArn", "arn"} & set(found))
