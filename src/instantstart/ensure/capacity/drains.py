"""What runs on nodes and whom it belongs to, which nodes to take first, and the emptying of nodes within disruption budgets.

Pods of DaemonSets, mirror pods and pods that have ended are no work: they go and come with the node. The cluster's own pods (DNS,
operators) are moved by a drain and not counted as anybody's work.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from instantstart.base import problems
from instantstart.base.outcome import Progress, Wait
from instantstart.ensure.capacity import budgets
from instantstart.ensure.capacity.nodes import GPU, NEURON, NodeView
from instantstart.ensure.installs.pods import takes_pods
from instantstart.kube import shapes
from instantstart.kube.client import KubeCluster

Role = Literal["training", "serving", "other"]

#: on a node that a drain of ours cordoned, so that only such a node is uncordoned again
CORDONED = "instantstart.dev/cordoned"
#: pool workers that serve are told by this label; the other value is a worker nobody has taken yet
BUSINESS, UNASSIGNED = "business", "unassigned"
_MIRROR = "kubernetes.io/config.mirror"
_ENDED = frozenset({"Succeeded", "Failed"})
#: a label of the pods -> the kind of job whose name it is (aws-facts A16, A18)
_BY_LABEL = {"HPJob": "HyperPodPyTorchJob", "ray.io/cluster": "RayCluster", "training.kubeflow.org/job-name": "PyTorchJob"}
_JOB_LABELS = ("batch.kubernetes.io/job-name", "job-name")
#: kinds that stand between a pod and what a person made
_BETWEEN = ("ReplicaSet", "Job")
_TRAINING = frozenset({"HyperPodPyTorchJob", "PyTorchJob", "MPIJob", "JobSet", "Job", "CronJob", "RayCluster", "RayJob"})
_SERVING = frozenset({"Deployment", "ReplicaSet", "StatefulSet", "LeaderWorkerSet", "RayService"})
_OWN_NAMESPACES = ("kube-", "aws-hyperpod", "cert-manager", "hyperpod-", "amazon-", "karpenter", "kueue-system", "keda")
_MANY_NODES = 5
_LOOK_SECONDS = 5.0
_EVICTIONS_A_TICK = 100
_SHOWN = 5

Owners = Mapping[tuple[str | None, str, str], shapes.Owner]


@dataclass(frozen=True)
class Piece:
    """One pod of some work, where it runs, and the accelerators it asks for."""

    pod: str
    node: str
    accelerators: int


@dataclass(frozen=True)
class Work:
    """What would be disturbed: the job, server or bare pod that a person made, with its pods on the asked nodes.

    ``business`` is whose calls a bound pool worker answers.
    """

    kind: str
    namespace: str
    name: str
    role: Role
    business: str | None
    pieces: tuple[Piece, ...]

    @property
    def nodes(self) -> tuple[str, ...]:
        """The names of the nodes it runs on."""
        return tuple(sorted({piece.node for piece in self.pieces}))

    def __str__(self) -> str:
        whose = f", business {self.business}" if self.business else ""
        count = f"{len(self.pieces)} pod{'s' * (len(self.pieces) != 1)}"
        return f"{self.kind} {self.namespace}/{self.name} ({count} on {shown(self.nodes)}{whose})"


def busy(cluster: KubeCluster, node_names: Collection[str]) -> tuple[Work, ...]:
    """What runs on these nodes, training first. Raises what the cluster's API does."""
    pods = [pod for pod in pods_on(cluster, node_names) if not _is_own(pod)]
    between = {owner.kind for pod in pods if (owner := controller(pod.metadata)) is not None}.intersection(_BETWEEN)
    return sort_work(pods, {key: owner for kind in sorted(between) for key, owner in _owners(cluster, kind)})


def pods_on(cluster: KubeCluster, node_names: Collection[str]) -> list[shapes.Pod]:
    """The pods on these nodes that a drain has to move."""
    if len(node_names) <= _MANY_NODES:
        found = [pod for name in sorted(node_names) for pod in cluster.list("Pod", fields=f"spec.nodeName={name}")]
    else:
        found = cluster.list("Pod")
    wanted = set(node_names)
    return [pod for pod in map(shapes.pod, found) if pod.spec.node_name in wanted and moves(pod)]


def moves(pod: shapes.Pod) -> bool:
    """Whether a pod is one that leaves when its node is emptied."""
    owner = controller(pod.metadata)
    fixed = _MIRROR in pod.metadata.annotations or (owner is not None and owner.kind in ("DaemonSet", "Node"))
    return not fixed and pod.status.phase not in _ENDED


def sort_work(pods: Iterable[shapes.Pod], owners: Owners) -> tuple[Work, ...]:
    """Pods by what a person made. ``owners``: (namespace, kind, name) of what stands between -> its own owner. Pure."""
    found: dict[tuple[str, str, str, str | None], list[Piece]] = defaultdict(list)
    for pod in pods:
        kind, name = _maker(pod, owners)
        business = pod.metadata.labels.get(BUSINESS)
        key = kind, pod.metadata.namespace or "", name, None if business == UNASSIGNED else business
        found[key].append(Piece(pod.metadata.name, pod.spec.node_name or "", accelerators(pod)))
    order = {"training": 0, "serving": 1, "other": 2}
    work = [Work(kind, space, name, _role(kind, whose), whose, tuple(pieces)) for (kind, space, name, whose), pieces in found.items()]
    return tuple(sorted(work, key=lambda w: (order[w.role], w.namespace, w.name, w.kind, w.business or "")))


def pick_idle(nodes: Iterable[NodeView], count: int, work: Iterable[Work]) -> tuple[str, ...]:
    """The names of the ``count`` nodes that would be missed least: idle first, then the least work; of equals the unhealthy. Pure."""
    pods: dict[str, int] = defaultdict(int)
    accelerators: dict[str, int] = defaultdict(int)
    for piece in (piece for each in work for piece in each.pieces):
        pods[piece.node] += 1
        accelerators[piece.node] += piece.accelerators
    ranked = sorted(nodes, key=lambda n: (pods[n.name] > 0, accelerators[n.name], pods[n.name], n.usable, n.name))
    return tuple(node.name for node in ranked[:count])


def drain(cluster: KubeCluster, node_names: Collection[str], waited_seconds: float, deadline_seconds: float) -> Wait | None:
    """One tick of emptying nodes: cordon them, ask their pods to leave; None when they are empty. A node that is gone is empty.

    Pods leave through the eviction API, which keeps disruption budgets. Raises Blocked after the deadline, naming pod and budget.
    Not waited for: a pod that was asked to leave a node whose kubelet is silent (nobody is there to end it), and the cluster's own
    pods when no other node can take them (a budget would hold DNS on the only node for ever).
    """
    nodes = {name: shapes.node(found) for name in sorted(node_names) if (found := cluster.find("Node", name)) is not None}
    for name, node in nodes.items():
        _cordon(cluster, name, node)
    left = [pod for pod in pods_on(cluster, tuple(nodes)) if not _abandoned(pod, nodes[pod.spec.node_name or ""])]
    if not left or (all(map(_is_own, left)) and not _elsewhere(cluster, nodes)):
        return None
    refused = [pod for pod in left if pod.metadata.deletion_timestamp is None][:_EVICTIONS_A_TICK]
    refused = [pod for pod in refused if not _evict(cluster, pod)]
    if waited_seconds >= deadline_seconds:
        raise _overdue(cluster, left, deadline_seconds)
    because = f"{len(left)} pod{'s' * (len(left) != 1)} to leave: {shown([_called(pod) for pod in left])}"
    if refused:
        because += f"; held by a disruption budget: {shown(told_budgets(cluster, refused))}"
    return Wait(_LOOK_SECONDS, because, Progress(len(nodes) - len({pod.spec.node_name for pod in left}), len(nodes), "nodes empty"))


def left_cordoned(tag: str, node_names: Collection[str]) -> problems.Blocked | None:
    """What a cancel leaves of a drain: nodes that take no pods, until somebody lets them. None when there is none."""
    names = sorted(node_names)
    if not names:
        return None
    return problems.Blocked(
        "node.left_cordoned",
        f"Cancelled while nodes were being emptied: {shown(names)} take no new pods until they are uncordoned.",
        hint="Retry to go on, or uncordon the nodes, so that they take pods again.",
        evidence={"nodes": names[:100]},
    )


def uncordon(cluster: KubeCluster, node_names: Collection[str]) -> None:
    """Let pods onto nodes again that a drain of ours cordoned; nodes that somebody else cordoned, and gone ones, are left alone."""
    for name in sorted(node_names):
        found = cluster.find("Node", name)
        if found is not None and CORDONED in (found["metadata"].get("annotations") or {}):
            cluster.patch("Node", name, {"metadata": {"annotations": {CORDONED: None}}, "spec": {"unschedulable": None}})


def told_budgets(cluster: KubeCluster, pods: Collection[shapes.Pod]) -> list[str]:
    """Each pod in words, with the budget that holds it."""
    wanted = {(pod.metadata.namespace, pod.metadata.name) for pod in pods}
    holding = budgets.held(cluster, {pod.spec.node_name or "" for pod in pods})
    told = {(each.namespace, each.pod): str(each) for each in holding if (each.namespace, each.pod) in wanted}
    return [*told.values(), *(_called(p) for p in pods if (p.metadata.namespace, p.metadata.name) not in told)]


def controller(metadata: shapes.Meta) -> shapes.Owner | None:
    """The owner that makes an object anew when it is gone."""
    return next((owner for owner in metadata.owner_references if owner.controller), None)


def shown(names: Sequence[str]) -> str:
    """The first few names, and how many more."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _owners(cluster: KubeCluster, kind: str) -> Iterable[tuple[tuple[str | None, str, str], shapes.Owner]]:
    for found in cluster.list(kind):
        metadata = found["metadata"]
        owner = next((o for o in metadata.get("ownerReferences") or () if o.get("controller")), None)
        if owner is not None:
            yield (metadata["namespace"], kind, metadata["name"]), shapes.Owner(owner["kind"], owner["name"], owner["uid"], True)


def _maker(pod: shapes.Pod, owners: Owners) -> tuple[str, str]:
    """Kind and name of what a person made: by the labels of jobs, else up the owners."""
    labels = pod.metadata.labels
    for label, kind in _BY_LABEL.items():
        if labels.get(label):
            return kind, labels[label]
    owner = controller(pod.metadata)
    if owner is None:
        job = next((labels[label] for label in _JOB_LABELS if labels.get(label)), None)
        return ("Job", job) if job else ("Pod", pod.metadata.name)
    above = owners.get((pod.metadata.namespace, owner.kind, owner.name))
    return (above.kind, above.name) if above is not None else (owner.kind, owner.name)


def _role(kind: str, business: str | None) -> Role:
    if business is not None or kind in _SERVING:
        return "serving"
    return "training" if kind in _TRAINING else "other"


def accelerators(pod: shapes.Pod) -> int:
    """GPUs, their slices, and Neuron devices that a pod asks for."""
    asked = [c.resources.limits | c.resources.requests for c in pod.spec.containers]
    counts = [each.get(name, "0") for each in asked for name in each if name in (GPU, NEURON) or name.startswith("nvidia.com/mig-")]
    return sum(int(count) for count in counts if count.isdigit())


def _is_own(pod: shapes.Pod) -> bool:
    """Whether a pod is one of the cluster's own: DNS, drivers, operators."""
    return (pod.metadata.namespace or "").startswith(_OWN_NAMESPACES)


def _elsewhere(cluster: KubeCluster, leaving: Collection[str]) -> bool:
    """Whether any other node can take pods."""
    return any(node.metadata.name not in leaving and takes_pods(node) for node in map(shapes.node, cluster.list("Node")))


def _cordon(cluster: KubeCluster, name: str, node: shapes.Node) -> None:
    if not node.spec.unschedulable and node.metadata.deletion_timestamp is None:
        cluster.patch("Node", name, {"metadata": {"annotations": {CORDONED: "drain"}}, "spec": {"unschedulable": True}})


def _abandoned(pod: shapes.Pod, node: shapes.Node) -> bool:
    silent = not any(c.type == "Ready" and c.status == "True" for c in node.status.conditions)
    return silent and pod.metadata.deletion_timestamp is not None


def _evict(cluster: KubeCluster, pod: shapes.Pod) -> bool:
    """Ask one pod to leave; False when a budget keeps it (or several do, which the API cannot weigh)."""
    try:
        cluster.evict(pod.metadata.name, pod.metadata.namespace or "")
    except problems.Busy as problem:
        if problem.code == "kubernetes.disruption_budget" or "more than one PodDisruptionBudget" in problem.detail:
            return False
        raise
    return True


def _called(pod: shapes.Pod) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.name} on {pod.spec.node_name}"


def _overdue(cluster: KubeCluster, left: Sequence[shapes.Pod], deadline_seconds: float) -> problems.Blocked:
    kept = [pod for pod in left if pod.metadata.deletion_timestamp is None]
    told = told_budgets(cluster, kept) if kept else [f"{_called(pod)} (it was asked to leave and does not end)" for pod in left]
    return problems.Blocked(
        "node.drain_blocked",
        f"The nodes could not be emptied within {deadline_seconds:g} seconds: {shown(told)}.",
        hint="Loosen the budget, move or stop the pod, then retry; or ask again without a drain. The nodes stay cordoned meanwhile.",
        evidence={"pods": told[:50]},
    )
