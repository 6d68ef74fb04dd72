"""Pieces of pods that run models, as pure functions over dicts: training and serving put their pods together from these.

What each is for: no service links (a Service named ``vllm`` would set VLLM_PORT, case 58); shared memory in RAM (NCCL and data loaders
need more than 64 MiB); do-not-disrupt (Karpenter's consolidation ends long work, case 54); requests equal to limits (case 48).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from instantstart.base import quantities
from instantstart.ensure.capacity import nodes
from instantstart.ensure.installs.releases import MANAGED_BY, MANAGER

Shape = dict[str, Any]
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
HOSTNAME = "kubernetes.io/hostname"
CAPACITY_TYPE = "karpenter.sh/capacity-type"
_SHM = "shm"
#: what HyperPod writes on a node that is to be repaired (aws-facts A10): a pod started there would die with it
UNHEALTHY = ("Unschedulable", "UnschedulablePendingReplacement", "UnschedulablePendingReboot")
#: taints of accelerated nodes that the dependencies' device plugins tolerate too (aws-facts A11)
_ACCELERATED = (nodes.GPU, "aws.amazon.com/neuron", nodes.EFA)


@dataclass(frozen=True)
class Placement:
    """Where pods may go. What is None does not matter."""

    instance_type: str | None = None
    group: str | None = None
    zone: str | None = None
    #: more labels that a node must have
    labels: Mapping[str, str] = field(default_factory=dict)
    #: taints of the group's own that the pods live with, as ``key=value:Effect``
    taints: Sequence[str] = ()

    def selector(self) -> dict[str, str]:
        """As a nodeSelector."""
        own = {nodes.INSTANCE_TYPE: self.instance_type, nodes.GROUP: self.group, nodes.ZONE: self.zone}
        return {**{key: value for key, value in own.items() if value}, **self.labels}


@dataclass(frozen=True)
class Mount:
    """A claim in a container. ``folder`` of the volume: only that part of it is seen."""

    claim: str
    path: str
    read_only: bool = False
    folder: str | None = None


def labels(name: str, component: str, **more: str) -> dict[str, str]:
    """The labels of everything that we make for a workload."""
    return {MANAGED_BY: MANAGER, "app.kubernetes.io/name": component, "app.kubernetes.io/instance": name, **more}


def notes(long_running: bool = True) -> dict[str, str]:
    """Annotations of a pod that Karpenter must let finish."""
    return {DO_NOT_DISRUPT: "true"} if long_running else {}


def placed(where: Placement) -> Shape:
    """nodeSelector, affinity and tolerations: only where it may run, never on a node that HyperPod is about to repair."""
    healthy = {"matchExpressions": [{"key": nodes.HEALTH, "operator": "NotIn", "values": list(UNHEALTHY)}]}
    wanted = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [healthy]}}
    selector = where.selector()
    return {
        **({"nodeSelector": selector} if selector else {}),
        "affinity": {"nodeAffinity": wanted},
        "tolerations": tolerations(where.taints),
    }


def tolerations(taints: Sequence[str] = ()) -> list[Shape]:
    """Tolerations of accelerated nodes, and of a group's own taints (``key=value:Effect``)."""
    found: list[Shape] = [{"key": key, "operator": "Exists"} for key in _ACCELERATED]
    for text in taints:
        head, _, effect = text.rpartition(":")
        key, equals, value = head.partition("=")
        if key not in _ACCELERATED:
            given = {"operator": "Equal", "value": value} if equals else {"operator": "Exists"}
            found.append({"key": key, **given, "effect": effect})
    return found


def apart(own_labels: Mapping[str, str]) -> Shape:
    """An anti-affinity: no two pods with these labels on one node."""
    term = {"labelSelector": {"matchLabels": dict(own_labels)}, "topologyKey": HOSTNAME}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def together(own_labels: Mapping[str, str], key: str = nodes.ZONE) -> Shape:
    """An affinity: all pods with these labels where ``key`` of the node is the same. EFA does not cross zones (aws-facts A14)."""
    term = {"labelSelector": {"matchLabels": dict(own_labels)}, "topologyKey": key}
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def equal_resources(wanted: Mapping[str, str]) -> Shape:
    """Requests and limits, the same: an accelerator cannot be shared, and a pod so made is the last to be evicted."""
    return {"requests": dict(wanted), "limits": dict(wanted)}


def shared_memory(size_bytes: int) -> tuple[Shape, Shape]:
    """The volume and its mount on /dev/shm. It counts against the container's memory limit."""
    return {"name": _SHM, "emptyDir": {"medium": "Memory", "sizeLimit": quantities.memory(size_bytes)}}, {
        "name": _SHM,
        "mountPath": "/dev/shm",  # noqa: S108 - the container's own
    }


def claims(mounts: Sequence[Mount]) -> tuple[list[Shape], list[Shape]]:
    """Volumes and mounts; a claim that is mounted twice is one volume."""
    names = {claim: f"claim-{at}" for at, claim in enumerate(dict.fromkeys(mount.claim for mount in mounts))}
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": claim}} for claim, name in names.items()]
    made = []
    for mount in mounts:
        one: Shape = {"name": names[mount.claim], "mountPath": mount.path}
        if mount.read_only:
            one["readOnly"] = True
        if mount.folder:
            one["subPath"] = mount.folder
        made.append(one)
    return volumes, made


def code(config_map: str, path: str) -> tuple[Shape, Shape]:
    """Volume and mount of the scripts that travel in a ConfigMap (ensure/training/recipes.py), read-only."""
    return {"name": "code", "configMap": {"name": config_map}}, {"name": "code", "mountPath": path, "readOnly": True}


def environment(plain: Mapping[str, str], secrets: Mapping[str, tuple[str, str]] | None = None) -> list[Shape]:
    """Variables by name, those of secrets (name -> Secret and key) by reference."""
    found: list[Shape] = [{"name": name, "value": value} for name, value in plain.items()]
    for name, (secret, key) in (secrets or {}).items():
        found.append({"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}})
    return found


def literal(text: str) -> str:
    """A value that arrives as it is: Kubernetes would fill in ``$(NAME)`` and take ``$$`` for one dollar."""
    return text.replace("$", "$$")


def container_security() -> Shape:
    """No way to more rights than the image begins with. RDMA needs locked memory, which EFA's plugin grants without IPC_LOCK."""
    return {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"}}


def pod_basics(service_account: str | None = None) -> Shape:
    """What every pod of ours says of itself. A token of Kubernetes only for a pod that has an account of its own."""
    account = {"serviceAccountName": service_account} if service_account else {"automountServiceAccountToken": False}
    return {"enableServiceLinks": False, **account}
