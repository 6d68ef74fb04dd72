"""Why pods do not run, in one sentence a person can act on. Reasons as the kubelet and the scheduler write them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from instantstart.kube.shapes import ContainerStatus, Node, Pod

IMAGE = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError", "RegistryUnavailable"})
CONFIG = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError", "ContainerCannotRun"})
_TEXT_LIMIT = 300


class Trouble(StrEnum):
    """What stands between a pod and running, worst first."""

    failing = "failing"
    no_place = "no_place"
    coming_up = "coming_up"


_WORST_FIRST = tuple(Trouble)


@dataclass(frozen=True)
class Reason:
    """Why one or more pods are not ready."""

    trouble: Trouble
    text: str


def explain(pods: Sequence[Pod]) -> Reason | None:
    """The worst reason among pods, with how many share it; None when all are ready, or there are none."""
    reasons = Counter(reason for pod in pods if (reason := why(pod)) is not None)
    if not reasons:
        return None
    worst = min(reasons, key=lambda r: (_WORST_FIRST.index(r.trouble), -reasons[r]))
    count = f"{reasons[worst]} of {len(pods)} pods: " if len(pods) > 1 else ""
    return Reason(worst.trouble, count + worst.text)


def why(pod: Pod) -> Reason | None:
    """Why one pod is not ready; None when it is, or is done."""
    status = pod.status
    if status.phase == "Succeeded" or _is_ready(pod):
        return None
    if pod.metadata.deletion_timestamp is not None:
        return Reason(Trouble.coming_up, "an old pod is ending.")
    if status.phase == "Failed":
        return Reason(Trouble.failing, _failed(pod))
    place = _no_place(pod)
    if place is not None:
        return place
    for container in (*status.init_container_statuses, *status.container_statuses):
        reason = _container(container)
        if reason is not None:
            return reason
    return Reason(Trouble.coming_up, "it is being started." if status.phase == "Pending" else "it runs and is not ready yet.")


def takes_pods(node: Node) -> bool:
    """Whether a node is Ready and not cordoned."""
    return not node.spec.unschedulable and any(c.type == "Ready" and c.status == "True" for c in node.status.conditions)


def _is_ready(pod: Pod) -> bool:
    return any(c.type == "Ready" and c.status == "True" for c in pod.status.conditions)


def _no_place(pod: Pod) -> Reason | None:
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            if condition.reason == "SchedulingGated":
                return Reason(Trouble.no_place, "it is held back by a scheduling gate (a queue has not admitted it).")
            return Reason(Trouble.no_place, f"no node fits: {_short(condition.message or condition.reason or 'no reason given')}")
    if pod.spec.node_name is None and pod.status.phase == "Pending":
        return Reason(Trouble.coming_up, "the scheduler has not looked at it yet.")
    return None


def _container(status: ContainerStatus) -> Reason | None:
    waiting = status.state.waiting
    if waiting:
        return _waiting(status, str(waiting.get("reason") or ""), str(waiting.get("message") or ""))
    ended = status.state.terminated
    if ended and ended.get("exitCode"):
        return Reason(Trouble.failing, f"the container {status.name} {_ended(ended)}.")
    return None


def _waiting(status: ContainerStatus, reason: str, message: str) -> Reason | None:
    if reason in IMAGE:
        return Reason(Trouble.failing, f"the image {status.image} of {status.name} cannot be pulled ({reason}). {_short(message)}".rstrip())
    if reason == "CrashLoopBackOff":
        last = status.last_state.terminated or {}
        told = f"; last time it {_ended(last)}" if last else ""
        return Reason(Trouble.failing, f"the container {status.name} keeps ending ({status.restart_count} restarts){told}.")
    if reason in CONFIG:
        return Reason(Trouble.failing, f"the container {status.name} cannot be started ({reason}). {_short(message)}".rstrip())
    return Reason(Trouble.coming_up, f"the container {status.name} is being started ({reason}).") if reason else None


def _ended(terminated: dict[str, object]) -> str:
    reason = terminated.get("reason")
    if reason == "OOMKilled":
        return "was killed: it used more memory than its limit"
    named = f" ({reason})" if reason and reason not in ("Error", "Completed") else ""
    return f"ended with exit code {terminated.get('exitCode')}{named}"


def _failed(pod: Pod) -> str:
    status = pod.status
    for container in (*status.init_container_statuses, *status.container_statuses):
        ended = container.state.terminated
        if ended and ended.get("exitCode"):
            return f"it failed: the container {container.name} {_ended(ended)}."
    told = " ".join(part for part in (status.reason, _short(status.message or "")) if part)
    return f"it failed: {told or 'no reason given'}"


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _TEXT_LIMIT else text[: _TEXT_LIMIT - 1] + "…"
