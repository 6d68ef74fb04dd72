"""What objects in a cluster hold outside of it: load balancers of Services and Ingresses, and the S3 volumes of ours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from instantstart.ensure.installs.releases import is_ours
from instantstart.ensure.storage.volumes import DRIVER
from instantstart.kube.client import KubeCluster


def release_step(cluster: KubeCluster) -> list[str]:
    """Delete every Service of type LoadBalancer and every Ingress; the names of those that are still there.

    For a cluster that is about to be deleted: what its controllers made outside goes only while they run (case 4).
    """
    left = []
    for kind, holds in (("Service", _balanced), ("Ingress", lambda _: True)):
        for item in cluster.list(kind):
            if holds(item):
                metadata = item["metadata"]
                if not metadata.get("deletionTimestamp"):
                    cluster.delete(kind, metadata["name"], metadata["namespace"])
                left.append(f"{kind} {metadata['namespace']}/{metadata['name']}")
    return left


def _balanced(service: dict[str, Any]) -> bool:
    return bool(service["spec"].get("type") == "LoadBalancer")


def list_s3_claims(cluster: KubeCluster) -> list[dict[str, Any]]:
    """The S3 volumes we made: ``{claim, namespace, volume, bucket, prefix, phase, bound}``."""
    found = []
    for volume in cluster.list("PersistentVolume"):
        csi = volume["spec"].get("csi") or {}
        if is_ours(volume) and csi.get("driver") == DRIVER:
            claim = volume["spec"].get("claimRef") or {}
            live = cluster.find("PersistentVolumeClaim", claim.get("name", ""), claim.get("namespace", "")) if claim else None
            phase = (live or {}).get("status", {}).get("phase", "Missing")
            found.append(
                {
                    "claim": claim.get("name"),
                    "namespace": claim.get("namespace"),
                    "volume": volume["metadata"]["name"],
                    "bucket": (csi.get("volumeAttributes") or {}).get("bucketName"),
                    "prefix": _prefix(volume["spec"].get("mountOptions") or ()),
                    "phase": phase,
                    "bound": phase == "Bound",
                }
            )
    return sorted(found, key=lambda c: (str(c["namespace"]), str(c["claim"])))


def _prefix(options: Sequence[str]) -> str:
    return next((option.removeprefix("prefix ") for option in options if option.startswith("prefix ")), "")
