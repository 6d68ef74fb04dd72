"""Short builders for the objects of the sandbox's own add-on manifests."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .loops.objects import Object

#: Marks what an add-on brought, so that its removal finds it.
ADDON_LABEL = "sandbox.instantstart.dev/addon"
EVERYWHERE = [{"operator": "Exists"}]


@dataclass
class Workload:
    """A Deployment (``replicas``) or DaemonSet (``replicas`` None) with one container."""

    namespace: str
    name: str
    image: str
    replicas: int | None = None
    account: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    cpu: str = "10m"
    memory: str = "40Mi"
    host_network: bool = False
    tolerations: list[Object] = field(default_factory=list)
    node_selector: dict[str, str] = field(default_factory=dict)
    port: int | None = None

    @property
    def selector(self) -> dict[str, str]:
        """The labels of its pods."""
        return self.labels or {"app.kubernetes.io/name": self.name}

    def build(self) -> Object:
        """The object for server-side apply."""
        container: Object = {
            "name": self.name,
            "image": self.image,
            "resources": {"requests": {"cpu": self.cpu, "memory": self.memory}},
        }
        if self.port:
            container["ports"] = [{"containerPort": self.port, "protocol": "TCP"}]
        pod: Object = {"containers": [container], "tolerations": self.tolerations}
        if self.account:
            pod["serviceAccountName"] = self.account
        if self.host_network:
            pod["hostNetwork"] = True
        if self.node_selector:
            pod["nodeSelector"] = self.node_selector
        if self.namespace == "kube-system":
            pod["priorityClassName"] = "system-node-critical" if self.replicas is None else "system-cluster-critical"
        spec: Object = {
            "selector": {"matchLabels": self.selector},
            "template": {"metadata": {"labels": dict(self.selector)}, "spec": pod},
        }
        if self.replicas is not None:
            spec["replicas"] = self.replicas
        kind = "DaemonSet" if self.replicas is None else "Deployment"
        return named("apps/v1", kind, self.name, self.namespace, labels=self.selector, spec=spec)


def named(api_version: str, kind: str, name: str, namespace: str = "", **fields: Any) -> Object:
    """An object with metadata; ``labels`` and ``annotations`` go into it, other fields to the top level."""
    metadata: Object = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    for key in ("labels", "annotations"):
        if fields.get(key):
            metadata[key] = dict(fields[key])
    rest = {k: v for k, v in fields.items() if k not in ("labels", "annotations")}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **rest}


def namespace(name: str) -> Object:
    """A Namespace."""
    return named("v1", "Namespace", name)


def account(namespace_name: str, name: str, role: str | None = None) -> Object:
    """A ServiceAccount; ``role`` is the IAM role of an IRSA annotation."""
    notes = {"eks.amazonaws.com/role-arn": role} if role else {}
    return named("v1", "ServiceAccount", name, namespace_name, annotations=notes)


def cluster_role(name: str, groups: list[str], subject: tuple[str, str]) -> list[Object]:
    """A ClusterRole over whole API groups and its binding to the service account ``(namespace, name)``."""
    rules = [{"apiGroups": groups, "resources": ["*"], "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"]}]
    binding = named(
        "rbac.authorization.k8s.io/v1",
        "ClusterRoleBinding",
        name,
        roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        subjects=[{"kind": "ServiceAccount", "namespace": subject[0], "name": subject[1]}],
    )
    return [named("rbac.authorization.k8s.io/v1", "ClusterRole", name, rules=rules), binding]


def service(namespace_name: str, name: str, selector: dict[str, str], ports: dict[str, int]) -> Object:
    """A ClusterIP Service; ``ports`` by name."""
    wanted = [{"name": n, "port": p, "targetPort": p, "protocol": "TCP"} for n, p in ports.items()]
    return named("v1", "Service", name, namespace_name, spec={"selector": selector, "ports": wanted})


def budget(namespace_name: str, name: str, selector: dict[str, str]) -> Object:
    """A PodDisruptionBudget that lets one pod go at a time."""
    return named(
        "policy/v1", "PodDisruptionBudget", name, namespace_name, spec={"maxUnavailable": 1, "selector": {"matchLabels": selector}}
    )


def csi_driver(name: str, attach: bool, fs_group: str = "ReadWriteOnceWithFSType") -> Object:
    """A CSIDriver."""
    spec: Object = {"attachRequired": attach, "podInfoOnMount": not attach, "fsGroupPolicy": fs_group}
    return named("storage.k8s.io/v1", "CSIDriver", name, spec=spec)


def definition(group: str, kind: str, plural: str, version: str, scope: str = "Namespaced") -> Object:
    """A CustomResourceDefinition whose schema keeps every field: the sandbox does not carry the vendors' schemas."""
    keep = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": keep, "status": keep}}
    shown: Object = {
        "name": version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    names = {"kind": kind, "listKind": kind + "List", "plural": plural, "singular": kind.lower()}
    spec: Object = {"group": group, "names": names, "scope": scope, "versions": [shown]}
    return named("apiextensions.k8s.io/v1", "CustomResourceDefinition", f"{plural}.{group}", spec=spec)
