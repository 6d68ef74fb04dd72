"""Gathers what tells why a job, an endpoint or a deployment does not do its work: object, pods, events, nodes, ends of logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from instantstart.base import problems, trees
from instantstart.ensure.capacity import nodes
from instantstart.ensure.capacity.nodes import NodeView
from instantstart.ensure.diagnosis.reading import Reader
from instantstart.ensure.diagnosis.work_causes import WorkFacts
from instantstart.ensure.inference import endpoint_judging, endpoints, serving, serving_trouble, workload_rollouts
from instantstart.ensure.running import events, job_pods, pending, pending_reads
from instantstart.ensure.running.pending import Known
from instantstart.ensure.running.pending_words import short
from instantstart.ensure.sites import Site
from instantstart.ensure.training import job_reasons, job_states
from instantstart.kube import shapes
from instantstart.kube.client import KubeCluster, LogQuery

Resource = dict[str, Any]
#: logs that are read, and how much of each
_LOGS, _LINES, _BYTES = 4, 200, 64 * 1024
_MOST_PODS, _MOST_NODES, _WARNINGS = 50, 16, 6
_READY = "Ready"


def job(room: Any, where: Site, key: tuple[str, str, str], reader: Reader) -> WorkFacts:
    """A training job by ``(kind, namespace, name)``. Raises NotFound. ``room`` is the Room of capabilities/room.py."""
    kind, namespace, name = key
    kube = reader.read("Kubernetes' address", lambda: where.kube(room))
    live = find_job(kube, kind, namespace, name, reader) if kube else None
    if kube is None or live is None:
        return WorkFacts("job", name, "unknown")
    pods = reader.read("pods of the job", lambda: job_pods.pods_of(kube, live)) or []
    state = job_states.read(live)
    why = reader.read("why it does not run", lambda: job_reasons.why_not(room, where, live, pods, state))
    well = state.status in ("running", "succeeded") and not any(_troubled(p) for p in pods)
    around = _around(_Looking(room, where, kube, reader), [live], pods)
    return WorkFacts(
        kind="job", name=name, state=f"{state.status} ({state.phase})" if state.phase else state.status, why=why, well=well, **around
    )


def find_job(kube: KubeCluster, kind: str, namespace: str, name: str, reader: Reader) -> Resource | None:
    """The job; None when it could not be read. Raises NotFound for one that is not there."""
    live = reader.read(f"{kind} job", lambda: kube.find(job_pods.KINDS[kind], name, namespace))
    if live is None and not reader.has_missed(f"{kind} job"):
        raise problems.NotFound("training_job.unknown", f"There is no {kind} {namespace}/{name}.", hint="List the training jobs.")
    return live


def deployment(room: Any, where: Site, namespace: str, name: str, reader: Reader) -> WorkFacts:
    """A model deployment. Raises NotFound."""
    kube = reader.read("Kubernetes' address", lambda: where.kube(room))
    live = _found(kube, "Deployment", namespace, name, "model_deployment.unknown", reader) if kube else None
    if kube is None or live is None:
        return WorkFacts("deployment", name, "unknown")
    pods = reader.read("pods of the deployment", lambda: workload_rollouts.pods_of(kube, live)) or []
    open_ = _open(live)
    owner = reader.read("newest replica set", lambda: workload_rollouts.newest_set(kube, live)) if open_ else None
    why = reader.read("why it is not ready", lambda: serving_trouble.explain(room, where, owner or live, pods)) if open_ else None
    around = _around(_Looking(room, where, kube, reader), [live], pods)
    links = reader.read("load balancer", lambda: _balancers(kube, live)) or []
    return WorkFacts(kind="deployment", name=name, state=_counted(live), why=why, well=not open_, links=links, **around)


def endpoint(room: Any, where: Site, namespace: str, name: str, reader: Reader) -> WorkFacts:
    """A managed inference endpoint. Raises NotFound."""
    kube = reader.read("Kubernetes' address", lambda: where.kube(room))
    live = reader.read("endpoint", lambda: endpoints.find(kube, namespace, name)) if kube else None
    if live is None and kube is not None and not reader.has_missed("endpoint"):
        raise problems.NotFound("inference_endpoint.unknown", f"There is no endpoint {name} in the namespace {namespace}.",
                                hint="List the endpoints.")  # fmt: skip
    if kube is None or live is None:
        return WorkFacts("endpoint", name, "unknown")
    deployed = reader.read("deployment of the endpoint", lambda: endpoints.deployment(kube, live))
    pods = (reader.read("pods of the endpoint", lambda: workload_rollouts.pods_of(kube, deployed)) or []) if deployed else []
    why = reader.read("why it is not ready", lambda: serving_trouble.explain(room, where, deployed, pods)) if deployed else None
    around = _around(_Looking(room, where, kube, reader), [live, *([deployed] if deployed else [])], pods)
    state = str(trees.get(live, "status.state") or "not looked at by its operator yet")
    links = reader.read("load balancer and registration", lambda: _endpoint_links(kube, live)) or []
    other = endpoint_judging.other_than_asked(endpoint_judging.Seen(live, deployed))
    well = state == endpoints.COMPLETE and not around["pods"] and other is None and endpoints.observed(live)
    away = None if well else reader.read("operator of the endpoints", lambda: endpoints.operator_away(kube))
    return WorkFacts(
        kind="endpoint", name=name, state=state, why=why, well=well, operator=endpoints.trouble(live), links=links, taken_back=other,
        operator_away=away, unseen=not endpoints.observed(live), **around,
    )  # fmt: skip


def _found(kube: KubeCluster, kind: str, namespace: str, name: str, code: str, reader: Reader) -> Resource | None:
    live = reader.read(kind, lambda: kube.find(kind, name, namespace))
    if live is None and not reader.has_missed(kind):
        raise problems.NotFound(code, f"There is no deployment {name} in the namespace {namespace}.", hint="List the deployments.")
    return live


@dataclass(frozen=True)
class _Looking:
    """Who looks, where, through what."""

    room: Any
    where: Site
    kube: KubeCluster
    reader: Reader


def _around(at: _Looking, owners: Sequence[Resource], pods: Sequence[Resource]) -> dict[str, Any]:
    """What every kind of work has around it."""
    reader, kube = at.reader, at.kube
    known_part = reader.begin("events, claims and free nodes", lambda: pending_reads.read(at.room, at.where, kube, owners[0], pods))
    nodes_part = reader.begin("nodes under the pods", lambda: nodes_under(kube, pods))
    warn_part = reader.begin("warnings", lambda: _warnings(kube, owners, pods))
    logs_part = reader.begin("ends of logs", lambda: logs_of(kube, pods))
    known = known_part.get() or Known()
    told = [
        (p["metadata"]["name"], why, p["spec"].get("nodeName")) for p in pods[:_MOST_PODS] if (why := pending.why_pod(p, known)) is not None
    ]
    return {
        "pods": told,
        "pods_total": len(pods),
        "nodes": (nodes_part.get() or {}),
        "warnings": (warn_part.get() or []),
        "logs": (logs_part.get() or {}),
    }


def nodes_under(kube: KubeCluster, pods: Sequence[Mapping[str, Any]]) -> dict[str, NodeView]:
    """The nodes under pods, by name."""
    names = dict.fromkeys(n for p in pods if (n := p["spec"].get("nodeName")))
    found = (kube.find("Node", name) for name in list(names)[:_MOST_NODES])
    return {raw["metadata"]["name"]: nodes.view(shapes.node(raw)) for raw in found if raw is not None}


def logs_of(kube: KubeCluster, pods: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The ends of the logs of some pods: those that failed first, then those that are not ready, then the others."""
    order = sorted(pods, key=lambda p: (not _has_failed(p), _is_ready(p)))
    found: dict[str, str] = {}
    for pod in order:
        if len(found) >= _LOGS:
            break
        text = _log(kube, pod)
        if text:
            found[pod["metadata"]["name"]] = text
    return found


def _log(kube: KubeCluster, pod: Mapping[str, Any]) -> str | None:
    """The end of the log of the container that failed, or of the first; of the run before, where it runs again."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    if not statuses:
        return None
    chosen = next((s for s in statuses if _exit_code(s)), statuses[0])
    again = bool(((chosen.get("lastState") or {}).get("terminated") or {}).get("exitCode")) and not (chosen.get("state") or {}).get(
        "terminated"
    )
    query = LogQuery(container=chosen["name"], previous=again, tail_lines=_LINES, limit_bytes=_BYTES)
    try:
        return kube.log(pod["metadata"]["name"], pod["metadata"]["namespace"], query)
    except problems.Problem:  # a pod that is gone or has not begun has no log
        return None


def _exit_code(status: Mapping[str, Any]) -> int:
    now, before = ((status.get(key) or {}).get("terminated") or {} for key in ("state", "lastState"))
    return int(now.get("exitCode") or before.get("exitCode") or 0)


def _has_failed(pod: Mapping[str, Any]) -> bool:
    return any(_exit_code(s) for s in (pod.get("status") or {}).get("containerStatuses") or ())


def _is_ready(pod: Mapping[str, Any]) -> bool:
    return any(c["type"] == _READY and c["status"] == "True" for c in (pod.get("status") or {}).get("conditions") or ())


def _troubled(pod: Mapping[str, Any]) -> bool:
    return (pod.get("status") or {}).get("phase") == "Failed" or _has_failed(pod)


def _warnings(kube: KubeCluster, owners: Sequence[Resource], pods: Sequence[Resource]) -> list[tuple[str, str, str]]:
    """Warnings about the work and its pods: (reference, at, text), newest first."""
    space = owners[0]["metadata"].get("namespace")
    things = [*owners, *pods]
    found = pending_reads.events(kube, space, {t["metadata"]["name"] for t in things}, {t["metadata"].get("uid") for t in things})
    told = [e for e in pending.newest_first(found) if e.get("type") == "Warning"][:_WARNINGS]
    return [
        (_about(e), str(e.get("lastTimestamp") or e.get("eventTime") or ""), f"{e.get('reason')}: {e.get('message') or ''}") for e in told
    ]


def _about(event: Mapping[str, Any]) -> str:
    about = event.get("involvedObject") or event.get("regarding") or {}
    return f"event about {about.get('kind')} {about.get('name')}"


def _open(live: Mapping[str, Any]) -> bool:
    status, wanted = live.get("status") or {}, int(live["spec"].get("replicas", 1))
    return any(int(status.get(key, 0)) != wanted for key in ("updatedReplicas", "readyReplicas", "replicas"))


def _counted(live: Mapping[str, Any]) -> str:
    return f"{int((live.get('status') or {}).get('readyReplicas', 0))} of {int(live['spec'].get('replicas', 1))} replicas ready"


def _balancers(kube: KubeCluster, live: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Load balancers of a deployment of ours that have no address."""
    name, space = live["metadata"]["name"], live["metadata"]["namespace"]
    mine = [s for s in kube.list("Service", space, labels=serving.selector("model-server")) if s["spec"].get("type") == "LoadBalancer"]
    found = []
    for each in mine:
        if (each["spec"].get("selector") or {}).get(serving.SERVED) == name and not trees.get(each, "status.loadBalancer.ingress"):
            found.append(("load balancer", events.last_warning(kube, each) or "It has no address yet."))
    return found


def _endpoint_links(kube: KubeCluster, live: Resource) -> list[tuple[str, str]]:
    found = []
    ingress = endpoints.balancer(kube, live)
    if ingress is not None and endpoints.hostname(ingress) is None:
        found.append(("load balancer", events.last_warning(kube, ingress) or "It has no address yet."))
    made = endpoints.registration(kube, live)
    said = endpoints.trouble(made) if made else None
    if said:
        found.append(("SageMaker endpoint", short(said)))
    return found
