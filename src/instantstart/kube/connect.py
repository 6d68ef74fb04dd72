"""The clusters we speak to, each over one shared wire."""

from __future__ import annotations

import threading

from instantstart.base.clock import Clock
from instantstart.kube.client import KubeCluster
from instantstart.kube.cluster_ref import ClusterRef
from instantstart.kube.connection import Connection, PrincipalSource, TokenSource
from instantstart.kube.log_hub import LogHub
from instantstart.kube.watching import Watching

__all__ = ["ClusterRef", "KubeGateway"]


class KubeGateway:
    """Gives the client of a cluster; the same one as long as its endpoint and CA stay the same.

    ``token_source`` makes an EKS bearer token (a presigned STS call; aws/ knows how); ``principal_source`` tells the ARN behind it,
    for the words of a refusal.
    """

    def __init__(self, token_source: TokenSource, clock: Clock | None = None, principal_source: PrincipalSource = lambda: None) -> None:
        self._token_source, self._principal_source = token_source, principal_source
        self._clock = clock or Clock()
        self._lock = threading.Lock()
        self._clusters: dict[str, KubeCluster] = {}
        #: the live copies of nodes and pods
        self.watching = Watching()
        #: the logs that somebody reads
        self.logs = LogHub(self.watching)

    def cluster(self, ref: ClusterRef) -> KubeCluster:
        """The client of ``ref``. No request is made here."""
        with self._lock:
            known = self._clusters.get(ref.arn)
            if known is not None and known.ref == ref:
                return known
            if known is not None:
                known.connection.close()  # the cluster was made anew: another endpoint or CA under the same ARN
            made = KubeCluster(Connection(ref, self._token_source, self._clock, self._principal_source))
            self._clusters[ref.arn] = made
            return made

    def forget(self, arn: str) -> None:
        """Close the wire of a cluster that is gone."""
        self.watching.forget(arn)
        with self._lock:
            known = self._clusters.pop(arn, None)
        if known is not None:
            known.connection.close()

    def close(self) -> None:
        """Stop the watches and the logs, and close every wire."""
        self.logs.close()
        self.watching.stop()
        for arn in list(self._clusters):
            self.forget(arn)
