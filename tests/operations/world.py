"""A tiny world outside of the control plane: things that exist, and a ledger of every act upon them. Survives any kill."""

from __future__ import annotations

import sqlite3
from pathlib import Path


class World:
    """``things`` is the state; ``acts`` is what happened, never forgotten. One SQLite file, one commit an act."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with self._open() as connection:
            connection.executescript(
                "CREATE TABLE IF NOT EXISTS things (name TEXT PRIMARY KEY, looks INTEGER NOT NULL DEFAULT 0);"
                "CREATE TABLE IF NOT EXISTS acts (at INTEGER PRIMARY KEY, name TEXT, token TEXT, edge TEXT);"
                "CREATE TABLE IF NOT EXISTS marks (name TEXT PRIMARY KEY, count INTEGER NOT NULL);"
            )

    def _open(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=60)
        connection.execute("PRAGMA journal_mode=WAL")
        return connection

    def looks(self, name: str) -> int | None:
        """How often a thing was looked at, this time included; None: it is not there."""
        with self._open() as connection:
            connection.execute("UPDATE things SET looks = looks + 1 WHERE name = ?", (name,))
            row = connection.execute("SELECT looks FROM things WHERE name = ?", (name,)).fetchone()
        return int(row[0]) if row else None

    def make(self, name: str, token: str) -> None:
        """An act: make a thing."""
        with self._open() as connection:
            connection.execute("INSERT INTO things (name) VALUES (?)", (name,))
            connection.execute("INSERT INTO acts (name, token, edge) VALUES (?, ?, 'act')", (name, token))

    def note(self, name: str, edge: str) -> None:
        """Write an edge of something that lasts: ``begin`` or ``end``."""
        with self._open() as connection:
            connection.execute("INSERT INTO acts (name, token, edge) VALUES (?, '', ?)", (name, edge))

    def mark(self, name: str) -> int:
        """Count ``name`` up and say how often it was marked before."""
        with self._open() as connection:
            connection.execute("INSERT INTO marks VALUES (?, 1) ON CONFLICT (name) DO UPDATE SET count = count + 1", (name,))
            return int(connection.execute("SELECT count FROM marks WHERE name = ?", (name,)).fetchone()[0]) - 1

    def clear(self, name: str) -> None:
        """Forget a mark."""
        with self._open() as connection:
            connection.execute("DELETE FROM marks WHERE name = ?", (name,))

    def marked(self, name: str) -> int:
        """How often ``name`` was marked."""
        with self._open() as connection:
            row = connection.execute("SELECT count FROM marks WHERE name = ?", (name,)).fetchone()
        return int(row[0]) if row else 0

    def acts(self) -> list[str]:
        """The names of the things made, in order, repeats included."""
        with self._open() as connection:
            return [str(row[0]) for row in connection.execute("SELECT name FROM acts WHERE edge = 'act' ORDER BY at")]

    def tokens(self) -> list[str]:
        """The tokens of the acts, in order."""
        with self._open() as connection:
            return [str(row[0]) for row in connection.execute("SELECT token FROM acts WHERE edge = 'act' ORDER BY at")]

    def edges(self) -> list[tuple[str, str]]:
        """What began and ended, in order."""
        with self._open() as connection:
            return [(str(row[0]), str(row[1])) for row in connection.execute("SELECT name, edge FROM acts WHERE edge <> 'act' ORDER BY at")]
