"""What a router leads to and an autoscaler scales: a deployment or a pool of ours, by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from instantstart.base import problems
from instantstart.ensure.inference import serving
from instantstart.ensure.inference.serving import BUSINESS, Marks
from instantstart.kube.client import KubeCluster


@dataclass(frozen=True)
class Target:
    """A deployment or pool, read."""

    live: dict[str, Any]
    marks: Marks
    port: int

    @property
    def name(self) -> str:
        """Its name."""
        return self.marks.name

    @property
    def replicas(self) -> int:
        """The pods that are asked for."""
        return int(self.live["spec"].get("replicas", 1))

    @property
    def ready(self) -> int:
        """The pods that are ready."""
        return int((self.live.get("status") or {}).get("readyReplicas", 0))

    def selector(self, business: str | None = None) -> dict[str, str]:
        """What finds its workers; of a pool only those of one business."""
        return {**self.marks.selector(), **({BUSINESS: business} if business else {})}


def find(kube: KubeCluster, namespace: str, name: str) -> Target | None:
    """A deployment or pool of ours, or None; a router is neither."""
    live = kube.find("Deployment", name, namespace)
    marks = serving.marks(live) if live else None
    if live is None or marks is None or marks.part not in ("model-server", "model-pool"):
        return None
    return Target(live, marks, serving.container_port(live) or serving.ENGINES[marks.engine].port)


def get(kube: KubeCluster, namespace: str, name: str) -> Target:
    """The same. Raises NotFound, which tells a router from nothing."""
    found = find(kube, namespace, name)
    if found is not None:
        return found
    live = kube.find("Deployment", name, namespace)
    marks = serving.marks(live) if live else None
    if marks is not None and marks.part == "sglang-router":
        detail = f"{name} is a router: what is wanted is the workers behind it, {serving.target_of(live or {})}."
        raise problems.Invalid("serving.target_is_router", detail, fields=[problems.Violation("/target", detail)])
    told = f"There is no model deployment and no pool {namespace}/{name} of InstantStart."
    raise problems.NotFound("serving.target_unknown", told, hint="List the deployments and pools.")
