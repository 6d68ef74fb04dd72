"""A release: the manifests of one component at one version, how they are marked as ours, and the order they go in.

Marks: label ``app.kubernetes.io/managed-by: instantstart``, label ``instantstart.dev/bundle``, annotations with version and digest.
Whatever bears a name of ours without these marks belongs to somebody else.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Resource = dict[str, Any]

MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGER = "instantstart"
BUNDLE = "instantstart.dev/bundle"
VERSION = "instantstart.dev/bundle-version"
DIGEST = "instantstart.dev/bundle-digest"

NAMESPACES, DEFINITIONS, RIGHTS, SETTINGS, WORKLOADS, REST, ADMISSION = range(7)
_WAVE = {
    "Namespace": NAMESPACES,
    "CustomResourceDefinition": DEFINITIONS,
    **dict.fromkeys(("ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "PriorityClass"), RIGHTS),
    **dict.fromkeys(("ConfigMap", "Secret", "Service", "StorageClass", "CSIDriver", "PersistentVolume", "PersistentVolumeClaim"), SETTINGS),
    **dict.fromkeys(("ResourceQuota", "LimitRange", "NetworkPolicy", "PodDisruptionBudget", "IngressClass"), SETTINGS),
    **dict.fromkeys(("Deployment", "DaemonSet", "StatefulSet", "Job", "CronJob"), WORKLOADS),
    **dict.fromkeys(("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration", "APIService"), ADMISSION),
}


@dataclass(frozen=True)
class Check:
    """A workload that must exist and be ready. ``needs_nodes``: it cannot be before a node has joined."""

    kind: str
    namespace: str
    name: str
    needs_nodes: bool = True


@dataclass(frozen=True)
class Role:
    """What this component is in a cluster, of which there must be one: found by parts of image names or by names."""

    name: str
    kinds: tuple[str, ...]
    images: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Release:
    """What is to be in the cluster. ``digest`` changes whenever a manifest does."""

    name: str
    version: str
    digest: str
    resources: tuple[Resource, ...]
    checks: tuple[Check, ...] = ()
    roles: tuple[Role, ...] = ()

    def waves(self) -> list[tuple[int, list[Resource]]]:
        """The stamped manifests in the order of making: namespaces, definitions, rights, settings, workloads, the rest, admission."""
        found: dict[int, list[Resource]] = {}
        for resource in self.resources:
            found.setdefault(_WAVE.get(resource["kind"], REST), []).append(self.stamp(resource))
        return sorted(found.items())

    def stamp(self, resource: Mapping[str, Any]) -> Resource:
        """A copy that says whose it is."""
        made = copy.deepcopy(dict(resource))
        metadata = made.setdefault("metadata", {})
        metadata["labels"] = {**(metadata.get("labels") or {}), MANAGED_BY: MANAGER, BUNDLE: self.name}
        metadata["annotations"] = {**(metadata.get("annotations") or {}), VERSION: self.version, DIGEST: self.digest}
        return made


def is_ours(resource: Mapping[str, Any]) -> bool:
    """Whether an object carries our mark."""
    labels = resource.get("metadata", {}).get("labels") or {}
    return bool(labels.get(MANAGED_BY) == MANAGER and labels.get(BUNDLE))


def identity(resource: Mapping[str, Any]) -> str:
    """``DaemonSet kube-system/plugin``: what a person calls an object."""
    metadata = resource["metadata"]
    place = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
    return f"{resource['kind']} {place}{metadata['name']}"


def manager_of(resource: Mapping[str, Any]) -> str:
    """Who made an object, as well as it says: Helm release, managed-by label, first field manager."""
    metadata = resource.get("metadata", {})
    annotations, labels = metadata.get("annotations") or {}, metadata.get("labels") or {}
    if annotations.get("meta.helm.sh/release-name"):
        return f"Helm release {annotations['meta.helm.sh/release-name']}"
    if labels.get(MANAGED_BY):
        return str(labels[MANAGED_BY])
    managers = [str(m.get("manager")) for m in metadata.get("managedFields") or () if m.get("subresource") is None]
    return managers[0] if managers else "unknown"


def sentence(items: Iterable[str], most: int = 5) -> str:
    """``a, b and 3 more``."""
    all_items: Sequence[str] = list(items)
    shown = ", ".join(all_items[:most])
    return f"{shown} and {len(all_items) - most} more" if len(all_items) > most else shown
