"""Backups of the embedded database: whole, private, put back only where that is safe; upgrades can be taken back."""

from __future__ import annotations

import datetime as dt
import io
import sqlite3
import stat
import tarfile
from pathlib import Path

import pytest

from instantstart import store
from instantstart.base import problems
from instantstart.store import backups, connection
from instantstart.store.lease import FolderLock

NOW = dt.datetime(2026, 11, 30, 12, tzinfo=dt.UTC)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data folder with one identity in it."""
    opened = store.open(None, tmp_path / "data")
    opened.identities.create_token("ada", "admin", "person")
    opened.close()
    return tmp_path / "data"


def names(folder: Path) -> list[str]:
    opened = store.open(None, folder)
    try:
        return [identity.name for identity in opened.identities.list()]
    finally:
        opened.close()


def test_a_backup_is_put_back_and_the_old_files_are_kept(folder: Path, tmp_path: Path) -> None:
    opened = store.open(None, folder)  # the server runs meanwhile
    made = backups.back_up(folder, tmp_path / "copy.tar.gz", NOW)
    opened.identities.create_token("bob", "viewer", "person")
    opened.close()
    assert stat.S_IMODE(made.path.stat().st_mode) == 0o600
    assert made.size_bytes == made.path.stat().st_size
    kept = backups.restore(made.path, folder)
    assert names(folder) == ["ada"]
    assert kept is not None
    assert names(kept) == ["ada", "bob"]


def test_a_backup_makes_a_new_folder(folder: Path, tmp_path: Path) -> None:
    made = backups.back_up(folder, tmp_path / "copy.tar.gz", NOW)
    assert backups.restore(made.path, tmp_path / "elsewhere") is None
    assert names(tmp_path / "elsewhere") == ["ada"]


def test_nothing_is_overwritten_unasked(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy.tar.gz"
    backups.back_up(folder, target, NOW)
    with pytest.raises(problems.Conflict) as told:
        backups.back_up(folder, target, NOW)
    assert told.value.code == "backup.exists"
    backups.back_up(folder, target, NOW, overwrite=True)


def test_a_folder_in_use_is_left_alone(folder: Path, tmp_path: Path) -> None:
    made = backups.back_up(folder, tmp_path / "copy.tar.gz", NOW)
    lock = FolderLock(folder)
    lock.hold()
    with pytest.raises(problems.Conflict) as told:
        backups.restore(made.path, folder)
    lock.release()
    assert told.value.code == "engine.folder_in_use"


@pytest.mark.parametrize("content", [b"", b"not an archive", b"\x1f\x8b\x08\x00" + b"\x00" * 20])
def test_a_foreign_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(problems.Invalid) as told:
        backups.restore(tmp_path / "file", tmp_path / "data")
    assert told.value.code == "backup.foreign"


def archive(path: Path, **members: bytes) -> Path:
    with tarfile.open(path, "w:gz") as made:
        for name, content in members.items():
            entry = tarfile.TarInfo(name.replace("__", "."))
            entry.size = len(content)
            made.addfile(entry, io.BytesIO(content))
    return path


def test_a_newer_or_damaged_backup_is_refused(folder: Path, tmp_path: Path) -> None:
    newer = archive(tmp_path / "newer", backup__json=b'{"format": 1, "at": "", "schema": "9999"}')
    with pytest.raises(problems.Invalid) as told:
        backups.restore(newer, folder)
    assert told.value.code == "backup.newer"
    whole = (folder / connection.FILE_NAME).read_bytes()
    torn = archive(tmp_path / "torn", backup__json=b'{"format": 1, "at": "", "schema": "0001"}', instantstart__sqlite=whole[:5000])
    with pytest.raises(problems.Invalid) as told:
        backups.restore(torn, folder)
    assert told.value.code in ("backup.damaged", "backup.foreign")
    assert names(folder) == ["ada"]


def test_there_must_be_something_to_back_up(tmp_path: Path) -> None:
    with pytest.raises(problems.NotFound):
        backups.back_up(tmp_path, tmp_path / "copy", NOW)
    with pytest.raises(problems.NotFound):
        backups.restore(tmp_path / "nothing", tmp_path)


def versioned(folder: Path, version: str) -> None:
    with sqlite3.connect(folder / connection.FILE_NAME) as database:
        database.execute("UPDATE alembic_version SET version_num = ?", (version,))
    database.close()


def test_a_newer_schema_is_told_and_not_touched(folder: Path) -> None:
    versioned(folder, "9999")
    with pytest.raises(problems.Conflict) as told:
        store.open(None, folder)
    assert told.value.code == "store.newer_schema"
    assert "9999" in told.value.detail
