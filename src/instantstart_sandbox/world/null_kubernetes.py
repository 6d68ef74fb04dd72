"""A Kubernetes side that is not there: for tests of the AWS side alone."""

from __future__ import annotations

from typing import Any

from instantstart_sandbox.world.seams import Endpoint


class NullKubernetes:
    """Answers as a cluster whose API server cannot be reached and on which everything is ready."""

    def __init__(self, ready: bool = True, nodes: int = 0) -> None:
        self.ready, self.nodes = ready, nodes
        self.created: dict[str, str] = {}
        self.nudged: list[str] = []

    def create_cluster(self, cluster: str, name: str, region: str, version: str) -> Endpoint:
        """Remember the cluster; the endpoint is the discard port, where nobody listens."""
        self.created[cluster] = version
        return Endpoint("https://127.0.0.1:9", "-----BEGIN CERTIFICATE-----\nbm9uZQ==\n-----END CERTIFICATE-----\n")

    def delete_cluster(self, cluster: str) -> None:
        """Forget the cluster."""
        self.created.pop(cluster, None)

    def workload_ready(self, cluster: str, namespace: str, kind: str, name: str) -> bool:
        """``ready`` as given."""
        return self.ready

    def foreign_objects(self, cluster: str, addon: str, configuration: dict[str, Any]) -> list[str]:
        """None."""
        return []

    def schedulable_nodes(self, cluster: str) -> int:
        """``nodes`` as given."""
        return self.nodes

    def nudge(self, cluster: str) -> None:
        """Remember that somebody nudged."""
        self.nudged.append(cluster)
