"""How far a Deployment is rolled out, and why not further: generation, pods of the newest template, and the reason in one sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from instantstart.ensure.inference import serving_trouble
from instantstart.ensure.running import job_pods, pending_reads
from instantstart.ensure.sites import Site
from instantstart.kube.client import KubeCluster

Resource = dict[str, Any]
#: seconds after which what is failing (an image that cannot be pulled, a container that keeps ending) is told as failed
_PATIENCE_SECONDS = 420.0
_REVISION = "deployment.kubernetes.io/revision"


@dataclass(frozen=True)
class Rollout:
    """A Deployment at one look. ``updated_ready``: ready pods of the newest template; ``ready``: of any."""

    done: bool
    wanted: int
    ready: int
    updated_ready: int
    generation: int
    why: str = ""
    kind: str = ""
    code: str = ""
    next_step: str | None = None
    evidence: Mapping[str, Any] = field(default_factory=dict)

    def hopeless(self, waited_seconds: float) -> bool:
        """Whether it fails, and has had its time to mend itself."""
        by_itself = self.code.startswith(("image.", "container."))  # a node may come, an image that is not there does not
        return (self.kind == "failing" or (self.kind == "blocked" and by_itself)) and waited_seconds >= _PATIENCE_SECONDS


def look(room: Any, where: Site, namespace: str, name: str) -> Rollout:
    """Look once. Raises NotFound for a Deployment that is not there."""
    kube = where.kube(room)
    live = kube.get("Deployment", name, namespace)
    status, wanted = live.get("status") or {}, int(live["spec"].get("replicas", 1))
    generation = int(live["metadata"].get("generation", 0))
    seen = int(status.get("observedGeneration", 0)) >= generation
    updated, total, ready = (int(status.get(key, 0)) for key in ("updatedReplicas", "replicas", "readyReplicas"))
    available = int(status.get("availableReplicas", 0))
    if seen and updated == wanted and total == wanted and ready == wanted and available == wanted:
        return Rollout(True, wanted, ready, ready, generation)
    newest = newest_set(kube, live)
    updated_ready = int(((newest or {}).get("status") or {}).get("readyReplicas", 0))
    told = _why(room, where, kube, live, newest)
    if told is not None:
        next_step = serving_trouble.refine(told).next_step or None  # the words stay as they are: they name the flag, the file, the model
        return Rollout(False, wanted, ready, updated_ready, generation, told.text, told.kind, told.code, next_step, told.evidence)
    why = f"{updated_ready} of {wanted} pods of the newest settings are ready"
    leaving = total - updated
    return Rollout(False, wanted, ready, updated_ready, generation, f"{why}; {leaving} older ones are to go" if leaving > 0 else why)


def newest_set(kube: KubeCluster, deployment: Resource) -> Resource | None:
    """The ReplicaSet of the newest template, or None while there is none."""
    found = owned_sets(kube, deployment)
    return max(found, key=lambda s: int((s["metadata"].get("annotations") or {}).get(_REVISION, 0)), default=None)


def owned_sets(kube: KubeCluster, deployment: Resource) -> list[Resource]:
    """The ReplicaSets of a Deployment."""
    labels = job_pods.selector_text(deployment["spec"]["selector"].get("matchLabels") or {})
    listed = kube.list("ReplicaSet", deployment["metadata"]["namespace"], labels=labels)
    return [s for s in listed if (job_pods.controller(s) or {}).get("uid") == deployment["metadata"]["uid"]]


def pods_of(kube: KubeCluster, deployment: Resource) -> list[Resource]:
    """Its pods, of whatever template, by name."""
    labels = job_pods.selector_text(deployment["spec"]["selector"].get("matchLabels") or {})
    sets = {s["metadata"]["uid"] for s in owned_sets(kube, deployment)}
    listed = kube.list("Pod", deployment["metadata"]["namespace"], labels=labels)
    return sorted((p for p in listed if (job_pods.controller(p) or {}).get("uid") in sets), key=lambda p: str(p["metadata"]["name"]))


def _why(room: Any, where: Site, kube: KubeCluster, live: Resource, newest: Resource | None) -> Any:
    if newest is None:
        return None
    labels = job_pods.selector_text(live["spec"]["selector"].get("matchLabels") or {})
    listed = kube.list("Pod", live["metadata"]["namespace"], labels=labels)
    mine = [p for p in listed if (job_pods.controller(p) or {}).get("uid") == newest["metadata"]["uid"]]
    wanted = int(newest["spec"].get("replicas", 0))
    return pending_reads.explain(room, where, newest, mine) if mine or wanted else None
