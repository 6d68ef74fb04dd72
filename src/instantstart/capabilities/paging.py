"""A page of things that are all at hand, in an order that their own key gives: the cursor is the key of the last one shown.

What AWS pages itself has AWS's token inside the cursor. Either way a cursor is opaque, and one that no page gave is refused by its field.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from instantstart.base import problems

T = TypeVar("T")


@dataclass(frozen=True)
class Page(Generic[T]):
    """Some of the items; ``cursor`` is None on the last page."""

    items: tuple[T, ...]
    cursor: str | None
    total: int


def page(items: Sequence[T], key: Callable[[T], str], limit: int, cursor: str | None) -> Page[T]:
    """The page after ``cursor``. Items must be in the order of their keys: one that is gone meanwhile does not shift the others.

    Raises Invalid (list.cursor).
    """
    last = read(cursor) if cursor else ""
    start = next((i for i, item in enumerate(items) if key(item) > last), len(items)) if cursor else 0
    shown = tuple(items[start : start + limit])
    return Page(shown, write(key(shown[-1])) if start + limit < len(items) else None, len(items))


def write(place: str | None) -> str | None:
    """The cursor of a place in a list: a key, or the token with which AWS goes on. None stays None: there is no more."""
    return base64.urlsafe_b64encode(json.dumps([place]).encode()).decode().rstrip("=") if place else None


def read(cursor: str) -> str:
    """The place of a cursor. Raises Invalid (list.cursor) for one that no page gave."""
    try:
        told = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        if not (isinstance(told, list) and len(told) == 1 and isinstance(told[0], str)):
            raise ValueError(told)
    except (ValueError, TypeError) as error:
        violation = problems.Violation("/cursor", "not a cursor that a page of this list gave")
        raise problems.Invalid("list.cursor", "The cursor cannot be read.", fields=[violation]) from error
    return told[0]
