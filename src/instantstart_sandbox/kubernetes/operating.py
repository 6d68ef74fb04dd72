"""What the controllers of operators share: they follow their kinds once these are served, and act while the operator's own pod runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

from .loops.engine import Controller
from .loops.objects import Object, key_of, labels_of, namespace_of, pod_ready

_DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"
_FOLLOW = "definitions"


class OperatorLoop(Controller, ABC):
    """``kinds`` are custom resources, the first one its own; ``manager`` is (namespace, labels) of the pods that must be ready."""

    kinds: tuple[str, ...] = ()
    manager: tuple[str, dict[str, str]] = ("", {})
    watched: tuple[str, ...] = (_DEFINITIONS, "pods", "nodes")

    def begin(self) -> None:
        """Follow what is served already."""
        self._follow()

    def _follow(self) -> None:
        for kind in self.kinds:
            if kind in self.cluster.catalog:
                self.engine.follow(self, kind)

    def keys(self, resource: str, obj: Object) -> Iterable[str]:
        """The object, or the objects that a pod or a node concerns; all of them when the operator's own pod changes."""
        if resource == _DEFINITIONS:
            return [_FOLLOW]
        if resource == "pods" and self._is_manager(obj):
            return self.all_keys()
        if resource == self.kinds[0]:
            return [key_of(obj)]
        return self.concerned(resource, obj)

    @abstractmethod
    def concerned(self, resource: str, obj: Object) -> Iterable[str]:
        """The keys of the objects that some other object concerns."""

    def all_keys(self) -> list[str]:
        """The keys of everything of its kind."""
        return [key_of(o) for o in self.cache.all(self.kinds[0])] if self.cache.holds(self.kinds[0]) else []

    def _is_manager(self, pod: Object) -> bool:
        space, wanted = self.manager
        return namespace_of(pod) == space and wanted.items() <= labels_of(pod).items()

    def serving(self) -> bool:
        """Whether the operator runs."""
        return any(pod_ready(p) for p in self.cache.all("pods", self.manager[0]) if self._is_manager(p))

    async def reconcile(self, key: str) -> None:
        """Follow new kinds, or look at one object while the operator runs."""
        if key == _FOLLOW:
            self._follow()
        elif self.cache.holds(self.kinds[0]) and self.serving():
            await self.look(key)

    @abstractmethod
    async def look(self, key: str) -> None:
        """One look at one object."""
