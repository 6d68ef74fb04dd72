"""How a training job is, read from its object: one word for three kinds, what it spent of its recovery budget, what it still holds. Pure.

The operator publishes no list of its condition types: what is not known is shown as it is, and never called running (aws-facts A16).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from instantstart.ensure.running.pending_places import devices
from instantstart.ensure.running.pending_words import Why, short

Resource = Mapping[str, Any]
Status = Literal["queued", "pending", "starting", "running", "recovering", "suspended", "ending", "succeeded", "failed", "unknown"]
#: pods that all run for so long without the job running wait for one another
_RENDEZVOUS_SECONDS = 600
ENDED: frozenset[str] = frozenset({"succeeded", "failed"})
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
_PYTORCH: Mapping[str, Status] = {
    "Created": "pending",
    "PodsRunning": "starting",
    "Starting": "starting",
    "Running": "running",
    "Faulted": "recovering",
    "Restarting": "recovering",
    "Suspended": "suspended",
    "Completed": "succeeded",
    "Succeeded": "succeeded",
    "Failed": "failed",
}
_DEPLOYMENT: Mapping[str, Status] = {
    "": "pending",
    "Initializing": "pending",
    "Waiting": "pending",
    "Running": "running",
    "Retrying": "recovering",
    "Suspending": "suspended",
    "Suspended": "suspended",
    "Complete": "succeeded",
    "Failed": "failed",
    "ValidationFailed": "failed",
}
_RAY_JOB: Mapping[str, Status] = {"PENDING": "starting", "FAILED": "failed", "STOPPED": "failed"}
_CLUSTER: Mapping[str, Status] = {
    "": "pending",
    "ready": "running",
    "failed": "failed",
    "suspended": "suspended",
    "unhealthy": "recovering",
}


@dataclass(frozen=True)
class State:
    """``status`` is one of ours, ``phase`` the cluster's own word."""

    status: Status
    phase: str
    reason: str | None = None
    message: str | None = None


@dataclass(frozen=True)
class Spent:
    """Of a limit (None: none), what is used and what is left."""

    limit: int | None
    used: int
    left: int | None


@dataclass(frozen=True)
class Budget:
    """The recovery budget of a job and what it spent. ``period`` counts evaluation periods since its start, from 0."""

    retries: Spent
    full_restarts: Spent
    restarts_before_full: Spent
    evaluation_seconds: int | None
    period: int
    period_ends_at: dt.datetime | None


@dataclass(frozen=True)
class Held:
    """What pods of an ended job still hold."""

    pods: int
    accelerators: int


def read(job: Resource) -> State:
    """How a job of any of the three kinds is."""
    status = job.get("status") or {}
    found = {"HyperPodPyTorchJob": _pytorch, "RayJob": _ray_job, "RayCluster": _ray_cluster}[job["kind"]](job, status)
    if job["metadata"].get("deletionTimestamp"):
        return State("ending", found.phase, found.reason, found.message)
    if found.status in ("suspended", "pending") and is_queued(job):
        return State("queued", found.phase, found.reason, found.message)
    return found


def is_queued(job: Resource) -> bool:
    """Whether a queue holds the job back: it has one, and it is suspended."""
    spec = job["spec"]
    suspended = (spec.get("runPolicy") or {}).get("suspend") if job["kind"] == "HyperPodPyTorchJob" else spec.get("suspend")
    return bool(suspended) and QUEUE_LABEL in (job["metadata"].get("labels") or {})


def _pytorch(job: Resource, status: Resource) -> State:
    true = [c for c in status.get("conditions") or () if c.get("status") == "True"]
    ends = [c for c in true if _PYTORCH.get(c["type"]) in ENDED]
    last = (ends or true)[-1] if true else None
    if last is None:
        suspended = (job["spec"].get("runPolicy") or {}).get("suspend")
        return State("suspended" if suspended else "pending", "")
    return State(_PYTORCH.get(last["type"], "unknown"), last["type"], last.get("reason") or None, last.get("message") or None)


def _ray_job(job: Resource, status: Resource) -> State:
    del job
    phase, inner = str(status.get("jobDeploymentStatus") or ""), str(status.get("jobStatus") or "")
    found = _DEPLOYMENT.get(phase, "unknown")
    if inner in _RAY_JOB and found in ("running", "succeeded"):
        found = _RAY_JOB[inner]
    elif found == "running" and not inner:
        found = "starting"  # the cluster is there, and its submitter has not handed the work over
    shown = f"{phase or 'New'}/{inner}" if inner else phase or "New"
    return State(found, shown, status.get("reason") or None, status.get("message") or None)


def _ray_cluster(job: Resource, status: Resource) -> State:
    del job
    phase = str(status.get("state") or "")
    return State(_CLUSTER.get(phase, "unknown"), phase or "New", None, status.get("reason") or None)


def budget(job: Resource) -> Budget | None:
    """What a job of HyperPod's operator may spend and has spent; None for the other kinds."""
    if job["kind"] != "HyperPodPyTorchJob":
        return None
    policy, status = job["spec"].get("runPolicy") or {}, job.get("status") or {}
    limits, used = policy.get("restartPolicy") or {}, status.get("restartStatus") or {}
    seconds, period = limits.get("evalPeriodSeconds"), int(used.get("currentEvalPeriod") or 0)
    started = moment(status.get("startTime"))
    ends = started + dt.timedelta(seconds=seconds * (period + 1)) if started and seconds else None
    return Budget(
        _spent(policy.get("jobMaxRetryCount"), status.get("restartCount")),
        _spent(limits.get("maxFullJobRestarts"), used.get("fullJobRestartCount")),
        _spent(limits.get("numRestartBeforeFullJobRestart"), used.get("restartCount")),
        seconds,
        period,
        ends,
    )


def _spent(limit: int | None, used: int | None) -> Spent:
    count = int(used or 0)
    return Spent(limit, count, None if limit is None else max(limit - count, 0))


def held(state: State, pods: Sequence[Resource]) -> Held | None:
    """What an ended job still holds: a failed Ray job often keeps its cluster (case 52)."""
    alive = [p for p in pods if (p.get("status") or {}).get("phase") in ("Pending", "Running") and p["spec"].get("nodeName")]
    alive = [p for p in alive if not p["metadata"].get("deletionTimestamp")]
    if state.status not in ENDED or not alive:
        return None
    return Held(len(alive), sum(count for p in alive for name, count in devices(dict(p)).items() if "efa" not in name))


def started_at(job: Resource) -> dt.datetime | None:
    """When it began."""
    return moment((job.get("status") or {}).get("startTime"))


def ended_at(job: Resource) -> dt.datetime | None:
    """When it ended."""
    status = job.get("status") or {}
    return moment(status.get("completionTime") or status.get("endTime"))


def moment(text: Any) -> dt.datetime | None:
    """A moment as Kubernetes writes it; None for nothing."""
    try:
        return dt.datetime.fromisoformat(str(text)) if text else None
    except ValueError:
        return None


def without_pods(why: Why) -> Why:
    """The same of a job whose pods went when it ended: no log is left to be read."""
    return replace(why, next_step=_NO_LOG_LEFT) if why.next_step in (_READ_THE_LOG, _FAILURES["AppFailed"][1]) else why


def own_words(state: State) -> Why | None:
    """What the job itself says of its end, of a fault, or of a refusal."""
    told = short(": ".join(filter(None, (state.reason, state.message))))
    evidence = {"phase": state.phase, "reason": state.reason, "untrusted_message": short(state.message or "")}
    if state.status == "failed":
        code, step = _FAILURES.get(state.reason or "", ("training_job.failed", _READ_THE_LOG))
        return Why(code, "failing", f"The job failed: {told or state.phase}.".replace("..", "."), evidence, step)
    if state.status == "recovering":
        step = "It goes on by itself within its recovery budget."
        return Why(
            "training_job.recovering", "waiting", f"It recovers from a fault: {told or state.phase}.".replace("..", "."), evidence, step
        )
    return None


def stuck(job: Resource, pods: Sequence[Resource], state: State) -> Why:
    """All pods run, or there are none, and the job does not: what it waits for."""
    since = started_at(job) or moment(job["metadata"].get("creationTimestamp"))
    waited = (dt.datetime.now(dt.UTC) - since).total_seconds() if since else 0.0
    if state.status in ("queued", "suspended"):
        queue = (job["metadata"].get("labels") or {}).get(QUEUE_LABEL)
        text = f"It waits in the queue {queue}." if state.status == "queued" else "It is suspended: somebody holds it back."
        return Why(f"training_job.{state.status}", "waiting", text, {"phase": state.phase}, "Look at its queue, or let it go on.")
    if not pods:
        text = f"Its pods have not been made ({state.message or 'its operator has said nothing yet'})."
        return Why("training_job.no_pods", "waiting", short(text), {"phase": state.phase}, "Look at the operator's pods if this lasts.")
    if job["kind"] == "RayJob":
        text = "Ray's pods run; its submitter has not handed the work over yet."
        return Why("training_job.submitting", "starting", text, {"phase": state.phase}, "Look at the submitter's log if this lasts.")
    if waited > _RENDEZVOUS_SECONDS:
        text = f"All {len(pods)} pods run, and the job has not begun: its workers wait for one another (rendezvous)."
        step = "Compare the logs of rank 0 and the last rank; check security groups and EFA; set recovery.start_within_seconds."
        return Why("training_job.rendezvous", "waiting", text, {"phase": state.phase}, step)
    return Why(
        "training_job.starting", "starting", "Its pods run; its workers are finding one another.", {"phase": state.phase}, "Wait a moment."
    )


_READ_THE_LOG = "Read the log of its pods; submit it again when it is mended."
_NO_LOG_LEFT = "Its pods went with their logs: submit it again with recovery.clean_pods OnlyComplete, or follow its log while it runs."
_FAILURES = {
    "SubmissionFailed": ("training_job.not_submitted", "Look at the submitter's log: Ray's dashboard did not take the job."),
    "DeadlineExceeded": ("training_job.overdue", "It ran longer than run_within_seconds: allow more, or go on from a checkpoint."),
    "PreRunningDeadlineExceeded": ("training_job.not_started", "Its pods were not there in time: look at capacity and image."),
    "StartupDeadlineExceeded": ("training_job.not_started", "Its pods did not all run in time: look at capacity, image and rendezvous."),
    "FaultDeadlineExceeded": ("training_job.not_recovered", "The fault lasted too long: look at nodes and capacity."),
    "AppFailed": ("training_job.program_failed", "Read the log: the program itself failed."),
    "ValidationFailed": ("training_job.refused", "KubeRay does not take it: change what the message names."),
    "InvalidSpec": ("training_job.refused", "The operator does not take it: change what the message names."),
}
