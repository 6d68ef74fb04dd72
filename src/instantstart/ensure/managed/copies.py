"""Copies of managed components that somebody else installed: Helm's cert-manager, a KEDA of one's own, another Kueue (case 25)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from instantstart.ensure.installs.releases import Role, identity, is_ours, manager_of
from instantstart.ensure.managed.components import BALANCER_ROLE, COMPONENTS, INFERENCE_NAMESPACE, KEDA_ROLE, Component
from instantstart.kube.client import KubeCluster, Propagation

Resource = dict[str, Any]


@dataclass(frozen=True)
class Copy:
    """A workload of somebody else that plays a role of a component. ``object``: what a person calls it."""

    role: str
    object: str
    manager: str
    namespace: str
    resource: Resource

    @property
    def told(self) -> str:
        return f"{self.object} ({self.role}, by {self.manager})"


def roles_of(component: Component) -> tuple[Role, ...]:
    """The roles of which there must be one: its own, and for the inference operator those that it brings."""
    brought = (KEDA_ROLE, BALANCER_ROLE) if component.name == "inference_operator" else ()
    return ((component.role,) if component.role else ()) + brought


def find(component: Component, workloads: Sequence[Resource], present: Collection[str]) -> tuple[Copy, ...]:
    """Copies of others. ``present``: names of the EKS add-ons that are there, whose own workloads are no copies."""
    own = own_namespaces(present)
    found = []
    for role in roles_of(component):
        for workload in workloads:
            if workload["kind"] in role.kinds and plays(workload, role) and not _is_known(workload, own, component, present):
                space = workload["metadata"]["namespace"]
                found.append(Copy(role.name, identity(workload), manager_of(workload), space, workload))
    return tuple(found)


def own_namespaces(present: Collection[str]) -> frozenset[str]:
    """Namespaces whose workloads are those of EKS add-ons that are there."""
    return frozenset(c.namespace for c in COMPONENTS.values() if c.source in present and c.namespace != "kube-system")


def _is_known(workload: Resource, own: Collection[str], component: Component, present: Collection[str]) -> bool:
    space = workload["metadata"]["namespace"]
    if is_ours(workload) or space in own:
        return True
    return space == component.namespace == "kube-system" and component.source in present


def plays(workload: Resource, role: Role) -> bool:
    """Whether a workload is such a thing: by its name, or by a part of an image's name."""
    if workload["metadata"]["name"] in role.names:
        return True
    containers = workload.get("spec", {}).get("template", {}).get("spec", {}).get("containers") or ()
    return any(part in str(c.get("image", "")) for part in role.images for c in containers)


def remove(kube: KubeCluster, copy: Copy) -> None:
    """Take a named copy out of the way of ours: that very object, with its pods."""
    metadata = copy.resource["metadata"]
    kube.delete(copy.resource["kind"], metadata["name"], copy.namespace, propagation=Propagation.foreground, uid=metadata["uid"])


def brings_keda(present: Collection[str], workloads: Sequence[Resource]) -> bool:
    """Whether the inference operator's own KEDA is there."""
    here = COMPONENTS["inference_operator"].source in present
    return here and any(plays(w, KEDA_ROLE) and w["metadata"]["namespace"] == INFERENCE_NAMESPACE for w in workloads)
