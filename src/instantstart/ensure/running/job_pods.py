"""Which pods belong to a workload: by the labels that its controller writes and by their owners, never by a part of a name (case 32).

The stable way for logs, metrics and details. Facts: aws-facts A16 (``HPJob``), A18 (``ray.io/cluster``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from instantstart.kube.client import KubeCluster

Resource = dict[str, Any]
PYTORCH_JOB = "sagemaker.amazonaws.com/v1/HyperPodPyTorchJob"
RAY_JOB, RAY_CLUSTER = "ray.io/v1/RayJob", "ray.io/v1/RayCluster"
#: by the word that our doors use
KINDS: Mapping[str, str] = {"pytorch": PYTORCH_JOB, "ray_job": RAY_JOB, "ray_cluster": RAY_CLUSTER}
PYTORCH_LABEL, RAY_LABEL, RAY_TYPE, BATCH_LABEL = "HPJob", "ray.io/cluster", "ray.io/node-type", "batch.kubernetes.io/job-name"


def pods_of(kube: KubeCluster, job: Resource) -> list[Resource]:
    """The pods of a job or Ray cluster as it is now, in the order of their names; its submitter's too."""
    found = {pod["metadata"]["uid"]: pod for labels in selectors(job) for pod in _list(kube, job, labels)}
    mine = [pod for pod in found.values() if belongs(job, pod)]
    return sorted(mine, key=lambda pod: (str(pod["metadata"]["name"]), str(pod["metadata"]["uid"])))


def selectors(job: Resource) -> tuple[str, ...]:
    """Label selectors that find the pods of a job; each pod still has to belong (see ``belongs``)."""
    name, kind = job["metadata"]["name"], job["kind"]
    if kind == "HyperPodPyTorchJob":
        return (f"{PYTORCH_LABEL}={name}",)
    if kind == "RayCluster":
        return (f"{RAY_LABEL}={name}",)
    if kind == "RayJob":
        cluster = (job.get("status") or {}).get("rayClusterName")
        return (*((f"{RAY_LABEL}={cluster}",) if cluster else ()), f"{BATCH_LABEL}={name}")
    if kind == "Job":
        return (f"{BATCH_LABEL}={name}",)
    return (selector_text((job["spec"].get("selector") or {}).get("matchLabels") or {}),)


def belongs(job: Resource, pod: Resource) -> bool:
    """Whether a pod that bears the label is this very job's: of one made anew under the same name, the old pods are not."""
    owner, born = controller(pod), job["metadata"].get("creationTimestamp")
    if owner is None or owner["kind"] != job["kind"]:  # a link between the two (StatefulSet, RayCluster, Job) owns it
        return not born or str(pod["metadata"].get("creationTimestamp") or born) >= str(born)
    return bool(owner["uid"] == job["metadata"].get("uid", owner["uid"]))


def controller(resource: Resource) -> Resource | None:
    """The owner that made an object."""
    return next((o for o in resource["metadata"].get("ownerReferences") or () if o.get("controller")), None)


def selector_text(labels: Mapping[str, str]) -> str:
    """Labels as a selector."""
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


def role_of(pod: Resource) -> str:
    """What a pod is in its job: ``worker``, ``head``, ``submitter``."""
    labels = pod["metadata"].get("labels") or {}
    if RAY_TYPE in labels:
        return str(labels[RAY_TYPE])
    return "submitter" if BATCH_LABEL in labels else "worker"


def _list(kube: KubeCluster, job: Resource, labels: str) -> Iterable[Resource]:
    return kube.list("Pod", job["metadata"]["namespace"], labels=labels) if labels else ()
