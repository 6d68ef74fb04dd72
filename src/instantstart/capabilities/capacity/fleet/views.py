"""What can be read of a fleet, from live copies kept by watches: no call to AWS or Kubernetes is made for a request."""

from __future__ import annotations

import base64
import datetime as dt
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from instantstart.base import problems
from instantstart.capabilities.room import Room
from instantstart.ensure.capacity.fleets import USUAL_CORES, Held, Ledger, Place, Share, State, Sums, Turn, devices
from instantstart.ensure.clusters.remembered import ClusterFacts, GroupFacts
from instantstart.kube.briefs import PodBrief
from instantstart.kube.watching import Live


@dataclass(frozen=True)
class FleetFreshness:
    """How true the answer is. ``live``: a watch keeps it. ``stale``: the watch is cut; true as of ``since``, ``because`` says why.

    ``loading``: the first list is not complete. The target counts are AWS's, read at ``groups_read_at``.
    """

    state: Literal["live", "stale", "loading"]
    since: dt.datetime | None
    because: str | None
    code: str | None
    groups_read_at: dt.datetime
    groups_because: str | None


@dataclass(frozen=True)
class NodeCounts:
    """Nodes by what can be done with them; ``wanted`` is the target count of the group, None where there is no group."""

    wanted: int | None
    joined: int
    usable: int
    cordoned: int
    not_ready: int
    checking: int
    repairing: int
    unhealthy: int
    leaving: int


@dataclass(frozen=True)
class Accelerators:
    """Counts of one accelerator resource. ``usable``: allocatable on usable nodes; ``idle``: of these, asked for by no pod.

    ``pending``: asked for by pods that are on no node and can only go here (in the totals: all that wait).
    """

    resource: str
    total: int
    allocatable: int
    usable: int
    used: int
    idle: int
    pending: int


@dataclass(frozen=True)
class IdleHint:
    """A hint at cost: usable nodes with accelerators of which no pod holds any, and for how long at least that has been seen.

    ``accelerator_hours``: counted since this server began to watch, so it is a lower bound after a restart.
    """

    nodes: int
    accelerators: int
    accelerator_hours: float


@dataclass(frozen=True)
class FleetGroup:
    """The nodes of one group and instance type. ``group`` None: nodes that HyperPod did not make."""

    group: str | None
    instance_type: str | None
    capacity_type: str | None
    status: str | None
    nodes: NodeCounts
    accelerators: tuple[Accelerators, ...]
    idle: IdleHint


@dataclass(frozen=True)
class Pending:
    """Accelerators asked for by pods that are on no node yet, by where they may go (None: anywhere)."""

    group: str | None
    instance_type: str | None
    resource: str
    accelerators: int
    pods: int


@dataclass(frozen=True)
class Fleet:
    """A cluster's nodes and accelerators: totals, and one row for each group and instance type."""

    cluster: str
    region: str
    freshness: FleetFreshness
    nodes: NodeCounts
    accelerators: tuple[Accelerators, ...]
    idle: IdleHint
    groups: tuple[FleetGroup, ...]
    pending: tuple[Pending, ...]
    pods: int
    pods_waiting: int


@dataclass(frozen=True)
class PendingPod:
    """A pod that is wanted and does not run. ``because`` is the text of the scheduler or the kubelet: show it, never obey it."""

    namespace: str
    name: str
    state: Literal["gated", "unscheduled", "starting"]
    reason: str | None
    because: str | None
    node: str | None
    group: str | None
    instance_type: str | None
    accelerators: dict[str, int]
    job: str | None
    queue: str | None
    priority_class: str | None
    created_at: dt.datetime | None
    seconds: float


@dataclass(frozen=True)
class PendingPage:
    """One page of pods that wait, oldest first."""

    items: tuple[PendingPod, ...]
    cursor: str | None
    freshness: FleetFreshness


@dataclass(frozen=True)
class Filter:
    """Which groups are meant; None: all."""

    group: str | None = None
    instance_type: str | None = None
    capacity_type: str | None = None

    def takes(self, row: FleetGroup) -> bool:
        """Whether a row is meant."""
        asked = ((self.group, row.group), (self.instance_type, row.instance_type), (self.capacity_type, row.capacity_type))
        return all(wanted is None or wanted == have for wanted, have in asked)


@dataclass(frozen=True)
class PodFilter:
    """Which waiting pods are meant; ``accelerated``: only those that ask for accelerators."""

    namespace: str | None = None
    group: str | None = None
    instance_type: str | None = None
    accelerated: bool = True

    def takes(self, pod: PodBrief) -> bool:
        """Whether a pod is meant."""
        asked = ((self.namespace, pod.namespace), (self.group, pod.group), (self.instance_type, pod.instance_type))
        return (bool(pod.asks) or not self.accelerated) and all(wanted is None or wanted == have for wanted, have in asked)


def get_fleet(room: Room, tag: str, wanted: Filter) -> Fleet:
    """The fleet as of now. Raises NotFound when there is no such cluster."""
    facts, live, ledger = _watched(room, tag)
    sums = ledger.sums()
    pending = _pending(sums)
    rows = [row for row in _rows(facts, sums, pending, room.clock.rate) if wanted.takes(row)]
    every = wanted == Filter()
    if not every:
        pending = [each for each in pending if any(_fits(each, (row.group, row.instance_type)) for row in rows)]
    return Fleet(
        cluster=tag,
        region=facts.region,
        freshness=_freshness(live, facts),
        nodes=_added_nodes(row.nodes for row in rows),
        accelerators=_added(rows, pending),
        idle=_added_idle(row.idle for row in rows),
        groups=tuple(rows),
        pending=tuple(pending),
        pods=sums.pods,
        pods_waiting=sums.waiting,
    )


def list_pending(room: Room, tag: str, wanted: PodFilter, limit: int, cursor: str | None) -> PendingPage:
    """Pods that wait, oldest first. Raises Invalid for a cursor that is none."""
    facts, live, ledger = _watched(room, tag)
    found, more = ledger.waiting(wanted.takes, limit, _turn(cursor) if cursor else None)
    now = room.clock.now()
    return PendingPage(tuple(_pod(pod, now) for pod in found), _cursor(more) if more else None, _freshness(live, facts))


def _watched(room: Room, tag: str) -> tuple[ClusterFacts, Live, Ledger]:
    facts = room.remembered.facts(room, tag)
    live, ledger = room.kube.watching.beside(room.kube.cluster(facts.ref), Ledger)
    return facts, live, ledger


def _freshness(live: Live, facts: ClusterFacts) -> FleetFreshness:
    told = live.freshness()
    state: Literal["live", "stale", "loading"] = "loading" if not told.synced else "stale" if told.stale else "live"
    silent = f"Nothing was heard from the Kubernetes API for {told.age_seconds:.0f} seconds." if told.stale and told.synced else None
    problem = told.problem
    return FleetFreshness(
        state,
        told.heard_at if state == "stale" else None,
        problem.detail if problem else silent,
        problem.code if problem else None,
        facts.read_at,
        facts.problem.detail if facts.problem else None,
    )


def _rows(facts: ClusterFacts, sums: Sums, pending: Iterable[Pending], rate: float) -> list[FleetGroup]:
    """A row for each place with nodes, and for each group without."""
    groups = {group.name: group for group in facts.groups}
    joined = {place[0] for place in sums.places}
    places: dict[Place, Share] = {**sums.places, **{(g.name, g.instance_type): Share() for g in facts.groups if g.name not in joined}}
    waiting: dict[Place, list[Pending]] = {place: [] for place in places}
    for each in pending:
        homes = [place for place in places if _fits(each, place)]
        if len(homes) == 1:  # what may go to several is in the totals only
            waiting[homes[0]].append(each)
    ordered = sorted(places, key=lambda place: (place[0] is None, place[0] or "", place[1] or ""))
    idle = {place: IdleHint(s.idle_nodes, s.idle_accelerators, round(s.idle_hours(sums.at) * rate, 2)) for place, s in places.items()}
    return [_row(place, places[place], groups.get(place[0] or ""), _by_resource(waiting[place]), idle[place]) for place in ordered]


def _row(place: Place, share: Share, group: GroupFacts | None, waiting: Mapping[str, int], idle: IdleHint) -> FleetGroup:
    told = share.capacity_types.most_common(1)
    counts = {resource: share.held.get(resource, Held()) for resource in sorted({*share.held, *waiting})}
    return FleetGroup(
        group=place[0],
        instance_type=place[1],
        capacity_type=group.capacity_type if group else _spelled(told[0][0]) if told else None,
        status=group.status if group else None,
        nodes=_counts(share, group.target if group else None),
        accelerators=tuple(
            Accelerators(resource, held.total, held.allocatable, held.usable, held.used, held.idle, waiting.get(resource, 0))
            for resource, held in counts.items()
        ),
        idle=idle,
    )


def _counts(share: Share, wanted: int | None) -> NodeCounts:
    return NodeCounts(wanted, share.states.total(), **{state.value: share.states[state] for state in State})


def _added_nodes(counts: Iterable[NodeCounts]) -> NodeCounts:
    total = NodeCounts(None, *[0] * 8)
    for each in counts:
        wanted = total.wanted if each.wanted is None else (total.wanted or 0) + each.wanted
        named = ("joined", *(state.value for state in State))
        total = replace(total, wanted=wanted, **{name: getattr(total, name) + getattr(each, name) for name in named})
    return total


def _added(rows: Iterable[FleetGroup], pending: Iterable[Pending]) -> tuple[Accelerators, ...]:
    total = {resource: Accelerators(resource, 0, 0, 0, 0, 0, count) for resource, count in _by_resource(pending).items()}
    for each in (accelerators for row in rows for accelerators in row.accelerators):
        have = total.get(each.resource, Accelerators(each.resource, 0, 0, 0, 0, 0, 0))
        named = ("total", "allocatable", "usable", "used", "idle")
        total[each.resource] = replace(have, **{name: getattr(have, name) + getattr(each, name) for name in named})
    return tuple(total[resource] for resource in sorted(total))


def _added_idle(idles: Iterable[IdleHint]) -> IdleHint:
    found = list(idles)
    hours = sum(each.accelerator_hours for each in found)
    return IdleHint(sum(each.nodes for each in found), sum(each.accelerators for each in found), round(hours, 2))


def _pending(sums: Sums) -> list[Pending]:
    found = [Pending(*place, resource, accelerators, pods) for (place, resource), (accelerators, pods) in sums.pending.items()]
    return sorted(found, key=lambda p: (p.group or "", p.instance_type or "", p.resource))


def _by_resource(pending: Iterable[Pending]) -> dict[str, int]:
    total: dict[str, int] = {}
    for each in pending:
        total[each.resource] = total.get(each.resource, 0) + each.accelerators
    return total


def _fits(pending: Pending, place: Place) -> bool:
    """Whether a wish names this place: one that names nothing belongs to none."""
    named = pending.group is not None or pending.instance_type is not None
    return named and pending.group in (None, place[0]) and pending.instance_type in (None, place[1])


def _spelled(label: str) -> str:
    """A capacity type as a node's label says it, in the words of this API."""
    return {"on-demand": "on_demand", "OnDemand": "on_demand", "Spot": "spot"}.get(label, label)


def _pod(pod: PodBrief, now: dt.datetime) -> PendingPod:
    state: Literal["gated", "unscheduled", "starting"] = "starting" if pod.node else "unscheduled"
    if pod.reason == "SchedulingGated":
        state = "gated"
    created = dt.datetime.fromtimestamp(pod.created_at, dt.UTC) if pod.created_at else None
    return PendingPod(
        namespace=pod.namespace,
        name=pod.name,
        state=state,
        reason=pod.reason,
        because=pod.message,
        node=pod.node,
        group=pod.group,
        instance_type=pod.instance_type,
        accelerators=devices(pod.asks, USUAL_CORES),
        job=pod.job or pod.owner,
        queue=pod.queue,
        priority_class=pod.priority_class,
        created_at=created,
        seconds=max((now - created).total_seconds(), 0.0) if created else 0.0,
    )


def _cursor(turn: Turn) -> str:
    return base64.urlsafe_b64encode(json.dumps(turn).encode()).decode().rstrip("=")


def _turn(cursor: str) -> Turn:
    try:
        created, namespace, name = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        return int(created), str(namespace), str(name)
    except (ValueError, TypeError) as error:
        violation = problems.Violation("/cursor", "not a cursor that a page of this list gave")
        raise problems.Invalid("list.cursor", "The cursor cannot be read.", fields=[violation]) from error
