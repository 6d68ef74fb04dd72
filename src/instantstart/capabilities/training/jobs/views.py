"""What can be read of training jobs: all kinds in one list, and one in full: pods, budget, events, why it does not run."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from instantstart.base import problems, quantities
from instantstart.capabilities import paging
from instantstart.capabilities.room import Room
from instantstart.capabilities.training.jobs import objects
from instantstart.ensure import sites
from instantstart.ensure.capacity import nodes
from instantstart.ensure.capacity.nodes import EFA
from instantstart.ensure.installs.releases import MANAGED_BY, MANAGER
from instantstart.ensure.running import job_pods
from instantstart.ensure.running.pending_words import short
from instantstart.ensure.training import job_states
from instantstart.ensure.training.job_states import State, Status
from instantstart.kube.briefs import PodBrief
from instantstart.kube.client import KubeCluster

Sort = Literal["name", "created", "status"]


@dataclass(frozen=True)
class TrainingJobItem:
    """A job. ``status`` is one word for all kinds, ``phase`` the cluster's own; ``because``: why it does not run."""

    kind: str
    namespace: str
    name: str
    status: Status
    phase: str
    framework: str | None
    instance_type: str | None
    nodes: int
    accelerators: int
    pods: int
    pods_ready: int
    restarts: int
    queue: str | None
    priority: str | None
    made_here: bool
    created_at: dt.datetime | None
    started_at: dt.datetime | None
    ended_at: dt.datetime | None
    because: str | None


@dataclass(frozen=True)
class TrainingJobPage:
    """One page. ``total`` and ``counts`` (by status) are of all that match; ``unknown``: what could not be read."""

    items: tuple[TrainingJobItem, ...]
    total: int
    counts: dict[str, int]
    cursor: str | None = None
    unknown: str | None = None


@dataclass(frozen=True)
class Filters:
    """Which jobs, in which order."""

    kind: str | None = None
    namespace: str | None = None
    status: str | None = None
    contains: str = ""
    sort: Sort = "created"


def list_jobs(room: Room, tag: str, filters: Filters, limit: int, cursor: str | None) -> TrainingJobPage:
    """One page of the jobs that match. A kind that cannot be read hides no other."""
    kube = sites.find(room, tag).kube(room)
    found: list[dict[str, Any]] = []
    unread: list[str] = []
    for kind, name in job_pods.KINDS.items():
        if filters.kind in (None, kind):
            found += _listed(kube, name, filters.namespace, unread)
    found = [job for job in found if not _belongs_to_a_job(job)]
    briefs = _briefs(room, kube, unread)
    items = [item for job in found if _matches(item := item_of(job, briefs), filters)]
    keyed = sorted(items, key=lambda i: _key(i, filters.sort))
    page = paging.page(keyed, lambda i: _key(i, filters.sort), limit, cursor)
    counts: dict[str, int] = {}
    for item in items:
        counts[item.status] = counts.get(item.status, 0) + 1
    return TrainingJobPage(page.items, page.total, counts, page.cursor, " ".join(unread) or None)


def _listed(kube: KubeCluster, kind: str, namespace: str | None, unread: list[str]) -> list[dict[str, Any]]:
    if not kube.serves(kind):
        return []
    try:
        return kube.list(kind, namespace)
    except problems.Problem as problem:
        unread.append(f"{kind.rpartition('/')[2]}: {problem.detail}")
        return []


def _belongs_to_a_job(job: Mapping[str, Any]) -> bool:
    """A Ray cluster that a Ray job or a service made is shown with its maker."""
    return job["kind"] == "RayCluster" and job_pods.controller(dict(job)) is not None


@dataclass(frozen=True)
class Briefs:
    """Pods by namespace and the name under which their job knows them."""

    by_job: Mapping[tuple[str, str], Sequence[PodBrief]]

    def of(self, job: Mapping[str, Any]) -> Sequence[PodBrief]:
        space, name = job["metadata"].get("namespace") or "", job["metadata"]["name"]
        if job["kind"] == "RayJob":
            name = (job.get("status") or {}).get("rayClusterName") or name
        return self.by_job.get((space, name), ())


def _briefs(room: Room, kube: KubeCluster, unread: list[str]) -> Briefs:
    found: dict[tuple[str, str], list[PodBrief]] = {}
    try:
        pods: Iterable[PodBrief] = room.kube.watching.pods(kube).snapshot().items.values()
    except problems.Problem as problem:
        unread.append(problem.detail)
        return Briefs({})
    for pod in pods:
        if pod.job:
            found.setdefault((pod.namespace, pod.job), []).append(pod)
    return Briefs(found)


def as_briefs(pods: Sequence[dict[str, Any]], job: dict[str, Any]) -> dict[tuple[str, str], list[PodBrief]]:
    """The pods that were read, in the form of the live copies."""
    space, name = job["metadata"].get("namespace") or "", job["metadata"]["name"]
    if job["kind"] == "RayJob":
        name = (job.get("status") or {}).get("rayClusterName") or name
    made = [
        PodBrief(space, p["metadata"]["name"], p["metadata"]["uid"], "", p["spec"].get("nodeName"), p["status"]["phase"], ready=is_ready(p))
        for p in pods
    ]
    return {(space, name): made}


def item_of(job: dict[str, Any], briefs: Briefs, because: str | None = None) -> TrainingJobItem:
    metadata, labels = job["metadata"], job["metadata"].get("labels") or {}
    state, pods, template = job_states.read(job), briefs.of(job), template_of(job)
    asked = objects.asked_of(job) or {}
    spec = template.get("spec") or {}
    count = _node_count(job)
    told = because or (None if state.status in ("running", "succeeded") else _short_reason(state, pods))
    return TrainingJobItem(
        kind=next(kind for kind, name in job_pods.KINDS.items() if name.endswith("/" + job["kind"])),
        namespace=metadata.get("namespace") or "",
        name=metadata["name"],
        status=state.status,
        phase=state.phase,
        framework=(asked.get("recipe") or {}).get("framework"),
        instance_type=(spec.get("nodeSelector") or {}).get(nodes.INSTANCE_TYPE) or asked.get("instance_type"),
        nodes=count,
        accelerators=count * _accelerators(spec),
        pods=len(pods),
        pods_ready=sum(pod.ready for pod in pods),
        restarts=int((job.get("status") or {}).get("restartCount") or 0),
        queue=labels.get(objects.QUEUE_LABEL),
        priority=labels.get(objects.PRIORITY_LABEL) or spec.get("priorityClassName"),
        made_here=labels.get(MANAGED_BY) == MANAGER,
        created_at=job_states.moment(metadata.get("creationTimestamp")),
        started_at=job_states.started_at(job),
        ended_at=job_states.ended_at(job),
        because=told,
    )


def _short_reason(state: State, pods: Sequence[PodBrief]) -> str | None:
    """Why, as far as the list knows without asking more: the job's words, or those of the first pod that waits."""
    own = job_states.own_words(state)
    if own is not None:
        return own.text
    waiting = next((pod for pod in pods if pod.waits and pod.reason), None)
    return short(f"{waiting.reason}: {waiting.message or ''}".rstrip(": ")) if waiting else state.message


def _node_count(job: Mapping[str, Any]) -> int:
    spec = job["spec"]
    if job["kind"] == "HyperPodPyTorchJob":
        target = ((job.get("status") or {}).get("elasticScalingStatus") or {}).get("targetReplicas") or {}
        return sum(int(target.get(r["name"], r.get("replicas") or 0)) for r in spec.get("replicaSpecs") or ())
    cluster = spec.get("rayClusterSpec") or {} if job["kind"] == "RayJob" else spec
    return sum(int(group.get("replicas") or 0) for group in cluster.get("workerGroupSpecs") or ())


def template_of(job: Mapping[str, Any]) -> dict[str, Any]:
    """The template of the workers."""
    spec = job["spec"]
    if job["kind"] == "HyperPodPyTorchJob":
        groups = spec.get("replicaSpecs") or ()
    else:
        cluster = spec.get("rayClusterSpec") or {} if job["kind"] == "RayJob" else spec
        groups = cluster.get("workerGroupSpecs") or ()
    return dict(groups[0].get("template") or {}) if groups else {}


def _accelerators(spec: Mapping[str, Any]) -> int:
    found = 0
    for container in spec.get("containers") or ():
        limits = (container.get("resources") or {}).get("limits") or {}
        found += sum(quantities.whole(str(n)) for name, n in limits.items() if "/" in name and name != EFA)
    return found


def _matches(item: TrainingJobItem, filters: Filters) -> bool:
    text = filters.contains.lower()
    return filters.status in (None, item.status) and (not text or any(text in (t or "").lower() for t in (item.name, item.framework)))


def _key(item: TrainingJobItem, sort: Sort) -> str:
    """Sorts, and is the cursor: newest first by created."""
    whole = f"{item.namespace}/{item.name}/{item.kind}"
    if sort == "name":
        return f"{item.name} {whole}"  # a space comes before every character of a name
    age = 10**11 - int(item.created_at.timestamp()) if item.created_at else 0
    return f"{item.status}/{age:012}/{whole}" if sort == "status" else f"{age:012}/{whole}"


def is_ready(pod: Mapping[str, Any]) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
