"""What the API server sets itself in an object: identity, generation, first status, and what an update may not touch."""

from __future__ import annotations

import secrets
import uuid
from typing import Any, Final

from instantstart_sandbox.kubernetes.resources import Resource

Object = dict[str, Any]

_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_LONGEST_BASE: Final = 58
#: what no client may set or change
_KEPT: Final = (
    "uid",
    "creationTimestamp",
    "generation",
    "resourceVersion",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "name",
    "namespace",
    "selfLink",
    "generateName",
)
_WITH_GENERATION: Final = frozenset(
    {
        "pods",
        "deployments.apps",
        "replicasets.apps",
        "statefulsets.apps",
        "daemonsets.apps",
        "jobs.batch",
        "cronjobs.batch",
        "poddisruptionbudgets.policy",
        "ingresses.networking.k8s.io",
        "networkpolicies.networking.k8s.io",
        "endpointslices.discovery.k8s.io",
        "customresourcedefinitions.apiextensions.k8s.io",
        "validatingwebhookconfigurations.admissionregistration.k8s.io",
        "mutatingwebhookconfigurations.admissionregistration.k8s.io",
        "priorityclasses.scheduling.k8s.io",
        "ingressclasses.networking.k8s.io",
    }
)
_FIRST_STATUS: Final[dict[str, Object]] = {
    "pods": {"phase": "Pending"},
    "namespaces": {"phase": "Active"},
    "persistentvolumeclaims": {"phase": "Pending"},
    "persistentvolumes": {"phase": "Pending"},
    "deployments.apps": {},
    "replicasets.apps": {"replicas": 0},
    "statefulsets.apps": {"replicas": 0, "availableReplicas": 0},
    "daemonsets.apps": {"currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0},
    "services": {"loadBalancer": {}},
    "ingresses.networking.k8s.io": {"loadBalancer": {}},
    "jobs.batch": {},
    "cronjobs.batch": {},
    "poddisruptionbudgets.policy": {"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0},
    "horizontalpodautoscalers.autoscaling": {"currentMetrics": None, "desiredReplicas": 0},
    "resourcequotas": {},
    "apiservices.apiregistration.k8s.io": {},
    "volumeattachments.storage.k8s.io": {"attached": False},
}


def generated_name(base: str) -> str:
    """``generateName`` with five random letters, as the API server draws them."""
    return base[:_LONGEST_BASE] + "".join(secrets.choice(_LETTERS) for _ in range(5))


def begin(resource: Resource, obj: Object, now: str) -> None:
    """Identity, generation and first status of a new object, in place."""
    metadata = obj["metadata"]
    for field in ("resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "generation"):
        metadata.pop(field, None)
    metadata["uid"], metadata["creationTimestamp"] = str(uuid.uuid4()), now
    if resource.custom or resource.qualified in _WITH_GENERATION:
        metadata["generation"] = 1
    if resource.has_status and resource.qualified != "nodes":
        obj.pop("status", None)
        first = _FIRST_STATUS.get(resource.qualified)
        if first is not None and not resource.custom:
            obj["status"] = dict(first)
    if resource.qualified == "pods":
        obj["status"]["qosClass"] = quality_of_service(obj["spec"])
    if resource.qualified == "namespaces":
        obj["spec"] = {"finalizers": ["kubernetes"]}


def keep_identity(obj: Object, old: Object) -> None:
    """Give an update the identity of the object it replaces, in place."""
    metadata, before = obj["metadata"], old["metadata"]
    for field in _KEPT:
        metadata.pop(field, None)
        if field in before:
            metadata[field] = before[field]


def isolate(resource: Resource, obj: Object, old: Object, subresource: str) -> Object:
    """The update with only those parts changed that its path may change."""
    if subresource == "status":
        kept = {k: v for k, v in old.items() if k != "status"}
        metadata = {**old["metadata"], "managedFields": obj["metadata"].get("managedFields", old["metadata"].get("managedFields"))}
        if not resource.custom:
            for field in ("labels", "annotations", "finalizers"):
                _carry(metadata, obj["metadata"], field)
        if metadata["managedFields"] is None:
            del metadata["managedFields"]
        out = {**kept, "metadata": metadata}
        return {**out, "status": obj["status"]} if obj.get("status") is not None else out
    if resource.has_status:
        out = {k: v for k, v in obj.items() if k != "status"}
        return {**out, "status": old["status"]} if "status" in old else out
    return obj


def _carry(target: Object, source: Object, field: str) -> None:
    target.pop(field, None)
    if field in source:
        target[field] = source[field]


def advance(resource: Resource, obj: Object, old: Object, subresource: str = "") -> None:
    """Count the generation up when anything but metadata and status changed; of a Deployment the annotations count, too."""
    before = old["metadata"].get("generation")
    if before is None:
        return
    ignored = {"metadata", "apiVersion", "kind"} | ({"status"} if resource.has_status or not resource.custom else set())
    noted = resource.qualified == "deployments.apps" and subresource != "status"
    notes = [o["metadata"].get("annotations") or {} for o in (obj, old)]
    if any(obj.get(k) != old.get(k) for k in (obj.keys() | old.keys()) - ignored) or (noted and notes[0] != notes[1]):
        obj["metadata"]["generation"] = before + 1


def _bounded(container: Object) -> tuple[bool, bool]:
    """(requests or limits anything, limits cpu and memory to what it requests)."""
    resources = container.get("resources") or {}
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    some = any(n in part for part in (requests, limits) for n in ("cpu", "memory"))
    whole = all(n in limits and requests.get(n, limits[n]) == limits[n] for n in ("cpu", "memory"))
    return some, whole


def quality_of_service(spec: Object) -> str:
    """Guaranteed, Burstable or BestEffort."""
    found = [_bounded(c) for c in [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]]
    if all(whole for _, whole in found) and found:
        return "Guaranteed"
    return "Burstable" if any(some for some, _ in found) else "BestEffort"
