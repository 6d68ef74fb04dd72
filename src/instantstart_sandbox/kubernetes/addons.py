"""EKS add-ons in the cluster: their objects appear while the add-on is there, and go with it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ..world.seams import Addon
from .addon_manifests import MANIFESTS, ROLE_ACCOUNTS
from .aws_view import AwsView
from .loops.engine import Controller, Engine
from .loops.objects import Object, annotations_of, labels_of, name_of, namespace_of, short_hash
from .pod_roles import ANNOTATION
from .workloads import ADDON_LABEL

if TYPE_CHECKING:
    from .cluster import Cluster

#: Written on kube-system: add-on -> digest of what was applied. EKS puts things back only when it is asked to.
_APPLIED = "sandbox.instantstart.dev/addons"
#: An add-on that could not be created has left nothing behind.
_PRESENT = frozenset({"CREATING", "ACTIVE", "UPDATING", "DEGRADED", "UPDATE_FAILED", "DELETE_FAILED"})
_FIRST = {"Namespace": 0, "CustomResourceDefinition": 1, "ServiceAccount": 2}


def _of_version(obj: Object, version: str) -> Object:
    """With images of the add-on's version: what a reader of a DaemonSet tells an old network plugin by."""
    if obj["kind"] in ("Deployment", "DaemonSet") and version:
        for container in obj["spec"]["template"]["spec"]["containers"]:
            container["image"] = f"{container['image'].rpartition(':')[0]}:{version}"
    return obj


#: what a Helm release of the same thing collides over; accounts and rights are merged
_CONTESTED = frozenset({"Deployment", "DaemonSet", "StatefulSet", "Service", "CustomResourceDefinition"})


def foreign(cluster: Cluster, addon: str, configuration: dict[str, Any]) -> list[str]:
    """The objects of an add-on that are there and that it did not make, as ``Kind namespace/name``. May be called from any thread."""
    found = []
    for obj in MANIFESTS[addon](configuration) if addon in MANIFESTS else ():
        kind = cluster.catalog.of_kind(obj["apiVersion"], obj["kind"])
        if obj["kind"] not in _CONTESTED or kind is None:
            continue
        present = cluster.read(kind.qualified, name_of(obj), namespace_of(obj) or None)
        if present is not None and ADDON_LABEL not in labels_of(present):
            place = f"{namespace_of(obj)}/" if namespace_of(obj) else ""
            found.append(f"{obj['kind']} {place}{name_of(obj)}")
    return found


class AddonController(Controller):
    """Keys are add-on names. The field manager is ``eks``, as on a real cluster.

    AWS lists the self-managed copies of vpc-cni, kube-proxy and coredns too, so that nothing is special about them here.
    """

    name = "eks"
    watched = ("namespaces",)

    def __init__(self, engine: Engine, view: AwsView) -> None:
        super().__init__(engine)
        self._view = view
        view.listeners.append(self.look)

    def keys(self, resource: str, obj: Object) -> Iterable[str]:
        """Nothing: namespaces are only read."""
        return ()

    def look(self) -> None:
        """Look at every add-on that is or was there."""
        for name in sorted(set(self._view.addons or {}) | set(self._applied())):
            self.engine.enqueue(self, name)

    def _applied(self) -> dict[str, str]:
        system = self.cache.get("namespaces", "kube-system")
        found: dict[str, str] = json.loads(annotations_of(system).get(_APPLIED, "{}")) if system else {}
        return found

    async def _note(self, name: str, digest: str | None) -> None:
        applied = {k: v for k, v in {**self._applied(), name: digest}.items() if v is not None}
        change = {"metadata": {"annotations": {_APPLIED: json.dumps(applied, sort_keys=True)}}}
        await self.client.patch("namespaces", "kube-system", change)

    async def reconcile(self, key: str) -> None:
        """One add-on."""
        if key not in MANIFESTS or self._view.addons is None:
            return
        applied, addon = self._applied().get(key), self._view.addons.get(key)
        if addon is not None and addon.status in _PRESENT:
            digest = short_hash([addon.version, addon.configuration, *([addon.role_arn] if addon.role_arn else [])])
            if applied != digest and (addon.overwrites or not foreign(self.cluster, key, addon.configuration)):
                await self._apply(key, addon, digest)
        elif applied is not None and (addon is None or addon.status == "DELETING"):
            await self._remove(key)

    async def _apply(self, name: str, addon: Addon, digest: str) -> None:
        objects = [_of_version(obj, addon.version) for obj in MANIFESTS[name](addon.configuration)]
        for obj in sorted(objects, key=lambda o: _FIRST.get(o["kind"], 3)):
            metadata = {**obj["metadata"], "labels": {**labels_of(obj), ADDON_LABEL: name}}
            if addon.role_arn and (obj["kind"], metadata["name"]) == ("ServiceAccount", ROLE_ACCOUNTS.get(name)):
                metadata["annotations"] = {**annotations_of(obj), ANNOTATION: addon.role_arn}
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
        await self._note(name, None)

    def _resource(self, obj: Object) -> str:
        found = self.cluster.catalog.of_kind(obj["apiVersion"], obj["kind"])
        if found is None:
            raise LookupError(f"{obj['apiVersion']} {obj['kind']} is not served")
        return found.qualified
