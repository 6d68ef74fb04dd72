"""Pages over a numbered table: the cursor is the last number seen, so rows that come meanwhile shift nothing."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import sqlalchemy as sa

from instantstart.base import problems
from instantstart.store.records import Page

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
        violation = problems.Violation("/cursor", "not a cursor that a page of this list gave")
        raise problems.Invalid("list.cursor", "The cursor cannot be read.", fields=[violation]) from error
