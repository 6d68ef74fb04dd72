"""Queries over the audit log: append and read, never change; what is older than the retention goes."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa

from instantstart.store import tables
from instantstart.store.connection import Connector
from instantstart.store.paging import after_cursor, page_of
from instantstart.store.records import AuditFilter, AuditRow, Page

_AUDIT = tables.audit
_COLUMN = _AUDIT.c
#: statuses of a refusal at the door: no identity, not allowed, another host, too many
REFUSALS = (401, 403, 421, 429)
_OUTCOMES = {
    "done": _COLUMN.status < 400,
    "refused": _COLUMN.status.in_(REFUSALS),
    "failed": sa.and_(_COLUMN.status >= 400, _COLUMN.status.not_in(REFUSALS)),
}
_EXPORT_PAGE = 500


class Audit:
    """``store.audit``."""

    def __init__(self, connector: Connector) -> None:
        self._connector = connector

    def append(self, row: AuditRow) -> AuditRow:
        """Write one line; ``row.number`` is given here and comes back in the answer."""
        values = dataclasses.asdict(row)
        del values["number"]
        with self._connector.transaction() as connection:
            number = connection.execute(sa.insert(_AUDIT).values(**values).returning(_COLUMN.number)).scalar_one()
        return dataclasses.replace(row, number=number)

    def list(self, wanted: AuditFilter, limit: int = 50, cursor: str | None = None) -> Page[AuditRow]:
        """One page, newest first unless asked otherwise. Raises Invalid for a cursor that is not ours."""
        query = after_cursor(_narrowed(wanted), _COLUMN.number, cursor, rising=wanted.oldest_first)
        with self._connector.read() as connection:
            found = connection.execute(query.limit(limit + 1)).mappings()
            return page_of([AuditRow(**row) for row in found], limit, lambda row: row.number)

    def every(self, wanted: AuditFilter) -> Iterator[AuditRow]:
        """All lines that match, in order, read in pages: memory stays small, and no transaction stays open."""
        cursor: str | None = None
        while True:
            page = self.list(wanted, _EXPORT_PAGE, cursor)
            yield from page.items
            cursor = page.cursor
            if cursor is None:
                return

    def prune(self, before: dt.datetime) -> int:
        """Delete what is older than ``before``; how many lines that were."""
        with self._connector.transaction() as connection:
            return int(connection.execute(sa.delete(_AUDIT).where(_COLUMN.at < before)).rowcount)


def _narrowed(wanted: AuditFilter) -> sa.Select[Any]:
    named = ("caller", "face", "operation_id", "action", "cluster")
    query = sa.select(_AUDIT).where(*(_COLUMN[name] == value for name in named if (value := getattr(wanted, name)) is not None))
    if wanted.path_prefix is not None:
        query = query.where(_COLUMN.path.startswith(wanted.path_prefix, autoescape=True))
    if wanted.target:
        query = query.where(_COLUMN.target.icontains(wanted.target, autoescape=True))
    if wanted.after is not None:
        query = query.where(_COLUMN.at >= wanted.after)
    if wanted.before is not None:
        query = query.where(_COLUMN.at < wanted.before)
    if wanted.outcome is not None:
        query = query.where(_OUTCOMES[wanted.outcome])
    if wanted.text:
        searched = (_COLUMN.name, _COLUMN.caller, _COLUMN.path, _COLUMN.summary, _COLUMN.code, _COLUMN.address, _COLUMN.target)
        query = query.where(sa.or_(*(each.icontains(wanted.text, autoescape=True) for each in searched)))
    return query
