"""EKS add-ons in the cluster: their objects appear while the add-on is there, and go with it."""

from __future__ import annotations

import json
from collections.abc import Iterable

from .addon_manifests import MANIFESTS, SELF_MANAGED
from .aws_view import AwsView
from .loops.engine import Controller, Engine
from .loops.objects import Object, annotations_of, labels_of, name_of, namespace_of, short_hash
from .workloads import ADDON_LABEL

#: Written on kube-system: add-on -> digest of what was applied. EKS puts things back only when it is asked to.
_APPLIED = "sandbox.instantstart.dev/addons"
_PRESENT = frozenset({"CREATING", "ACTIVE", "UPDATING", "DEGRADED", "UPDATE_FAILED", "CREATE_FAILED"})
_SELF_MANAGED_DIGEST = "self-managed"
_FIRST = {"Namespace": 0, "CustomResourceDefinition": 1, "ServiceAccount": 2}


class AddonController(Controller):
    """Keys are add-on names. The field manager is ``eks``, as on a real cluster."""

    name = "eks"
    watched = ("namespaces",)

    def __init__(self, engine: Engine, view: AwsView) -> None:
        super().__init__(engine)
        self._view = view
        view.listeners.append(self.look)

    def keys(self, resource: str, obj: Object) -> Iterable[str]:
        """The system namespace appeared: bring what EKS brings."""
        return SELF_MANAGED if name_of(obj) == "kube-system" else ()

    def look(self) -> None:
        """Look at every add-on that is or was there."""
        for name in sorted(set(self._view.addons or {}) | set(self._applied())):
            self.engine.enqueue(self, name)

    def _applied(self) -> dict[str, str]:
        system = self.cache.get("namespaces", "kube-system")
        found: dict[str, str] = json.loads(annotations_of(system).get(_APPLIED, "{}")) if system else {}
        return found

    async def _note(self, name: str, digest: str | None) -> None:
        applied = {**self._applied(), name: digest}
        kept = {k: v for k, v in applied.items() if v is not None}
        # A removed copy stays noted as an empty digest, or EKS' own copy would come back with the next start.
        change = {"metadata": {"annotations": {_APPLIED: json.dumps(kept, sort_keys=True)}}}
        await self.client.patch("namespaces", "kube-system", change)

    async def reconcile(self, key: str) -> None:
        """One add-on."""
        if key not in MANIFESTS or self.cache.get("namespaces", "kube-system") is None:
            return
        applied, addon = self._applied(), (self._view.addons or {}).get(key)
        if key in SELF_MANAGED and key not in applied:
            await self._apply(key, {}, _SELF_MANAGED_DIGEST)
            return
        if addon is not None and addon.status in _PRESENT:
            digest = short_hash([addon.version, addon.configuration])
            if applied.get(key) != digest:
                await self._apply(key, addon.configuration, digest)
            return
        left = self._view.addons is not None and applied.get(key) not in (None, "", _SELF_MANAGED_DIGEST)
        if left and (addon is None or addon.status == "DELETING"):
            await self._remove(key)

    async def _apply(self, name: str, configuration: Object, digest: str) -> None:
        objects = MANIFESTS[name](configuration)
        for obj in sorted(objects, key=lambda o: _FIRST.get(o["kind"], 3)):
            metadata = {**obj["metadata"], "labels": {**labels_of(obj), ADDON_LABEL: name}}
            await self.client.apply(self._resource(obj), {**obj, "metadata": metadata})
        await self._note(name, digest)

    async def _remove(self, name: str) -> None:
        for obj in reversed(MANIFESTS[name]({})):
            if obj["kind"] == "Namespace":
                continue
            resource, space = self._resource(obj), namespace_of(obj) or None
            present = self.cluster.read(resource, name_of(obj), space)
            if present is not None and labels_of(present).get(ADDON_LABEL) == name:
                await self.client.delete(resource, name_of(obj), space)
        await self._note(name, "")

    def _resource(self, obj: Object) -> str:
        found = self.cluster.catalog.of_kind(obj["apiVersion"], obj["kind"])
        if found is None:
            raise LookupError(f"{obj['apiVersion']} {obj['kind']} is not served")
        return found.qualified
