"""Admission: what the API server adds to objects or refuses because of other objects.

Namespaces must exist; Pods get a service account, its token volume, a priority and the default tolerations; Services get addresses
and node ports; claims the default storage class; Jobs their selector.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from typing import Any, Final, Protocol

from instantstart_sandbox.kubernetes.errors import ApiError, forbidden, invalid
from instantstart_sandbox.kubernetes.errors import bad_value as _bad_value
from instantstart_sandbox.kubernetes.lifecycle import generated_name
from instantstart_sandbox.kubernetes.pod_roles import inject
from instantstart_sandbox.kubernetes.resources import Resource

Object = dict[str, Any]

_NODE_PORTS: Final = range(30000, 32768)
_DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
_BUILT_IN_PRIORITIES: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_TOKEN_SECONDS: Final = 3607
#: EKS gives 10.100.0.0/16 to Services; .1 is the API server, .10 the DNS
_SERVICE_NET: Final = "10.100"


class Reader(Protocol):
    """How admission looks at other objects."""

    def read(self, qualified: str, name: str, namespace: str | None = None) -> Object | None:
        """The present object or None."""

    def read_all(self, qualified: str, namespace: str | None = None) -> list[Object]:
        """All present objects."""

    def is_associated(self, namespace: str, account: str) -> bool:
        """Whether a service account has a pod identity association in force."""


def check_namespace(reader: Reader, resource: Resource, namespace: str, name: str) -> None:
    """404 when the namespace is not there, 403 when it is being deleted."""
    found = reader.read("namespaces", namespace)
    if found is None:
        raise ApiError(404, "NotFound", f'namespaces "{namespace}" not found', {"name": namespace, "kind": "namespaces"})
    if found["metadata"].get("deletionTimestamp"):
        message = f"namespace {namespace} is being terminated"
        error = forbidden(resource, name, f"unable to create new content in namespace {namespace} because it is being terminated")
        error.details = {
            **(error.details or {}),
            "causes": [{"reason": "NamespaceTerminating", "message": message, "field": "metadata.namespace"}],
        }
        raise error


# ---------------------------------------------------------------------- pods


def _pod(reader: Reader, resource: Resource, obj: Object) -> None:
    spec, name = obj["spec"], obj["metadata"].get("name", "")
    _service_account(reader, resource, obj)
    _priority(reader, resource, spec, name)
    _default_tolerations(spec)


def _default_tolerations(spec: Object) -> None:
    """On create and on every update: a pod stays five minutes on a node that is not ready."""
    tolerations = spec.setdefault("tolerations", [])
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        if not any(_tolerates(t, key) for t in tolerations):
            tolerations.append({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300})
    _extended_tolerations(spec, tolerations)


def _tolerates(toleration: Object, key: str) -> bool:
    return toleration.get("key") in (key, None, "") and toleration.get("effect") in (None, "", "NoExecute")


def _extended_tolerations(spec: Object, tolerations: list[Object]) -> None:
    """EKS runs ExtendedResourceToleration: a pod that asks for a GPU tolerates the taint of that name."""
    wanted = set()
    for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
        for name in container["resources"].get("requests") or {}:
            if "/" in name and not name.startswith(("kubernetes.io/", "requests.")):
                wanted.add(name)
    for name in sorted(wanted):
        if not any(t.get("key") == name for t in tolerations):
            tolerations.append({"key": name, "operator": "Exists", "effect": "NoSchedule"})


def _service_account(reader: Reader, resource: Resource, obj: Object) -> None:
    spec, metadata = obj["spec"], obj["metadata"]
    account = spec.setdefault("serviceAccountName", "default")
    spec["serviceAccount"] = account
    found = reader.read("serviceaccounts", account, metadata["namespace"])
    if found is None:
        why = f'error looking up service account {metadata["namespace"]}/{account}: serviceaccount "{account}" not found'
        raise forbidden(resource, metadata.get("name", ""), why)
    inject(spec, found, reader.is_associated(metadata["namespace"], account))
    wanted = spec.get("automountServiceAccountToken", found.get("automountServiceAccountToken", True))
    path = "/var/run/secrets/kubernetes.io/serviceaccount"
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    bare = [c for c in containers if not any(m.get("mountPath") == path for m in c.get("volumeMounts") or ())]
    if not wanted or not bare:
        return
    volume = generated_name("kube-api-access-")
    spec.setdefault("volumes", []).append(_token_volume(volume))
    for container in bare:
        container.setdefault("volumeMounts", []).append({"name": volume, "readOnly": True, "mountPath": path})


def _token_volume(name: str) -> Object:
    fields = [{"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]
    sources = [
        {"serviceAccountToken": {"expirationSeconds": _TOKEN_SECONDS, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": fields}},
    ]
    return {"name": name, "projected": {"sources": sources, "defaultMode": 420}}


def _priority(reader: Reader, resource: Resource, spec: Object, pod: str) -> None:
    name = spec.get("priorityClassName")
    policy = "PreemptLowerPriority"
    if name:
        found = reader.read("priorityclasses.scheduling.k8s.io", name)
        if found is None and name not in _BUILT_IN_PRIORITIES:
            raise forbidden(resource, pod, f"no PriorityClass with name {name} was found")
        value = found["value"] if found else _BUILT_IN_PRIORITIES[name]
        policy = (found or {}).get("preemptionPolicy", policy)
    else:
        default = next((c for c in reader.read_all("priorityclasses.scheduling.k8s.io") if c.get("globalDefault")), None)
        value = default["value"] if default else 0
        if default:
            spec["priorityClassName"] = default["metadata"]["name"]
            policy = default.get("preemptionPolicy", policy)
    spec["priority"] = value
    spec.setdefault("preemptionPolicy", policy)


# ---------------------------------------------------------------------- services, claims, jobs


def _service(reader: Reader, resource: Resource, obj: Object) -> None:
    spec = obj["spec"]
    if spec.get("type") == "ExternalName":
        for field in ("clusterIP", "clusterIPs"):
            spec.pop(field, None)
        return
    spec.setdefault("ipFamilies", ["IPv4"])
    spec.setdefault("ipFamilyPolicy", "SingleStack")
    if not spec.get("clusterIP") or spec.get("clusterIPs") == []:
        services = reader.read_all("services")
        spec["clusterIP"] = _free_address({s["spec"].get("clusterIP") for s in services})
    spec["clusterIPs"] = [spec["clusterIP"]]
    address = spec["clusterIP"]
    if address != "None" and re.fullmatch(r"[\d.]+", address) and not address.startswith(f"{_SERVICE_NET}."):
        text = f"failed to allocate IP {address}: the provided network does not match the current range"
        raise invalid(resource, obj["metadata"].get("name", ""), [_bad_value("spec.clusterIPs", f'["{address}"]', text)])
    if spec.get("type") in ("NodePort", "LoadBalancer") and spec.get("allocateLoadBalancerNodePorts", True):
        _node_ports(reader, resource, obj)


def _free_address(taken: set[str | None]) -> str:
    while True:
        address = f"{_SERVICE_NET}.{secrets.randbelow(256)}.{11 + secrets.randbelow(240)}"
        if address not in taken:
            return address


def _node_ports(reader: Reader, resource: Resource, obj: Object) -> None:
    metadata = obj["metadata"]
    others = [
        s
        for s in reader.read_all("services")
        if (s["metadata"]["namespace"], s["metadata"]["name"]) != (metadata["namespace"], metadata["name"])
    ]
    taken = {p.get("nodePort") for s in others for p in s["spec"].get("ports") or ()}
    for index, port in enumerate(obj["spec"].get("ports") or ()):
        wanted = port.get("nodePort")
        if wanted and wanted not in _NODE_PORTS:
            text = "provided port is not in the valid range. The range of valid ports is 30000-32767"
            raise invalid(resource, metadata["name"], [_bad_value(f"spec.ports[{index}].nodePort", str(wanted), text)])
        if wanted in taken and wanted:
            cause = _bad_value(f"spec.ports[{index}].nodePort", str(wanted), "provided port is already allocated")
            raise invalid(resource, metadata["name"], [cause])
        if not wanted:
            port["nodePort"] = secrets.choice([p for p in _NODE_PORTS if p not in taken])
        taken.add(port["nodePort"])


def _protect(reader: Reader, resource: Resource, obj: Object) -> None:
    """Claims and volumes that are in use stay until they are not (StorageObjectInUseProtection)."""
    kind = "pvc" if resource.qualified == "persistentvolumeclaims" else "pv"
    finalizers = obj["metadata"].setdefault("finalizers", [])
    if f"kubernetes.io/{kind}-protection" not in finalizers:
        finalizers.append(f"kubernetes.io/{kind}-protection")


def _claim(reader: Reader, resource: Resource, obj: Object) -> None:
    _protect(reader, resource, obj)
    if obj["spec"].get("storageClassName") is not None:
        return
    classes = reader.read_all("storageclasses.storage.k8s.io")
    default = [c for c in classes if (c["metadata"].get("annotations") or {}).get(_DEFAULT_CLASS) == "true"]
    if default:
        newest = max(default, key=lambda c: (c["metadata"]["creationTimestamp"], c["metadata"]["name"]))
        obj["spec"]["storageClassName"] = newest["metadata"]["name"]


def _job(reader: Reader, resource: Resource, obj: Object) -> None:
    spec, metadata = obj["spec"], obj["metadata"]
    if spec.get("manualSelector"):
        return
    uid, name = metadata["uid"], metadata.get("name", "")
    labels = spec.setdefault("template", {}).setdefault("metadata", {}).setdefault("labels", {})
    labels.update(
        {"batch.kubernetes.io/controller-uid": uid, "batch.kubernetes.io/job-name": name, "controller-uid": uid, "job-name": name}
    )
    spec.setdefault("selector", {}).setdefault("matchLabels", {})["batch.kubernetes.io/controller-uid"] = uid
    if not metadata.get("labels"):
        metadata["labels"] = dict(labels)


_ON_CREATE: Final[dict[str, Callable[[Reader, Resource, Object], None]]] = {
    "pods": _pod, "services": _service, "persistentvolumeclaims": _claim, "jobs.batch": _job,
    "persistentvolumes": _protect,
}  # fmt: skip


def admit(reader: Reader, resource: Resource, obj: Object, old: Object | None) -> None:
    """Complete or refuse an object about to be stored, in place."""
    if old is None:
        step = _ON_CREATE.get(resource.qualified)
        if step is not None and isinstance(obj.get("spec"), dict):
            step(reader, resource, obj)
    elif resource.qualified == "pods":
        _default_tolerations(obj["spec"])
    elif resource.qualified == "services":
        _keep_addresses(obj, old)
        _service(reader, resource, obj)


def _keep_addresses(obj: Object, old: Object) -> None:
    spec, before = obj["spec"], old["spec"]
    if spec.get("type") != "ExternalName" and before.get("clusterIP") and not spec.get("clusterIP"):
        spec["clusterIP"] = before["clusterIP"]
    known = {(p.get("port"), p.get("protocol")): p.get("nodePort") for p in before.get("ports") or ()}
    for port in spec.get("ports") or ():
        kept = known.get((port.get("port"), port.get("protocol")))
        if kept and not port.get("nodePort") and spec.get("type") in ("NodePort", "LoadBalancer"):
            port["nodePort"] = kept
