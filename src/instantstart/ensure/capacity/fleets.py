"""What a cluster's nodes offer and its pods hold, summed as each change is told: a question costs the same at 100 nodes and at 10,000.

The sums live beside the live copies (kube/watching.py). A change of a node or pod takes its machine's old share out of the sums and puts
the new one in; the sums are never made anew. ``share`` is the only place that says what a machine adds, so that they cannot drift.
"""

from __future__ import annotations

import bisect
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice

from instantstart.ensure.capacity import nodes
from instantstart.kube import briefs
from instantstart.kube.briefs import Asks, PodBrief
from instantstart.kube.shapes import Meta, Node

NEURON = "aws.amazon.com/neuron"
_NEURON_WORDS = (NEURON, "aws.amazon.com/neurondevice")
_NEURON_CORE = "aws.amazon.com/neuroncore"
#: NeuronCores of a device where no node tells (inf2, trn1; aws-facts A10)
USUAL_CORES = 2


class State(StrEnum):
    """What can be done with a node now."""

    usable = "usable"
    cordoned = "cordoned"
    not_ready = "not_ready"
    checking = "checking"
    repairing = "repairing"
    unhealthy = "unhealthy"
    leaving = "leaving"


#: group and instance type; None for a node that carries no such label
Place = tuple[str | None, str | None]
#: when it was made, namespace, name: oldest first
Turn = tuple[int, str, str]


@dataclass
class Held:
    """Counts of one kind of accelerator over some machines. ``idle``: on usable nodes, and no pod has asked for them."""

    total: int = 0
    allocatable: int = 0
    usable: int = 0
    used: int = 0
    idle: int = 0

    def plus(self, other: Held, sign: int = 1) -> None:
        """Add, or take away with ``sign`` -1."""
        self.total += sign * other.total
        self.allocatable += sign * other.allocatable
        self.usable += sign * other.usable
        self.used += sign * other.used
        self.idle += sign * other.idle


@dataclass
class Share:
    """What one machine, or all machines of a place, add up to.

    ``idle_*`` count usable machines with accelerators of which no pod holds any; ``idle_moments`` is the sum of accelerators times the
    moment (seconds of ``Ledger.now``) since which they were seen idle: from it the hours at any later moment follow without a walk.
    """

    states: Counter[State] = field(default_factory=Counter)
    capacity_types: Counter[str] = field(default_factory=Counter)
    held: dict[str, Held] = field(default_factory=dict)
    idle_nodes: int = 0
    idle_accelerators: int = 0
    idle_moments: float = 0.0

    def plus(self, other: Share, sign: int = 1) -> None:
        """Add, or take away with ``sign`` -1; what comes to nothing is dropped."""
        for mine, theirs in ((self.states, other.states), (self.capacity_types, other.capacity_types)):
            for key, count in theirs.items():
                mine[key] += sign * count  # type: ignore[index]
                if not mine[key]:  # type: ignore[index]
                    del mine[key]
        for resource, held in other.held.items():
            self.held.setdefault(resource, Held()).plus(held, sign)
            if self.held[resource] == Held():
                del self.held[resource]
        self.idle_nodes += sign * other.idle_nodes
        self.idle_accelerators += sign * other.idle_accelerators
        self.idle_moments = self.idle_moments + sign * other.idle_moments if self.idle_nodes else 0.0

    def idle_hours(self, now: float) -> float:
        """Accelerator-hours for which the idle machines have been seen idle, at ``now`` (seconds of ``Ledger.now``)."""
        return max(self.idle_accelerators * now - self.idle_moments, 0.0) / 3600


@dataclass
class Machine:
    """One node: what it offers (once it was seen) and what pods hold of it (also when it is not seen yet)."""

    place: Place | None = None
    state: State = State.leaving
    capacity_type: str | None = None
    capacity: dict[str, int] = field(default_factory=dict)
    allocatable: dict[str, int] = field(default_factory=dict)
    cores: int = USUAL_CORES
    asked: Counter[Asks] = field(default_factory=Counter)
    idle_since: float | None = None

    def used(self) -> dict[str, int]:
        """What its pods hold, by resource."""
        total: dict[str, int] = {}
        for asks, pods in self.asked.items():
            for resource, count in devices(asks, self.cores).items():
                total[resource] = total.get(resource, 0) + count * pods
        return total


@dataclass(frozen=True)
class Sums:
    """A moment of the ledger: copies, a reader's own. ``pending``: accelerators and pods asked for by place and resource."""

    at: float
    places: dict[Place, Share]
    pending: dict[tuple[Place, str], tuple[int, int]]
    waiting: int
    pods: int
    nodes: int


class Ledger:
    """The sums of one cluster. Written in the loop of the watches, read from any thread."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self.now = now
        self._lock = threading.Lock()
        self._machines: dict[str, Machine] = {}
        self._places: dict[Place, Share] = {}
        self._pending: dict[tuple[Place, str], tuple[int, int]] = {}
        self._waiting: dict[Turn, PodBrief] = {}
        self._turns: list[Turn] = []
        self._pods = self._nodes = 0

    def node(self, before: Node | None, after: Node | None) -> None:
        """Take in a change of a node."""
        name = (after or before or Node(Meta())).metadata.name
        with self._lock:
            self._nodes += (after is not None) - (before is not None)
            machine = self._machines.setdefault(name, Machine())
            self._out(machine)
            if after is None:
                machine.place, machine.capacity, machine.allocatable, machine.idle_since = None, {}, {}, None
            else:
                _describe(machine, after)
            self._in(machine)
            self._tidy(name, machine)

    def pod(self, before: PodBrief | None, after: PodBrief | None) -> None:
        """Take in a change of a pod."""
        with self._lock:
            self._pods += (after is not None) - (before is not None)
            if _holding(before) != _holding(after):
                self._hold(before, -1)
                self._hold(after, 1)
            if before is not None and before.waits:
                self._wait(before, -1)
            if after is not None and after.waits:
                self._wait(after, 1)

    def sums(self) -> Sums:
        """The sums as of now; costs as many steps as there are groups."""
        with self._lock:
            places = {place: _copied(share) for place, share in self._places.items()}
            return Sums(self.now(), places, dict(self._pending), len(self._turns), self._pods, self._nodes)

    def waiting(self, wanted: Callable[[PodBrief], bool], limit: int, after: Turn | None = None) -> tuple[list[PodBrief], Turn | None]:
        """Pods that wait and are ``wanted``, oldest first, after a turn; and the turn to go on from when there are more."""
        with self._lock:
            start = 0 if after is None else bisect.bisect_right(self._turns, after)
            pods: Iterator[PodBrief] = (self._waiting[turn] for turn in islice(self._turns, start, None))
            found = list(islice((pod for pod in pods if wanted(pod)), limit + 1))
        more = turn_of(found[limit - 1]) if len(found) > limit else None
        return found[:limit], more

    def _hold(self, pod: PodBrief | None, sign: int) -> None:
        holding = _holding(pod)
        if holding is None:
            return
        name, asks = holding
        machine = self._machines.setdefault(name, Machine())
        self._out(machine)
        machine.asked[asks] += sign
        if not machine.asked[asks]:
            del machine.asked[asks]
        self._in(machine)
        self._tidy(name, machine)

    def _wait(self, pod: PodBrief, sign: int) -> None:
        turn = turn_of(pod)
        if sign > 0:
            self._waiting[turn] = pod
            bisect.insort(self._turns, turn)
        else:
            del self._waiting[turn]
            del self._turns[bisect.bisect_left(self._turns, turn)]
        if pod.node is not None:
            return  # it holds its accelerators already
        for resource, count in devices(pod.asks, USUAL_CORES).items():
            key = (pod.group, pod.instance_type), resource
            accelerators, pods = self._pending.get(key, (0, 0))
            self._pending[key] = (accelerators + sign * count, pods + sign)
            if not self._pending[key][1]:
                del self._pending[key]

    def _out(self, machine: Machine) -> None:
        if machine.place is not None:
            self._places[machine.place].plus(share(machine), -1)
            if not self._places[machine.place].states:
                del self._places[machine.place]

    def _in(self, machine: Machine) -> None:
        idle = machine.place is not None and machine.state is State.usable and bool(machine.allocatable) and not machine.asked
        machine.idle_since = None if not idle else self.now() if machine.idle_since is None else machine.idle_since
        if machine.place is not None:
            self._places.setdefault(machine.place, Share()).plus(share(machine))

    def _tidy(self, name: str, machine: Machine) -> None:
        if machine.place is None and not machine.asked:
            del self._machines[name]


def share(machine: Machine) -> Share:
    """What one machine adds to the sums of its place."""
    made = Share(Counter([machine.state]), Counter([machine.capacity_type] if machine.capacity_type else []))
    used, usable = machine.used(), machine.state is State.usable
    for resource in {*machine.capacity, *machine.allocatable, *used}:
        allocatable, taken = machine.allocatable.get(resource, 0), used.get(resource, 0)
        idle = max(allocatable - taken, 0) if usable else 0
        made.held[resource] = Held(machine.capacity.get(resource, 0), allocatable, allocatable if usable else 0, taken, idle)
    if machine.idle_since is not None:
        made.idle_nodes, made.idle_accelerators = 1, sum(machine.allocatable.values())
        made.idle_moments = made.idle_accelerators * machine.idle_since
    return made


def devices(asks: Asks, cores: int) -> dict[str, int]:
    """Accelerators by resource, Neuron's three words for one chip made one: devices, of ``cores`` NeuronCores each (begun ones count)."""
    found: dict[str, int] = {}
    for resource, count in asks:
        if resource in _NEURON_WORDS:
            found[NEURON] = max(found.get(NEURON, 0), count)
        elif resource == _NEURON_CORE:
            found[NEURON] = max(found.get(NEURON, 0), -(-count // max(cores, 1)))
        else:
            found[resource] = count
    return found


def turn_of(pod: PodBrief) -> Turn:
    """Where a pod stands among those that wait."""
    return pod.created_at, pod.namespace, pod.name


def state_of(view: nodes.NodeView, leaving: bool) -> State:
    """What can be done with a node now: the most telling of what is wrong with it."""
    if view.usable:
        return State.usable
    if leaving:
        return State.leaving
    if view.health in ("UnschedulablePendingReplacement", "UnschedulablePendingReboot"):
        return State.repairing
    if view.deep_health == "InProgress":
        return State.checking
    if view.deep_health == "Failed" or view.health not in (None, nodes.SCHEDULABLE):
        return State.unhealthy
    return State.not_ready if not view.ready else State.cordoned


def _describe(machine: Machine, node: Node) -> None:
    view = nodes.view(node)
    machine.place = view.group, view.instance_type
    machine.state = state_of(view, node.metadata.deletion_timestamp is not None)
    machine.capacity_type = view.capacity_type
    told = briefs.accelerators(node.status.capacity)
    counts = dict(told)
    chips = max((counts.get(word, 0) for word in _NEURON_WORDS), default=0)
    machine.cores = counts[_NEURON_CORE] // chips if chips and counts.get(_NEURON_CORE) else USUAL_CORES
    machine.capacity = devices(told, machine.cores)
    machine.allocatable = devices(briefs.accelerators(node.status.allocatable), machine.cores)


def _holding(pod: PodBrief | None) -> tuple[str, Asks] | None:
    """Which node's accelerators a pod holds: from its binding to its end."""
    return None if pod is None or pod.node is None or pod.over or not pod.asks else (pod.node, pod.asks)


def _copied(source: Share) -> Share:
    made = Share()
    made.plus(source)
    return made
