"""What must hold before something is done to nodes: who is meant, and what stands in the way. All violations at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from instantstart.base import problems
from instantstart.base.problems import Violation
from instantstart.capabilities.room import Room
from instantstart.ensure.capacity import drains, hyperpod, instances, karpenter, nodes, offers
from instantstart.ensure.capacity.drains import Work
from instantstart.ensure.capacity.instances import Instance
from instantstart.ensure.capacity.nodes import NodeView
from instantstart.ensure.sites import Site

_PENDING_LABELS = {
    "UnschedulablePendingReplacement": "HyperPod is replacing it already",
    "UnschedulablePendingReboot": "HyperPod is rebooting it already",
}
#: deep health checks take one to two hours (aws-facts A1.7)
CHECK_MINUTES = "60 to 120"
_HELD_GROUP = frozenset({"Creating", "Updating"})


class Action(Enum):
    """What may be done to single nodes."""

    reboot = "reboot"
    replace = "replace"
    delete = "delete"
    move = "move"
    check = "check"


@dataclass(frozen=True)
class Facts:
    """The world a request about nodes is held against. ``unknown`` says why Kubernetes could not be asked, if it could not."""

    cluster: Mapping[str, Any]
    instances: tuple[Instance, ...]
    #: by instance id
    nodes: Mapping[str, NodeView]
    unknown: str | None
    #: instance group -> the Karpenter node class that owns it
    owners: Mapping[str, str]
    #: instance type -> accelerators, None for "EC2 does not say"
    accelerators: Mapping[str, int | None]

    def group(self, name: str) -> Mapping[str, Any]:
        """What DescribeCluster tells of a group; empty for one that is gone."""
        return next((dict(g) for g in self.cluster["InstanceGroups"] if g["InstanceGroupName"] == name), {})

    def node(self, instance: Instance) -> NodeView | None:
        """The Kubernetes node of an instance."""
        return self.nodes.get(instance.instance_id or "")


def described(where: Site) -> dict[str, Any]:
    """The HyperPod cluster. Raises NotFound when there is none yet."""
    found = hyperpod.find_cluster(where.aws, where.hyperpod_cluster)
    if found is None:
        raise problems.NotFound(
            "hyperpod.absent", f"The cluster {where.tag} has no HyperPod cluster.", hint="Create the HyperPod cluster first."
        )
    return found


def observe(room: Room, where: Site) -> Facts:
    """Read what the rules need: SageMaker's instances beside Kubernetes' nodes."""
    cluster = described(where)
    found = instances.read(where.aws, cluster)
    known: dict[str, NodeView] = {}
    owners: Mapping[str, str] = {}
    unknown = None
    try:
        kube = where.kube(room)
        known = {n.instance_id: n for n in nodes.read(kube) if n.instance_id}
        owners = karpenter.karpenter_owners(kube)
    except problems.Problem as problem:
        unknown = f"Kubernetes could not be asked: {problem.detail}"
    return Facts(cluster, found, known, unknown, owners, {})


def with_accelerators(where: Site, facts: Facts, chosen: Iterable[Instance]) -> Facts:
    """The same facts, with the accelerators of the chosen nodes' types."""
    kinds = {each.instance_type for each in chosen}
    counts = {kind: _accelerators(offers.describe_type(where.aws, kind)) for kind in sorted(kinds)}
    return Facts(facts.cluster, facts.instances, facts.nodes, facts.unknown, facts.owners, counts)


def _accelerators(told: Mapping[str, Any] | None) -> int | None:
    if told is None:
        return None
    return sum(
        int(device.get("Count", 0))
        for info, key in (("GpuInfo", "Gpus"), ("NeuronInfo", "NeuronDevices"), ("InferenceAcceleratorInfo", "Accelerators"))
        for device in (told.get(info) or {}).get(key, ())
    )


def resolve(asked: Sequence[str], found: Sequence[Instance]) -> tuple[list[Instance], list[Violation]]:
    """Who is meant by each name: instance id, Kubernetes name or logical id. Wrong, unknown and repeated ones are violations. Pure."""
    names = {name: each for each in found for name in (each.instance_id, each.node_name, each.logical_id) if name}
    chosen: dict[str, Instance] = {}
    wrong = []
    for at, name in enumerate(asked):
        instance = names.get(name.strip())
        if instance is None:
            wrong.append(Violation(f"/nodes/{at}", unknown_name(name.strip())))
        elif instance.key in chosen:
            wrong.append(Violation(f"/nodes/{at}", f"{name} names a node that is named before it: {instance.key}."))
        else:
            chosen[instance.key] = instance
    return list(chosen.values()), wrong


def unknown_name(name: str) -> str:
    """Why a name names no node: it cannot, or there is none. Pure."""
    bare = name.removeprefix(instances.NODE_PREFIX)
    if bare.startswith("i-") and not instances.INSTANCE_ID.fullmatch(bare):
        return f"{name} is no instance id: that is i- and 8 or 17 hexadecimal digits."
    return f"There is no node {name} in this cluster."


def check(action: Action, asked: Sequence[str], facts: Facts, chosen: Sequence[Instance], wrong: Sequence[Violation]) -> None:
    """Raise one problem that names every node that cannot be acted on, and why. ``wrong``: what ``resolve`` found."""
    at = {each.key: index for index, each in _positions(asked, facts.instances)}
    held = [Violation(f"/nodes/{at.get(c.key, 0)}", told) for c in chosen for told in _obstacles(action, facts, c)]
    fields = sorted([*wrong, *held], key=lambda v: int(v.pointer.rpartition("/")[2]))
    if fields:
        kind = problems.Invalid if wrong else problems.Conflict
        told = " ".join(f.message for f in fields[:5]) + (f" And {len(fields) - 5} more." if len(fields) > 5 else "")
        raise kind(
            "node.not_actable",
            told,
            title=f"These nodes cannot be {_PAST[action]}",
            hint="List the nodes; name each once, by instance id, Kubernetes name or logical id.",
            fields=fields,
        )
    _check_cluster(facts.cluster)


_PAST = {
    Action.reboot: "rebooted",
    Action.replace: "replaced",
    Action.delete: "deleted",
    Action.move: "moved",
    Action.check: "checked",
}


def _positions(asked: Sequence[str], found: Sequence[Instance]) -> list[tuple[int, Instance]]:
    names = {name: each for each in found for name in (each.instance_id, each.node_name, each.logical_id) if name}
    return [(at, names[name.strip()]) for at, name in enumerate(asked) if name.strip() in names]


def _check_cluster(cluster: Mapping[str, Any]) -> None:
    if cluster["ClusterStatus"] != "InService":
        raise problems.Conflict(
            "hyperpod.not_in_service",
            f"The HyperPod cluster {cluster['ClusterName']} is {cluster['ClusterStatus']}; nodes are acted on while it is InService.",
            hint="Wait until it is InService, then ask again.",
        )


def _obstacles(action: Action, facts: Facts, instance: Instance) -> list[str]:
    """Every reason why one node cannot be acted on now."""
    return [f"{instance.key}: {told}" for each in (*_ALWAYS, *_RULES[action]) if (told := each(facts, instance)) is not None]


def _going(_facts: Facts, instance: Instance) -> str | None:
    return "it is being shut down." if instance.status == "ShuttingDown" else None


def _updating(_facts: Facts, instance: Instance) -> str | None:
    return "its software is being updated; wait for the end of the update." if instance.status == "SystemUpdating" else None


def _in_check(_facts: Facts, instance: Instance) -> str | None:
    running = instance.status == "DeepHealthCheckInProgress"
    return f"its deep health checks are running; they take {CHECK_MINUTES} minutes." if running else None


def _no_instance(_facts: Facts, instance: Instance) -> str | None:
    return None if instance.instance_id else "it has no instance yet."


def _pending(facts: Facts, instance: Instance) -> str | None:
    node = facts.node(instance)
    told = _PENDING_LABELS.get((node.health if node else None) or "")
    if told:
        return f"{told}; wait for its end."
    if instance.instance_id and instance.status == "Pending":
        return f"it is still starting ({instance.message or 'its lifecycle scripts run'})."
    return None


def _unjoined(facts: Facts, instance: Instance) -> str | None:
    if facts.unknown:
        return f"{facts.unknown} A reboot is seen by its Kubernetes node only."
    if instance.instance_id and facts.node(instance) is None:
        return "it never joined Kubernetes, so a reboot could not be told from none; replace it instead."
    return None


def _owned(facts: Facts, instance: Instance) -> str | None:
    owner = facts.owners.get(instance.group)
    if owner is None:
        return None
    return f"its group {instance.group} belongs to Karpenter (node class {owner}), which takes and gives nodes by itself."


def _gated(facts: Facts, instance: Instance) -> str | None:
    group = facts.group(instance.group)
    if group.get("MinCount") and group.get("Status") in _HELD_GROUP:
        return f"its group {instance.group} is {group['Status']} until its minimum of {group['MinCount']} nodes has arrived."
    return None


def _not_running(_facts: Facts, instance: Instance) -> str | None:
    return None if instance.status == "Running" else f"it is {instance.status}; only a Running node can be checked."


def _no_accelerator(facts: Facts, instance: Instance) -> str | None:
    none = facts.accelerators.get(instance.instance_type) == 0
    return f"deep health checks are for accelerated types, and {instance.instance_type} has none." if none else None


Rule = Callable[[Facts, Instance], str | None]
_ALWAYS: tuple[Rule, ...] = (_going, _updating)
_RULES: Mapping[Action, tuple[Rule, ...]] = {
    Action.reboot: (_in_check, _no_instance, _pending, _unjoined),
    Action.replace: (_in_check, _no_instance, _pending),
    Action.delete: (_owned, _gated),
    Action.move: (_in_check, _no_instance, _owned, _gated),
    Action.check: (_in_check, _no_instance, _pending, _not_running, _no_accelerator),
}


def check_move(facts: Facts, chosen: Sequence[Instance], target_group: str) -> None:
    """Raise Invalid when nodes cannot belong to that group: it is not there, it is theirs, or it has another instance type."""
    group = facts.group(target_group)
    if not group:
        have = ", ".join(g["InstanceGroupName"] for g in facts.cluster["InstanceGroups"])
        told = [f"There is no instance group {target_group}; there are {have}."]
    else:
        told = [text for each in chosen if (text := _unfit(each, target_group, group)) is not None]
        if target_group in facts.owners:
            told.append(f"The group {target_group} belongs to Karpenter (node class {facts.owners[target_group]}).")
    if told:
        raise problems.Invalid("node.cannot_move", " ".join(told[:5]), fields=[Violation("/target_group", text) for text in told])


def _unfit(instance: Instance, name: str, group: Mapping[str, Any]) -> str | None:
    if instance.group == name:
        return f"{instance.key} belongs to {name} already."
    kinds = (group.get("InstanceRequirements") or {}).get("DesiredInstanceTypes") or [group.get("InstanceType")]
    if instance.instance_type not in kinds:
        return f"{instance.key} is {instance.instance_type}; the group {name} takes {', '.join(map(str, kinds))}."
    return None


def busy(room: Room, where: Site, chosen: Iterable[Instance]) -> tuple[Work, ...]:
    """What runs on these nodes. Raises what the cluster's API does: unreadable is not idle."""
    names = [each.node_name for each in chosen if each.node_name]
    return drains.busy(where.kube(room), names) if names else ()


def names_of(work: Iterable[Work]) -> tuple[str, ...]:
    """What an approval is bound to: whose work it is, not which of its pods."""
    return tuple(sorted({f"{each.kind} {each.namespace}/{each.name}" for each in work}))


def last_ones(facts: Facts, chosen: Sequence[Instance]) -> list[str]:
    """Which groups would have no node left, and whether the cluster would: each in one sentence. Pure."""
    gone = {each.key for each in chosen}
    left = [each for each in facts.instances if each.key not in gone]
    emptied = sorted({each.group for each in chosen} - {each.group for each in left})
    told = [f"These are the last nodes of the group {name}." for name in emptied]
    ready = [n for n in facts.nodes.values() if n.usable and n.instance_id not in gone]
    if not ready and not facts.unknown:
        told.append("No other node can take pods: DNS and the cluster's other own pods have nowhere to go meanwhile.")
    return told


def outdated(cluster: Mapping[str, Any]) -> list[str]:
    """The groups with a newer release than theirs. Pure."""
    return [g["InstanceGroupName"] for g in cluster["InstanceGroups"] if g.get("ImageVersionStatus", "UpToDate") != "UpToDate"]
