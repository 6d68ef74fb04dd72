"""What this thread or task is working on, for log lines and spans: request, operation, workflow, stage, cluster, kind of caller, trace.

A trail is opened where work enters (a request, a look of a stage) and may be added to further in; tasks and worker threads that copy the
context share it. Values are names and ids, never secrets.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from contextvars import ContextVar

_TRAIL: ContextVar[dict[str, str] | None] = ContextVar("instantstart_trail", default=None)


@contextlib.contextmanager
def following(**facts: str | None) -> Iterator[dict[str, str]]:
    """All inside works on ``facts``; None is left out."""
    mark = _TRAIL.set({name: value for name, value in facts.items() if value is not None})
    try:
        yield _TRAIL.get() or {}
    finally:
        _TRAIL.reset(mark)


def note(**facts: str) -> None:
    """Add to the present trail; without one, nothing."""
    present = _TRAIL.get()
    if present is not None:
        present.update(facts)


def facts() -> Mapping[str, str]:
    """The present trail."""
    return _TRAIL.get() or {}
