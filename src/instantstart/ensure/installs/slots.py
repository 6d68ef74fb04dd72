"""Pod slots: HyperPod fixes how many pods a node takes (an ml.g5.xlarge: 14), and system pods eat most of a small one (case 23)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from instantstart.ensure.installs import pods
from instantstart.kube import shapes
from instantstart.kube.client import KubeCluster

_OVER = ("Succeeded", "Failed")


@dataclass(frozen=True)
class Slots:
    """``total`` on nodes that take pods, ``used`` there, ``waiting`` pods without a node."""

    total: int
    used: int
    waiting: int

    @property
    def needed(self) -> int:
        """What all present pods would take."""
        return self.used + self.waiting

    def sentence(self) -> str:
        """``14 pod slots, 19 needed``."""
        return f"{self.total} pod slots, {self.needed} needed"


def count(nodes: Sequence[shapes.Node], all_pods: Sequence[shapes.Pod]) -> Slots:
    """The slots of a cluster, from its nodes and all its pods."""
    taking = {n.metadata.name: int(n.status.allocatable.get("pods", "0")) for n in nodes if pods.takes_pods(n)}
    alive = [p for p in all_pods if p.status.phase not in _OVER]
    used = sum(p.spec.node_name in taking for p in alive)
    return Slots(sum(taking.values()), used, sum(p.spec.node_name is None for p in alive))


def read(cluster: KubeCluster) -> Slots:
    """The slots of a cluster as of now."""
    return count([shapes.node(n) for n in cluster.list("Node")], [shapes.pod(p) for p in cluster.list("Pod")])
