"""One database behind two kinds of server: connections, transactions, migrations."""

from __future__ import annotations

import contextlib
import datetime as dt
import secrets
import sqlite3
import threading
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from instantstart.base import problems
from instantstart.store import trouble
from instantstart.store.tables import SCHEMA_VERSION

FILE_NAME = "instantstart.sqlite"
#: the durable engine's own tables, beside ours
ENGINE_FILE_NAME = "engine.sqlite"
_BUSY_SECONDS = 60
_LOCK_SPACE = 0x1577  # keeps our PostgreSQL advisory locks apart from everybody else's
_WRITES = {"instantstart_writes": True}


def address(url: str | None, data_dir: Path) -> sa.URL:
    """Where the database is: ``url`` when given (PostgreSQL through psycopg), else a file in ``data_dir``. Raises Invalid."""
    if not url:
        return sa.URL.create("sqlite", database=str((data_dir / FILE_NAME).resolve()))
    try:
        parsed = sa.make_url(url)
    except sa.exc.ArgumentError as error:
        raise problems.Invalid(
            "settings.database_url", "The database URL cannot be read; it looks like postgresql://user@host/name."
        ) from error
    if parsed.drivername not in ("postgres", "postgresql", "postgresql+psycopg"):
        raise problems.Invalid("settings.database_url", f"The database URL speaks of {parsed.drivername}; only postgresql:// is supported.")
    return parsed.set(drivername="postgresql+psycopg")


def embedded_url(path: Path) -> str:
    """The URL of a SQLite file for another library, in WAL mode: that sticks to the file, and readers then stop no writer."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
    return f"sqlite:///{path.resolve()}"


def new_id(prefix: str) -> str:
    """A fresh identifier such as ``op-5c0f...``: 16 random hexadecimal characters."""
    return f"{prefix}-{secrets.token_hex(8)}"


class Connector:
    """Hands out connections. A transaction opened in a thread is joined by every query that thread makes inside it."""

    def __init__(self, url: sa.URL, now: Callable[[], dt.datetime] | None = None) -> None:
        self.url = url
        self.now = now or (lambda: dt.datetime.now(dt.UTC))
        self.embedded = url.get_backend_name() == "sqlite"
        #: called with the version found, before an older schema is brought up to date
        self.before_upgrade: Callable[[str], None] | None = None
        self._engine = sa.create_engine(url, **self._options())
        self._local = threading.local()
        # One writer at a time is SQLite's law; queueing here is fair, while SQLite's own busy handler sleeps and retries.
        self._gate: contextlib.AbstractContextManager[object] = threading.Lock() if self.embedded else contextlib.nullcontext()
        if self.embedded:
            sa.event.listen(self._engine, "connect", _prepare_sqlite)
            sa.event.listen(self._engine, "begin", _begin_sqlite)
        self._writer = self._engine.execution_options(**_WRITES)

    def _options(self) -> dict[str, Any]:
        if self.embedded:
            return {"connect_args": {"timeout": _BUSY_SECONDS, "check_same_thread": False}, "pool_size": 20, "max_overflow": 20}
        return {"pool_pre_ping": True, "pool_size": 10, "max_overflow": 30}

    @contextlib.contextmanager
    def transaction(self, lock: str | None = None) -> Iterator[sa.Connection]:
        """Write, all or nothing. ``lock`` names what no other transaction may hold meanwhile, in any process.

        Raises Busy or Unreachable when the database cannot serve now (store.trouble); nothing is written then.
        """
        ambient: sa.Connection | None = getattr(self._local, "connection", None)
        if ambient is not None:
            self._take(ambient, lock)
            yield ambient
            return
        with self._told(), self._gate, self._writer.begin() as connection:
            self._take(connection, lock)
            self._local.connection = connection
            try:
                yield connection
            finally:
                self._local.connection = None

    @contextlib.contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """Read from one snapshot of a statement, or from the transaction this thread is in. Raises as ``transaction`` does."""
        ambient: sa.Connection | None = getattr(self._local, "connection", None)
        if ambient is not None:
            yield ambient
            return
        with self._told(), self._engine.connect() as connection:
            yield connection

    def _told(self) -> contextlib.AbstractContextManager[None]:
        return trouble.told(self.url.render_as_string(hide_password=True))

    def _take(self, connection: sa.Connection, lock: str | None) -> None:
        if lock is not None and not self.embedded:  # on SQLite a writing transaction excludes all others already
            key = zlib.crc32(lock.encode()) - 2**31
            connection.execute(sa.text("SELECT pg_advisory_xact_lock(:space, :key)"), {"space": _LOCK_SPACE, "key": key})

    def migrate(self) -> None:
        """Bring the schema to this program's version. Safe when several processes start at once."""
        version = self._version()
        if version == SCHEMA_VERSION:
            return
        if version is not None and version > SCHEMA_VERSION:
            raise _newer(version)
        if version is not None and self.before_upgrade:
            self.before_upgrade(version)
        from alembic import command  # here, because an ordinary start has no use for it and it takes long to import
        from alembic.config import Config

        config = Config()
        config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
        with self.transaction(lock="migrations") as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, "head")

    def check_version(self) -> None:
        """One query: the schema is this program's. Raises Conflict (store.newer_schema, store.older_schema), Unreachable, Busy."""
        with self.read() as connection:
            found = str(connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar())
        if found > SCHEMA_VERSION:
            raise _newer(found)
        if found < SCHEMA_VERSION:
            raise problems.Conflict(
                "store.older_schema",
                f"This database went back to schema {found}; this program knows {SCHEMA_VERSION}.",
                hint="Start this program anew, which brings the schema up to date.",
            )

    def _version(self) -> str | None:
        """The schema's version; None for an empty database."""
        with self.read() as connection:
            if not sa.inspect(connection).has_table("alembic_version"):
                return None
            found: str | None = connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()
            return found

    def close(self) -> None:
        """Give every connection back."""
        self._engine.dispose()


def _newer(version: str) -> problems.Conflict:
    return problems.Conflict(
        "store.newer_schema",
        f"A newer InstantStart upgraded this database to schema {version}; this program knows {SCHEMA_VERSION}.",
        hint="Run the newer version, or put back the backup that was made before the upgrade: instantstart database restore",
    )


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # we say BEGIN ourselves; the driver's own guess cannot make DDL transactional
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", f"busy_timeout={_BUSY_SECONDS * 1000}"):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: sa.Connection) -> None:
    # IMMEDIATE takes the write lock at once: a transaction that reads, decides and writes is then serial with all others.
    writes = connection.get_execution_options().get("instantstart_writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
