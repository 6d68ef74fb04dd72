"""What every door shows of an operation: frozen views, and the words for where it stands."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class OperationStatus(StrEnum):
    """Where an operation stands. ``blocked`` needs a person: it carries the problem and the next step."""

    queued = "queued"
    awaiting_approval = "awaiting_approval"
    running = "running"
    waiting = "waiting"
    blocked = "blocked"
    succeeded = "succeeded"
    failed = "failed"
    cancelled = "cancelled"


#: an operation with one of these has ended; only ``retry`` wakes it (failed, cancelled)
TERMINAL = frozenset({OperationStatus.succeeded, OperationStatus.failed, OperationStatus.cancelled})
#: an operation with one of these is being executed now
EXECUTING = frozenset({OperationStatus.running, OperationStatus.waiting})
#: an operation with one of these has not ended
ACTIVE = frozenset(OperationStatus) - TERMINAL
#: an operation with one of these holds its subject: another on it waits its turn, or is refused
HOLDING = ACTIVE - {OperationStatus.awaiting_approval}
#: ``retry`` takes an operation with one of these
RETRYABLE = frozenset({OperationStatus.failed, OperationStatus.blocked, OperationStatus.cancelled})


class StageStatus(StrEnum):
    """Where a stage stands. ``skipped``: there was nothing to do, or this spec does not need it."""

    pending = "pending"
    running = "running"
    waiting = "waiting"
    done = "done"
    skipped = "skipped"
    failed = "failed"
    blocked = "blocked"


#: a stage with one of these is being looked at now
GOING = frozenset({StageStatus.running, StageStatus.waiting})
#: a stage with one of these never runs again
FINISHED = frozenset({StageStatus.done, StageStatus.skipped})


class Level(StrEnum):
    """How loud an event is."""

    info = "info"
    warning = "warning"
    error = "error"


@dataclass(frozen=True)
class StageView:
    """One stage. Seconds are seconds of the world; ``since`` is when ``status`` and ``because`` began to hold."""

    name: str
    says: str
    status: StageStatus
    because: str | None
    since: dt.datetime | None
    elapsed_seconds: float
    typical_seconds: float
    slow: bool
    progress: Mapping[str, Any] | None
    attempt: int
    problem: Mapping[str, Any] | None
    learned: Mapping[str, Any]


@dataclass(frozen=True)
class Operation:
    """One operation and its stages. ``result`` is what the last stage learned, once all are done."""

    id: str
    workflow: str
    title: str
    subject: str
    cluster: str | None
    status: OperationStatus
    caller: str
    spec: Mapping[str, Any]
    created_at: dt.datetime
    started_at: dt.datetime | None
    ended_at: dt.datetime | None
    elapsed_seconds: float
    typical_seconds: float
    slow: bool
    problem: Mapping[str, Any] | None
    next_step: str | None
    stages: tuple[StageView, ...]
    result: Mapping[str, Any] | None
    #: real seconds after which looking again makes sense; 0 when it has ended
    next_check_in_seconds: int
    #: sequence of the latest event; pass it to ``Engine.wait_for_change``
    seq: int
    #: a cancel was asked for and has not taken effect yet
    cancelling: bool = False
