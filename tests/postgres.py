"""A PostgreSQL of the tests' own: Debian's binaries, a temporary folder, a free port, never root."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
from psycopg import sql

URL_VARIABLE = "INSTANTSTART_DATABASE_URL"
_NOBODY = "nobody"


def binaries() -> Path | None:
    """The newest installed server's folder, or None."""
    found = shutil.which("postgres")
    if found:
        return Path(found).parent
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    return versions[-1] if versions else None


def available() -> bool:
    """True when there is a server to test against, or one can be started."""
    return bool(os.environ.get(URL_VARIABLE)) or binaries() is not None


@contextlib.contextmanager
def server() -> Iterator[str]:
    """The URL of a running server whose user may make databases: the given one, else one started here."""
    given = os.environ.get(URL_VARIABLE)
    if given:
        yield given
        return
    folder = Path(tempfile.mkdtemp(prefix="instantstart-postgres-"))
    try:
        with _started(folder) as url:
            yield url
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _started(folder: Path) -> Iterator[str]:
    programs = binaries()
    assert programs is not None
    if os.geteuid() == 0:  # PostgreSQL refuses to run as root
        shutil.chown(folder, _NOBODY)
    data, port = folder / "data", _free_port()
    _run(programs / "initdb", "-D", data, "-U", "tests", "-A", "trust", "-E", "UTF8", "--no-sync")
    options = f"-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories={folder} -c fsync=off -c max_connections=200"
    _run(programs / "pg_ctl", "-D", data, "-l", folder / "log", "-w", "-o", options, "start")
    try:
        yield f"postgresql://tests@127.0.0.1:{port}/postgres"
    finally:
        _run(programs / "pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")


def _run(*command: object) -> None:
    identity: dict[str, object] = {}
    if os.geteuid() == 0:
        nobody = pwd.getpwnam(_NOBODY)
        identity = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
    arguments = [str(each) for each in command]
    # Output to nowhere: pg_ctl's child keeps the pipe open, and reading it would wait for ever.
    subprocess.run(arguments, check=True, cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **identity)  # type: ignore[call-overload]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def database(server_url: str) -> Iterator[str]:
    """The URL of a fresh, empty database on a server; dropped at the end."""
    name = f"t{uuid.uuid4().hex[:12]}"
    _execute(server_url, sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    try:
        yield server_url.rsplit("/", 1)[0] + "/" + name
    finally:
        _execute(server_url, sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


def _execute(url: str, statement: sql.Composed) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement)
