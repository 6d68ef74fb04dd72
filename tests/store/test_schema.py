"""The schema: made from nothing, made once, and equal to what the queries believe."""

from __future__ import annotations

import datetime as dt
import threading
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from instantstart import store
from instantstart.base import problems
from instantstart.store import tables
from instantstart.store.connection import Connector, address
from instantstart.store.records import ClusterRow


def test_the_migrations_make_exactly_the_tables_of_the_models(database_url: str | None, data_dir: Path) -> None:
    store.open(database_url, data_dir).close()
    connector = Connector(address(database_url, data_dir))
    with connector.read() as connection:
        differences = compare_metadata(MigrationContext.configure(connection, opts={"compare_type": True}), tables.metadata)
        indexes = sa.inspect(connection).get_indexes("operations")
    connector.close()
    assert differences == []
    wish = next(index for index in indexes if index["name"] == "uq_operations_active_wish")
    assert wish["unique"]


def test_the_schema_version_is_the_newest_migration() -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(tables.__file__).parent / "migrations"))
    assert ScriptDirectory.from_config(config).get_heads() == [tables.SCHEMA_VERSION]


def test_a_database_of_an_older_version_is_brought_up_to_date(data_dir: Path) -> None:
    store.open(None, data_dir).close()
    connector = Connector(address(None, data_dir))
    with connector.transaction() as connection:
        connection.execute(sa.text("DELETE FROM alembic_version"))
        for table in reversed(tables.metadata.sorted_tables):
            connection.execute(sa.text(f"DROP TABLE {table.name}"))
    connector.close()
    opened = store.open(None, data_dir)
    assert opened.clusters.list() == []
    opened.close()


def test_opening_again_keeps_what_was_written(database_url: str | None, data_dir: Path) -> None:
    first = store.open(database_url, data_dir)
    first.clusters.upsert(ClusterRow("one", "us-west-2"))
    first.close()
    second = store.open(database_url, data_dir)
    assert [row.tag for row in second.clusters.list()] == ["one"]
    second.close()


def test_many_may_open_an_empty_database_at_once(database_url: str | None, data_dir: Path) -> None:
    opened: list[store.Store] = []
    threads = [threading.Thread(target=lambda: opened.append(store.open(database_url, data_dir))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(opened) == 6
    for each in opened:
        each.close()


def test_the_embedded_database_is_for_its_owner_only(data_dir: Path) -> None:
    opened = store.open(None, data_dir)
    assert data_dir.stat().st_mode & 0o077 == 0
    assert opened.embedded
    opened.close()


@pytest.mark.parametrize("url", ["mysql://root@localhost/x", "not a url", "sqlite:///elsewhere"])
def test_another_kind_of_database_is_refused(url: str, data_dir: Path) -> None:
    with pytest.raises(problems.Invalid) as caught:
        store.open(url, data_dir)
    assert caught.value.code == "settings.database_url"


def test_a_server_that_does_not_answer_is_unreachable_and_the_password_is_not_shown(data_dir: Path) -> None:
    with pytest.raises(problems.Unreachable) as caught:
        store.open("postgresql://me:hunter2@127.0.0.1:1/none?connect_timeout=2", data_dir)
    assert "hunter2" not in str(caught.value.document())


def test_a_moment_without_a_zone_is_refused(opened: store.Store) -> None:
    with pytest.raises(sa.exc.StatementError, match="without a zone"):
        opened.identities.create_token("x", "viewer", "person", dt.datetime(2030, 1, 1))


def test_a_transaction_is_all_or_nothing(opened: store.Store) -> None:
    def write() -> None:
        with opened.transaction(lock="a"):
            opened.clusters.upsert(ClusterRow("one", "us-west-2"))
            raise RuntimeError("midway")

    with pytest.raises(RuntimeError, match="midway"):
        write()
    assert opened.clusters.list() == []


def test_who_holds_a_lock_is_alone(opened: store.Store) -> None:
    inside, most = 0, 0
    counting = threading.Lock()

    def enter() -> None:
        nonlocal inside, most
        for _ in range(10):
            with opened.transaction(lock="one"):
                with counting:
                    inside += 1
                    most = max(most, inside)
                opened.clusters.find("x")
                with counting:
                    inside -= 1

    threads = [threading.Thread(target=enter) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1
