"""What must hold before a node pool is made: groups, types, zones, requirements, limits, disruption, taints and labels."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from instantstart.aws.session import Aws
from instantstart.base import problems, quantities
from instantstart.base.problems import Violation
from instantstart.ensure.capacity import groups, karpenter, node_pools, offers, scaling
from instantstart.ensure.capacity.karpenter import NODE_CLASS, NODE_POOL
from instantstart.ensure.capacity.nodes import INSTANCE_TYPE, ZONE
from instantstart.ensure.sites import Site
from instantstart.kube.client import KubeCluster

#: default limits let a pool grow to so many of its largest nodes
DEFAULT_NODES = 10
_RESERVED = ("kubernetes.io", "k8s.io", "karpenter.sh")


@dataclass(frozen=True)
class PoolFacts:
    """What decides whether a pool may be. ``zones``: names by group; ``types``: EC2's facts by type; ``owners``: class by group."""

    cluster: Mapping[str, Any]
    zones: Mapping[str, frozenset[str]]
    types: Mapping[str, Mapping[str, Any] | None]
    owners: Mapping[str, str]
    pools: Mapping[str, dict[str, Any]]
    classes: Collection[str] = field(default_factory=tuple)


def observe_pool(where: Site, kube: KubeCluster, wanted: Sequence[str]) -> PoolFacts:
    """Read what the rules of a pool over these groups need."""
    cluster = scaling.get_cluster(where)
    found = [g for name in wanted if (g := groups.find(cluster, name))]
    subnets = {g["InstanceGroupName"]: (g.get("OverrideVpcConfig") or cluster.get("VpcConfig") or {}).get("Subnets", []) for g in found}
    types = sorted({t for g in found for t in types_of(g)})
    pools = {p["metadata"]["name"]: p for p in karpenter.list_served(kube, NODE_POOL)}
    classes = tuple(c["metadata"]["name"] for c in karpenter.list_served(kube, NODE_CLASS))
    facts = {t: where.aws.cached(f"type/{t}", 600, lambda t=t: offers.describe_type(where.aws, t)) for t in types}  # type: ignore[misc]
    return PoolFacts(cluster, _zones(where.aws, subnets), facts, karpenter.karpenter_owners(kube), pools, classes)


def _zones(aws: Aws, subnets: Mapping[str, Sequence[str]]) -> dict[str, frozenset[str]]:
    ids = sorted({s for each in subnets.values() for s in each})
    filters = [{"Name": "subnet-id", "Values": ids}]
    told = aws.pages("ec2", "describe_subnets", "Subnets", Filters=filters) if ids else []
    zone = {s["SubnetId"]: s["AvailabilityZone"] for s in told}
    return {g: frozenset(zone[s] for s in each if s in zone) for g, each in subnets.items()}


def types_of(group: Mapping[str, Any]) -> list[str]:
    """The instance types of a group as DescribeCluster tells it."""
    flexible = group.get("InstanceRequirements") or {}
    one = group.get("InstanceType")
    return [one] if one else list(flexible.get("DesiredInstanceTypes") or flexible.get("CurrentInstanceTypes") or [])


_LONGEST_SECONDS = 366 * 86400.0
#: what a NodePool's budget takes for a schedule (Karpenter's own schema, its five fields held to cron's letters)
_CRON = re.compile(r"@(annually|yearly|monthly|weekly|daily|midnight|hourly)|[0-9A-Za-z*/,?L#-]+( +[0-9A-Za-z*/,?L#-]+){4}")


def pool_violations(name: str, wanted: Mapping[str, Any], facts: PoolFacts) -> list[Violation]:
    """Everything that is wrong with the fields of a pool, each with its pointer."""
    return [
        *_group_violations(name, wanted["instance_groups"], facts),
        *_type_violations(wanted, facts),
        *_zone_violations(wanted, facts),
        *_requirement_violations(wanted["requirements"]),
        *_unmeetable_violations(wanted, facts),
        *_limit_violations(wanted, facts),
        *_disruption_violations(wanted),
        *_label_violations(wanted["labels"]),
        *_taint_violations(wanted["taints"]),
    ]


def _group_violations(name: str, wanted: Sequence[str], facts: PoolFacts) -> list[Violation]:
    found = []
    for at, each in enumerate(wanted):
        told = "is named twice." if each in wanted[:at] else _group_fault(name, each, facts)
        if told:
            found.append(Violation(f"/instance_groups/{at}", f"The instance group {each} {told}"))
    return found


def _group_fault(name: str, wanted: str, facts: PoolFacts) -> str | None:
    group = groups.find(facts.cluster, wanted)
    if group is None:
        have = ", ".join(g["InstanceGroupName"] for g in facts.cluster["InstanceGroups"]) or "none"
        return f"does not exist; there are: {have}."
    if group.get("TrainingPlanArn"):
        return "uses a training plan: Karpenter does not scale reserved capacity."
    if group.get("OnStartDeepHealthChecks"):
        return "has deep health checks: its pods would wait for an hour or two, and Karpenter would make more and more nodes."
    if len(facts.zones.get(wanted, ())) > 1:
        return f"has subnets in more than one zone: {', '.join(sorted(facts.zones[wanted]))}. Karpenter needs one zone a group."
    owner = facts.owners.get(wanted)
    if owner and owner != name:
        return f"belongs to the node class {owner} already."
    arm = [t for t in types_of(group) if not _is_amd64(facts.types.get(t))]
    return f"has the type {arm[0]}, which is not amd64: Karpenter makes amd64 nodes only." if arm else None


def _is_amd64(told: Mapping[str, Any] | None) -> bool:
    architectures = (told or {}).get("ProcessorInfo", {}).get("SupportedArchitectures")
    return architectures is None or "x86_64" in architectures


def _type_violations(wanted: Mapping[str, Any], facts: PoolFacts) -> list[Violation]:
    known = [g for name in wanted["instance_groups"] if (g := groups.find(facts.cluster, name))]
    have = {t for g in known for t in types_of(g)}
    told = f"is in none of the groups; they have: {', '.join(sorted(have)) or 'none'}."
    return [Violation(f"/instance_types/{at}", f"{t} {told}") for at, t in enumerate(wanted["instance_types"]) if known and t not in have]


def _zone_violations(wanted: Mapping[str, Any], facts: PoolFacts) -> list[Violation]:
    have = {z for name in wanted["instance_groups"] for z in facts.zones.get(name, ())}
    told = f"has none of the groups; they are in {', '.join(sorted(have))}. Name zones by name, not by id."
    return [Violation(f"/zones/{at}", f"The zone {z} {told}") for at, z in enumerate(wanted["zones"]) if have and z not in have]


def _requirement_violations(requirements: Sequence[Mapping[str, Any]]) -> list[Violation]:
    found = []
    for at, each in enumerate(requirements):
        pointer, key, values = f"/requirements/{at}", each["key"], each["values"]
        domain = key.rpartition("/")[0]
        if key == node_pools.CAPACITY_TYPE:
            told = (
                "HyperPod's Karpenter does not honour a capacity type here. List Spot groups, on-demand groups, or both: Spot goes first."
            )
            found.append(Violation(f"{pointer}/key", told))
        elif domain.endswith("karpenter.sh") or key == "kubernetes.io/hostname":
            found.append(Violation(f"{pointer}/key", f"The label {key} is Karpenter's own and cannot be required."))
        elif key == node_pools.ARCHITECTURE and (each["operator"] != "In" or list(values) != ["amd64"]):
            found.append(Violation(pointer, "Karpenter makes amd64 nodes only."))
        if each["operator"] in ("In", "NotIn") and not values:
            found.append(Violation(f"{pointer}/values", f"{each['operator']} needs values."))
        if each["operator"] in ("Exists", "DoesNotExist") and values:
            found.append(Violation(f"{pointer}/values", f"{each['operator']} takes no values."))
        if each["operator"] in ("Gt", "Lt") and not (len(values) == 1 and values[0].isdigit()):
            found.append(Violation(f"{pointer}/values", f"{each['operator']} needs one whole number."))
    return found


def _unmeetable_violations(wanted: Mapping[str, Any], facts: PoolFacts) -> list[Violation]:
    """Requirements that leave no node that Karpenter could make: pods would wait for ever, without a word."""
    found = [g for name in wanted["instance_groups"] if (g := groups.find(facts.cluster, name))]
    if not found:
        return []
    types = wanted["instance_types"] or {t for g in found for t in types_of(g)}
    zones = wanted["zones"] or {z for g in found for z in facts.zones.get(g["InstanceGroupName"], ())}
    known = {INSTANCE_TYPE: set(types), ZONE: set(zones), "kubernetes.io/os": {"linux"}, **{k: {v} for k, v in wanted["labels"].items()}}
    told = []
    for at in node_pools.unmeetable(wanted["requirements"], {key: values for key, values in known.items() if values}):
        key = wanted["requirements"][at]["key"]
        have = f"the pool's nodes have {', '.join(sorted(known[key]))}" if known.get(key) else "it contradicts another requirement"
        told.append(Violation(f"/requirements/{at}", f"No node can meet this requirement of {key}: {have}."))
    return told


def _limit_violations(wanted: Mapping[str, Any], facts: PoolFacts) -> list[Violation]:
    """A limit below the smallest node that has the resource: Karpenter would never make one."""
    types = wanted["instance_types"] or [t for n in wanted["instance_groups"] if (g := groups.find(facts.cluster, n)) for t in types_of(g)]
    sizes = [_sizes(told) for name in types if (told := facts.types.get(name))]
    found = []
    for resource, limit in (wanted["limits"] or {}).items():
        smallest = min((s[resource] for s in sizes if s.get(resource)), default=0)
        if smallest and quantities.whole(str(limit)) < smallest and all(s.get(resource) for s in sizes):
            wrong = f"With at most {limit} of {resource} the pool makes no node: its smallest has {smallest}. Raise it, or leave it out."
            found.append(Violation(f"/limits/{resource.replace('~', '~0').replace('/', '~1')}", wrong))
    return found


def _disruption_violations(wanted: Mapping[str, Any]) -> list[Violation]:
    found = []
    for wait in ("consolidate_after", "expire_after"):
        if (seconds_in(wanted[wait]) or 0) > _LONGEST_SECONDS:
            found.append(Violation(f"/{wait}", f"{wait} is longer than a year. Say Never when it shall not happen."))
    if seconds_in(wanted["consolidate_after"]) == 0:
        told = "With 0s a node goes the moment it is idle, and comes back for the next pod. Wait a while: 10m, or 2m for Spot."
        found.append(Violation("/consolidate_after", told))
    if seconds_in(wanted["expire_after"]) == 0:
        found.append(
            Violation("/expire_after", "With 0s every node is replaced as soon as it is there. Take a lifetime, such as 720h, or Never.")
        )
    for at, budget in enumerate(wanted["budgets"]):
        if (budget.get("schedule") is None) != (budget.get("duration") is None):
            found.append(Violation(f"/budgets/{at}", "schedule and duration go together."))
        if budget.get("schedule") is not None and not _CRON.fullmatch(budget["schedule"]):
            told = "schedule takes the five fields of cron, such as 0 9 * * 1-5, or one of @hourly, @daily, @weekly, @monthly, @yearly."
            found.append(Violation(f"/budgets/{at}/schedule", told))
    return found


def _taint_violations(taints: Sequence[str]) -> list[Violation]:
    """A node has a key with an effect once."""
    names = [(taint.partition(":")[0].partition("=")[0], taint.rpartition(":")[2]) for taint in taints]
    twice = [at for at, name in enumerate(names) if name in names[:at]]
    return [Violation(f"/taints/{at}", f"The taint {names[at][0]}:{names[at][1]} is given twice.") for at in twice]


def _label_violations(labels: Mapping[str, str]) -> list[Violation]:
    found = []
    for key in labels:
        domain = key.rpartition("/")[0]
        if any(domain == r or domain.endswith(f".{r}") for r in _RESERVED):
            found.append(Violation(f"/labels/{key.replace('~', '~0').replace('/', '~1')}", f"The prefix {domain}/ is reserved."))
    return found


def seconds_in(duration: str) -> float | None:
    """``1h30m`` in seconds; None for Never."""
    if duration == "Never":
        return None
    unit = {"s": 1, "m": 60, "h": 3600}
    return float(sum(int(number) * unit[letter] for number, letter in re.findall(r"([0-9]+)([smh])", duration)))


def warnings(wanted: Mapping[str, Any], facts: PoolFacts) -> list[str]:
    """What is allowed and may surprise."""
    found = []
    names = set(wanted["instance_groups"])
    mine = [g for g in facts.cluster["InstanceGroups"] if g["InstanceGroupName"] in names]
    spot = [g["InstanceGroupName"] for g in mine if "Spot" in (g.get("CapacityRequirements") or {})]
    after = seconds_in(wanted["consolidate_after"])
    if spot and after is not None and after > 120:
        found.append(f"{', '.join(spot)} is Spot: a consolidate_after of at most 2m is advised.")
    static = [g for g in facts.cluster["InstanceGroups"] if g["InstanceGroupName"] not in names | set(facts.owners)]
    if not any(g["TargetCount"] for g in static):
        found.append("No group outside Karpenter has nodes: keep a static one, or the system's own pods will hold Karpenter's nodes.")
    return found


def default_limits(types: Sequence[str], facts: PoolFacts) -> dict[str, str]:
    """Ten of the largest node, by CPU and by accelerator; nothing for what EC2 does not describe."""
    known = [t for name in types if (t := facts.types.get(name))]
    sizes: dict[str, int] = {}
    for told in known:
        for resource, count in _sizes(told).items():
            sizes[resource] = max(sizes.get(resource, 0), count)
    return {resource: str(count * DEFAULT_NODES) for resource, count in sorted(sizes.items()) if count}


def _sizes(told: Mapping[str, Any]) -> dict[str, int]:
    gpus = sum(int(g.get("Count", 0)) for g in (told.get("GpuInfo") or {}).get("Gpus", ()))
    devices = sum(int(d.get("Count", 0)) for d in (told.get("NeuronInfo") or {}).get("NeuronDevices", ()))
    cpus = int((told.get("VCpuInfo") or {}).get("DefaultVCpus", 0))
    return {"cpu": cpus, "nvidia.com/gpu": gpus, "aws.amazon.com/neurondevice": devices}


def taken_over(wanted: Sequence[str], facts: PoolFacts) -> dict[str, int]:
    """The nodes that go when Karpenter takes these groups over: those of groups it does not own yet."""
    found = [g for name in wanted if name not in facts.owners and (g := groups.find(facts.cluster, name))]
    return {g["InstanceGroupName"]: n for g in found if (n := max(int(g["TargetCount"]), int(g["CurrentCount"])))}


def check_violations(found: Sequence[Violation]) -> None:
    """Raise Invalid with all of them."""
    if found:
        detail = " ".join(v.message for v in found)
        raise problems.Invalid("node_pool.invalid", detail, hint="Correct what is named, and ask again.", fields=found)
