"""Queries over operations, their stages, their events, and repeated requests."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypedDict, Unpack

import sqlalchemy as sa

from instantstart.base import problems
from instantstart.store import tables
from instantstart.store.connection import Connector
from instantstart.store.paging import after_cursor, page_of
from instantstart.store.records import EventRow, Json, OperationFilter, OperationRow, Page, Repeat, StageRow

_OPERATIONS = tables.operations
_STAGES = tables.stages
_EVENTS = tables.events
_REPEATS = tables.repeats


class OperationChanges(TypedDict, total=False):
    """What may change of an operation."""

    status: str
    started_at: dt.datetime | None
    ended_at: dt.datetime | None
    problem: Json | None
    cancel_by: str | None
    approved_by: str | None


class Operations:
    """``store.operations``."""

    def __init__(self, connector: Connector) -> None:
        self._connector = connector

    def insert(self, row: OperationRow, stages: Iterable[StageRow]) -> OperationRow:
        """Store a new operation with its stages; the answer carries its number."""
        values = dataclasses.asdict(row)
        del values["number"]
        with self._connector.transaction() as connection:
            number = connection.execute(sa.insert(_OPERATIONS).values(**values).returning(_OPERATIONS.c.number)).scalar_one()
            connection.execute(sa.insert(_STAGES), [dataclasses.asdict(stage) for stage in stages])
        return dataclasses.replace(row, number=number)

    def find(self, operation_id: str) -> OperationRow | None:
        """The operation, or None."""
        with self._connector.read() as connection:
            row = connection.execute(sa.select(_OPERATIONS).where(_OPERATIONS.c.id == operation_id)).mappings().one_or_none()
        return _operation(row) if row else None

    def get(self, operation_id: str) -> OperationRow:
        """The operation. Raises NotFound (operation.unknown)."""
        found = self.find(operation_id)
        if found is None:
            raise problems.NotFound("operation.unknown", f"There is no operation {operation_id}.")
        return found

    def find_active(self, subject: str) -> list[OperationRow]:
        """What has not ended on ``subject``, in the order it was accepted."""
        return self._rows(_OPERATIONS.c.subject == subject, _OPERATIONS.c.ended_at.is_(None))

    def list_active(self, statuses: Sequence[str] | None = None) -> list[OperationRow]:
        """What has not ended, in the order it was accepted; with ``statuses``, only what stands there."""
        narrowed = [_OPERATIONS.c.status.in_(statuses)] if statuses is not None else []
        return self._rows(_OPERATIONS.c.ended_at.is_(None), *narrowed)

    def _rows(self, *where: sa.ColumnElement[bool]) -> list[OperationRow]:
        query = sa.select(_OPERATIONS).where(*where).order_by(_OPERATIONS.c.number)
        with self._connector.read() as connection:
            return [_operation(row) for row in connection.execute(query).mappings()]

    def update(self, operation_id: str, **changes: Unpack[OperationChanges]) -> None:
        """Change the named fields of an operation."""
        with self._connector.transaction() as connection:
            connection.execute(sa.update(_OPERATIONS).where(_OPERATIONS.c.id == operation_id).values(**changes))

    def claim_execution(self, operation_id: str, after: int, statuses: Collection[str]) -> bool:
        """Count one more execution, if ``after`` is still the latest and the operation stands in one of ``statuses``.

        Of several who claim at once exactly one gets True.
        """
        same = (_OPERATIONS.c.id == operation_id) & (_OPERATIONS.c.execution == after) & _OPERATIONS.c.status.in_(statuses)
        with self._connector.transaction() as connection:
            return connection.execute(sa.update(_OPERATIONS).where(same).values(execution=after + 1)).rowcount == 1

    def stages(self, operation_id: str) -> list[StageRow]:
        """The stages of an operation in declared order."""
        return self.stages_of([operation_id])[operation_id]

    def stages_of(self, ids: Sequence[str]) -> Mapping[str, list[StageRow]]:
        """The stages of several operations, each in declared order."""
        query = sa.select(_STAGES).where(_STAGES.c.operation_id.in_(ids)).order_by(_STAGES.c.position, _STAGES.c.name)
        found: dict[str, list[StageRow]] = {operation_id: [] for operation_id in ids}
        with self._connector.read() as connection:
            for row in connection.execute(query).mappings():
                found[row["operation_id"]].append(StageRow(**row))
        return found

    def put_stage(self, row: StageRow) -> None:
        """Write a stage whole, new or not."""
        values = dataclasses.asdict(row)
        same = (_STAGES.c.operation_id == row.operation_id) & (_STAGES.c.name == row.name)
        with self._connector.transaction() as connection:
            if connection.execute(sa.update(_STAGES).where(same).values(**values)).rowcount == 0:
                connection.execute(sa.insert(_STAGES).values(**values))

    def rename_stage(self, operation_id: str, old: str, new: str) -> None:
        """Give a stored stage its new name."""
        with self._connector.transaction() as connection:
            connection.execute(sa.update(_STAGES).where(_STAGES.c.operation_id == operation_id, _STAGES.c.name == old).values(name=new))

    def add_event(self, event: EventRow) -> EventRow:
        """Append to the history; ``event.seq`` is given here and comes back in the answer."""
        count = sa.update(_OPERATIONS).where(_OPERATIONS.c.id == event.operation_id).values(seq=_OPERATIONS.c.seq + 1)
        with self._connector.transaction() as connection:  # the update locks the operation's row: no two events share a number
            seq = connection.execute(count.returning(_OPERATIONS.c.seq)).scalar_one()
            numbered = dataclasses.replace(event, seq=seq)
            connection.execute(sa.insert(_EVENTS).values(**dataclasses.asdict(numbered)))
        return numbered

    def events(self, operation_id: str, after: int = 0, limit: int = 500) -> list[EventRow]:
        """Events above sequence ``after``, oldest first, at most ``limit``."""
        query = sa.select(_EVENTS).where(_EVENTS.c.operation_id == operation_id, _EVENTS.c.seq > after).order_by(_EVENTS.c.seq).limit(limit)
        with self._connector.read() as connection:
            return [EventRow(**row) for row in connection.execute(query).mappings()]

    def find_repeat(self, key: str, caller: str) -> Repeat | None:
        """What was answered to this Idempotency-Key of this caller."""
        query = sa.select(_REPEATS.c.request_hash, _REPEATS.c.answer).where(_REPEATS.c.key == key, _REPEATS.c.caller == caller)
        with self._connector.read() as connection:
            row = connection.execute(query).one_or_none()
        return Repeat(row.request_hash, row.answer) if row else None

    def add_repeat(self, key: str, caller: str, repeat: Repeat) -> None:
        """Remember the answer to an Idempotency-Key. The key must be new for this caller."""
        values = {"key": key, "caller": caller, "at": self._connector.now(), **dataclasses.asdict(repeat)}
        with self._connector.transaction() as connection:
            connection.execute(sa.insert(_REPEATS).values(**values))

    def list(self, wanted: OperationFilter, limit: int = 50, cursor: str | None = None) -> Page[OperationRow]:
        """One page, newest first unless asked otherwise. Raises Invalid for a cursor that is not ours."""
        column = _OPERATIONS.c
        named = {"workflow": wanted.workflow, "subject": wanted.subject, "cluster": wanted.cluster, "caller": wanted.caller}
        query = sa.select(_OPERATIONS).where(*(column[name] == value for name, value in named.items() if value is not None))
        if wanted.statuses:
            query = query.where(column.status.in_(wanted.statuses))
        query = after_cursor(query, column.number, cursor, rising=wanted.oldest_first).limit(limit + 1)
        with self._connector.read() as connection:
            rows = [_operation(row) for row in connection.execute(query).mappings()]
        return page_of(rows, limit, lambda row: row.number)


def _operation(row: Mapping[str, Any] | sa.RowMapping) -> OperationRow:
    return OperationRow(**row)
