"""The nodes of a cluster as Kubernetes sees them, with what HyperPod wrote on them (aws-facts A10), keyed by instance id."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from instantstart.kube import shapes
from instantstart.kube.client import KubeCluster

PREFIX = "sagemaker.amazonaws.com/"
HEALTH = PREFIX + "node-health-status"
DEEP_HEALTH = PREFIX + "deep-health-check-status"
GROUP = PREFIX + "instance-group-name"
CLUSTER = PREFIX + "cluster-name"
FAULTS = (PREFIX + "fault-types", PREFIX + "fault-type")
FAULT_REASONS = (PREFIX + "fault-reasons", PREFIX + "fault-reason")
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
ZONE = "topology.kubernetes.io/zone"
CAPACITY_TYPES = ("karpenter.sh/capacity-type", PREFIX + "capacity-type")
GPU, EFA, NEURON = "nvidia.com/gpu", "vpc.amazonaws.com/efa", "aws.amazon.com/neurondevice"
SCHEDULABLE = "Schedulable"
_INSTANCE_ID = re.compile(r"(i-[0-9a-f]{8,17})$")
#: Taints that come and go with the node's own state; they say nothing that Ready and health do not.
_STATE_TAINTS = ("node.kubernetes.io/", HEALTH)


@dataclass(frozen=True)
class NodeView:
    """One node. ``usable``: Ready, not cordoned, healthy; else ``because`` says in one sentence why not.

    ``gpus``, ``efa``, ``neuron`` and ``pods`` are allocatable counts; ``cpu`` and ``memory`` are quantities as Kubernetes writes them.
    """

    name: str
    instance_id: str | None
    cluster_name: str | None
    group: str | None
    instance_type: str | None
    capacity_type: str | None
    zone: str | None
    ready: bool
    schedulable: bool
    health: str | None
    deep_health: str | None
    usable: bool
    because: str | None
    faults: tuple[str, ...]
    taints: tuple[str, ...]
    gpus: int
    efa: int
    neuron: int
    pods: int
    cpu: str
    memory: str
    kubelet_version: str
    created_at: dt.datetime | None


@dataclass(frozen=True)
class Joined:
    """SageMaker's instances beside Kubernetes' nodes: ``missing`` have no node (yet), ``strays`` have no instance (any more)."""

    nodes: Mapping[str, NodeView]
    missing: tuple[str, ...]
    strays: tuple[NodeView, ...]


def read(cluster: KubeCluster, hyperpod_name: str | None = None) -> list[NodeView]:
    """The nodes of a HyperPod cluster, or all nodes; by name. Raises what the cluster's API does."""
    labels = f"{CLUSTER}={hyperpod_name}" if hyperpod_name else None
    return sorted((view(shapes.node(n)) for n in cluster.list("Node", labels=labels)), key=lambda n: n.name)


def join(nodes: Iterable[NodeView], capacity_types: Mapping[str, str | None]) -> Joined:
    """Put each instance id of SageMaker (with its capacity type, which Kubernetes does not know) beside its node."""
    by_id = {node.instance_id: node for node in nodes if node.instance_id}
    found = {i: replace(by_id[i], capacity_type=by_id[i].capacity_type or kind) for i, kind in capacity_types.items() if i in by_id}
    strays = tuple(node for i, node in by_id.items() if i not in capacity_types)
    return Joined(found, tuple(i for i in capacity_types if i not in by_id), strays)


def view(node: shapes.Node) -> NodeView:
    """One node, read."""
    labels, usable = node.metadata.labels, node.status.allocatable
    ready = next((c for c in node.status.conditions if c.type == "Ready"), None)
    because = _because(node, ready)
    return NodeView(
        name=node.metadata.name,
        instance_id=instance_id(node),
        cluster_name=labels.get(CLUSTER),
        group=labels.get(GROUP),
        instance_type=labels.get(INSTANCE_TYPE),
        capacity_type=_first(labels, CAPACITY_TYPES),
        zone=labels.get(ZONE),
        ready=ready is not None and ready.status == "True",
        schedulable=not node.spec.unschedulable,
        health=labels.get(HEALTH),
        deep_health=labels.get(DEEP_HEALTH),
        usable=because is None,
        because=because,
        faults=_faults(labels),
        taints=tuple(_taint(t) for t in node.spec.taints if not t.key.startswith(_STATE_TAINTS)),
        gpus=_count(usable, GPU),
        efa=_count(usable, EFA),
        neuron=_count(usable, NEURON),
        pods=_count(usable, "pods"),
        cpu=usable.get("cpu", "0"),
        memory=usable.get("memory", "0"),
        kubelet_version=node.status.node_info.kubelet_version,
        created_at=node.metadata.creation_timestamp,
    )


def instance_id(node: shapes.Node) -> str | None:
    """The instance behind a node: HyperPod names it ``hyperpod-<instance id>``; the provider id ends with it too."""
    for text in (node.metadata.name, node.spec.provider_id or ""):
        found = _INSTANCE_ID.search(text)
        if found:
            return found[1]
    return None


def _because(node: shapes.Node, ready: shapes.Condition | None) -> str | None:
    """Why no pod can be put on a node, most telling first; None when one can."""
    labels = node.metadata.labels
    health, deep = labels.get(HEALTH, SCHEDULABLE), labels.get(DEEP_HEALTH)
    if node.metadata.deletion_timestamp is not None:
        return "The node is being removed."
    if health == "UnschedulablePendingReplacement":
        return f"HyperPod is replacing the instance{_for(labels)}."
    if health == "UnschedulablePendingReboot":
        return f"HyperPod is rebooting the instance{_for(labels)}."
    if deep == "InProgress":
        return "Deep health checks are running; this takes one to two hours."
    if deep == "Failed":
        return f"Deep health checks failed{_for(labels)}."
    if ready is None or ready.status != "True":
        return f"The node is not ready: {(ready and (ready.message or ready.reason)) or 'its kubelet has not reported'}."
    if health != SCHEDULABLE:
        return f"HyperPod marked the node {health}{_for(labels)}."
    return "The node is cordoned." if node.spec.unschedulable else None


def _for(labels: Mapping[str, str]) -> str:
    faults = _faults(labels)
    return f" ({', '.join(faults)})" if faults else ""


def _faults(labels: Mapping[str, str]) -> tuple[str, ...]:
    found = [_first(labels, FAULTS), _first(labels, FAULT_REASONS)]
    return tuple(text for text in found if text)


def _first(labels: Mapping[str, str], keys: Iterable[str]) -> str | None:
    return next((labels[key] for key in keys if key in labels), None)


def _taint(taint: shapes.Taint) -> str:
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"


def _count(quantities: Mapping[str, str], name: str) -> int:
    """Extended resources and pods are whole numbers."""
    text = quantities.get(name, "0")
    return int(text) if text.isdigit() else 0
