"""Kinds and their paths: a table of the usual ones, discovery for the rest."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import msgspec

from instantstart.base import problems


def segment(name: str) -> str:
    """``name`` as one part of an address, whatever is in it. Raises Invalid for what would be another address."""
    if name in (".", ".."):
        raise problems.Invalid("kubernetes.name_invalid", f"{name!r} is no name of a Kubernetes object.")
    return quote(name, safe=":")


@dataclass(frozen=True)
class Kind:
    """One served kind. ``group`` is empty for the core group."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool

    @property
    def api_version(self) -> str:
        """As in a manifest: ``apps/v1``, or ``v1`` for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """The path of a collection, an object or its subresource. A namespaced kind without namespace is the list over all."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        parts = [root]
        if self.namespaced and namespace:
            parts.append(f"namespaces/{segment(namespace)}")
        parts.append(self.plural)
        parts.extend(segment(part) for part in (name, subresource) if part)
        return "/".join(parts)


def _table(api_version: str, namespaced: bool, names: str) -> dict[str, Kind]:
    group, _, version = api_version.rpartition("/")
    found = {}
    for name in names.split():
        kind, _, plural = name.partition(":")
        found[f"{api_version}/{kind}"] = Kind(group, version, kind, plural or _plural(kind), namespaced)
    return found


def _plural(kind: str) -> str:
    lower = kind.lower()
    if lower.endswith("s"):
        return lower + "es"
    return lower[:-1] + "ies" if lower.endswith("y") else lower + "s"


#: Kinds that every supported EKS version (1.30-1.35) serves.
BUILT_IN: dict[str, Kind] = {
    **_table("v1", True, "Pod Service ServiceAccount ConfigMap Secret Event PersistentVolumeClaim Endpoints:endpoints"),
    **_table("v1", True, "ResourceQuota LimitRange ReplicationController"),
    **_table("v1", False, "Node Namespace PersistentVolume"),
    **_table("apps/v1", True, "Deployment DaemonSet StatefulSet ReplicaSet ControllerRevision"),
    **_table("batch/v1", True, "Job CronJob"),
    **_table("autoscaling/v2", True, "HorizontalPodAutoscaler"),
    **_table("policy/v1", True, "PodDisruptionBudget"),
    **_table("networking.k8s.io/v1", True, "Ingress NetworkPolicy"),
    **_table("networking.k8s.io/v1", False, "IngressClass"),
    **_table("discovery.k8s.io/v1", True, "EndpointSlice"),
    **_table("coordination.k8s.io/v1", True, "Lease"),
    **_table("rbac.authorization.k8s.io/v1", True, "Role RoleBinding"),
    **_table("rbac.authorization.k8s.io/v1", False, "ClusterRole ClusterRoleBinding"),
    **_table("storage.k8s.io/v1", False, "StorageClass CSIDriver CSINode VolumeAttachment"),
    **_table("scheduling.k8s.io/v1", False, "PriorityClass"),
    **_table("apiextensions.k8s.io/v1", False, "CustomResourceDefinition"),
    **_table("apiregistration.k8s.io/v1", False, "APIService"),
    **_table("admissionregistration.k8s.io/v1", False, "ValidatingWebhookConfiguration MutatingWebhookConfiguration"),
    **_table("authorization.k8s.io/v1", False, "SelfSubjectAccessReview"),
}
_SHORT = {each.kind: each for each in BUILT_IN.values()}

ReadJson = Callable[[str], bytes]


class Kinds:
    """The kinds of one cluster; what is discovered is remembered, what is missing is asked again."""

    def __init__(self, read: ReadJson) -> None:
        self._read = read
        self._lock = threading.Lock()
        self._found: dict[str, Kind] = {}

    def resolve(self, kind: str | Kind) -> Kind:
        """The Kind for ``"Pod"`` (built-in), ``"apps/v1/Deployment"`` or ``"ray.io/v1/RayJob"``.

        Raises NotFound ``kubernetes.kind_not_served`` when the cluster does not serve it.
        """
        if isinstance(kind, Kind):
            return kind
        known = _SHORT.get(kind) or BUILT_IN.get(kind) or self._found.get(kind)
        return known or self._discover(kind)

    def of(self, resource: dict[str, Any]) -> Kind:
        """The Kind of a manifest, from its apiVersion and kind."""
        return self.resolve(f"{resource['apiVersion']}/{resource['kind']}")

    def _discover(self, name: str) -> Kind:
        api_version, _, kind = name.rpartition("/")
        if not api_version:
            raise problems.Broken("kubernetes.unknown_kind", f"{kind} is no built-in kind: write it as group/version/{kind}.")
        group, _, version = api_version.rpartition("/")
        try:
            listed = msgspec.json.decode(self._read(f"/apis/{group}/{version}" if group else f"/api/{version}"))
        except problems.NotFound as error:
            raise _not_served(name) from error
        for each in listed.get("resources", ()):
            if "/" not in each["name"]:
                found = Kind(group, version, each["kind"], each["name"], bool(each["namespaced"]))
                with self._lock:
                    self._found[f"{api_version}/{found.kind}"] = found
        if name not in self._found:
            raise _not_served(name)
        return self._found[name]

    def forget(self) -> None:
        """Ask the cluster anew about everything that is not built in (a CRD may have been removed)."""
        with self._lock:
            self._found.clear()


def _not_served(name: str) -> problems.NotFound:
    return problems.NotFound(
        "kubernetes.kind_not_served",
        f"The cluster does not serve {name}: its custom resource definition, or the add-on that brings it, is not there.",
        evidence={"service": "kubernetes", "kind": name},
    )
