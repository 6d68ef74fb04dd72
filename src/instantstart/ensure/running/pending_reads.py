"""Reads what an explanation wants to know: nodes and what they hold, the namespace's events and claims, Kueue's word, last log lines.

Each read is bounded, and one that fails leaves its part unknown: an explanation never fails for want of evidence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from instantstart.base import problems
from instantstart.base.counting import counted, plural
from instantstart.ensure.capacity import nodes
from instantstart.ensure.running import job_pods, pending
from instantstart.ensure.running.pending import Known
from instantstart.ensure.running.pending_places import Place
from instantstart.ensure.running.pending_words import Resource, Why
from instantstart.ensure.sites import Site
from instantstart.kube import briefs, shapes
from instantstart.kube.client import KubeCluster, LogQuery
from instantstart.kube.watching import Live, Watching

WORKLOAD = "kueue.x-k8s.io/v1beta1/Workload"
_CLAIM = "karpenter.sh/v1/NodeClaim"
_LAST_LINES, _LAST_BYTES, _MOST_LOGS = 12, 4096, 2
_ARRIVING = frozenset({"Pending", "AttachInProgress", "SystemUpdating", "DeepHealthCheckInProgress"})
T = TypeVar("T")


def explain(room: Any, where: Site, owner: Resource, found: Sequence[Resource]) -> Why | None:
    """Why a workload of ours or anybody's does not run: ``found`` are its pods (none: from its events). None when it does.

    ``room`` is the Room of capabilities/room.py.
    """
    kube = where.kube(room)
    if found and not pending.explain(found):
        return None
    known = read(room, where, kube, owner, found)
    return pending.explain(found, known) if found else pending.explain_absent(owner, known)


def read(room: Any, where: Site, kube: KubeCluster, owner: Resource, found: Sequence[Resource]) -> Known:
    """What is known around pods that do not run."""
    space = owner["metadata"].get("namespace")
    unplaced = [pod for pod in found if not pod["spec"].get("nodeName")]
    names = {owner["metadata"]["name"], *(pod["metadata"]["name"] for pod in found)}
    uids = {owner["metadata"].get("uid"), *(pod["metadata"].get("uid") for pod in found)}
    return Known(
        places=_try(lambda: places(room.kube.watching, kube), None) if unplaced else None,
        events=_try(lambda: events(kube, space, names, uids), []),
        coming=_try(lambda: coming(room, where, kube, unplaced[0]), None) if unplaced else None,
        last_words=_last_words(kube, found),
        workload=_try(lambda: workload_of(kube, owner), None),
        claims=_try(lambda: {c["metadata"]["name"]: c for c in kube.list("PersistentVolumeClaim", space)}, None) if unplaced else None,
    )


def events(kube: KubeCluster, namespace: str | None, names: set[str], uids: set[Any]) -> list[Resource]:
    """Events about these objects: by uid, or by name where the reporter gave no uid."""
    found = []
    for event in kube.list("Event", namespace):
        about = event.get("involvedObject") or event.get("regarding") or {}
        if about.get("uid") in uids if about.get("uid") else about.get("name") in names:
            found.append(event)
    return found


def places(watching: Watching, kube: KubeCluster) -> list[Place]:
    """The nodes with what pods hold of them: from the live copies, or from the API while those are not complete or not heard of.

    A copy whose first list failed is empty, which is not a cluster without nodes. Raises what the API raises.
    """
    live: Live = watching.live(kube)
    true = live.freshness()
    whole = true.synced and not true.stale
    pods = list(live.pods.snapshot().items.values()) if whole else [briefs.of(pod) for pod in kube.list("Pod")]
    found = list(live.nodes.snapshot().items.values()) if whole else [shapes.node(node) for node in kube.list("Node")]
    held: dict[str, dict[str, Counter[str]]] = {}
    for pod in pods:
        if pod.node is not None and not pod.over and pod.asks:
            held.setdefault(pod.node, {}).setdefault(_whose(pod), Counter()).update(dict(pod.asks))
    return [_place(node, held.get(node.metadata.name, {})) for node in found]


def _place(node: shapes.Node, holders: Mapping[str, Counter[str]]) -> Place:
    whole: Counter[str] = Counter()
    for each in holders.values():
        whole.update(each)
    return Place(node, whole, holders)


def _whose(pod: briefs.PodBrief) -> str:
    """The work that a pod belongs to, as a person would look for it."""
    if pod.job:
        return f"job {pod.namespace}/{pod.job}"
    if pod.owner and pod.owner_kind == "ReplicaSet":  # a Deployment's: its name without the hash of the template
        return f"Deployment {pod.namespace}/{pod.owner.rpartition('-')[0]}"
    return f"{pod.owner_kind} {pod.namespace}/{pod.owner}" if pod.owner else f"pod {pod.namespace}/{pod.name}"


def coming(room: Any, where: Site, kube: KubeCluster, pod: Resource) -> str | None:
    """A sentence about nodes on their way that the pod could use; None when none is."""
    selector: Mapping[str, str] = pod["spec"].get("nodeSelector") or {}
    group, kind = selector.get(nodes.GROUP), selector.get(nodes.INSTANCE_TYPE)
    arriving = [
        i
        for i in room.rosters.of(where).instances
        if i.status in _ARRIVING and group in (None, i.group) and kind in (None, i.instance_type)
    ]
    if arriving:
        first = arriving[0]
        checks = " (deep health checks take one to two hours)" if first.status == "DeepHealthCheckInProgress" else ""
        many, are = counted(len(arriving), "node"), plural(len(arriving), "is", "are")
        return f"{many} of {first.instance_type} in group {first.group} {are} being made ({first.status}){checks}."
    return _claimed(kube, kind)


def _claimed(kube: KubeCluster, kind: str | None) -> str | None:
    """Karpenter's nodes on their way."""
    if not kube.serves(_CLAIM):
        return None
    waiting = [c for c in kube.list(_CLAIM) if not _is_ready(c) and not c["metadata"].get("deletionTimestamp")]
    fitting = [c for c in waiting if kind is None or kind in _types(c)]
    return f"Karpenter is making {counted(len(fitting), 'node')} for waiting pods." if fitting else None


def _is_ready(claim: Resource) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in (claim.get("status") or {}).get("conditions") or ())


def _types(claim: Resource) -> set[str]:
    return {v for r in claim["spec"].get("requirements") or () if r["key"] == nodes.INSTANCE_TYPE for v in r.get("values") or ()}


def workload_of(kube: KubeCluster, owner: Resource) -> Resource | None:
    """Kueue's Workload of an object, by owner; None without Kueue."""
    if not kube.serves(WORKLOAD):
        return None
    uid = owner["metadata"].get("uid")
    mine = (w for w in kube.list(WORKLOAD, owner["metadata"].get("namespace")) if (job_pods.controller(w) or {}).get("uid") == uid)
    return next(mine, None)


def _last_words(kube: KubeCluster, found: Sequence[Resource]) -> dict[str, str]:
    """The end of the logs of containers that failed, of a few pods."""
    told: dict[str, str] = {}
    for pod in found:
        failed = _failed_container(pod)
        if failed is None or len(told) >= _MOST_LOGS:
            continue
        name, previous = failed
        query = LogQuery(container=name, previous=previous, tail_lines=_LAST_LINES, limit_bytes=_LAST_BYTES)
        text = _try(lambda p=pod, q=query: kube.log(p["metadata"]["name"], p["metadata"]["namespace"], q), "")  # type: ignore[misc]
        if text:
            told[pod["metadata"]["name"]] = text
    return told


def _failed_container(pod: Resource) -> tuple[str, bool] | None:
    """(its name, whether it runs again already)."""
    status = pod.get("status") or {}
    for container in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        now = (container.get("state") or {}).get("terminated") or {}
        before = (container.get("lastState") or {}).get("terminated") or {}
        if now.get("exitCode"):
            return container["name"], False
        if before.get("exitCode") and not container.get("ready"):
            return container["name"], True
    return None


def _try(ask: Callable[[], T], otherwise: T) -> T:
    try:
        return ask()
    except problems.Problem:
        return otherwise
