"""Queries over registered clusters. The cloud is the truth; a registration says where to look."""

from __future__ import annotations

import dataclasses

import sqlalchemy as sa

from instantstart.base import problems
from instantstart.store import tables
from instantstart.store.connection import Connector
from instantstart.store.records import ClusterRow

_CLUSTERS = tables.clusters


class Clusters:
    """``store.clusters``."""

    def __init__(self, connector: Connector) -> None:
        self._connector = connector

    def upsert(self, row: ClusterRow) -> ClusterRow:
        """Register a cluster, or write its registration anew. ``created_at`` stays the first one."""
        now = self._connector.now()
        with self._connector.transaction(lock=f"cluster-row/{row.tag}") as connection:
            known = self.find(row.tag)
            stored = dataclasses.replace(row, created_at=(known and known.created_at) or row.created_at or now, updated_at=now)
            values = dataclasses.asdict(stored)
            if known:
                connection.execute(sa.update(_CLUSTERS).where(_CLUSTERS.c.tag == row.tag).values(**values))
            else:
                connection.execute(sa.insert(_CLUSTERS).values(**values))
        return stored

    def claim(self, row: ClusterRow) -> ClusterRow | None:
        """Register a cluster that exists, unless another line has its tag or its EKS cluster: that line is answered, and nothing written.

        One lock for all claims: of several at once, under whatever tags, one wins.
        """
        with self._connector.transaction(lock="cluster-claims"):
            for known in self.list():
                same = known.eks_arn is not None and known.eks_arn == row.eks_arn
                if same != (known.tag == row.tag) and not (known.tag == row.tag and known.eks_arn is None and row.origin == "created"):
                    return known
            self.upsert(row)
        return None

    def find(self, tag: str) -> ClusterRow | None:
        """The registration, or None."""
        with self._connector.read() as connection:
            row = connection.execute(sa.select(_CLUSTERS).where(_CLUSTERS.c.tag == tag)).mappings().one_or_none()
        return ClusterRow(**row) if row else None

    def get(self, tag: str) -> ClusterRow:
        """The registration. Raises NotFound (cluster.unknown)."""
        found = self.find(tag)
        if found is None:
            raise problems.NotFound("cluster.unknown", f"There is no cluster {tag}.", hint="List the clusters, or import it.")
        return found

    def list(self) -> list[ClusterRow]:
        """Every registration by tag."""
        with self._connector.read() as connection:
            return [ClusterRow(**row) for row in connection.execute(sa.select(_CLUSTERS).order_by(_CLUSTERS.c.tag)).mappings()]

    def delete(self, tag: str) -> bool:
        """Forget a registration, and whose selection it was. False when there was none."""
        with self._connector.transaction() as connection:
            identities = tables.identities
            connection.execute(sa.update(identities).where(identities.c.selected_cluster == tag).values(selected_cluster=None))
            return connection.execute(sa.delete(_CLUSTERS).where(_CLUSTERS.c.tag == tag)).rowcount == 1
