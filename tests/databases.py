"""Fixtures: the same tests on SQLite and on PostgreSQL. A conftest takes them by ``from tests.databases import ...``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import postgres

KINDS = ["sqlite", pytest.param("postgres", marks=pytest.mark.skipif(not postgres.available(), reason="no PostgreSQL binaries here"))]


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """One server for the whole run."""
    with postgres.server() as url:
        yield url


@pytest.fixture(params=KINDS)
def database_url(request: pytest.FixtureRequest) -> Iterator[str | None]:
    """None: SQLite in a folder. Else the URL of an empty PostgreSQL database."""
    if request.param == "sqlite":
        yield None
        return
    with postgres.database(request.getfixturevalue("postgres_server")) as url:
        yield url


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """A data folder that is not there yet."""
    return tmp_path / "data"
