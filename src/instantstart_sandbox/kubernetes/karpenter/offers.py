"""What instance groups could give: the machine an offer would be, and whether a pool, its limits and a pod take it. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal

from ...world.seams import Instance, ScalableGroup
from ..loops.objects import Object, meta, name_of, spec_of
from ..loops.quantity import amount
from ..machines import machine
from ..nodes import PREFIX, capacity, devices, labels
from .definitions import CLASS_GROUP

POOL, CAPACITY = "karpenter.sh/nodepool", "karpenter.sh/capacity-type"
CLASS = f"{CLASS_GROUP}/hyperpodnodeclass"
TYPE, ZONE, GROUP = "node.kubernetes.io/instance-type", "topology.kubernetes.io/zone", PREFIX + "instance-group-name"
LOGICAL = "sandbox.instantstart.dev/logical-id"
DISRUPTED = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def seconds_in(duration: str | None) -> float | None:
    """``1h30m`` in seconds; None for ``Never`` and for nothing."""
    if not duration or duration == "Never":
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in re.findall(r"([0-9]+)([smh])", duration))


@dataclass(frozen=True)
class Offer:
    """One instance type of one group. A group that Karpenter may use has one zone."""

    group: ScalableGroup
    instance_type: str

    @property
    def key(self) -> str:
        """Names the offer while it is out of stock."""
        return f"{self.group.name}/{self.instance_type}"

    @property
    def zone(self) -> str:
        """Zone name."""
        return self.group.subnets[0][1]

    @property
    def capacity_type(self) -> str:
        """As the label says it."""
        return "spot" if self.group.capacity_type == "Spot" else "on-demand"

    @property
    def order(self) -> tuple[bool, int, int, int, float]:
        """Spot first, then the smallest machine that will do; a pod without need of an accelerator should not get one."""
        kind = machine(self.instance_type)
        return (self.capacity_type != "spot", kind.gpus, kind.neuron_devices, kind.vcpus, kind.memory_gib)


def offers_of(groups: Iterable[ScalableGroup], pool: Object, region: str) -> list[Offer]:
    """Every offer of the groups that the pool's requirements allow, best first."""
    found = [Offer(group, kind) for group in groups for kind in group.instance_types]
    wanted = spec_of(spec_of(pool)["template"]).get("requirements") or []
    return sorted((o for o in found if allowed(wanted, node_labels(o, pool, region))), key=lambda o: o.order)


def allowed(requirements: Iterable[Object], have: Mapping[str, str]) -> bool:
    """Whether labels meet the requirements. The capacity type is not honoured: the groups of the class decide it (facts A12)."""
    return all(_meets(r, have.get(r["key"])) for r in requirements if r["key"] != CAPACITY)


def _meets(requirement: Object, value: str | None) -> bool:
    operator, values = requirement["operator"], requirement.get("values") or []
    if operator in ("Gt", "Lt"):
        if value is None or not value.isdigit():
            return False
        return int(value) > int(values[0]) if operator == "Gt" else int(value) < int(values[0])
    tests = {"In": value in values, "NotIn": value not in values, "Exists": value is not None, "DoesNotExist": value is None}
    return bool(tests[operator])


def node_labels(offer: Offer, pool: Object, region: str) -> dict[str, str]:
    """The labels of the node that an offer would become."""
    group, (_, zone, zone_id) = offer.group, offer.group.subnets[0]
    imagined = Instance("new", "", group.name, offer.instance_type, "Running", zone, zone_id, "", group.capacity_type, True)
    given = meta(spec_of(pool)["template"]).get("labels") or {}
    found = {**labels(imagined, machine(offer.instance_type), region), **group.labels, **given}
    del found["kubernetes.io/hostname"]
    return {**found, POOL: name_of(pool), CAPACITY: offer.capacity_type, CLASS: spec_of(spec_of(pool)["template"])["nodeClassRef"]["name"]}


def node_taints(offer: Offer, pool: Object) -> list[Object]:
    """The taints that stay on the node: the group's and the pool's. Startup taints go again, so nobody waits for them."""
    own = [{"key": k, "value": v, "effect": e} for k, v, e in offer.group.taints]
    return [*own, *(spec_of(spec_of(pool)["template"]).get("taints") or [])]


def sizes(instance_type: str) -> tuple[Object, Object]:
    """(capacity, allocatable) of a type, with all its devices: their plugins are expected to come."""
    kind = machine(instance_type)
    return capacity(kind, devices(kind))


def imagined_node(name: str, instance_type: str, own_labels: Mapping[str, str], taints: list[Object]) -> Object:
    """A Node object that does not exist (yet), for the scheduler's filters."""
    whole, usable = sizes(instance_type)
    metadata = {"name": name, "labels": {**own_labels, "kubernetes.io/hostname": name}}
    return {"metadata": metadata, "spec": {"taints": taints}, "status": {"capacity": whole, "allocatable": usable}}


def room_in(pool: Object, used: Mapping[str, Decimal], instance_type: str) -> bool:
    """Whether one more machine keeps within the pool's limits."""
    more = {k: amount(v) for k, v in sizes(instance_type)[0].items()} | {"nodes": Decimal(1)}
    limits = spec_of(pool).get("limits") or {}
    return all(used.get(r, Decimal(0)) + more.get(r, Decimal(0)) <= amount(limit) for r, limit in limits.items())


def total(claims: Iterable[Object]) -> dict[str, Decimal]:
    """The capacity of claims, with their number as ``nodes``."""
    found: dict[str, Decimal] = {"nodes": Decimal(0)}
    for claim in claims:
        found["nodes"] += 1
        for resource, value in sizes((meta(claim).get("labels") or {})[TYPE])[0].items():
            found[resource] = found.get(resource, Decimal(0)) + amount(value)
    return found
