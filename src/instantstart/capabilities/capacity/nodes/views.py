"""What can be read of nodes: SageMaker's instances beside Kubernetes' nodes, a page at a time, and one of them in full."""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from instantstart.base import problems
from instantstart.base.problems import Violation
from instantstart.capabilities.capacity.nodes import rules
from instantstart.capabilities.capacity.nodes.told import HyperPodEvent, HyperPodOperation, list_operations, read_events
from instantstart.capabilities.room import Room
from instantstart.ensure import drains, hyperpod, instances, nodes, pods, sites
from instantstart.ensure.instances import Instance
from instantstart.ensure.nodes import NodeView
from instantstart.ensure.rosters import Roster
from instantstart.ensure.sites import Site
from instantstart.kube import shapes

Health = Literal["healthy", "unhealthy", "recovering", "checking", "starting", "unknown"]
Sort = Literal["name", "group", "type", "status", "health", "launched"]
FAULT_DETAILS = nodes.PREFIX + "fault-details"
_RECOVERING = frozenset({"UnschedulablePendingReplacement", "UnschedulablePendingReboot"})
_STARTING = frozenset({"Pending", "AttachInProgress", "SystemUpdating"})
_EVENTS_SHOWN = 20
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
class PodItem:
    """A pod on the node. ``accelerators`` it asks for; ``because``: why it is not ready."""

    namespace: str
    name: str
    phase: str
    owner: str | None
    accelerators: int
    because: str | None


@dataclass(frozen=True)
class NodeDetail:
    """One node in full: the list's facts, DescribeClusterNode's, its pods and work, events and operations that concern it."""

    node: NodeItem
    private_ip: str | None
    private_dns: str | None
    zone: str | None
    zone_id: str | None
    network_interface: str | None
    ultraserver: str | None
    image_id: str | None
    kubelet_version: str | None
    cpu: str | None
    memory: str | None
    taints: tuple[str, ...]
    conditions: tuple[dict[str, Any], ...]
    fault_details: tuple[dict[str, Any], ...]
    work: tuple[str, ...]
    pods: tuple[PodItem, ...]
    events: tuple[HyperPodEvent, ...]
    operations: tuple[HyperPodOperation, ...]
    advice: str | None
    unknown: str | None = None


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


def get_node(room: Room, tag: str, name: str) -> NodeDetail:
    """One node in full, by any of its names. Raises NotFound."""
    where = sites.find(room, tag)
    have = rules.described(where)
    told = _described(where, have, name.strip())
    if told is None:
        raise problems.NotFound("node.unknown", rules.unknown_name(name.strip()), hint="List the nodes.")
    return _detail(room, where, have, told)


def _described(where: Site, have: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    """What DescribeClusterNode tells of a node by any of its names, in one call; None for what it does not know or take."""
    bare = name.removeprefix(instances.NODE_PREFIX)
    try:
        if instances.INSTANCE_ID.fullmatch(bare):
            return instances.describe_id(where.aws, have, bare, None)
        return instances.describe_id(where.aws, have, None, name)
    except problems.Invalid:
        return None


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


def _detail(room: Room, where: Site, have: Mapping[str, Any], told: Mapping[str, Any]) -> NodeDetail:
    instance = instances.view(told)
    raw, found, work, unknown = _kubernetes(room, where, instance)
    node = nodes.view(shapes.node(raw)) if raw else None
    kinds = {g["InstanceGroupName"]: hyperpod.capacity_type(g) for g in have["InstanceGroups"]}
    item = _item(instance, node, _truth(told, kinds), unknown)
    place = told.get("Placement") or {}
    events = read_events(where, have, node=instance.instance_id, limit=_EVENTS_SHOWN).items if instance.instance_id else ()
    return NodeDetail(
        node=item,
        private_ip=told.get("PrivatePrimaryIp"),
        private_dns=told.get("PrivateDnsHostname"),
        zone=place.get("AvailabilityZone"),
        zone_id=place.get("AvailabilityZoneId"),
        network_interface=(told.get("NetworkInterface") or {}).get("InterfaceType"),
        ultraserver=(told.get("UltraServerInfo") or {}).get("Id"),
        image_id=told.get("CurrentImageId"),
        kubelet_version=node.kubelet_version if node else None,
        cpu=node.cpu if node else None,
        memory=node.memory if node else None,
        taints=node.taints if node else (),
        conditions=_conditions(raw),
        fault_details=_fault_details(raw),
        work=work,
        pods=found,
        events=events,
        operations=tuple(o for o in list_operations(where, have, 20).items if _concerns(o, instance)),
        advice=advice(item, have.get("NodeRecovery") == "Automatic"),
        unknown=unknown,
    )


def _truth(told: Mapping[str, Any], kinds: Mapping[str, str]) -> Mapping[str, str]:
    """How this very node is paid for: DescribeClusterNode tells Spot from on-demand; only the group tells a training plan."""
    group, kind = told["InstanceGroupName"], told.get("CapacityType")
    if kind is None or kinds.get(group) == "training_plan":
        return kinds
    return {**kinds, group: "spot" if kind == "Spot" else "on_demand"}


def _kubernetes(
    room: Room, where: Site, instance: Instance
) -> tuple[dict[str, Any] | None, tuple[PodItem, ...], tuple[str, ...], str | None]:
    """The Node object, its pods, the work on it; or why Kubernetes could not be asked."""
    name = instance.node_name
    if name is None:
        return None, (), (), None
    try:
        kube = where.kube(room)
        raw = kube.find("Node", name)
        found = kube.list("Pod", fields=f"spec.nodeName={name}") if raw else []
        work = drains.busy(kube, [name]) if raw else ()
    except problems.Problem as problem:
        return None, (), (), f"Kubernetes could not be asked: {problem.detail}"
    return raw, tuple(_pod(shapes.pod(each)) for each in found), tuple(str(each) for each in work), None


def _pod(pod: shapes.Pod) -> PodItem:
    owner, reason = drains.controller(pod.metadata), pods.why(pod)
    told = f"{owner.kind} {owner.name}" if owner else None
    space = pod.metadata.namespace or ""
    return PodItem(space, pod.metadata.name, pod.status.phase, told, drains.accelerators(pod), reason.text if reason else None)


def _conditions(raw: Mapping[str, Any] | None) -> tuple[dict[str, Any], ...]:
    told = ((raw or {}).get("status") or {}).get("conditions") or ()
    return tuple({key: each.get(key) for key in ("type", "status", "reason", "message", "lastTransitionTime")} for each in told)


def _fault_details(raw: Mapping[str, Any] | None) -> tuple[dict[str, Any], ...]:
    """HyperPod's annotation: a JSON array of faults (aws-facts A10). What cannot be read is shown as text."""
    text = ((raw or {}).get("metadata") or {}).get("annotations", {}).get(FAULT_DETAILS)
    if not text:
        return ()
    try:
        told = json.loads(text)
    except ValueError:
        return ({"text": text[:1000]},)
    return tuple(each if isinstance(each, dict) else {"text": str(each)} for each in (told if isinstance(told, list) else [told]))


def _concerns(operation: HyperPodOperation, instance: Instance) -> bool:
    return instance.group in operation.groups and (not operation.instances or instance.instance_id in operation.instances)
