"""Where operations came from, and their spans: the request that asked, kept in the first event, so that a restart loses nothing."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

from instantstart.base import problems, tracing, trail
from instantstart.store import Store
from instantstart.store.records import OperationRow

_REMEMBERED = 1024


@dataclass(frozen=True)
class Origin:
    """The request that asked for an operation, and its place in a trace; None: it had none."""

    request_id: str | None = None
    place: tracing.Parent | None = None


class Origins:
    """Reads origins, and keeps the latest; safe to share between threads."""

    def __init__(self, store: Store) -> None:
        self._rows = store.operations
        self._known: OrderedDict[str, Origin] = OrderedDict()

    def of(self, operation_id: str) -> Origin:
        """Where an operation came from."""
        known = self._known.get(operation_id)
        if known is None:
            first = self._rows.events(operation_id, 0, 1)
            told = first[0].evidence or {} if first else {}
            known = Origin(told.get("request_id"), tracing.parse(told.get("traceparent")))
            self._known[operation_id] = known
            while len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return known

    @contextlib.contextmanager
    def looking(self, row: OperationRow, stage: str, attempt: int) -> Iterator[tracing.Span]:
        """One look of a stage: log lines inside say whose, and its span hangs under the operation's."""
        origin = self.of(row.id)
        place = tracing.place_of(row.id, origin.place) if tracing.is_on() or origin.place else None
        about = {
            "operation_id": row.id,
            "workflow": row.workflow,
            "stage": stage,
            "cluster": row.cluster,
            "request_id": origin.request_id,
            "trace_id": place.trace_id if place else None,
        }
        with (
            trail.following(**about),
            tracing.entered(
                f"{row.workflow} {stage}",
                place,
                instantstart__operation__id=row.id,
                instantstart__workflow=row.workflow,
                instantstart__stage=stage,
                instantstart__cluster=row.cluster,
                instantstart__attempt=attempt,
            ) as span,
        ):
            if span.place is not None:
                trail.note(span_id=span.place.span_id, trace_flags="01" if span.place.sampled else "00")
            yield span

    def tell_end(self, row: OperationRow, status: str, problem: problems.Problem | None, ended: dt.datetime) -> None:
        """The operation's own span, from its acceptance to its end. A retry tells it anew, longer."""
        if not tracing.is_on():
            return
        origin = self.of(row.id)
        told: dict[str, tracing.Value | None] = {
            "instantstart__operation__id": row.id,
            "instantstart__workflow": row.workflow,
            "instantstart__cluster": row.cluster,
            "instantstart__status": status,
            **({"error__type": problem.code} if problem is not None else {}),
        }
        times = (row.created_at, ended)
        tracing.told_afterwards(row.workflow, tracing.place_of(row.id, origin.place), origin.place, times, **told)
