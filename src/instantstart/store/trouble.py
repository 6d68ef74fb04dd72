"""What a database says when it cannot serve now, as Problems: full, held by somebody else, or away. Nothing is lost by any of them.

A failed transaction has written nothing; whoever asked may ask again, and the engine does.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator

import sqlalchemy as sa

from instantstart.base import problems

#: the Problems of this module: passing weather, never an answer
FULL, BUSY, AWAY = "store.full", "store.busy", "store.unreachable"
#: PostgreSQL's error classes (https://www.postgresql.org/docs/current/errcodes-appendix.html)
_NO_ROOM, _HELD = ("53100", "53200"), ("55P03", "40001", "40P01", "57014")
#: SQLite's sentences (sqlite3_errstr); a write beyond a file size limit is an I/O error to it
_SQLITE_NO_ROOM = ("database or disk is full", "disk i/o error")
_SQLITE_HELD = ("database is locked", "database table is locked", "database schema is locked")
_SQLITE_AWAY = ("unable to open database file", "readonly database")


@contextlib.contextmanager
def told(where: str) -> Iterator[None]:
    """Turn what the database says about itself into a Problem; ``where`` is the database without its password.

    Raises Busy (store.full, store.busy), Unreachable (store.unreachable). Every other error passes as it is.
    """
    try:
        yield
    except (sa.exc.DBAPIError, sa.exc.TimeoutError, sqlite3.OperationalError) as error:  # SQLite's own: while a connection is prepared
        problem = _problem_of(error, where)
        if problem is None:
            raise
        raise problem from error


def passes(problem: problems.Problem) -> bool:
    """Whether it is the database's passing weather."""
    return problem.code in (FULL, BUSY, AWAY)


def _problem_of(error: Exception, where: str) -> problems.Problem | None:
    origin = getattr(error, "orig", None) or error
    text, state = str(origin).lower(), str(getattr(origin, "sqlstate", None) or "")
    evidence = {"database": where, "error": str(origin).strip()[:300]}
    if state in _NO_ROOM or any(words in text for words in _SQLITE_NO_ROOM):
        return problems.Busy(
            FULL,
            "The disk of the database is full, or refuses to be written.",
            hint="Free space for the data folder. What was recorded is kept; operations then go on by themselves.",
            evidence=evidence,
        )
    if isinstance(error, sa.exc.TimeoutError) or state in _HELD or any(words in text for words in _SQLITE_HELD):
        return problems.Busy(
            BUSY,
            "The database is held by somebody else for longer than we wait.",
            hint="Look for a backup or another program that keeps it locked; then ask again. Operations go on by themselves.",
            evidence=evidence,
        )
    if _is_away(error, origin, text):
        return problems.Unreachable(
            AWAY,
            "The database does not answer.",
            hint="Check that it runs and can be reached; operations go on by themselves once it does.",
            evidence=evidence,
        )
    return None


def _is_away(error: Exception, origin: object, text: str) -> bool:
    if isinstance(origin, sqlite3.Error):
        return any(words in text for words in _SQLITE_AWAY)
    lost = isinstance(error, sa.exc.DBAPIError) and error.connection_invalidated
    return lost or isinstance(error, (sa.exc.OperationalError, sa.exc.InterfaceError))
