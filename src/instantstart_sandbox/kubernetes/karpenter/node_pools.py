"""The conditions of a NodePool: what it asks is valid, its class is ready; and what it has made so far."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from ..loops.objects import Object, deleting, is_true, name_of, spec_of
from .definitions import CLAIMS, CLASS_GROUP, CLASSES, POOLS
from .offers import CAPACITY, TYPE, sizes, total
from .standing import KarpenterLoop

_OPEN_KEYS = (CAPACITY,)
_RESTRICTED = ("karpenter.sh/nodepool", "kubernetes.io/hostname")


def _requirement_faults(requirement: Object) -> list[str]:
    key, operator, values = requirement["key"], requirement["operator"], requirement.get("values") or []
    domain = key.rpartition("/")[0]
    found = []
    if key in _RESTRICTED or (domain.endswith("karpenter.sh") and key not in _OPEN_KEYS):
        found.append(f'label "{key}" is restricted')
    if operator == "In" and not values:
        found.append("requirements with operator 'In' must have a value defined")
    if operator in ("Gt", "Lt") and not (len(values) == 1 and values[0].isdigit()):
        found.append("requirements operator 'Gt' or 'Lt' must have a single positive integer value")
    if operator == "In" and len(values) < int(requirement.get("minValues") or 0):
        found.append("requirements with 'minValues' must have at least that many values specified in the 'values' field")
    return found


def pool_faults(pool: Object) -> list[str]:
    """What a schema alone does not refuse."""
    spec = spec_of(spec_of(pool)["template"])
    reference = spec["nodeClassRef"]
    found = [fault for requirement in spec.get("requirements") or [] for fault in _requirement_faults(requirement)]
    if (reference["group"], reference["kind"]) != (CLASS_GROUP, "HyperpodNodeClass"):
        found.append(f"nodeClassRef must name a HyperpodNodeClass of {CLASS_GROUP}")
    for budget in (spec_of(pool).get("disruption") or {}).get("budgets") or []:
        if ("schedule" in budget) != ("duration" in budget):
            found.append("'schedule' must be set with 'duration'")
    return found


def _printed(amounts: dict[str, Decimal], claims: list[Object]) -> Object:
    """Sums of capacities as quantities: bytes with Ki, all else plain."""
    found: Object = {"nodes": str(len(claims))}
    suffixes = {r: "Ki" for c in claims for r, v in sizes(c["metadata"]["labels"][TYPE])[0].items() if v.endswith("Ki")}
    for resource, value in sorted(amounts.items()):
        if value:
            found[resource] = f"{int(value / 1024)}Ki" if resource in suffixes else str(value.normalize().quantize(Decimal(1)))
    return found


class NodePoolLoop(KarpenterLoop):
    """Keys are names of pools."""

    name = "karpenter-nodepool"
    followed = (POOLS, CLASSES, CLAIMS)

    def keys(self, resource: str, obj: Object) -> Iterable[str]:
        """The pool; every pool when a class or a claim changed."""
        return [name_of(obj)] if resource == POOLS else self.all_keys()

    async def reconcile(self, key: str) -> None:
        """Judge one pool."""
        pool = self.cache.get(POOLS, key)
        if pool is None or self.standing.autoscaler is None or deleting(pool):
            return
        faults = pool_faults(pool)
        conditions = [{"type": "ValidationSucceeded", "status": "True"}, self._class_condition(pool)]
        if faults:
            text = f"invalid value: {', '.join(faults)}"
            conditions[0] = {"type": "ValidationSucceeded", "status": "False", "reason": "NodePoolValidationFailed", "message": text}
        unmet = ", ".join(f"{c['type']}={c['status']}" for c in conditions if c["status"] != "True")
        ready: Object = {"type": "Ready", "status": "True"}
        if unmet:
            ready = {"type": "Ready", "status": "False", "reason": "UnhealthyDependents", "message": unmet}
        claims = self.standing.claims(key)
        await self.tell(POOLS, pool, [*conditions, ready], resources=_changes(pool, _printed(total(claims), claims)), nodes=len(claims))

    def _class_condition(self, pool: Object) -> Object:
        name = spec_of(spec_of(pool)["template"])["nodeClassRef"]["name"]
        found = self.cache.get(CLASSES, name)
        told: Object = {"type": "NodeClassReady"}
        if found is None:
            return {**told, "status": "False", "reason": "NodeClassNotFound", "message": "NodeClass not found on cluster"}
        if deleting(found):
            return {**told, "status": "False", "reason": "NodeClassTerminating", "message": "NodeClass is Terminating"}
        if not is_true(found, "Ready"):
            return {**told, "status": "False", "reason": "NodeClassNotReady", "message": f"HyperpodNodeClass {name} is not ready"}
        return {**told, "status": "True"}


def _changes(pool: Object, wanted: Object) -> Object:
    """A merge patch's map: what is no longer there is None."""
    have = (pool.get("status") or {}).get("resources") or {}
    return wanted if all(k in wanted for k in have) else {**dict.fromkeys(have), **wanted}
