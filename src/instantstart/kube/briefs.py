"""What caches keep of a pod: half a kilobyte instead of ten, so that 50,000 pods are 30 MiB. Nodes keep their slim shape, words shared.

Texts that many objects share (names of nodes and namespaces, reasons, the scheduler's sentences) are one object in memory: interned.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from sys import intern
from typing import Any

import msgspec

from instantstart.kube.shapes import Condition, ContainerStatus, Meta, Node, Resources

#: which extended resources are accelerators, by the beginning of their names
ACCELERATORS = ("nvidia.com/", "amd.com/gpu", "aws.amazon.com/neuron", "habana.ai/")
#: what a pod's selector or affinity can say about where it is to go
TYPE_LABEL, GROUP_LABEL = "node.kubernetes.io/instance-type", "sagemaker.amazonaws.com/instance-group-name"
_JOB_LABELS = (
    "HPJob",
    "training.kubeflow.org/job-name",
    "batch.kubernetes.io/job-name",
    "job-name",
    "ray.io/cluster",
    "app.kubernetes.io/instance",
)
_QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
_OVER = frozenset({"Succeeded", "Failed"})
_LONGEST_MESSAGE = 400

#: resource -> count, as a tuple that equal pods share
Asks = tuple[tuple[str, int], ...]


class PodBrief(msgspec.Struct, frozen=True, gc=False):
    """One pod. ``asks`` are accelerators; ``created_at`` and ``scheduled_at`` are seconds since the epoch, 0 for unknown."""

    namespace: str
    name: str
    uid: str
    version: str
    node: str | None
    phase: str
    asks: Asks = ()
    created_at: int = 0
    scheduled_at: int = 0
    deleting: bool = False
    ready: bool = False
    #: SchedulingGated, Unschedulable, ContainerCreating, ImagePullBackOff ...; None for a pod that runs
    reason: str | None = None
    message: str | None = None
    owner_kind: str | None = None
    owner: str | None = None
    job: str | None = None
    queue: str | None = None
    priority_class: str | None = None
    #: the only group or instance type that its selector or affinity lets it go to
    group: str | None = None
    instance_type: str | None = None

    @property
    def key(self) -> tuple[str | None, str]:
        """Namespace and name."""
        return self.namespace, self.name

    @property
    def over(self) -> bool:
        """Whether it has ended: it holds nothing any more."""
        return self.phase in _OVER

    @property
    def waits(self) -> bool:
        """Whether it is wanted and does not run yet."""
        return self.phase == "Pending" and not self.deleting


class _Container(msgspec.Struct, rename="camel", gc=False):
    resources: Resources = msgspec.field(default_factory=Resources)
    restart_policy: str | None = None


class _Gate(msgspec.Struct, gc=False):
    name: str


class _Spec(msgspec.Struct, rename="camel", gc=False):
    containers: list[_Container] = []
    init_containers: list[_Container] = []
    node_name: str | None = None
    node_selector: dict[str, str] = {}
    affinity: dict[str, Any] | None = None
    priority_class_name: str | None = None
    scheduling_gates: list[_Gate] = []


class _Status(msgspec.Struct, rename="camel", gc=False):
    phase: str = "Unknown"
    reason: str | None = None
    message: str | None = None
    conditions: list[Condition] = []
    container_statuses: list[ContainerStatus] = []
    init_container_statuses: list[ContainerStatus] = []


class PodWire(msgspec.Struct, gc=False):
    """What is read of a pod on the wire; kept as its ``PodBrief``."""

    metadata: Meta
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


def of(resource: Mapping[str, Any]) -> PodBrief:
    """The brief of a full resource."""
    return brief(msgspec.convert(resource, PodWire))


def brief(pod: PodWire) -> PodBrief:
    """A pod as caches keep it."""
    metadata, labels = pod.metadata, pod.metadata.labels
    controller = next((owner for owner in metadata.owner_references if owner.controller), None)
    placed = next((c for c in pod.status.conditions if c.type == "PodScheduled"), None)
    reason, message = _waiting(pod, placed)
    group, instance_type = _bound_for(pod.spec)
    return PodBrief(
        namespace=intern(metadata.namespace or ""),
        name=metadata.name,
        uid=metadata.uid,
        version=metadata.resource_version,
        node=_shared(pod.spec.node_name),
        phase=intern(pod.status.phase),
        asks=asks(pod.spec.containers, pod.spec.init_containers),
        created_at=_seconds(metadata.creation_timestamp),
        scheduled_at=_seconds(placed.last_transition_time) if placed and placed.status == "True" else 0,
        deleting=metadata.deletion_timestamp is not None,
        ready=any(c.type == "Ready" and c.status == "True" for c in pod.status.conditions),
        reason=_shared(reason),
        message=_shared(message[:_LONGEST_MESSAGE]) if message else None,
        owner_kind=_shared(controller.kind) if controller else None,
        owner=_shared(controller.name) if controller else None,
        job=_shared(next((labels[label] for label in _JOB_LABELS if label in labels), None)),
        queue=_shared(labels.get(_QUEUE_LABEL)),
        priority_class=_shared(pod.spec.priority_class_name),
        group=_shared(group),
        instance_type=_shared(instance_type),
    )


_known_asks: dict[Asks, Asks] = {}


def asks(containers: Iterable[_Container], init_containers: Iterable[_Container] = ()) -> Asks:
    """The accelerators a pod holds while it lives: the sum of its containers and sidecars, or more when an init container asks more.

    Kubernetes takes a limit alone as the request; extended resources cannot be overcommitted (Kubernetes: extended resources).
    """
    total: dict[str, int] = {}
    for container in containers:
        _add(total, container.resources)
    most: dict[str, int] = {}
    for container in init_containers:
        if container.restart_policy == "Always":  # a sidecar: it stays
            _add(total, container.resources)
            continue
        alone: dict[str, int] = {}
        _add(alone, container.resources)
        most = {name: max(most.get(name, 0), alone.get(name, 0)) for name in {*most, *alone}}
    found = tuple(sorted((name, count) for name in {*total, *most} if (count := max(total.get(name, 0), most.get(name, 0)))))
    return _known_asks.setdefault(found, found)


def accelerators(quantities: Mapping[str, str]) -> Asks:
    """The accelerators among a node's capacity or allocatable, zeroes left out."""
    found = {name: text for name, text in quantities.items() if name.startswith(ACCELERATORS)}
    counted = tuple(sorted((intern(name), count) for name, text in found.items() if (count := _count(text))))
    return _known_asks.setdefault(counted, counted)


def slim(node: Node) -> Node:
    """A node whose words are shared with the other nodes; its annotations, which nobody reads, are left out."""
    metadata = node.metadata
    metadata.annotations = {}
    metadata.labels = {intern(key): intern(value) for key, value in metadata.labels.items()}
    node.status.capacity = {intern(key): intern(value) for key, value in node.status.capacity.items()}
    node.status.allocatable = {intern(key): intern(value) for key, value in node.status.allocatable.items()}
    for condition in node.status.conditions:
        condition.type, condition.status = intern(condition.type), intern(condition.status)
        condition.reason, condition.message = _shared(condition.reason), _shared(condition.message)
    for taint in node.spec.taints:
        taint.key, taint.effect, taint.value = intern(taint.key), intern(taint.effect), _shared(taint.value)
    node.status.addresses = [{intern(key): value for key, value in each.items()} for each in node.status.addresses]
    return node


def _add(total: dict[str, int], resources: Resources) -> None:
    for name, text in (resources.limits | resources.requests).items():
        if name.startswith(ACCELERATORS):
            total[intern(name)] = total.get(name, 0) + _count(text)


def _count(text: str) -> int:
    """Extended resources are whole numbers; anything else (a suffix nobody writes for devices) counts as none."""
    return int(text) if text.isdigit() else 0


def _waiting(pod: PodWire, placed: Condition | None) -> tuple[str | None, str | None]:
    """Why a pending pod does not run, in the words of whoever holds it: the scheduler, a gate, the kubelet."""
    if pod.status.phase != "Pending":
        return pod.status.reason, pod.status.message
    if pod.spec.scheduling_gates:
        return "SchedulingGated", f"Held by {', '.join(gate.name for gate in pod.spec.scheduling_gates)}."
    if pod.spec.node_name is None:
        return (placed.reason, placed.message) if placed else ("NotSeen", "The scheduler has not looked at it yet.")
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        if status.state.waiting:
            told = status.state.waiting
            return str(told.get("reason") or "Waiting"), str(told.get("message") or "") or None
    return pod.status.reason or "Starting", pod.status.message


def _bound_for(spec: _Spec) -> tuple[str | None, str | None]:
    """The one group and the one type a pod can go to, by nodeSelector or by a required affinity for exactly one value."""
    wanted = dict(spec.node_selector)
    required = ((spec.affinity or {}).get("nodeAffinity") or {}).get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    terms: list[dict[str, Any]] = required.get("nodeSelectorTerms") or []
    for rule in (terms[0].get("matchExpressions") or []) if len(terms) == 1 else []:
        if rule.get("operator") == "In" and len(rule.get("values") or ()) == 1:
            wanted.setdefault(rule["key"], rule["values"][0])
    return wanted.get(GROUP_LABEL), wanted.get(TYPE_LABEL)


def _shared(text: str | None) -> str | None:
    return intern(text) if text else None


def _seconds(moment: dt.datetime | None) -> int:
    return int(moment.timestamp()) if moment else 0
