"""Alembic's entry: runs on the connection that ``Connector.migrate`` hands over, inside its transaction."""

from __future__ import annotations

from alembic import context

from instantstart.store.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata, render_as_batch=True)
with context.begin_transaction():
    context.run_migrations()
