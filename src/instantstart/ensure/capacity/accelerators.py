"""What one node of an instance type has for pods: GPUs, Neuron devices, EFA cards, CPU and memory, less what is taken from it.

Live nodes of the type say it best (a faulty EFA card is missing there, MIG and driver are seen there); where there is none yet, EC2's
description with the shares that the node's own software keeps. Sizing: all cards unless told otherwise, requests equal limits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from instantstart.aws.session import Aws
from instantstart.base import problems, quantities
from instantstart.ensure.capacity import nodes, offers
from instantstart.ensure.sites import Site
from instantstart.kube import shapes
from instantstart.kube.client import KubeCluster
from instantstart.kube.shapes import Node

NEURON, NEURON_DEVICE, NEURON_CORE = "aws.amazon.com/neuron", "aws.amazon.com/neurondevice", "aws.amazon.com/neuroncore"
MIG = "nvidia.com/mig-"
GPU_MEMORY, GPU_PRODUCT = "nvidia.com/gpu.memory", "nvidia.com/gpu.product"
#: FALLBACK where no node tells: the parts of CPU and memory that pods get (sagemaker-hyperpod-cli caps requests there; case 48)
_CPU_SHARE, _MEMORY_SHARE = 0.92, 0.85
#: kept free beside a pod that takes a whole node, for what else comes to the node
_HEADROOM = 0.95
_EC2_KEPT_SECONDS = 600.0


@dataclass(frozen=True)
class Offer:
    """What one pod can have on a node of a type. ``cpu_millis`` and ``memory_bytes`` are what is left after system pods and
    tiered checkpointing; ``nodes`` are those of the type now, ``usable`` of them take pods; ``source``: nodes or ec2.
    """

    instance_type: str
    source: Literal["nodes", "ec2"]
    cpu_millis: int
    memory_bytes: int
    gpus: int = 0
    neuron_devices: int = 0
    neuron_cores: int = 0
    #: the word under which Kubernetes counts its Neuron devices
    neuron_resource: str = NEURON
    efa: int = 0
    #: MIG slices by resource
    mig: Mapping[str, int] = field(default_factory=dict)
    gpu_model: str | None = None
    gpu_memory_mib: int | None = None
    architecture: str = "amd64"
    nodes: int = 0
    usable: int = 0
    groups: tuple[str, ...] = ()
    zones: tuple[str, ...] = ()
    #: what tiered checkpointing takes of each node, bytes
    tiered_bytes: int = 0
    #: what is not as one would think, in sentences: a faulty card, nodes that differ
    notes: tuple[str, ...] = ()

    @property
    def accelerators(self) -> int:
        """Whole cards or devices of a node."""
        return self.gpus or self.neuron_devices

    @property
    def resource(self) -> str | None:
        """The resource that counts them; None for a type without."""
        return nodes.GPU if self.gpus else self.neuron_resource if self.neuron_devices else None

    @property
    def processes(self) -> int:
        """Workers that usually run on a whole node: one for each GPU or NeuronCore, else one."""
        return self.gpus or self.neuron_cores or 1


@dataclass(frozen=True)
class Share:
    """How much of a node a pod is to have. None: all cards, all EFA cards with them, and CPU and memory in proportion."""

    accelerators: int | None = None
    efa: int | None = None
    cpu: str | None = None
    memory: str | None = None
    #: instead of whole cards: a MIG slice, such as ``1g.10gb``, and how many
    mig: str | None = None


@dataclass(frozen=True)
class Sizing:
    """The pod's resources (requests and limits alike), its accelerators, and what is wrong with the wish, by field of ``Share``."""

    resources: Mapping[str, str]
    accelerators: int
    efa: int
    processes: int
    memory_bytes: int
    wrong: tuple[problems.Violation, ...] = ()


def look(where: Site, kube: KubeCluster, instance_type: str, live: Iterable[Node], tiered_percent: int = 0) -> Offer:
    """The offer of a type: from the live nodes (all of the cluster), else from EC2. Raises NotFound ``instance_type.unknown``."""
    found = [n for n in live if n.metadata.labels.get(nodes.INSTANCE_TYPE) == instance_type]
    if found:
        return from_nodes(instance_type, found, _system_share(kube, found), tiered_percent)
    return from_ec2(where.aws, instance_type, tiered_percent)


def tiered_percent(cluster: Mapping[str, Any] | None) -> int:
    """The part of each node's memory that managed tiered checkpointing keeps, of a described HyperPod cluster (aws-facts A17)."""
    told = (cluster or {}).get("TieredStorageConfig") or {}
    return int(told.get("InstanceMemoryAllocationPercentage") or 0) if told.get("Mode") == "Enable" else 0


def from_nodes(instance_type: str, found: Sequence[Node], taken: tuple[int, int] = (0, 0), tiered: int = 0) -> Offer:
    """What every one of these nodes can give: the usable ones, or all when none is usable. ``taken``: CPU and memory of system pods."""
    views = {n.metadata.name: nodes.view(n) for n in found}
    usable = [n for n in found if views[n.metadata.name].usable]
    told = usable or list(found)
    least, most = _bounds(told)
    tiered_bytes = min(quantities.whole(n.status.capacity.get("memory")) for n in told) * tiered // 100
    labels = told[0].metadata.labels
    word = next((w for w in (NEURON, NEURON_DEVICE) if least.get(w)), NEURON)
    return Offer(
        instance_type=instance_type,
        source="nodes",
        cpu_millis=max(min(quantities.millis(n.status.allocatable.get("cpu")) for n in told) - taken[0], 0),
        memory_bytes=max(min(quantities.whole(n.status.allocatable.get("memory")) for n in told) - taken[1] - tiered_bytes, 0),
        gpus=least.get(nodes.GPU, 0),
        neuron_devices=least.get(word, 0),
        neuron_cores=least.get(NEURON_CORE, 0),
        neuron_resource=word,
        efa=least.get(nodes.EFA, 0),
        mig={name: count for name, count in least.items() if name.startswith(MIG) and count},
        gpu_model=labels.get(GPU_PRODUCT),
        gpu_memory_mib=int(labels[GPU_MEMORY]) if labels.get(GPU_MEMORY, "").isdigit() else None,
        architecture=labels.get("kubernetes.io/arch", "amd64"),
        nodes=len(found),
        usable=len(usable),
        groups=tuple(sorted({g for v in views.values() if (g := v.group)})),
        zones=tuple(sorted({z for v in views.values() if (z := v.zone)})),
        tiered_bytes=tiered_bytes,
        notes=_odd(least, most),
    )


def from_ec2(aws: Aws, instance_type: str, tiered: int = 0) -> Offer:
    """What EC2 says of a type, less what a node's own software keeps. Raises NotFound ``instance_type.unknown``."""
    told = aws.cached(f"type/{instance_type}", _EC2_KEPT_SECONDS, lambda: offers.describe_type(aws, instance_type))
    if told is None:
        raise problems.NotFound(
            "instance_type.unknown",
            f"No node of the cluster is {instance_type}, and EC2 does not describe it in {aws.region}.",
            hint="List the instance types of the cluster's groups, or add a group of this type first.",
        )
    gpus, neuron = told.get("GpuInfo", {}).get("Gpus", []), told.get("NeuronInfo", {}).get("NeuronDevices", [])
    memory = told["MemoryInfo"]["SizeInMiB"] * quantities.MIB
    return Offer(
        instance_type=instance_type,
        source="ec2",
        cpu_millis=int(told["VCpuInfo"]["DefaultVCpus"] * 1000 * _CPU_SHARE),
        memory_bytes=max(int(memory * _MEMORY_SHARE) - memory * tiered // 100, 0),
        gpus=sum(g.get("Count", 0) for g in gpus),
        neuron_devices=sum(d.get("Count", 0) for d in neuron),
        neuron_cores=sum(d.get("Count", 0) * (d.get("CoreInfo") or {}).get("Count", 1) for d in neuron),
        efa=told.get("NetworkInfo", {}).get("EfaInfo", {}).get("MaximumEfaInterfaces", 0),
        gpu_model=gpus[0].get("Name") if gpus else None,
        gpu_memory_mib=(gpus[0].get("MemoryInfo") or {}).get("SizeInMiB") if gpus else None,
        architecture="arm64" if "arm64" in told.get("ProcessorInfo", {}).get("SupportedArchitectures", ()) else "amd64",
        tiered_bytes=memory * tiered // 100,
        notes=(f"No node of the cluster is {instance_type} now: sizes are EC2's, less what a node's software usually keeps.",),
    )


def size(offer: Offer, share: Share) -> Sizing:
    """The resources of a pod that has this share of a node. What cannot be is told in ``wrong``, and sized as near as can be. Pure."""
    wrong: list[problems.Violation] = []
    if share.mig is not None:
        resource, count, part = _sliced(offer, share, wrong)
    else:
        resource, count, part = _whole_cards(offer, share, wrong)
    efa = _efa(offer, share, part if count or not offer.accelerators else 0.0, wrong)
    cpu = _cpu(offer, share, part, wrong)
    memory = _memory(offer, share, part, wrong)
    wanted = {"cpu": quantities.cpu(cpu), "memory": quantities.memory(memory)}
    if resource and count:
        wanted[resource] = str(count)
    if efa:
        wanted[nodes.EFA] = str(efa)
    return Sizing(wanted, count, efa, _processes(offer, count, share), memory, tuple(wrong))


def _whole_cards(offer: Offer, share: Share, wrong: list[problems.Violation]) -> tuple[str | None, int, float]:
    count = offer.accelerators if share.accelerators is None else share.accelerators
    if count > offer.accelerators:
        has = f"{offer.accelerators} accelerators" if offer.accelerators else "no accelerators"
        wrong.append(problems.Violation("accelerators", f"One {offer.instance_type} offers {has} to a pod; {count} were asked for."))
        count = offer.accelerators
    part = count / offer.accelerators if offer.accelerators else 1.0
    # a pod without cards on a node with cards must leave the others room: it gets the part of one card
    return offer.resource, count, part if part else 1 / offer.accelerators


def _sliced(offer: Offer, share: Share, wrong: list[problems.Violation]) -> tuple[str | None, int, float]:
    resource = MIG + str(share.mig)
    there, count = offer.mig.get(resource, 0), share.accelerators or 1
    if count > there:
        known = ", ".join(f"{n} of {name.removeprefix(MIG)}" for name, n in sorted(offer.mig.items())) or "none"
        wrong.append(
            problems.Violation("mig", f"Nodes of {offer.instance_type} offer these MIG slices: {known}; asked: {count} of {share.mig}.")
        )
    return resource, count, min(count / there, 1.0) if there else 1.0


def _efa(offer: Offer, share: Share, part: float, wrong: list[problems.Violation]) -> int:
    if share.efa is None:
        return int(offer.efa * part)
    if share.efa > offer.efa:
        wrong.append(problems.Violation("efa", f"One {offer.instance_type} offers {offer.efa} EFA cards; {share.efa} were asked for."))
    return min(share.efa, offer.efa)


def _cpu(offer: Offer, share: Share, part: float, wrong: list[problems.Violation]) -> int:
    most = int(offer.cpu_millis * _HEADROOM * part)
    usual = max(most // 1000 * 1000 or most // 100 * 100, 100)
    if share.cpu is None:
        return usual
    asked = _asked("cpu", share.cpu, wrong)
    if asked is None:
        return usual
    millis = int(asked * 1000)
    if millis > offer.cpu_millis:
        wrong.append(
            problems.Violation(
                "cpu", f"{share.cpu} is more than the {quantities.cpu(offer.cpu_millis)} that a node of {offer.instance_type} has left."
            )
        )
    return min(millis, offer.cpu_millis)


def _memory(offer: Offer, share: Share, part: float, wrong: list[problems.Violation]) -> int:
    most = int(offer.memory_bytes * _HEADROOM * part)
    usual = most // quantities.GIB * quantities.GIB or most
    if share.memory is None:
        return usual
    asked = _asked("memory", share.memory, wrong)
    if asked is None:
        return usual
    if asked < quantities.MIB:
        number = share.memory.removesuffix(".0")
        better = f"{number}Gi" if number.isdigit() else "16Gi"
        wrong.append(problems.Violation("memory", f"{share.memory} is {int(asked)} bytes: write it with its unit, such as {better}."))
        return usual
    if asked > offer.memory_bytes:
        kept = f", tiered checkpointing keeps {quantities.shown(offer.tiered_bytes)}" if offer.tiered_bytes else ""
        left = quantities.shown(offer.memory_bytes)
        told = (
            f"{share.memory} is more than the {left} that a node of {offer.instance_type} has left for a pod (system pods run there{kept})."
        )
        wrong.append(problems.Violation("memory", told))
    return min(int(asked), offer.memory_bytes)


def _asked(field_name: str, text: str, wrong: list[problems.Violation]) -> Any:
    try:
        found = quantities.parse(text)
    except ValueError as error:
        wrong.append(problems.Violation(field_name, f"{error}."))
        return None
    if found <= 0:
        wrong.append(problems.Violation(field_name, f"{text} is nothing: leave it out for what fits, or ask for more than 0."))
        return None
    return found


def _processes(offer: Offer, count: int, share: Share) -> int:
    if share.mig is not None or offer.gpus:
        return max(count, 1)
    per_device = offer.neuron_cores // offer.neuron_devices if offer.neuron_devices else 1
    return max(count * max(per_device, 1), 1)


def _bounds(told: Sequence[Node]) -> tuple[dict[str, int], dict[str, int]]:
    """The least and the most that any node has of each device."""
    names = {name for n in told for name in (*n.status.allocatable, *n.status.capacity) if "/" in name}
    counts = {name: [quantities.whole(n.status.allocatable.get(name)) for n in told] for name in names}
    most = {name: max(quantities.whole(n.status.capacity.get(name)) for n in told) for name in names}
    return {name: min(each) for name, each in counts.items()}, {name: max(most[name], max(counts[name])) for name in names}


def _odd(least: Mapping[str, int], most: Mapping[str, int]) -> tuple[str, ...]:
    shown = [name for name in sorted(most) if least[name] < most[name] and name in (nodes.GPU, nodes.EFA, NEURON, NEURON_DEVICE)]
    return tuple(
        f"A node offers {least[n]} of {n} where {most[n]} are built in: one device or more is faulty or not announced." for n in shown
    )


def _system_share(kube: KubeCluster, found: Sequence[Node]) -> tuple[int, int]:
    """CPU (thousandths) and memory (bytes) that DaemonSets and the cluster's own pods ask for on a node of the type."""
    node = next((n for n in found if nodes.view(n).usable), found[0]).metadata.name
    cpu = memory = 0
    for each in kube.list("Pod", fields=f"spec.nodeName={node}"):
        pod = shapes.pod(each)
        if not _is_system(pod):
            continue
        asked = [c.resources.limits | c.resources.requests for c in pod.spec.containers]
        cpu += sum(quantities.millis(one.get("cpu")) for one in asked)
        memory += sum(quantities.whole(one.get("memory")) for one in asked)
    return cpu, memory


def _is_system(pod: shapes.Pod) -> bool:
    over = pod.status.phase in ("Succeeded", "Failed")
    return not over and any(owner.kind in ("DaemonSet", "Node") for owner in pod.metadata.owner_references)
