"""One training job in full: its pods, what its recovery has cost, what was said of it, and why it does not run."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from instantstart.base import problems
from instantstart.capabilities.room import Room
from instantstart.capabilities.training.jobs import objects, plans
from instantstart.capabilities.training.jobs.views import Briefs, TrainingJobItem, as_briefs, is_ready, item_of, template_of
from instantstart.ensure import sites
from instantstart.ensure.running import job_pods, pending, pending_reads
from instantstart.ensure.running.pending_words import Why, short
from instantstart.ensure.training import job_reasons, job_states
from instantstart.ensure.training.job_states import Budget, Held
from instantstart.kube.client import KubeCluster

_EVENTS_SHOWN, _PODS_SHOWN = 50, 500


@dataclass(frozen=True)
class TrainingPod:
    """A pod of a job: ``role`` worker, head or submitter; ``rank`` where the operator says it."""

    name: str
    role: str
    rank: int | None
    phase: str
    ready: bool
    node: str | None
    restarts: int
    started_at: dt.datetime | None
    containers: tuple[str, ...]
    because: str | None


@dataclass(frozen=True)
class TrainingEvent:
    """What the cluster said about the job or its pods."""

    at: str
    level: str
    about: str
    reason: str
    untrusted_message: str
    count: int


@dataclass(frozen=True)
class TrainingCondition:
    """A condition of the job, as its operator wrote it."""

    type: str
    status: str
    reason: str | None
    untrusted_message: str | None
    at: str | None


@dataclass(frozen=True)
class TrainingJobDetail:
    """One job in full. ``why`` it does not run; ``budget``: what recovery may cost and has cost; ``held``: by the pods of an ended job."""

    job: TrainingJobItem
    uid: str
    why: Why | None
    budget: Budget | None
    held: Held | None
    pods: tuple[TrainingPod, ...]
    pods_omitted: int
    events: tuple[TrainingEvent, ...]
    conditions: tuple[TrainingCondition, ...]
    faulty: dict[str, Any] | None
    elastic: dict[str, Any] | None
    log_rules: tuple[dict[str, Any], ...]
    image: str | None
    service_account: str | None
    mounts: tuple[str, ...]
    resources: dict[str, str]
    tracking: str | None
    operation_id: str | None
    resubmittable: bool
    asked: dict[str, Any] | None
    unknown: str | None = None


def get_job(room: Room, tag: str, kind: str, namespace: str, name: str) -> TrainingJobDetail:
    """One job. Raises NotFound ``training_job.unknown``."""
    where = sites.find(room, tag)
    kube = where.kube(room)
    job = plans.get_job(kube, kind, namespace, name)
    pods = job_pods.pods_of(kube, job)
    state = job_states.read(job)
    events, unknown = _events(kube, job, pods)
    why = job_reasons.why_not(room, where, job, pods, state)
    template, asked = template_of(job), objects.asked_of(job)
    container = (template.get("spec", {}).get("containers") or [{}])[0]
    env = {e["name"]: e.get("value", "") for e in container.get("env") or () if "value" in e}
    status = job.get("status") or {}
    return TrainingJobDetail(
        job=item_of(job, Briefs(as_briefs(pods, job)), why.text if why else None),
        uid=job["metadata"]["uid"],
        why=why,
        budget=job_states.budget(job),
        held=job_states.held(state, pods),
        pods=tuple(_pod(pod) for pod in pods[:_PODS_SHOWN]),
        pods_omitted=max(len(pods) - _PODS_SHOWN, 0),
        events=events,
        conditions=tuple(_condition(c) for c in status.get("conditions") or ()),
        faulty=status.get("latestFaultyPodInstanceList"),
        elastic=status.get("elasticScalingStatus"),
        log_rules=tuple((job["spec"].get("runPolicy") or {}).get("logMonitoringConfiguration") or ()),
        image=container.get("image"),
        service_account=template.get("spec", {}).get("serviceAccountName"),
        mounts=_mounts(template, container),
        resources=dict((container.get("resources") or {}).get("limits") or {}),
        tracking=env.get("MLFLOW_TRACKING_URI"),
        operation_id=(job["metadata"].get("labels") or {}).get("instantstart.dev/operation"),
        resubmittable=asked is not None,
        asked=asked,
        unknown=unknown,
    )


def _pod(pod: dict[str, Any]) -> TrainingPod:
    status, labels = pod.get("status") or {}, pod["metadata"].get("labels") or {}
    why = pending.why_pod(pod, pending.Known()) if status.get("phase") != "Running" or not is_ready(pod) else None
    rank = labels.get("sagemaker.amazonaws.com/pod-rank", "")
    return TrainingPod(
        name=pod["metadata"]["name"],
        role=job_pods.role_of(pod),
        rank=int(rank) if rank.isdigit() else None,
        phase="Terminating" if pod["metadata"].get("deletionTimestamp") else str(status.get("phase") or "Unknown"),
        ready=is_ready(pod),
        node=pod["spec"].get("nodeName"),
        restarts=sum(int(c.get("restartCount") or 0) for c in status.get("containerStatuses") or ()),
        started_at=job_states.moment(status.get("startTime")),
        containers=tuple(c["name"] for c in pod["spec"].get("containers") or ()),
        because=why.text if why else None,
    )


def _events(kube: KubeCluster, job: dict[str, Any], pods: Sequence[dict[str, Any]]) -> tuple[tuple[TrainingEvent, ...], str | None]:
    objects_of = [job, *pods]
    names, uids = {o["metadata"]["name"] for o in objects_of}, {o["metadata"]["uid"] for o in objects_of}
    try:
        found = pending.newest_first(pending_reads.events(kube, job["metadata"]["namespace"], names, uids))
    except problems.Problem as problem:
        return (), f"Events could not be read: {problem.detail}"
    return tuple(_event(each) for each in found[:_EVENTS_SHOWN]), None


def _event(event: Mapping[str, Any]) -> TrainingEvent:
    about = event.get("involvedObject") or {}
    at = event.get("lastTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp") or ""
    return TrainingEvent(
        str(at), str(event.get("type") or "Normal"), f"{about.get('kind')}/{about.get('name')}", str(event.get("reason") or ""),
        short(str(event.get("message") or ""), 500), int(event.get("count") or 1),
    )  # fmt: skip


def _condition(told: Mapping[str, Any]) -> TrainingCondition:
    message = short(str(told.get("message") or ""), 500)
    return TrainingCondition(
        str(told.get("type")), str(told.get("status")), told.get("reason") or None, message or None, told.get("lastTransitionTime")
    )


def _mounts(template: Mapping[str, Any], container: Mapping[str, Any]) -> tuple[str, ...]:
    claims = {
        v["name"]: v["persistentVolumeClaim"]["claimName"]
        for v in (template.get("spec") or {}).get("volumes") or ()
        if "persistentVolumeClaim" in v
    }
    return tuple(f"{claims[m['name']]}:{m['mountPath']}" for m in container.get("volumeMounts") or () if m["name"] in claims)
