"""A page of things that are all at hand, in an order that their own key gives: the cursor is the key of the last one shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Page(Generic[T]):
    """Some of the items; ``cursor`` is None on the last page."""

    items: tuple[T, ...]
    cursor: str | None
    total: int


def page(items: Sequence[T], key: Callable[[T], str], limit: int, cursor: str | None) -> Page[T]:
    """The page after ``cursor``. Items must be in the order of their keys: one that is gone meanwhile does not shift the others."""
    start = next((i for i, item in enumerate(items) if key(item) > cursor), len(items)) if cursor else 0
    shown = tuple(items[start : start + limit])
    return Page(shown, key(shown[-1]) if start + limit < len(items) else None, len(items))
