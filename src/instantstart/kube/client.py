"""What the product does with a cluster: get, find, list, apply, patch, delete, log, proxy.

Resources are plain dicts, so that no field is lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, cast

import msgspec

from instantstart.base import problems
from instantstart.kube import errors
from instantstart.kube.cluster_ref import ClusterRef
from instantstart.kube.connection import READ_SECONDS, Ask, Connection
from instantstart.kube.kinds import Kind, Kinds, segment

Resource = dict[str, Any]
Resources = list[Resource]
#: Who we are to server-side apply; every field we set is ours under this name.
FIELD_MANAGER = "instantstart"
PAGE = 500
APPLY_PATCH, MERGE_PATCH, JSON_PATCH = "application/apply-patch+yaml", "application/merge-patch+json", "application/json-patch+json"


class Propagation(StrEnum):
    """What happens to an object's dependents when it is deleted."""

    background = "Background"
    foreground = "Foreground"
    orphan = "Orphan"


@dataclass(frozen=True)
class LogQuery:
    """Which part of a container's log. ``since_time`` is RFC 3339; ``limit_bytes`` bounds the answer."""

    container: str | None = None
    previous: bool = False
    tail_lines: int | None = None
    since_seconds: int | None = None
    since_time: str | None = None
    limit_bytes: int | None = None
    timestamps: bool = False

    def params(self) -> dict[str, str]:
        """As query parameters of ``pods/log``."""
        found = {}
        for each in fields(self):
            value = getattr(self, each.name)
            if value is not None and value is not False:
                head, *rest = each.name.split("_")
                found[head + "".join(part.title() for part in rest)] = "true" if value is True else str(value)
        return found


@dataclass(frozen=True)
class Door:
    """A port inside the cluster that the API server lets us through to. ``kind`` is Service or Pod; ``scheme`` http or https."""

    namespace: str
    name: str
    port: int | str
    kind: str = "Service"
    scheme: str = "http"

    def path(self, path: str) -> str:
        """The proxy path at the API server."""
        plural = {"Service": "services", "Pod": "pods"}[self.kind]
        prefix = "https:" if self.scheme == "https" else ""
        where = f"/api/v1/namespaces/{segment(self.namespace)}/{plural}/{prefix}{segment(self.name)}:{self.port}"
        return f"{where}/proxy/{path.lstrip('/')}"


@dataclass(frozen=True)
class Answer:
    """What the thing behind a proxy said; a status of 400 or more is its own answer, not a Problem."""

    status: int
    content_type: str
    body: bytes


class KubeCluster:
    """One cluster's API; every method raises Problems only (see kube/errors.py). Safe from any thread."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.kinds = Kinds(lambda path: connection.send(Ask("GET", path)))

    @property
    def ref(self) -> ClusterRef:
        """Which cluster this is."""
        return self.connection.ref

    def get(self, kind: str | Kind, name: str, namespace: str | None = None) -> Resource:
        """One object. Raises NotFound."""
        return self._json(Ask("GET", self._path(kind, name, namespace)))

    def find(self, kind: str | Kind, name: str, namespace: str | None = None) -> Resource | None:
        """One object, or None when it, or its kind, is not there."""
        try:
            return self.get(kind, name, namespace)
        except problems.NotFound:
            return None

    def serves(self, kind: str) -> bool:
        """Whether the cluster knows this kind (its CRD is there and established)."""
        try:
            self.kinds.resolve(kind)
        except problems.NotFound:
            return False
        return True

    def list(self, kind: str | Kind, namespace: str | None = None, *, labels: str | None = None, fields: str | None = None) -> Resources:
        """All objects of a kind (of all namespaces without one), read in pages; ``labels`` and ``fields`` are selectors.

        Each carries its apiVersion and kind, which the API leaves out of list items.
        """
        try:
            return [item for page in self.pages(kind, namespace, labels=labels, fields=fields) for item in page]
        except problems.Busy as error:
            if error.code != "kubernetes.expired":
                raise
            # The snapshot behind the pages was compacted away while we read: one unpaged read cannot expire.
            return [item for page in self.pages(kind, namespace, labels=labels, fields=fields, limit=0) for item in page]

    def pages(
        self, kind: str | Kind, namespace: str | None = None, *, labels: str | None = None, fields: str | None = None, limit: int = PAGE
    ) -> Iterator[Resources]:
        """The same, page by page, all from one snapshot. Raises Busy ``kubernetes.expired`` when that is too old."""
        found = self.kinds.resolve(kind)
        selectors = {"labelSelector": labels, "fieldSelector": fields}
        params = {k: v for k, v in selectors.items() if v} | ({"limit": str(limit)} if limit else {})
        while True:
            answer = self._json(Ask("GET", found.path(namespace), params))
            yield [{"apiVersion": found.api_version, "kind": found.kind} | item for item in answer.get("items") or ()]
            params["continue"] = answer.get("metadata", {}).get("continue") or ""
            if not params["continue"]:
                return

    def create(self, resource: Mapping[str, Any], *, dry_run: bool = False) -> Resource:
        """Make one object that must be new (generateName, reviews). Raises Conflict ``kubernetes.already_exists``."""
        body = dict(resource)
        path = self.kinds.of(body).path(body.get("metadata", {}).get("namespace"))
        return self._json(Ask("POST", path, self._writing(dry_run), body))

    def apply(self, resource: Mapping[str, Any], *, force: bool = False, dry_run: bool = False) -> Resource:
        """Server-side apply: the fields named here become, and stay, ours; the rest is untouched. Idempotent.

        Raises Conflict ``kubernetes.field_conflict`` when another manager holds a field at another value, unless ``force``.
        """
        body = dict(resource)
        metadata = body["metadata"]
        kind = self.kinds.of(body)
        if kind.namespaced and not metadata.get("namespace"):
            raise _homeless(kind, metadata["name"])
        params = self._writing(dry_run) | {"force": "true" if force else "false"}
        return self._json(Ask("PATCH", kind.path(metadata.get("namespace"), metadata["name"]), params, body, APPLY_PATCH))

    def patch(
        self,
        kind: str | Kind,
        name: str,
        body: Mapping[str, Any] | Sequence[Any],
        *,
        namespace: str | None = None,
        subresource: str | None = None,
    ) -> Resource:
        """A JSON merge patch (a mapping; null removes) or a JSON patch (a list). ``subresource``: ``scale``, ``status``."""
        content_type = MERGE_PATCH if isinstance(body, Mapping) else JSON_PATCH
        path = self._path(kind, name, namespace, subresource)
        return self._json(Ask("PATCH", path, self._writing(False), body, content_type))

    def preview(self, kind: str | Kind, name: str, body: Mapping[str, Any], namespace: str | None = None) -> Resource:
        """What a merge patch would make of an object, with what the server fills in: its own dry run; nothing changes."""
        return self._json(Ask("PATCH", self._path(kind, name, namespace), self._writing(True), dict(body), MERGE_PATCH))

    def delete(
        self,
        kind: str | Kind,
        name: str,
        namespace: str | None = None,
        *,
        propagation: Propagation = Propagation.background,
        uid: str | None = None,
    ) -> bool:
        """Ask for an object's end; False when it was not there. Finalizers may keep it a while.

        ``uid``: only that very object. Raises Conflict ``kubernetes.precondition_failed`` when another bears the name.
        """
        body: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation.value}
        if uid:
            body["preconditions"] = {"uid": uid}
        try:
            self.connection.send(Ask("DELETE", self._path(kind, name, namespace), body=body))
        except problems.NotFound:
            return False
        return True

    def evict(self, pod: str, namespace: str) -> bool:
        """Ask a pod to leave, within its disruption budget; False when it was not there. Raises Busy ``kubernetes.disruption_budget``."""
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": namespace}}
        try:
            self.connection.send(Ask("POST", self._path("Pod", pod, namespace, "eviction"), body=body))
        except problems.NotFound:
            return False
        return True

    def log(self, pod: str, namespace: str, query: LogQuery | None = None) -> str:
        """The log of a container so far. Raises Invalid while the container is only waiting to start."""
        path = self._path("Pod", pod, namespace, "log")
        return self.connection.send(Ask("GET", path, (query or LogQuery()).params())).decode("utf-8", "replace")

    def log_stream(self, pod: str, namespace: str, query: LogQuery) -> Iterator[bytes]:
        """The same, piece by piece as it comes: for what may be large. Raises at the first piece, or Unreachable in between."""
        return self.connection.stream(Ask("GET", self._path("Pod", pod, namespace, "log"), query.params()))

    def proxy(self, door: Door, path: str, *, method: str = "GET", body: Any = None, read_seconds: float = READ_SECONDS) -> Answer:
        """Ask something inside the cluster through the API server. Raises Unreachable, or Busy when there is no endpoint behind it."""
        ask = Ask(method, door.path(path), body=body, read_seconds=read_seconds)
        response = self.connection.exchange(ask)
        kind = response.headers.get("content-type", "")
        if response.status_code >= 400 and b'"kind":"Status"' in response.content[:200].replace(b" ", b""):
            raise errors.from_response(response.status_code, response.content, response.headers, self.connection.call(ask.method, ask.path))
        return Answer(response.status_code, kind, response.content)

    def may(self, verb: str, kind: str | Kind, namespace: str | None = None) -> bool:
        """Whether our identity may do this, by the cluster's own judgement. Raises Denied when it is not admitted at all."""
        found = self.kinds.resolve(kind)
        asked = {"verb": verb, "group": found.group, "resource": found.plural} | ({"namespace": namespace} if namespace else {})
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": asked}}
        return bool(self.create(review).get("status", {}).get("allowed"))

    def version(self) -> str:
        """The API server's version, as ``v1.33.1-eks-...``."""
        return str(self._json(Ask("GET", "/version"))["gitVersion"])

    def _path(self, kind: str | Kind, name: str, namespace: str | None, subresource: str | None = None) -> str:
        found = self.kinds.resolve(kind)
        if found.namespaced and not namespace:
            raise _homeless(found, name)
        return found.path(namespace, name, subresource)

    def _json(self, ask: Ask) -> Resource:
        return cast("Resource", msgspec.json.decode(self.connection.send(ask)))

    @staticmethod
    def _writing(dry_run: bool) -> dict[str, str]:
        return {"fieldManager": FIELD_MANAGER} | ({"dryRun": "All"} if dry_run else {})


def _homeless(kind: Kind, name: str) -> problems.Broken:
    return problems.Broken("kubernetes.namespace_missing", f"{kind.kind} {name} lives in a namespace, and none is given.")
