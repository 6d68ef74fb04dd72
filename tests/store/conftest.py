"""A store on each kind of database, with a clock that the test moves."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.databases import data_dir, database_url, postgres_server  # noqa: F401 - fixtures

from instantstart import store


class Hands:
    """The present moment, moved by hand."""

    def __init__(self) -> None:
        self.now = dt.datetime(2026, 11, 30, 12, 0, tzinfo=dt.UTC)

    def __call__(self) -> dt.datetime:
        return self.now

    def pass_seconds(self, seconds: float) -> None:
        self.now += dt.timedelta(seconds=seconds)


@pytest.fixture
def hands() -> Hands:
    return Hands()


@pytest.fixture
def opened(database_url: str | None, data_dir: Path, hands: Hands) -> Iterator[store.Store]:  # noqa: F811
    found = store.open(database_url, data_dir, hands)
    yield found
    found.close()
