"""Gathers what tells why a cluster is not made: stack, EKS, HyperPod and its events, instances, nodes, the pods that HyperPod needs."""

from __future__ import annotations

from typing import Any

from instantstart.base import problems
from instantstart.ensure import eks, stacks
from instantstart.ensure.capacity import hyperpod, hyperpod_events, instances, lifecycle_logs, nodes
from instantstart.ensure.capacity.hyperpod_events import Said
from instantstart.ensure.capacity.instances import Instance
from instantstart.ensure.capacity.lifecycle_logs import ScriptLog
from instantstart.ensure.diagnosis.creation_causes import CreationFacts, failed_scripts
from instantstart.ensure.diagnosis.journal import Journal
from instantstart.ensure.diagnosis.reading import Reader
from instantstart.ensure.running import pending
from instantstart.ensure.running.pending_words import Why
from instantstart.ensure.sites import Site

#: where what HyperPod needs lives, beside the namespaces of our own bundles
_SYSTEM = "kube-system"
_HOPELESS = frozenset({"failing", "blocked"})
#: that there are no nodes yet is not the fault of what waits for them
_FOR_NODES = ("nodes.", "resource.", "capacity.")
_MOST_BROKEN = 10
#: logs of scripts that are read
_MOST_SCRIPTS = 2


def gather(room: Any, where: Site, operation: Journal | None, reader: Reader) -> CreationFacts:
    """Everything in one go; what cannot be read is written down by the reader. ``room`` is the Room of capabilities/room.py."""
    stack_part = None if where.imported else reader.begin("CloudFormation stack", lambda: stacks.find_stack(where.aws, where.names.stack))
    eks_part = reader.begin("EKS cluster", lambda: eks.find_cluster(where.aws, where.eks_cluster))
    pod_part = reader.begin("HyperPod cluster", lambda: hyperpod.find_cluster(where.aws, where.hyperpod_cluster))
    stack = stack_part.get() if stack_part else None
    failure = None
    if stack is not None and not stack.is_complete:
        failure = reader.read("stack events", lambda: stacks.first_failure(where.aws, stack.stack_id))
    eks_told, cluster = eks_part.get(), pod_part.get()
    events_part = listed_part = logs_part = None
    if cluster is not None:
        events_part = reader.begin("HyperPod events", lambda: hyperpod_events.read(where.aws, cluster))
        listed_part = reader.begin("instances", lambda: list(instances.read(where.aws, cluster)))
        logs_part = reader.begin("log streams of the nodes", lambda: hyperpod.node_logs(where.aws, cluster))
    events = (events_part.get() or []) if events_part else []
    listed = (listed_part.get() or []) if listed_part else []
    inside = _inside(room, where, reader) if eks_told and eks_told.get("status") == "ACTIVE" else (None, [])
    return CreationFacts(
        operation=operation,
        stack=stack,
        stack_failure=failure,
        eks=eks_told,
        hyperpod=cluster,
        events=events,
        instances=listed,
        nodes=inside[0],
        node_logs=logs_part.get() if logs_part else None,
        scripts=_scripts(where, cluster, (events, listed), reader) if cluster else (),
        broken=inside[1],
    )


def _scripts(where: Site, cluster: dict[str, Any], told: tuple[list[Said], list[Instance]], reader: Reader) -> list[ScriptLog]:
    """The ends of the logs of scripts that are said to have failed; nothing is read where none is."""
    meant = failed_scripts(*told, most=_MOST_SCRIPTS)
    parts = [
        reader.begin(f"log of the lifecycle script on {one}", lambda g=group, i=one: lifecycle_logs.read(where.aws, cluster, g, i))  # type: ignore[misc]
        for group, one in meant
    ]
    return [log for part in parts if (log := part.get()) is not None]


def _inside(room: Any, where: Site, reader: Reader) -> tuple[list[nodes.NodeView] | None, list[tuple[str, Why]]]:
    """Kubernetes' side: its nodes, and the pods that HyperPod needs and that cannot run."""
    kube = reader.read("Kubernetes' address", lambda: where.kube(room))
    if kube is None:
        return None, []
    nodes_part = reader.begin("nodes of Kubernetes", lambda: list(nodes.read(kube)))
    spaces = sorted({_SYSTEM, *_namespaces(room, where)})
    parts = [reader.begin(f"pods of {space}", lambda s=space: kube.list("Pod", s)) for space in spaces]  # type: ignore[misc]
    broken: list[tuple[str, Why]] = []
    for part in parts:
        for pod in part.get() or []:
            why = pending.why_pod(pod, pending.Known())
            if why is not None and why.kind in _HOPELESS and not why.code.startswith(_FOR_NODES):
                broken.append((f"{pod['metadata']['namespace']}/{pod['metadata']['name']}", why))
    return nodes_part.get(), broken[:_MOST_BROKEN]


def _namespaces(room: Any, where: Site) -> set[str]:
    """The namespaces of our own bundles."""
    try:
        return {check.namespace for release in where.dependencies(room) for check in release.checks if check.namespace}
    except problems.Problem:
        return set()
