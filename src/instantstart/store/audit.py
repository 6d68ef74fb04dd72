"""Queries over the audit log: append and read, never change."""

from __future__ import annotations

import dataclasses

import sqlalchemy as sa

from instantstart.store import tables
from instantstart.store.connection import Connector
from instantstart.store.paging import after_cursor, page_of
from instantstart.store.records import AuditFilter, AuditRow, Page

_AUDIT = tables.audit


class Audit:
    """``store.audit``."""

    def __init__(self, connector: Connector) -> None:
        self._connector = connector

    def append(self, row: AuditRow) -> AuditRow:
        """Write one line; ``row.number`` is given here and comes back in the answer."""
        values = dataclasses.asdict(row)
        del values["number"]
        with self._connector.transaction() as connection:
            number = connection.execute(sa.insert(_AUDIT).values(**values).returning(_AUDIT.c.number)).scalar_one()
        return dataclasses.replace(row, number=number)

    def list(self, wanted: AuditFilter, limit: int = 50, cursor: str | None = None) -> Page[AuditRow]:
        """One page, newest first. Raises Invalid for a cursor that is not ours."""
        column = _AUDIT.c
        named = {"caller": wanted.caller, "face": wanted.face, "operation_id": wanted.operation_id}
        query = sa.select(_AUDIT).where(*(column[name] == value for name, value in named.items() if value is not None))
        if wanted.path_prefix is not None:
            query = query.where(column.path.startswith(wanted.path_prefix, autoescape=True))
        if wanted.after is not None:
            query = query.where(column.at >= wanted.after)
        if wanted.before is not None:
            query = query.where(column.at < wanted.before)
        with self._connector.read() as connection:
            found = connection.execute(after_cursor(query, column.number, cursor).limit(limit + 1)).mappings()
            return page_of([AuditRow(**row) for row in found], limit, lambda row: row.number)
