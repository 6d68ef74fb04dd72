"""The shape of a HyperPod node: labels, taints, capacity. Facts: reference/aws-facts.md A10 and the instance-type table."""

from __future__ import annotations

from dataclasses import dataclass

from ..world.seams import Instance
from .loops.objects import Object

PREFIX = "sagemaker.amazonaws.com/"
HEALTH = PREFIX + "node-health-status"
DEEP_HEALTH = PREFIX + "deep-health-check-status"
#: Writing one of these into ``node-health-status`` asks HyperPod for the action.
ASKED_ACTIONS = {"UnschedulablePendingReplacement": "replace", "UnschedulablePendingReboot": "reboot"}
NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
_GIB_IN_KI = 1024 * 1024
#: The kernel and firmware keep about 3.5 % of an instance's nominal memory (m5.2xlarge: 32 GiB shows as 31.2 Gi).
_MEMORY_SEEN = 0.965
_DISK_KI = 104_845_292
_DISK_FREE_BYTES = 95_551_679_124


@dataclass(frozen=True)
class Machine:
    """What an instance type has: ``memory_gib`` nominal GiB, ``addresses`` IPv4 addresses an interface."""

    vcpus: int
    memory_gib: float
    gpus: int = 0
    neuron_devices: int = 0
    neuron_cores: int = 0
    efa: int = 0
    addresses: int = 50
    architecture: str = "amd64"

    @property
    def max_pods(self) -> int:
        """HyperPod's fixed pods per node: one interface's addresses less its own, 49 at most (aws-facts A10)."""
        return max(min(self.addresses, 50) - 1, 1)


def node_name(instance_id: str) -> str:
    """``hyperpod-<instance id>``."""
    return f"hyperpod-{instance_id}"


def devices(machine: Machine) -> dict[str, int]:
    """The extended resources that device plugins would announce, by resource name."""
    found = {
        "nvidia.com/gpu": machine.gpus,
        "vpc.amazonaws.com/efa": machine.efa,
        "aws.amazon.com/neurondevice": machine.neuron_devices,
        "aws.amazon.com/neuron": machine.neuron_devices,
        "aws.amazon.com/neuroncore": machine.neuron_cores,
    }
    return {name: count for name, count in found.items() if count}


def _reserved_millicores(vcpus: int) -> int:
    # The kubelet reservation of EKS images: 6 % of the first core, 1 % of the second, 0.5 % of the next two, 0.25 % of the rest.
    shares = (60, 10, 5, 5)
    return int(sum(shares[:vcpus]) + 2.5 * max(vcpus - len(shares), 0))


def capacity(machine: Machine, announced: dict[str, int]) -> tuple[Object, Object]:
    """``status.capacity`` and ``status.allocatable``; ``announced`` are the device resources with a running plugin."""
    memory_ki = int(machine.memory_gib * _GIB_IN_KI * _MEMORY_SEEN)
    kept_ki = (255 + 11 * machine.max_pods + 100) * 1024
    extra = {name: str(count) for name, count in sorted(announced.items())}
    whole = {
        "cpu": str(machine.vcpus),
        "ephemeral-storage": f"{_DISK_KI}Ki",
        "hugepages-1Gi": "0",
        "hugepages-2Mi": "0",
        "memory": f"{memory_ki}Ki",
        "pods": str(machine.max_pods),
        **extra,
    }
    usable = {
        **whole,
        "cpu": f"{machine.vcpus * 1000 - _reserved_millicores(machine.vcpus)}m",
        "ephemeral-storage": str(_DISK_FREE_BYTES),
        "memory": f"{memory_ki - kept_ki}Ki",
    }
    return whole, usable


def labels(instance: Instance, machine: Machine, region: str) -> dict[str, str]:
    """Every label that the kubelet and HyperPod write; the group's own labels come from ``instance.labels``."""
    found = {
        "beta.kubernetes.io/arch": machine.architecture,
        "beta.kubernetes.io/instance-type": instance.instance_type,
        "beta.kubernetes.io/os": "linux",
        "failure-domain.beta.kubernetes.io/region": region,
        "failure-domain.beta.kubernetes.io/zone": instance.zone,
        "kubernetes.io/arch": machine.architecture,
        "kubernetes.io/hostname": node_name(instance.instance_id),
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": instance.instance_type,
        "topology.k8s.aws/zone-id": instance.zone_id,
        "topology.kubernetes.io/region": region,
        "topology.kubernetes.io/zone": instance.zone,
        PREFIX + "cluster-name": instance.cluster_name,
        PREFIX + "compute-type": "hyperpod",
        PREFIX + "instance-group-name": instance.group,
        HEALTH: instance.health,
        **instance.labels,
    }
    if instance.deep_health:
        found[DEEP_HEALTH] = instance.deep_health
    return found


def taints(instance: Instance, ready: bool) -> list[Object]:
    """The taints that HyperPod, the group and the node controller put on the node."""
    found = [{"key": key, "value": value, "effect": effect} for key, value, effect in instance.taints]
    if instance.health != "Schedulable" or instance.deep_health == "InProgress":
        found.append({"key": HEALTH, "value": "Unschedulable", "effect": "NoSchedule"})
    if not ready:
        found.append({"key": NOT_READY, "effect": "NoSchedule"})
        found.append({"key": NOT_READY, "effect": "NoExecute"})
    return [{k: v for k, v in taint.items() if v} for taint in found]


#: (type, reason and message while fine): the pressures that a kubelet reports.
_PRESSURES = (
    ("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
)
CNI_MISSING = (
    "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady "
    "message:Network plugin returns error: cni plugin not initialized"
)


def conditions(reachable: bool, network: bool) -> list[Object]:
    """The node's conditions without times: a kubelet that answers (``reachable``), and whether the CNI and kube-proxy run."""
    if not reachable:
        lost = {"status": "Unknown", "reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status."}
        return [{"type": kind, **lost} for kind in (*(p[0] for p in _PRESSURES), "Ready")]
    found: list[Object] = [{"type": t, "status": "False", "reason": r, "message": m} for t, r, m in _PRESSURES]
    if network:
        ready = {"status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status"}
    else:
        ready = {"status": "False", "reason": "KubeletNotReady", "message": CNI_MISSING}
    return [*found, {"type": "Ready", **ready}]


def addresses(instance: Instance, private_dns: str) -> list[Object]:
    """``status.addresses``."""
    return [
        {"type": "InternalIP", "address": instance.private_ip},
        {"type": "InternalDNS", "address": private_dns},
        {"type": "Hostname", "address": private_dns},
    ]


def node_info(version: str, instance: Instance, machine: Machine) -> Object:
    """``status.nodeInfo`` as an EKS-flavoured kubelet of that Kubernetes version fills it; ids derive from the instance.

    The boot id is another one after each boot, as the kernel's is.
    """
    digest = instance.instance_id.removeprefix("i-").ljust(32, "0")
    return {
        "architecture": machine.architecture,
        "bootID": f"{instance.boots:04x}{digest[::-1][4:]}",
        "containerRuntimeVersion": "containerd://2.0.5",
        "kernelVersion": "6.1.141-155.222.amzn2023.x86_64",
        "kubeProxyVersion": "",
        "kubeletVersion": f"v{version}.0-eks-sandbox",
        "machineID": digest,
        "operatingSystem": "linux",
        "osImage": "Amazon Linux 2023 (InstantStart sandbox)",
        "systemUUID": digest,
    }
