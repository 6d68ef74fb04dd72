"""Garbage collection by owner references, emptying of namespaces, pods whose node is gone."""

from __future__ import annotations

from collections.abc import Iterable

import orjson

from ..errors import ApiError
from ..store import DELETED, Change
from .engine import Controller, Engine
from .objects import (
    Object,
    deleting,
    key_of,
    meta,
    name_of,
    namespace_of,
    owners_of,
    pod_finished,
    spec_of,
    split,
    status_of,
    uid_of,
    with_condition,
)

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"
_CRDS = "customresourcedefinitions.apiextensions.k8s.io"
#: How long a pod may outlive its node before the pod collector takes it, as in kube-controller-manager.
_QUARANTINE_SECONDS = 40.0
_LOOK_AGAIN_SECONDS = 2.0
_MARKS = (b'"ownerReferences"', b'"foregroundDeletion"', b'"orphan"')


class GarbageCollector(Controller):
    """Keys are ``collection|key`` of objects to look at. It listens to every collection and decodes only what has owners."""

    name = "generic-garbage-collector"
    watched = (_CRDS,)

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._heard: set[str] = set()

    def begin(self) -> None:
        """Hear of what is served from the start."""
        self.listen()

    def listen(self) -> None:
        """Hear of every collection that is served now; called again when a custom kind is added."""
        for resource in self.cluster.catalog.collections():
            name = resource.qualified
            if name in self._heard or name == "events":
                continue
            self._heard.add(name)
            collection = self.cluster.pipeline.collection(resource)
            collection.listeners.add(self._hearing(name))
            for key, entry in collection.scan():
                if any(mark in entry.raw for mark in _MARKS):
                    self.engine.enqueue(self, f"{name}|{key}")

    def _hearing(self, name: str) -> _Ear:
        return _Ear(self, name)

    def keys(self, resource: str, obj: Object) -> Iterable[str]:
        """A new custom kind: listen to it too."""
        self.listen()
        return ()

    def lost(self, obj: Object) -> None:
        """Look at the dependents and the owners of an object that is gone."""
        for collection, key in self.cluster.store.owned_by(uid_of(obj)):
            self.engine.enqueue(self, f"{collection}|{key}")
        for owner in owners_of(obj):
            if (place := self.cluster.store.find_uid(owner.get("uid", ""))) is not None:
                self.engine.enqueue(self, "|".join(place))

    async def reconcile(self, key: str) -> None:
        """Act on one object: as an owner that waits for its dependents, or as a dependent whose owners are gone."""
        resource, _, rest = key.partition("|")
        space, name = split(rest)
        obj = self.cluster.read(resource, name, space)
        if obj is None:
            return
        finalizers = meta(obj).get("finalizers") or []
        if deleting(obj) and ORPHAN in finalizers:
            await self._orphan(resource, obj)
        elif deleting(obj) and FOREGROUND in finalizers:
            await self._foreground(resource, obj)
        else:
            await self._dangling(resource, obj)

    async def _orphan(self, resource: str, obj: Object) -> None:
        for collection, key in self.cluster.store.owned_by(uid_of(obj)):
            space, name = split(key)
            dependent = self.cluster.read(collection, name, space)
            if dependent is not None:
                kept = [o for o in owners_of(dependent) if o.get("uid") != uid_of(obj)]
                await self.client.patch(collection, name, {"metadata": {"ownerReferences": kept}}, space)
        await self._drop_finalizer(resource, obj, ORPHAN)

    async def _foreground(self, resource: str, obj: Object) -> None:
        blocking = False
        for collection, key in self.cluster.store.owned_by(uid_of(obj)):
            space, name = split(key)
            dependent = self.cluster.read(collection, name, space)
            if dependent is None:
                continue
            mine = next((o for o in owners_of(dependent) if o.get("uid") == uid_of(obj)), {})
            if not deleting(dependent):
                deeper = bool(self.cluster.store.owned_by(uid_of(dependent)))
                await self.client.delete(collection, name, space, propagation="Foreground" if deeper else "Background")
            still = self.cluster.read(collection, name, space) is not None
            blocking = blocking or (still and bool(mine.get("blockOwnerDeletion")))
        if not blocking:
            await self._drop_finalizer(resource, obj, FOREGROUND)

    async def _drop_finalizer(self, resource: str, obj: Object, finalizer: str) -> None:
        left = [f for f in meta(obj).get("finalizers") or [] if f != finalizer]
        await self.client.patch(resource, name_of(obj), {"metadata": {"finalizers": left}}, namespace_of(obj) or None)

    async def _dangling(self, resource: str, obj: Object) -> None:
        owners = owners_of(obj)
        alive = [o for o in owners if self.cluster.store.find_uid(o.get("uid", "")) is not None]
        if not owners or len(alive) == len(owners):
            return
        space = namespace_of(obj) or None
        if alive:
            await self.client.patch(resource, name_of(obj), {"metadata": {"ownerReferences": alive}}, space)
        elif not deleting(obj):
            await self.client.delete(resource, name_of(obj), space, propagation="Background")


class _Ear:
    """A store listener of the garbage collector for one collection."""

    def __init__(self, collector: GarbageCollector, name: str) -> None:
        self._collector, self._name = collector, name

    def __call__(self, change: Change) -> None:
        if change.type == DELETED:
            self._collector.lost(orjson.loads(change.entry.raw))
        elif any(mark in change.entry.raw for mark in _MARKS):
            self._collector.engine.enqueue(self._collector, f"{self._name}|{change.key}")


class NamespaceController(Controller):
    """Empties namespaces under deletion, then lets them go."""

    name = "namespace-controller"
    watched = ("namespaces",)

    def keys(self, resource: str, obj: Object) -> Iterable[str]:
        """Namespaces under deletion."""
        return [key_of(obj)] if deleting(obj) else []

    async def reconcile(self, key: str) -> None:
        """Delete what is in it; finalize it when nothing is left."""
        namespace = self.cache.get("namespaces", key)
        if namespace is None or not deleting(namespace):
            return
        left: dict[str, int] = {}
        held = 0
        for resource in self.cluster.catalog.collections():
            if not resource.namespaced:
                continue
            for obj in self.cluster.read_all(resource.qualified, key):
                if not deleting(obj):
                    await self.client.delete(resource.qualified, name_of(obj), key)
            remaining = self.cluster.read_all(resource.qualified, key)
            if remaining:
                left[resource.qualified] = len(remaining)
                held += sum(1 for o in remaining if meta(o).get("finalizers"))
        await self._report(namespace, left, held)
        if left:
            self.later(_LOOK_AGAIN_SECONDS, key)
        elif "kubernetes" in (spec_of(namespace).get("finalizers") or []):
            await self.client.finalize(key)

    async def _report(self, namespace: Object, left: dict[str, int], held: int) -> None:
        listed = ", ".join(f"{name} has {count} resource instances" for name, count in sorted(left.items()))
        said = {
            "NamespaceContentRemaining": (
                bool(left),
                ("SomeResourcesRemain", f"Some resources are remaining: {listed}")
                if left
                else ("ContentRemoved", "All content successfully removed"),
            ),
            "NamespaceFinalizersRemaining": (
                bool(held),
                ("SomeFinalizersRemain", f"Some content in the namespace has finalizers remaining: {held} resource instances")
                if held
                else ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
            ),
        }
        conditions = status_of(namespace).get("conditions")
        for kind, (status, (reason, message)) in said.items():
            conditions = with_condition(conditions, {"type": kind, "status": str(status), "reason": reason, "message": message}, self.now())
        await self.engine.write_status("namespaces", namespace, {"conditions": conditions}, self.client)


class PodCollector(Controller):
    """Removes pods whose node no longer exists."""

    name = "pod-garbage-collector"
    watched = ("nodes", "pods")

    def keys(self, resource: str, obj: Object) -> Iterable[str]:
        """Pods bound to a node that is not there."""
        pods = self.cache.pods_on(name_of(obj)) if resource == "nodes" else [obj]
        for pod in pods:
            node = spec_of(pod).get("nodeName")
            if node and self.cache.get("nodes", node) is None:
                self.later(_QUARANTINE_SECONDS, key_of(pod))
        return ()

    async def reconcile(self, key: str) -> None:
        """Fail the pod, then remove it without waiting for a kubelet."""
        pod = self.cache.get("pods", key)
        if pod is None or self.cache.get("nodes", spec_of(pod).get("nodeName") or "") is not None:
            return
        if not pod_finished(pod):
            lost = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC", "message": "PodGC: node no longer exists"}
            conditions = with_condition(status_of(pod).get("conditions"), lost, self.now())
            await self.client.status("pods", name_of(pod), {"phase": "Failed", "conditions": conditions}, namespace_of(pod))
        try:
            await self.client.delete("pods", name_of(pod), namespace_of(pod), grace=0)
        except ApiError as error:
            if error.code != 404:
                raise
