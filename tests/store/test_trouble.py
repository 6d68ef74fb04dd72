"""A full disk, a held database, one that is away: Problems that say so, and nothing half written."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa

from instantstart import store
from instantstart.base import problems
from instantstart.store import Store, connection, trouble
from instantstart.store.records import ClusterRow


@pytest.fixture
def opened(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """An embedded store that waits for a lock for a tenth of a second."""
    monkeypatch.setattr(connection, "_BUSY_SECONDS", 0.1)
    monkeypatch.setattr(connection, "_prepare_sqlite", lambda *_: None)
    made = store.open(None, data_dir)
    yield made
    made.close()


def test_a_database_that_another_process_holds_is_busy_and_can_be_read(opened: Store, data_dir: Path) -> None:
    opened.clusters.upsert(ClusterRow("one", "us-west-2"))
    with contextlib.closing(sqlite3.connect(data_dir / connection.FILE_NAME, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(problems.Busy) as held:
            opened.clusters.upsert(ClusterRow("two", "us-west-2"))
        assert held.value.code == trouble.BUSY
        assert held.value.hint
        assert [row.tag for row in opened.clusters.list()] == ["one"]
        other.execute("ROLLBACK")
    opened.clusters.upsert(ClusterRow("two", "us-west-2"))
    assert [row.tag for row in opened.clusters.list()] == ["one", "two"]


def test_a_note_of_use_that_cannot_be_written_refuses_nobody(opened: Store, data_dir: Path) -> None:
    identity, secret = opened.identities.create_token("reader", "viewer", "person")
    with contextlib.closing(sqlite3.connect(data_dir / connection.FILE_NAME, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        found = opened.identities.find_token(secret)
        other.execute("ROLLBACK")
    assert found is not None
    assert found.id == identity.id


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("database or disk is full", trouble.FULL),
        ("disk I/O error", trouble.FULL),
        ("database is locked", trouble.BUSY),
        ("unable to open database file", trouble.AWAY),
        ("attempt to write a readonly database", trouble.AWAY),
    ],
)
def test_what_sqlite_says_of_itself_is_passing(text: str, code: str) -> None:
    with pytest.raises(problems.Problem) as told, trouble.told("here"):
        raise sa.exc.OperationalError("x", {}, sqlite3.OperationalError(text))
    assert told.value.code == code
    assert told.value.retryable
    assert trouble.passes(told.value)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (psycopg.errors.DiskFull("no space left on device"), trouble.FULL),
        (psycopg.errors.LockNotAvailable("canceling statement due to lock timeout"), trouble.BUSY),
        (psycopg.errors.AdminShutdown("terminating connection"), trouble.AWAY),
        (psycopg.OperationalError("connection refused"), trouble.AWAY),
    ],
)
def test_what_postgresql_says_of_itself_is_passing(error: Exception, code: str) -> None:
    with pytest.raises(problems.Problem) as told, trouble.told("here"):
        raise sa.exc.OperationalError("x", {}, error)
    assert told.value.code == code


def test_a_mistake_of_ours_is_not_called_weather() -> None:
    for mistake in (
        sa.exc.IntegrityError("x", {}, sqlite3.IntegrityError("UNIQUE")),
        sa.exc.OperationalError("x", {}, sqlite3.OperationalError("no such table: y")),
    ):
        with pytest.raises(type(mistake)), trouble.told("here"):
            raise mistake
    assert not trouble.passes(problems.Busy("aws.throttled", "x"))
