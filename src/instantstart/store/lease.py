"""Who owns the work: a lock on the embedded data folder, or one session lock for each replica on PostgreSQL."""

from __future__ import annotations

import fcntl
import os
import time
import zlib
from pathlib import Path

import sqlalchemy as sa

from instantstart.base import problems

LOCK_FILE = "engine.lock"
_LOOK_SECONDS = 0.1
_LEASE_SPACE = 0x1578  # apart from the transaction locks of connection.py


class FolderLock:
    """An embedded data folder belongs to one process. The kernel lets go when the process dies, however it dies."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / LOCK_FILE
        self._descriptor: int | None = None

    @property
    def is_held(self) -> bool:
        """Until it is given back."""
        return self._descriptor is not None

    def hold(self, patience_seconds: float = 0.0) -> None:
        """Take the folder, at once or not at all. Raises Conflict (engine.folder_in_use) naming the process that has it."""
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.read(descriptor, 32).decode(errors="replace").strip() or "unknown"
            os.close(descriptor)
            raise problems.Conflict(
                "engine.folder_in_use",
                f"The data folder {self._path.parent} is in use by another InstantStart process (pid {holder}).",
                hint="Stop that process, or set another INSTANTSTART_DATA_DIR; several replicas need INSTANTSTART_DATABASE_URL.",
                evidence={"pid": holder, "folder": str(self._path.parent)},
            ) from error
        os.ftruncate(descriptor, 0)
        os.write(descriptor, str(os.getpid()).encode())
        self._descriptor = descriptor

    def release(self) -> None:
        """Give the folder back."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class ReplicaLease:
    """A PostgreSQL session lock on this replica's name. The server lets go when the session ends, so a dead replica's is free.

    Needs a direct connection: a pooler in transaction mode would lend the session to others.
    """

    def __init__(self, url: str, replica: str) -> None:
        keepalive = {"keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 3}
        # the server must find out too: of a machine that lost its power it hears nothing, and its own default is two hours
        told = {"options": " ".join(f"-c tcp_{name}={value}" for name, value in keepalive.items())}
        self._engine = sa.create_engine(url, poolclass=sa.NullPool, isolation_level="AUTOCOMMIT", connect_args={**keepalive, **told})
        self.replica = replica
        self._session: sa.Connection | None = None

    @property
    def is_held(self) -> bool:
        """As of the last time it was looked at."""
        return self._session is not None

    def hold(self, patience_seconds: float = 0.0) -> None:
        """Take the name, within ``patience_seconds`` of its last holder's end. Raises Conflict (engine.replica_in_use) when one lives."""
        session = self._engine.connect()
        until = time.monotonic() + patience_seconds
        while not (held := _try_lock(session, self.replica)) and time.monotonic() < until:
            time.sleep(_LOOK_SECONDS)
        if not held:
            session.close()
            raise problems.Conflict(
                "engine.replica_in_use",
                f"Another living process is replica {self.replica!r} of this database.",
                hint="Give every replica its own INSTANTSTART_REPLICA_ID that is the same after a restart.",
            )
        self._session = session

    def renew(self) -> None:
        """Check that the session lives; take the name anew when the server was restarted. Raises Conflict when it is taken."""
        try:
            if self._session is not None:
                self._session.execute(sa.text("SELECT 1"))
                return
        except sa.exc.DBAPIError:
            self.release()
        self.hold()

    def is_free(self, replica: str) -> bool:
        """True when no living process has this name. Raises Conflict when our own is not held."""
        if self._session is None:
            self.hold()
        assert self._session is not None
        free = _try_lock(self._session, replica)
        if free:
            self._session.execute(sa.text("SELECT pg_advisory_unlock(:space, :key)"), _key(replica))
        return free

    def release(self) -> None:
        """Give the name back."""
        if self._session is not None:
            self._session.invalidate()
            self._session.close()
            self._session = None


def _key(replica: str) -> dict[str, int]:
    return {"space": _LEASE_SPACE, "key": zlib.crc32(replica.encode()) - 2**31}


def _try_lock(session: sa.Connection, replica: str) -> bool:
    return bool(session.execute(sa.text("SELECT pg_try_advisory_lock(:space, :key)"), _key(replica)).scalar_one())
