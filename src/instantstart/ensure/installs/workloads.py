"""How a component's workloads are, in numbers and in one sentence: no nodes yet, still coming up, failing, or ready.

The three are different things (cases 23, 24): a DaemonSet without nodes is neither ready nor broken.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from instantstart.base import problems
from instantstart.base.outcome import Done, Outcome, Progress, Wait
from instantstart.ensure.installs import pods, slots
from instantstart.ensure.installs.releases import Check, Release, Resource, sentence
from instantstart.kube import shapes
from instantstart.kube.client import KubeCluster

_LOOK_SECONDS = 5.0


class State(StrEnum):
    """From worst to best for a summary: the first that any workload is in."""

    failing = "failing"
    absent = "absent"
    waiting_for_nodes = "waiting_for_nodes"
    progressing = "progressing"
    ready = "ready"


_WORST_FIRST = tuple(State)
_FROM_POD = {pods.Trouble.failing: State.failing, pods.Trouble.no_place: State.waiting_for_nodes, pods.Trouble.coming_up: State.progressing}


@dataclass(frozen=True)
class WorkloadState:
    """One workload: ``ready`` of ``wanted`` pods, and ``why`` it is not ready, in one sentence."""

    kind: str
    namespace: str
    name: str
    state: State
    ready: int = 0
    wanted: int = 0
    why: str | None = None


@dataclass(frozen=True)
class ReleaseState:
    """A release as observed; ``why`` is the sentence of the worst workload."""

    name: str
    state: State
    why: str | None
    workloads: tuple[WorkloadState, ...]


def observe(cluster: KubeCluster, release: Release) -> ReleaseState:
    """How the checked workloads of a release are. Raises only what the cluster's API does."""
    joined = any(pods.takes_pods(shapes.node(n)) for n in cluster.list("Node")) if release.checks else True
    found = tuple(look(cluster, check, joined=joined) for check in release.checks)
    worst = min(found, key=lambda w: _WORST_FIRST.index(w.state), default=None)
    if worst is None:
        return ReleaseState(release.name, State.ready, None, ())
    why = None if worst.state is State.ready else f"{worst.kind} {worst.namespace}/{worst.name}: {worst.why}"
    return ReleaseState(release.name, worst.state, why, found)


def readiness(cluster: KubeCluster, release: Release, *, without_nodes: bool = False) -> Outcome:
    """Done once every workload is ready; ``without_nodes``: also when all that is missing is nodes.

    A failing workload is waited for too: images appear and credentials arrive. The stage's deadline ends it, with the sentence.
    """
    seen = observe(cluster, release)
    if seen.state is State.ready or (without_nodes and seen.state is State.waiting_for_nodes):
        return Done({"state": seen.state.value, "why": seen.why})
    ready = sum(w.state is State.ready for w in seen.workloads)
    return Wait(_LOOK_SECONDS, seen.why or "Not ready yet.", Progress(ready, len(seen.workloads), "workloads"))


def look(cluster: KubeCluster, check: Check, *, joined: bool) -> WorkloadState:
    """One workload. ``joined``: whether any node can take pods at all."""
    live = cluster.find(check.kind, check.name, check.namespace)
    if live is None:
        return WorkloadState(check.kind, check.namespace, check.name, State.absent, why="It is not there.")
    ready, wanted, current = _counts(live)
    state: tuple[State, str | None]
    if current and ready >= wanted and (wanted > 0 or joined or not check.needs_nodes):
        state = State.ready, None
    elif not joined and check.needs_nodes:
        state = State.waiting_for_nodes, "no node that can take pods has joined the cluster yet."
    else:
        state = _unready(cluster, live, wanted)
    return WorkloadState(check.kind, check.namespace, check.name, state[0], ready, wanted, state[1])


def explain_webhook(cluster: KubeCluster, error: problems.Busy) -> problems.Busy:
    """The same Problem with the state of the pods behind the webhook in its sentence, when they can be found (case 32)."""
    service = str(error.evidence.get("webhook_service") or "")
    namespace, _, name = service.partition("/")
    if error.code != "kubernetes.webhook_not_ready" or not name:
        return error
    found = cluster.find("Service", name, namespace)
    selector = (found or {}).get("spec", {}).get("selector") or {}
    behind = _pods(cluster, namespace, selector) if selector else []
    told = pods.explain(behind)
    state = f"its service {service} is not there" if found is None else told.text if told else "its pods run, the endpoint is not there yet"
    if found is not None and not behind:
        state = "its service has no pods"
    deployment = _deployment_behind(cluster, namespace, selector)
    owner = f"Deployment {namespace}/{deployment}: " if deployment else ""
    detail = f"The webhook {error.evidence['webhook']} is not answering: {owner}{state}"
    better = problems.Busy("kubernetes.webhook_not_ready", detail, evidence={**error.evidence, "deployment": deployment})
    better.retry_after_seconds = error.retry_after_seconds
    return better


def _deployment_behind(cluster: KubeCluster, namespace: str, selector: Mapping[str, Any]) -> str | None:
    """The Deployment whose pods a Service selects, or None."""
    for deployment in cluster.list("Deployment", namespace) if selector else ():
        labels = deployment["spec"]["template"].get("metadata", {}).get("labels") or {}
        if selector.items() <= labels.items():
            return str(deployment["metadata"]["name"])
    return None


def _counts(live: Resource) -> tuple[int, int, bool]:
    """Ready, wanted, and whether the controller has seen the newest spec and rolled it out."""
    status = live.get("status") or {}
    current = status.get("observedGeneration", 0) >= live["metadata"].get("generation", 0)
    if live["kind"] == "DaemonSet":
        wanted = status.get("desiredNumberScheduled", 0)
        return status.get("numberReady", 0), wanted, current and status.get("updatedNumberScheduled", 0) >= wanted
    wanted = live["spec"].get("replicas", 1)
    return status.get("readyReplicas", 0), wanted, current and status.get("updatedReplicas", 0) >= wanted


def _unready(cluster: KubeCluster, live: Resource, wanted: int) -> tuple[State, str]:
    selector = live["spec"].get("selector", {}).get("matchLabels") or {}
    told = pods.explain(_pods(cluster, live["metadata"]["namespace"], selector))
    if told is not None:
        full = f" ({slots.read(cluster).sentence()})" if "Too many pods" in told.text else ""
        return _FROM_POD[told.trouble], told.text + full
    conditions = (live.get("status") or {}).get("conditions") or ()
    refused = next((c for c in conditions if c["type"] == "ReplicaFailure" and c["status"] == "True"), None)
    if refused is not None:
        return State.failing, f"pods cannot be made: {refused.get('message') or refused.get('reason')}"
    return State.progressing, f"{wanted or 'its'} pod{'s' * (wanted != 1)} being made."


def _pods(cluster: KubeCluster, namespace: str, selector: Mapping[str, Any]) -> list[shapes.Pod]:
    labels = ",".join(f"{key}={value}" for key, value in sorted(selector.items()))
    return [shapes.pod(item) for item in cluster.list("Pod", namespace, labels=labels)]


def summary(states: list[ReleaseState]) -> str:
    """One sentence over several releases: what is not ready and why."""
    open_ones = [f"{s.name} ({s.why})" for s in states if s.state is not State.ready]
    return f"Not ready: {sentence(open_ones)}" if open_ones else "All components are ready."
