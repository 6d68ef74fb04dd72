"""Floor 1: the only speaker of the database. Typed queries over SQLite or PostgreSQL; no decisions."""

from instantstart.store.connection import ENGINE_FILE_NAME, embedded_url, new_id
from instantstart.store.database import Store, open_store

open = open_store  # noqa: A001 - callers read it as store.open(...)

__all__ = ["ENGINE_FILE_NAME", "Store", "embedded_url", "new_id", "open", "open_store"]
