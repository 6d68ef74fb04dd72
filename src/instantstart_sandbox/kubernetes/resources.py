"""What a served resource is, and the catalogue of all that are served: built-in kinds and custom ones."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from instantstart_sandbox.kubernetes.schema import Node

Schema = dict[str, Any]
Object = dict[str, Any]


@dataclass(frozen=True)
class Scale:
    """Where a resource keeps its replicas, as JSON paths such as ``.spec.replicas``."""

    spec: str = ".spec.replicas"
    status: str = ".status.replicas"
    selector: str | None = ".spec.selector"


@dataclass(frozen=True)
class Column:
    """One column of a Table answer. ``path`` is a JSON path into the object."""

    name: str
    type: str
    path: str
    format: str = ""
    priority: int = 0
    description: str = ""


@dataclass(frozen=True, eq=False)
class Resource:
    """A resource in one version: ``pods`` of ``v1``, ``deployments`` of ``apps/v1``."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    subresources: frozenset[str] = frozenset()
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    singular: str = ""
    schema: Schema = field(default_factory=dict, repr=False)
    custom: bool = False
    stored_version: str = ""
    scale: Scale | None = None
    columns: tuple[Column, ...] = ()
    list_kind: str = ""
    #: a review or an action: it can only be posted, nothing is kept
    virtual: bool = False

    @property
    def api_version(self) -> str:
        """``v1`` or ``apps/v1``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """``pods`` or ``deployments.apps``: the name messages use, and the name of the stored collection."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def storage_api_version(self) -> str:
        """The apiVersion under which objects are stored."""
        version = self.stored_version or self.version
        return f"{self.group}/{version}" if self.group else version

    @property
    def has_status(self) -> bool:
        """Whether ``status`` is written through its own subresource only."""
        return "status" in self.subresources

    @functools.cached_property
    def node(self) -> Node:
        """The compiled schema, with the metadata of every object in it."""
        if not self.custom:
            return Node(self.schema, self.kind)
        text = {"type": "string"}
        own = {
            "apiVersion": text,
            "kind": text,
            "metadata": {"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"},
        }
        return Node({**self.schema, "properties": {**(self.schema.get("properties") or {}), **own}}, self.kind)

    def key(self, namespace: str | None, name: str) -> str:
        """The key inside the collection: ``namespace/name`` or ``name``."""
        return f"{namespace}/{name}" if self.namespaced else name


class Catalog:
    """All served resources. ``generation`` grows with each change, so that discovery can be cached."""

    def __init__(self) -> None:
        self._served: dict[tuple[str, str, str], Resource] = {}
        self._preferred: dict[str, Resource] = {}
        self.generation = 0

    def add(self, resource: Resource, preferred: bool = True) -> None:
        """Serve a resource. The preferred version is the one ``find`` answers."""
        self._served[resource.group, resource.version, resource.plural] = resource
        if preferred or resource.qualified not in self._preferred:
            self._preferred[resource.qualified] = resource
        self.generation += 1

    def remove(self, group: str, plural: str) -> None:
        """Stop serving every version of a resource."""
        for served in [k for k in self._served if k[0] == group and k[2] == plural]:
            del self._served[served]
        self._preferred.pop(f"{plural}.{group}" if group else plural, None)
        self.generation += 1

    def served(self, group: str, version: str, plural: str) -> Resource | None:
        """The resource behind a path, or None."""
        return self._served.get((group, version, plural))

    def find(self, qualified: str) -> Resource:
        """The preferred version of ``pods`` or ``deployments.apps``. KeyError when it is not served."""
        return self._preferred[qualified]

    def built_in(self, group: str) -> bool:
        """Whether the API server itself serves this group, in whichever version (not a definition)."""
        return any(not r.custom and r.group == group for r in self._served.values())

    def of_kind(self, api_version: str, kind: str) -> Resource | None:
        """The resource of an object's apiVersion and kind, or None."""
        for resource in self._served.values():
            if resource.kind == kind and resource.api_version == api_version and not resource.virtual:
                return resource
        return None

    def __contains__(self, qualified: str) -> bool:
        return qualified in self._preferred

    def __iter__(self) -> Iterator[Resource]:
        return iter(list(self._served.values()))

    def collections(self) -> list[Resource]:
        """One resource for each stored collection."""
        return [r for r in self._preferred.values() if not r.virtual]
