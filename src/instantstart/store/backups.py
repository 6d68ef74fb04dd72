"""A copy of the embedded databases in one file, made while the server works, and put back while it does not.

PostgreSQL has tools of its own for this (pg_dump, snapshots); there these functions refuse.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import io
import json
import os
import sqlite3
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from instantstart.base import problems
from instantstart.store.connection import ENGINE_FILE_NAME, FILE_NAME
from instantstart.store.lease import FolderLock
from instantstart.store.tables import SCHEMA_VERSION

#: The engine's file goes first: an operation that only ours knows is started again from its record, one that only the engine
#: knows would have no record.
_FILES = (ENGINE_FILE_NAME, FILE_NAME)
_MANIFEST = "backup.json"
_SIDE_FILES = ("-wal", "-shm")


@dataclass(frozen=True)
class Backup:
    """What a backup says of itself; ``schema`` is the version of our tables in it, ``size_bytes`` of its file."""

    path: Path
    at: dt.datetime
    schema: str
    size_bytes: int


def back_up(data_dir: Path, target: Path, now: dt.datetime, *, overwrite: bool = False) -> Backup:
    """Copy the databases of ``data_dir`` into ``target``, readable by its owner only. The server may run meanwhile.

    Raises NotFound when there is no database, Conflict when ``target`` exists (unless ``overwrite``), Invalid when it cannot be written.
    """
    if not (data_dir / FILE_NAME).is_file():
        raise problems.NotFound("backup.no_database", f"There is no database in {data_dir}.", hint="Name its folder with --data-dir.")
    if target.exists() and not overwrite:
        raise problems.Conflict("backup.exists", f"{target} is there already.", hint="Choose another name, or overwrite it with --force.")
    try:
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".backup-") as folder:
            written = _write(data_dir, Path(folder), now)
            size = written.stat().st_size
            os.replace(written, target)
    except (OSError, sqlite3.Error) as error:
        raise problems.Invalid("backup.not_written", f"The backup cannot be written to {target}: {error}.") from error
    return Backup(target, now, _schema(data_dir), size)


def before_upgrade(data_dir: Path, version: str, now: dt.datetime) -> None:
    """A backup that an older program can be put back with: ``before-upgrade-from-VERSION.tar.gz``, the first one kept."""
    target = data_dir / f"before-upgrade-from-{version}.tar.gz"
    if not target.exists():
        back_up(data_dir, target, now)


def _schema(data_dir: Path) -> str:
    with contextlib.closing(sqlite3.connect(data_dir / FILE_NAME)) as connection:
        return str(connection.execute("SELECT version_num FROM alembic_version").fetchone()[0])


def _write(data_dir: Path, folder: Path, now: dt.datetime) -> Path:
    made = folder / "backup.tar.gz"
    made.touch(mode=0o600)
    with tarfile.open(made, "w:gz") as archive:
        manifest = json.dumps({"format": 1, "at": now.isoformat(), "schema": _schema(data_dir)}).encode()
        entry = tarfile.TarInfo(_MANIFEST)
        entry.size = len(manifest)
        archive.addfile(entry, io.BytesIO(manifest))
        for name in _FILES:
            if (data_dir / name).is_file():
                _copy(data_dir / name, folder / name)
                archive.add(folder / name, arcname=name, filter=_anonymous)
    return made


def _copy(source: Path, target: Path) -> None:
    """SQLite's online backup: a consistent copy, also while others write."""
    with contextlib.closing(sqlite3.connect(source)) as old, contextlib.closing(sqlite3.connect(target)) as new:
        old.backup(new)


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def restore(source: Path, data_dir: Path) -> Path | None:
    """Put a backup in the place of the databases of ``data_dir``; the folder in which the old ones were kept, if there were any.

    Raises NotFound or Invalid for a file that is no backup of ours, or is of a newer schema; Conflict while a server uses the folder.
    """
    with _opened(source) as archive:
        manifest = _manifest(archive, source)
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = FolderLock(data_dir)
        lock.hold()
        try:
            with tempfile.TemporaryDirectory(dir=data_dir, prefix=".restore-") as folder:
                unpacked = _unpack(archive, Path(folder), source)
                kept = _set_aside(data_dir, str(manifest["at"]))
                for path in unpacked:
                    os.replace(path, data_dir / path.name)
        finally:
            lock.release()
    return kept


@contextlib.contextmanager
def _opened(source: Path) -> Iterator[tarfile.TarFile]:
    try:
        archive = tarfile.open(source, "r:gz")  # noqa: SIM115 - closed below, where the caller's own errors are not ours
    except FileNotFoundError as error:
        raise problems.NotFound("backup.not_found", f"There is no file {source}.") from error
    except (OSError, tarfile.TarError) as error:
        raise _foreign(source) from error
    with archive:
        yield archive


def _manifest(archive: tarfile.TarFile, source: Path) -> dict[str, object]:
    try:
        member = archive.extractfile(_MANIFEST)
        found: dict[str, object] = json.loads(member.read()) if member else {}
    except (KeyError, ValueError, OSError, tarfile.TarError) as error:
        raise _foreign(source) from error
    if found.get("format") != 1 or not isinstance(found.get("schema"), str):
        raise _foreign(source)
    if str(found["schema"]) > SCHEMA_VERSION:
        raise problems.Invalid(
            "backup.newer",
            f"The backup is of schema {found['schema']}; this program knows {SCHEMA_VERSION}.",
            hint="Restore it with the version of InstantStart that made it, or a later one.",
        )
    return found


def _unpack(archive: tarfile.TarFile, folder: Path, source: Path) -> list[Path]:
    """The known files only, and whole: what else an archive may hold is not looked at."""
    made = []
    for name in _FILES:
        try:
            member = archive.extractfile(name)
        except KeyError:
            continue
        if member is not None:
            (folder / name).touch(mode=0o600)
            (folder / name).write_bytes(member.read())
            _check(folder / name, source)
            made.append(folder / name)
    if not (folder / FILE_NAME).exists():
        raise _foreign(source)
    return made


def _check(path: Path, source: Path) -> None:
    try:
        with contextlib.closing(sqlite3.connect(path)) as connection:
            told = connection.execute("PRAGMA quick_check").fetchone()
    except sqlite3.Error as error:
        raise _foreign(source) from error
    if told != ("ok",):
        raise problems.Invalid("backup.damaged", f"{path.name} in {source} is damaged: {told[0]}.", hint="Take another backup.")


def _set_aside(data_dir: Path, at: str) -> Path | None:
    there = [data_dir / f"{name}{end}" for name in _FILES for end in ("", *_SIDE_FILES) if (data_dir / f"{name}{end}").exists()]
    if not there:
        return None
    kept = Path(tempfile.mkdtemp(dir=data_dir, prefix="before-restore-"))
    for path in there:
        os.replace(path, kept / path.name)
    return kept


def _foreign(source: Path) -> problems.Invalid:
    return problems.Invalid("backup.foreign", f"{source} is no backup of InstantStart.", hint="Make one with: instantstart database backup")
