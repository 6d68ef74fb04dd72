"""Load balancers that Kubernetes made: they hold addresses and interfaces of the VPC, so they go before the cluster does (case 4).

Deleting the cluster first would leave them, and their VPC, behind for ever: only the controllers inside the cluster remove them.
"""

from __future__ import annotations

from collections.abc import Iterator

from instantstart.base.outcome import Done, Outcome, Wait
from instantstart.ensure.releases import Resource, identity, sentence
from instantstart.kube.client import KubeCluster

_LOOK_SECONDS = 5.0


def owners(cluster: KubeCluster) -> list[Resource]:
    """The Services and Ingresses that have, or will have, a load balancer."""
    return list(_owners(cluster))


def remove_all(cluster: KubeCluster) -> Outcome:
    """Delete every Service of type LoadBalancer and every Ingress, and wait until their controllers have let go.

    Learned: ``removed``, the names seen in this look. A controller that is gone never lets go: the stage's deadline ends the wait, and
    the sentence names the objects.
    """
    left = owners(cluster)
    if not left:
        return Done({"removed": []}, already=True)
    for found in left:
        metadata = found["metadata"]
        if not metadata.get("deletionTimestamp"):
            cluster.delete(found["kind"], metadata["name"], metadata["namespace"], uid=metadata["uid"])
    return Wait(_LOOK_SECONDS, f"Load balancers are being removed: {sentence(_named(found) for found in left)}.")


def _owners(cluster: KubeCluster) -> Iterator[Resource]:
    for service in cluster.list("Service"):
        if service["spec"].get("type") == "LoadBalancer":
            yield service
    yield from cluster.list("Ingress")


def _named(found: Resource) -> str:
    points = (found.get("status") or {}).get("loadBalancer", {}).get("ingress") or ()
    hosts = [str(p["hostname"]) for p in points if p.get("hostname")]
    return f"{identity(found)} ({hosts[0]})" if hosts else identity(found)
