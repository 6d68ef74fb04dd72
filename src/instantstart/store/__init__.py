"""Floor 1: the only speaker of the database. Typed queries over SQLite or PostgreSQL; no decisions."""

from instantstart.store.database import Store, open_store

open = open_store

__all__ = ["Store", "open", "open_store"]
