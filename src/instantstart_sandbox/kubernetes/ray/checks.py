"""What KubeRay's operator refuses: names that are too long, settings that exclude one another. Its own sentences, shortened."""

from __future__ import annotations

import re
from typing import Final

from ..loops.objects import Object, name_of, spec_of

#: room for what the operator appends: "-head-svc", a random suffix, "-worker-"
MOST_CLUSTER_NAME: Final = 63 - len("-serve-svc") - 1
MOST_JOB_NAME: Final = 47
_LABEL = re.compile(r"^[a-z]([-a-z0-9]*[a-z0-9])?$")


def name_fault(kind: str, name: str, most: int) -> str | None:
    """What is wrong with a name."""
    if len(name) > most:
        return f"{kind} name should be no more than {most} characters"
    if not _LABEL.match(name):
        return f"{kind} name should be a valid DNS1035 label: it begins with a letter and has only lower-case letters, digits and dashes"
    return None


def cluster_spec_fault(spec: Object) -> str | None:
    """What is wrong with a RayCluster's spec."""
    if not _containers(spec.get("headGroupSpec") or {}):
        return "headGroupSpec should have at least one container"
    groups, seen = spec.get("workerGroupSpecs") or [], set()
    for group in groups:
        name = group.get("groupName", "")
        if not _containers(group):
            return f"workerGroupSpec {name} should have at least one container"
        if name in seen:
            return f"worker group name {name} is used twice"
        seen.add(name)
        least, most = group.get("minReplicas"), group.get("maxReplicas")
        if least is not None and most is not None and int(least) > int(most):
            return f"worker group {name} has minReplicas {least} greater than maxReplicas {most}"
    return None


def cluster_fault(cluster: Object) -> tuple[str, str] | None:
    """(reason of the event, message) of a RayCluster that the operator does not act on."""
    told = name_fault("RayCluster", name_of(cluster), MOST_CLUSTER_NAME)
    if told:
        return "InvalidRayClusterMetadata", f"The RayCluster metadata is invalid: {told}"
    told = cluster_spec_fault(spec_of(cluster))
    return ("InvalidRayClusterSpec", f"The RayCluster spec is invalid: {told}") if told else None


def job_fault(job: Object) -> str | None:
    """What is wrong with a RayJob: it then ends as ValidationFailed."""
    spec = spec_of(job)
    return name_fault("RayJob", name_of(job), MOST_JOB_NAME) or _exclusions(spec) or _numbers(spec) or _own_cluster(spec)


def _exclusions(spec: Object) -> str | None:
    shuts, selects = bool(spec.get("shutdownAfterJobFinishes")), bool(spec.get("clusterSelector"))
    if selects and spec.get("rayClusterSpec"):
        return "one of RayClusterSpec or ClusterSelector must be set, not both"
    if not selects and not spec.get("rayClusterSpec"):
        return "one of RayClusterSpec or ClusterSelector must be set"
    if spec.get("suspend") and not shuts:
        return "a RayJob with shutdownAfterJobFinishes set to false is not allowed to be suspended"
    if spec.get("suspend") and selects:
        return "the ClusterSelector mode doesn't support the suspend operation"
    if spec.get("ttlSecondsAfterFinished") and not shuts:
        return "a RayJob with shutdownAfterJobFinishes set to false cannot have TTLSecondsAfterFinished"
    if selects and spec.get("backoffLimit"):
        return "BackoffLimit is incompatible with RayJob's ClusterSelector"
    return None


def _numbers(spec: Object) -> str | None:
    if int(spec.get("backoffLimit") or 0) < 0:
        return "backoffLimit must be a positive integer"
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and int(deadline) <= 0:
        return "activeDeadlineSeconds must be a positive integer"
    if not spec.get("entrypoint") and spec.get("submissionMode", "K8sJobMode") != "InteractiveMode":
        return "entrypoint must be set"
    return None


def _own_cluster(spec: Object) -> str | None:
    return cluster_spec_fault(spec["rayClusterSpec"]) if spec.get("rayClusterSpec") else None


def _containers(group: Object) -> list[Object]:
    found: list[Object] = spec_of(group.get("template") or {}).get("containers") or []
    return found
