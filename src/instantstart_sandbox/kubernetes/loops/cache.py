"""The objects that loops read: decoded once for each change, without managedFields, always as fresh as the store.

Objects handed out are shared: read them, never change them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from ..store import DELETED, Change, Collection
from .objects import Object, spec_of

if TYPE_CHECKING:
    from ..cluster import Cluster

#: (resource, before, after): one of the two is None for a creation or a deletion
Observer = Callable[[str, Object | None, Object | None], None]


def decode(change_or_entry_raw: Object) -> Object:
    """The object without the bookkeeping that no loop looks at."""
    change_or_entry_raw["metadata"].pop("managedFields", None)
    return change_or_entry_raw


class Cache:
    """A view of some resources of one cluster's store, kept by the store's own listeners."""

    def __init__(self, cluster: Cluster, observer: Observer) -> None:
        self._cluster, self._observer = cluster, observer
        self._objects: dict[str, dict[str, Object]] = {}
        self._on_node: dict[str, set[str]] = defaultdict(set)
        self._leaving: list[Callable[[], None]] = []

    def leave(self) -> None:
        """Hold nothing any more: the loops have ended."""
        for leave in self._leaving:
            leave()
        self._leaving.clear()
        self._objects.clear()
        self._on_node.clear()

    def follow(self, resources: Iterable[str]) -> None:
        """Hold these resources from now on; what exists is reported to the observer as created, once all of it is held."""
        for resource in resources:
            held = self._objects[resource] = {}
            collection = self._collection(resource)
            for key, entry in list(collection.scan()):
                held[key] = decode(entry.object())
                self._index(resource, key, None, held[key])
            listener = partial(self._changed, resource)
            collection.listeners.add(listener)
            self._leaving.append(partial(collection.listeners.discard, listener))
        for resource in resources:
            for obj in list(self._objects[resource].values()):
                self._observer(resource, None, obj)

    def _collection(self, resource: str) -> Collection:
        return self._cluster.pipeline.collection(self._cluster.catalog.find(resource))

    def _changed(self, resource: str, change: Change) -> None:
        held = self._objects[resource]
        before = held.get(change.key)
        after = None if change.type == DELETED else decode(change.entry.object())
        if after is None:
            held.pop(change.key, None)
        else:
            held[change.key] = after
        self._index(resource, change.key, before, after)
        self._observer(resource, before, after)

    def _index(self, resource: str, key: str, before: Object | None, after: Object | None) -> None:
        if resource != "pods":
            return
        old = spec_of(before).get("nodeName") if before else None
        new = spec_of(after).get("nodeName") if after else None
        if old != new and old:
            self._on_node[old].discard(key)
        if new:
            self._on_node[new].add(key)

    def holds(self, resource: str) -> bool:
        """Whether the resource is followed."""
        return resource in self._objects

    def get(self, resource: str, key: str) -> Object | None:
        """The present object."""
        return self._objects[resource].get(key)

    def all(self, resource: str, namespace: str | None = None) -> list[Object]:
        """Every object of a resource, or of one namespace of it."""
        held = self._objects[resource]
        if namespace is None:
            return list(held.values())
        keys = self._collection(resource).scan(prefix=f"{namespace}/")
        return [held[key] for key, _ in keys if key in held]

    def owned(self, resource: str, uid: str) -> list[Object]:
        """The objects of a resource with an owner reference to ``uid``, by key."""
        held = self._objects[resource]
        return [held[key] for collection, key in self._cluster.store.owned_by(uid) if collection == resource and key in held]

    def pods_on(self, node: str) -> list[Object]:
        """The pods bound to a node, by key."""
        held = self._objects["pods"]
        return [held[key] for key in sorted(self._on_node.get(node, ()))]
