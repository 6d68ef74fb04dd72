"""Queries over saved forms: each identity sees its own only."""

from __future__ import annotations

import sqlalchemy as sa

from instantstart.base import problems
from instantstart.store import tables
from instantstart.store.connection import Connector
from instantstart.store.records import FormRow, Json

_FORMS = tables.forms


class Forms:
    """``store.forms``."""

    def __init__(self, connector: Connector) -> None:
        self._connector = connector

    def put(self, identity: str, kind: str, name: str, content: Json, most: int) -> FormRow:
        """Keep a form, or write it anew. Raises Conflict (saved_form.too_many) when the identity keeps ``most`` of the kind already."""
        now = self._connector.now()
        with self._connector.transaction(lock=f"forms/{identity}") as connection:
            known = self.find(identity, kind, name)
            if known is not None:
                connection.execute(sa.update(_FORMS).where(*_one(identity, kind, name)).values(content=content, updated_at=now))
                return FormRow(identity, kind, name, content, known.created_at, now)
            kept = connection.execute(sa.select(sa.func.count()).where(_FORMS.c.identity == identity, _FORMS.c.kind == kind)).scalar_one()
            if kept >= most:
                raise problems.Conflict(
                    "saved_form.too_many", f"You keep {kept} forms of this kind.", hint="Delete one that is not needed."
                )
            row = FormRow(identity, kind, name, content, now, now)
            values = {column: getattr(row, column) for column in _FORMS.c.keys()}  # noqa: SIM118 - not a mapping
            connection.execute(sa.insert(_FORMS).values(**values))
        return row

    def find(self, identity: str, kind: str, name: str) -> FormRow | None:
        """One form, or None."""
        with self._connector.read() as connection:
            row = connection.execute(sa.select(_FORMS).where(*_one(identity, kind, name))).mappings().one_or_none()
        return FormRow(**row) if row else None

    def list(self, identity: str, kind: str | None = None) -> list[FormRow]:
        """The forms of an identity, by kind and name."""
        query = sa.select(_FORMS).where(_FORMS.c.identity == identity).order_by(_FORMS.c.kind, _FORMS.c.name)
        if kind is not None:
            query = query.where(_FORMS.c.kind == kind)
        with self._connector.read() as connection:
            return [FormRow(**row) for row in connection.execute(query).mappings()]

    def delete(self, identity: str, kind: str, name: str) -> bool:
        """Forget a form. False when there was none."""
        with self._connector.transaction() as connection:
            return connection.execute(sa.delete(_FORMS).where(*_one(identity, kind, name))).rowcount == 1


def _one(identity: str, kind: str, name: str) -> tuple[sa.ColumnElement[bool], ...]:
    return _FORMS.c.identity == identity, _FORMS.c.kind == kind, _FORMS.c.name == name
