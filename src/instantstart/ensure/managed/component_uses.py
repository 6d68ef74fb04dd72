"""What holds a component in the cluster: custom resources of its kinds, volumes of its driver, objects that would never finish going.

Facts: case 30 (a controller that is gone cannot take its finalizers off).
"""

from __future__ import annotations

from instantstart.base import problems
from instantstart.ensure.installs.releases import identity, is_ours
from instantstart.ensure.managed import copies
from instantstart.ensure.managed.component_reads import World
from instantstart.ensure.managed.components import COMPONENTS
from instantstart.kube.client import KubeCluster


def find(kube: KubeCluster, name: str, world: World) -> list[str]:
    """``Kind namespace/name`` of everything that rests on a component. Objects that the component's own add-on made do not count."""
    component = COMPONENTS[name]
    kinds = list(component.kinds)
    if name == "inference_operator" and isinstance(world.workloads, tuple) and copies.brings_keda(world.present, world.workloads):
        kinds += COMPONENTS["keda"].kinds
    found = []
    for kind in kinds:
        found += [identity(item) for item in listed(kube, kind) if not is_ours(item)]
    if component.driver:
        found += [identity(v) for v in kube.list("PersistentVolume") if (v["spec"].get("csi") or {}).get("driver") == component.driver]
        found += [identity(c) for c in kube.list("StorageClass") if c.get("provisioner") == component.driver]
    return sorted(found)


def listed(kube: KubeCluster, kind: str) -> list[dict[str, object]]:
    """Every object of a kind; none when the cluster does not serve it."""
    try:
        return kube.list(kind)
    except problems.NotFound:
        return []
