"""What the AWS side asks about a cluster's workloads and nodes. Reads only; may be called from any thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .loops.daemonset import daemon_ready
from .loops.objects import is_true, meta, spec_of, status_of
from .loops.placement import BLOCKING_EFFECTS

if TYPE_CHECKING:
    from .cluster import Cluster

_RESOURCES = {"Deployment": "deployments.apps", "DaemonSet": "daemonsets.apps", "StatefulSet": "statefulsets.apps"}


def workload_ready(cluster: Cluster, namespace: str, kind: str, name: str) -> bool:
    """Whether the workload has all its wanted replicas ready; a DaemonSet with no node counts as ready, one that is absent does not."""
    found = cluster.read(_RESOURCES[kind], name, namespace)
    if found is None:
        return False
    if kind == "DaemonSet":
        return daemon_ready(found)
    status = status_of(found)
    seen = status.get("observedGeneration") == meta(found).get("generation")
    return seen and int(status.get("readyReplicas") or 0) >= int(spec_of(found).get("replicas", 1))


def schedulable_nodes(cluster: Cluster) -> int:
    """How many nodes are Ready, not cordoned, and free of taints that keep pods away."""
    count = 0
    for node in cluster.read_all("nodes"):
        tainted = any(t.get("effect") in BLOCKING_EFFECTS for t in spec_of(node).get("taints") or [])
        count += int(is_true(node, "Ready") and not spec_of(node).get("unschedulable") and not tainted)
    return count
