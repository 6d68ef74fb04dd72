"""Pages over a numbered table: the cursor is the last number seen, so rows that come meanwhile shift nothing."""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import sqlalchemy as sa

from instantstart.base import problems
from instantstart.store.records import Page
from instantstart.store.tables import Moment

Row = TypeVar("Row")


def after_cursor(query: sa.Select[Any], number: sa.ColumnElement[int], cursor: str | None, *, rising: bool = False) -> sa.Select[Any]:
    """``query`` in order of ``number``, going on behind ``cursor``. Raises Invalid for a cursor that is not ours."""
    if cursor is not None:
        last = _read(cursor)
        query = query.where(number > last if rising else number < last)
    return query.order_by(number if rising else number.desc())


def page_of(rows: Sequence[Row], limit: int, number: Callable[[Row], int]) -> Page[Row]:
    """The page that ``limit`` + 1 asked rows make: the extra one only says that there is more."""
    kept = tuple(rows[:limit])
    return Page(kept, _write(number(kept[-1])) if len(rows) > limit else None)


def _write(number: int) -> str:
    return base64.urlsafe_b64encode(f"n{number}".encode()).decode().rstrip("=")


def _read(cursor: str) -> int:
    try:
        text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
        if not text.startswith("n"):
            raise ValueError(text)
        return int(text[1:])
    except (ValueError, binascii.Error) as error:
        raise _unreadable() from error


def after_key(query: sa.Select[Any], order: tuple[Any, Any], cursor: str | None, *, falling: bool = False) -> sa.Select[Any]:
    """``query`` ordered by a key and then an id, going on behind ``cursor``. Raises Invalid for a cursor that is not ours."""
    key, unique = order
    if cursor is not None:
        value, last = _read_key(cursor, key.type)
        here = sa.bindparam(None, value, type_=key.type)
        beyond, later = (key < here, unique < last) if falling else (key > here, unique > last)
        query = query.where(sa.or_(beyond, sa.and_(key == here, later)))
    return query.order_by(key.desc(), unique.desc()) if falling else query.order_by(key, unique)


def key_page(rows: Sequence[Any], limit: int) -> Page[Any]:
    """The page that ``limit`` + 1 rows with a ``sort_key`` and an ``id`` make."""
    kept = tuple(rows[:limit])
    if len(rows) <= limit:
        return Page(kept, None)
    value = kept[-1]["sort_key"]
    told = [value.isoformat() if isinstance(value, dt.datetime) else value, kept[-1]["id"]]
    return Page(kept, base64.urlsafe_b64encode(json.dumps(told).encode()).decode().rstrip("="))


def _read_key(cursor: str, kind: Any) -> tuple[Any, str]:
    try:
        value, last = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        if not isinstance(value, str) or not isinstance(last, str) or "\x00" in f"{value}{last}".encode().decode():
            raise ValueError(cursor)
        if isinstance(kind, Moment):
            moment = dt.datetime.fromisoformat(value)
            return moment.astimezone(dt.UTC) if moment.tzinfo else moment.replace(tzinfo=dt.UTC), last
        return value, last
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise _unreadable() from error


def _unreadable() -> problems.Problem:
    violation = problems.Violation("/cursor", "not a cursor that a page of this list gave")
    return problems.Invalid("list.cursor", "The cursor cannot be read.", fields=[violation])
