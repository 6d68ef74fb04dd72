"""The conditions of a HyperpodNodeClass: its groups are there and usable, their subnets lie in one zone each; and its end."""

from __future__ import annotations

from collections.abc import Iterable

from ...world.seams import ScalableGroup
from ..loops.objects import Object, deleting, meta, name_of, spec_of
from ..machines import machine
from .definitions import CLAIMS, CLASS_GROUP, CLASSES
from .offers import CLASS, sizes
from .standing import KarpenterLoop

FINALIZER = f"{CLASS_GROUP}/termination"


def group_faults(node_class: Object, groups: dict[str, ScalableGroup]) -> list[str]:
    """Why Karpenter cannot use a group of the class, one sentence each."""
    found = []
    for name in spec_of(node_class)["instanceGroups"]:
        group = groups.get(name)
        if group is None:
            found.append(f"Instance group {name} does not exist in the HyperPod cluster.")
        elif group.obstacle:
            found.append(f"Instance group {name} cannot be used: {group.obstacle}.")
        elif arm := [t for t in group.instance_types if machine(t).architecture != "amd64"]:
            found.append(f"Instance group {name} cannot be used: {arm[0]} is not an amd64 type.")
    return found


def subnet_faults(node_class: Object, groups: dict[str, ScalableGroup]) -> list[str]:
    """What is wrong with the subnets of the class's groups."""
    found = []
    for name in spec_of(node_class)["instanceGroups"]:
        zones = {zone for _, zone, _ in groups[name].subnets} if name in groups else {"unknown"}
        if "" in zones:
            found.append(f"A subnet of instance group {name} does not exist.")
        elif len(zones) != 1:
            found.append(f"The subnets of instance group {name} are in more than one Availability Zone: {', '.join(sorted(zones))}.")
    return found


def _condition(kind: str, faults: list[str], reason: str) -> Object:
    if not faults:
        return {"type": kind, "status": "True"}
    return {"type": kind, "status": "False", "reason": reason, "message": " ".join(faults)}


def _shown(group: ScalableGroup) -> Object:
    subnets = [{"id": i, "zone": z, "zoneId": zid} for i, z, zid in group.subnets]
    desired = [{"key": k, "value": v} for k, v in sorted(group.labels.items())]
    capacities = {kind: sizes(kind)[0] for kind in group.instance_types}
    types = list(group.instance_types)
    return {"name": group.name, "instanceTypes": types, "subnets": subnets, "desiredLabels": desired, "capacities": capacities}


class NodeClassLoop(KarpenterLoop):
    """Keys are names of classes."""

    name = "karpenter-nodeclass"
    followed = (CLASSES, CLAIMS)

    def keys(self, resource: str, obj: Object) -> Iterable[str]:
        """The class, or the class of a claim."""
        return [name_of(obj)] if resource == CLASSES else [spec_of(obj)["nodeClassRef"]["name"]]

    async def reconcile(self, key: str) -> None:
        """Judge one class, or let it go."""
        found = self.cache.get(CLASSES, key)
        if found is None or self.standing.autoscaler is None:
            return
        finalizers = meta(found).get("finalizers") or []
        if deleting(found):
            await self._let_go(found, [f for f in finalizers if f != FINALIZER])
            return
        if FINALIZER not in finalizers:
            found = await self.client.patch(CLASSES, key, {"metadata": {"finalizers": [*finalizers, FINALIZER]}})
        groups = self.standing.groups
        faults, places = group_faults(found, groups), subnet_faults(found, groups)
        conditions = [
            _condition("InstanceGroupReady", faults, "InstanceGroupNotReady"),
            _condition("SubnetsReady", places, "SubnetsNotReady"),
        ]
        unmet = ", ".join(f"{c['type']}=False" for c in conditions if c["status"] == "False")
        conditions.append(
            {"type": "Ready", "status": "True"}
            if not unmet
            else {"type": "Ready", "status": "False", "reason": "UnhealthyDependents", "message": unmet}
        )
        shown = [_shown(groups[g]) for g in spec_of(found)["instanceGroups"] if g in groups]
        await self.tell(CLASSES, found, conditions, instanceGroups=shown)

    async def _let_go(self, found: Object, left: list[str]) -> None:
        users = [c for c in self.standing.claims() if (meta(c).get("labels") or {}).get(CLASS) == name_of(found)]
        if users:
            text = f"Waiting on NodeClaim termination for {', '.join(name_of(c) for c in users)}"
            await self.event(found, "WaitingOnNodeClaimTermination", text)
        elif len(left) != len(meta(found).get("finalizers") or []):
            await self.client.patch(CLASSES, name_of(found), {"metadata": {"finalizers": left}})
