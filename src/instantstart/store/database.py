"""The store as one object, and how it is opened."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Callable
from pathlib import Path

from instantstart.base import problems
from instantstart.store import backups
from instantstart.store.approvals import Approvals
from instantstart.store.audit import Audit
from instantstart.store.clusters import Clusters
from instantstart.store.connection import Connector, address
from instantstart.store.forms import Forms
from instantstart.store.identities import Identities
from instantstart.store.operations import Operations


class Store:
    """Every table behind typed verbs. Synchronous and safe to share between threads."""

    def __init__(self, connector: Connector) -> None:
        self._connector = connector
        self.operations = Operations(connector)
        self.identities = Identities(connector)
        self.approvals = Approvals(connector)
        self.audit = Audit(connector)
        self.clusters = Clusters(connector)
        self.forms = Forms(connector)

    @property
    def embedded(self) -> bool:
        """True: SQLite in the data folder, for one process. False: PostgreSQL, for several replicas."""
        return self._connector.embedded

    @property
    def url(self) -> str:
        """The database's URL, with its password: for the engine's own tables, never to be shown."""
        return self._connector.url.render_as_string(hide_password=False)

    def transaction(self, lock: str | None = None) -> contextlib.AbstractContextManager[object]:
        """All queries of this thread inside are one transaction; ``lock`` names what it holds alone, over all processes."""
        return self._connector.transaction(lock)

    def check(self) -> None:
        """It answers, with the schema of this program. Raises Conflict (store.newer_schema, store.older_schema), Unreachable, Busy."""
        self._connector.check_version()

    def close(self) -> None:
        """Give every connection back."""
        self._connector.close()


def open_store(url: str | None, data_dir: Path, now: Callable[[], dt.datetime] | None = None) -> Store:
    """Open the database and bring its schema up to date; an embedded one is backed up before.

    ``url`` None: SQLite in ``data_dir`` (made when missing, for its owner only). ``now`` is for tests.
    Raises Invalid for a URL that is not PostgreSQL, Conflict for a schema newer than this program, Unreachable when the server does
    not answer, Busy when the disk is full.
    """
    if not url:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    connector = Connector(address(url, data_dir), now)
    if not url:
        connector.before_upgrade = lambda version: backups.before_upgrade(data_dir, version, connector.now())
    try:
        connector.migrate()
    except problems.Unreachable as error:
        connector.close()
        raise problems.Unreachable(
            "store.unreachable",
            "The database cannot be opened.",
            hint="Check INSTANTSTART_DATABASE_URL, or that the data folder can be written.",
            evidence=error.evidence,
        ) from error
    except problems.Problem:
        connector.close()
        raise
    return Store(connector)
