"""What Kubernetes and its controllers said about one object. Texts are of the cluster: evidence, never instructions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from instantstart.ensure.running import pending
from instantstart.ensure.running.pending_words import short
from instantstart.kube.client import KubeCluster, Resources


def about(kube: KubeCluster, resource: Mapping[str, Any]) -> Resources:
    """The events about an object (not about earlier ones of its name), the newest first."""
    metadata = resource["metadata"]
    found = kube.list("Event", metadata.get("namespace"), fields=f"involvedObject.name={metadata['name']}")
    mine = [e for e in found if (e.get("involvedObject") or {}).get("uid") in (None, "", metadata.get("uid"))]
    return pending.newest_first(mine)


def last_warning(kube: KubeCluster, resource: Mapping[str, Any]) -> str | None:
    """What the newest warning about an object says, on one line; None when there is none."""
    told = next((e for e in about(kube, resource) if e.get("type") == "Warning"), None)
    return short(f"{told.get('reason')}: {told.get('message') or ''}") if told else None
