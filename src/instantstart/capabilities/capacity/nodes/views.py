"""What can be read of nodes: SageMaker's instances beside Kubernetes' nodes, a page at a time, and one of them in full."""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from instantstart.base import problems
from instantstart.base.problems import Violation
from instantstart.capabilities.capacity.nodes import rules
from instantstart.capabilities.room import Room
from instantstart.ensure import sites
from instantstart.ensure.capacity import hyperpod, nodes
from instantstart.ensure.capacity.instances import Instance
from instantstart.ensure.capacity.nodes import NodeView
from instantstart.ensure.capacity.rosters import Roster
from instantstart.kube import shapes

Health = Literal["healthy", "unhealthy", "recovering", "checking", "starting", "unknown"]
Sort = Literal["name", "group", "type", "status", "health", "launched"]
_RECOVERING = frozenset({"UnschedulablePendingReplacement", "UnschedulablePendingReboot"})
_STARTING = frozenset({"Pending", "AttachInProgress", "SystemUpdating"})
#: the kubelet's reason while the network plugin of a new node is not up
_NO_NETWORK_YET = "NetworkPluginNotReady"


@dataclass(frozen=True)
class NodeItem:
    """A node, as SageMaker and Kubernetes see it together. ``logical_id`` is there before ``instance_id``; ``because``: why unusable."""

    logical_id: str | None
    instance_id: str | None
    name: str | None
    group: str
    instance_type: str
    capacity_type: str
    zone: str | None
    status: str
    health_state: Health
    ready: bool
    schedulable: bool
    health: str | None
    deep_health: str | None
    faults: tuple[str, ...]
    gpus: int | None
    efa: int | None
    neuron: int | None
    software: str | None
    software_status: str | None
    launched_at: dt.datetime | None
    because: str | None


@dataclass(frozen=True)
class NodePage:
    """One page of nodes. ``total``, ``ready`` and ``counts`` (by health_state) are of all that match; ``unknown``: what was not read."""

    items: tuple[NodeItem, ...]
    total: int
    ready: int
    counts: dict[str, int]
    cursor: str | None = None
    unknown: str | None = None
    #: when SageMaker was read
    read_at: dt.datetime | None = None


@dataclass(frozen=True)
class Filters:
    """Which nodes, in which order. Text is looked for in every id, name, zone and reason."""

    group: str | None = None
    instance_type: str | None = None
    status: str | None = None
    health: Health | None = None
    contains: str = ""
    sort: Sort = "name"
    descending: bool = False


@dataclass(frozen=True)
class HealthFinding:
    """A node that is not healthy, what is known, and what to do about it."""

    node: str
    group: str
    health_state: Health
    faults: tuple[str, ...]
    because: str
    advice: str


@dataclass(frozen=True)
class HealthReport:
    """How the nodes are. ``recovery``: whether HyperPod reboots and replaces faulty accelerated nodes by itself."""

    recovery: str
    counts: dict[str, int]
    findings: tuple[HealthFinding, ...]
    unknown: str | None = None


def list_nodes(room: Room, tag: str, filters: Filters, limit: int, cursor: str | None) -> NodePage:
    """One page of what matches. A cluster whose Kubernetes cannot be asked still lists its instances."""
    where = sites.find(room, tag)
    roster = room.rosters.of(where)
    items, unknown = _all(room, roster)
    found = [item for item in items if _matches(item, filters)]
    key = _KEYS[filters.sort]
    found.sort(key=lambda item: (key(item), _id(item)), reverse=filters.descending)
    start = _start(found, key, filters.descending, cursor) if cursor else 0
    page = found[start : start + limit]
    more = _write(key(page[-1]), _id(page[-1])) if page and start + limit < len(found) else None
    ready = sum(item.ready and item.schedulable for item in found)
    return NodePage(tuple(page), len(found), ready, _counted(found), more, unknown, roster.read_at)


def report_health(room: Room, tag: str) -> HealthReport:
    """Every node that is not healthy, with advice: first look, then reboot, then replace."""
    where = sites.find(room, tag)
    roster = room.rosters.of(where)
    have = roster.cluster or rules.described(where)
    items, unknown = _all(room, roster)
    automatic = have.get("NodeRecovery") == "Automatic"
    findings = tuple(
        HealthFinding(_id(i), i.group, i.health_state, i.faults, i.because or i.status, advice(i, automatic) or "Nothing to do.")
        for i in items
        if i.health_state not in ("healthy", "starting")
    )
    recovery = (
        "Automatic: HyperPod reboots or replaces a faulty accelerated node by itself; CPU nodes it does not."
        if automatic
        else "None: a faulty node stays until somebody reboots or replaces it."
    )
    return HealthReport(recovery, _counted(items), findings, unknown)


def _counted(items: Iterable[NodeItem]) -> dict[str, int]:
    return dict(Counter(str(item.health_state) for item in items))


def advice(item: NodeItem, automatic: bool) -> str | None:
    """The next step about an unhealthy node; None for one that needs none. Pure."""
    accelerated = bool(item.gpus or item.neuron)
    if item.health_state in ("recovering", "checking"):
        return "Wait: HyperPod is at it."
    if item.health_state == "unhealthy" and automatic and accelerated and item.faults:
        return "Wait some minutes: HyperPod recovers it by itself. If it does not, reboot it, then replace it."
    if item.health_state == "unhealthy":
        return "Read its events and pods first; then reboot it; if that does not help, replace it (its volumes are lost)."
    if item.health_state == "unknown" and item.instance_id and item.status == "Running":
        return "It runs and is not in Kubernetes: read its lifecycle log; if it stays away, replace it."
    return None


def _all(room: Room, roster: Roster) -> tuple[list[NodeItem], str | None]:
    """Every node of a roster, beside the live copy of Kubernetes; what has not changed since the last look is not made again."""
    kinds = {g["InstanceGroupName"]: hyperpod.capacity_type(g) for g in (roster.cluster or {}).get("InstanceGroups", ())}
    joined, unknown = _joined(room, roster)
    absent = unknown if joined is None else None
    items = []
    for each in roster.instances:
        raw = joined.get(each.node_name or "") if joined else None
        source = (each, raw.metadata.resource_version if raw else None, kinds.get(each.group), absent)
        known = roster.made.get(each.key)
        if known is None or known[0] != source:
            known = roster.made[each.key] = (source, _item(each, nodes.view(raw) if raw else None, kinds, absent))
        items.append(known[1])
    return items, unknown


def _joined(room: Room, roster: Roster) -> tuple[dict[str, shapes.Node] | None, str | None]:
    """Kubernetes' nodes by name from the live copy (None: there is no copy), and what is doubtful about it."""
    if roster.ref is None:
        return None, roster.unknown
    live = room.kube.watching.nodes(room.kube.cluster(roster.ref))
    seen = live.snapshot()
    told = f": {seen.problem.detail}" if seen.problem else ""
    if not live.synced.is_set():
        return None, f"Kubernetes could not be asked{told or ' yet'}"
    stale = f"Kubernetes' side is {seen.age_seconds:.0f} seconds old{told}" if seen.stale else None
    return {node.metadata.name: node for node in seen.items.values()}, stale


def _item(told: Instance, node: NodeView | None, kinds: Mapping[str, str], unknown: str | None) -> NodeItem:
    absent = (unknown or ("it has not joined Kubernetes" if told.instance_id else "it has no instance yet")) if node is None else None
    return NodeItem(
        logical_id=told.logical_id,
        instance_id=told.instance_id,
        name=node.name if node else None,
        group=told.group,
        instance_type=told.instance_type,
        capacity_type=(node.capacity_type if node else None) or kinds.get(told.group, "on_demand"),
        zone=node.zone if node else None,
        status=told.status,
        health_state=_state(told, node),
        ready=bool(node and node.ready),
        schedulable=bool(node and node.usable),
        health=node.health if node else None,
        deep_health=node.deep_health if node else None,
        faults=node.faults if node else (),
        gpus=node.gpus if node else None,
        efa=node.efa if node else None,
        neuron=node.neuron if node else None,
        software=told.software,
        software_status=told.software_status,
        launched_at=told.launched_at,
        because=_because(told, node, absent),
    )


def _because(told: Instance, node: NodeView | None, absent: str | None) -> str | None:
    """Why it is not usable; a message of SageMaker is only the last problem, not the present one (aws-facts A1.6)."""
    why = absent or (node.because if node else None)
    if why is None:
        return None
    return f"{why.rstrip('.')}; last problem told: {told.message}" if told.message and told.status != "Running" else why


def _state(told: Instance, node: NodeView | None) -> Health:
    if told.status == "DeepHealthCheckInProgress" or (node and node.deep_health == "InProgress"):
        return "checking"
    if (node and node.health in _RECOVERING) or told.status == "ShuttingDown":
        return "recovering"
    if told.status == "Failure" or (node and (node.health not in (None, nodes.SCHEDULABLE) or node.deep_health == "Failed")):
        return "unhealthy"
    if told.status in _STARTING:
        return "starting"
    if node is None:
        return "unknown"
    if not node.ready and _NO_NETWORK_YET in (node.because or ""):
        return "starting"
    return "healthy" if node.ready else "unhealthy"


def _matches(item: NodeItem, filters: Filters) -> bool:
    exact = (
        (filters.group, item.group),
        (filters.instance_type, item.instance_type),
        (filters.status, item.status),
        (filters.health, item.health_state),
    )
    if any(wanted is not None and wanted != have for wanted, have in exact):
        return False
    texts = (item.instance_id, item.logical_id, item.name, item.group, item.instance_type, item.zone, item.status, item.because)
    return not filters.contains or any(filters.contains.lower() in (text or "").lower() for text in texts)


def _id(item: NodeItem) -> str:
    return item.instance_id or item.logical_id or ""


_KEYS: Mapping[Sort, Callable[[NodeItem], str]] = {
    "name": _id,
    "group": lambda i: i.group,
    "type": lambda i: i.instance_type,
    "status": lambda i: i.status,
    "health": lambda i: i.health_state,
    "launched": lambda i: i.launched_at.isoformat() if i.launched_at else "",
}


def _write(key: str, name: str) -> str:
    return json.dumps([key, name], separators=(",", ":"))


def _start(found: Sequence[NodeItem], key: Callable[[NodeItem], str], descending: bool, cursor: str) -> int:
    """Where the page after ``cursor`` begins: a place in the order, so that what comes or goes meanwhile shifts nothing."""
    try:
        told = json.loads(cursor)
        last = (str(told[0]), str(told[1]))
    except (ValueError, IndexError, KeyError, TypeError) as error:
        violation = Violation("/cursor", "not a cursor that a page of this list gave")
        raise problems.Invalid("list.cursor", "The cursor cannot be read.", fields=[violation]) from error
    places = [(key(item), _id(item)) for item in found]
    return next((at for at, place in enumerate(places) if (place < last if descending else place > last)), len(found))
