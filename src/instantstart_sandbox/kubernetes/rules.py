"""What the API server refuses in built-in objects: names, missing fields, contradictions, changes of immutable fields."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final

from instantstart_sandbox.kubernetes import workload_rules
from instantstart_sandbox.kubernetes.errors import Cause, bad_value, required, unsupported
from instantstart_sandbox.kubernetes.names import data_key_causes, finalizer_causes, key_causes, label_causes, name_causes, owner_causes
from instantstart_sandbox.kubernetes.pod_rules import pod_causes, taints
from instantstart_sandbox.kubernetes.quantities import amount
from instantstart_sandbox.kubernetes.resources import Resource
from instantstart_sandbox.kubernetes.schema import Node
from instantstart_sandbox.kubernetes.validation import joined

Object = dict[str, Any]

_LARGEST_ANNOTATIONS: Final = 256 * 1024
_RBAC: Final = "rbac.authorization.k8s.io"


def _shown(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


# ---------------------------------------------------------------------- metadata


def metadata_causes(obj: Object, resource: Resource) -> list[Cause]:
    """Violations in an object's metadata."""
    metadata = obj["metadata"]
    name = metadata.get("name", "")
    causes = name_causes(name, resource) if name else [required("metadata.name", "name or generateName is required")]
    causes += label_causes(metadata.get("labels") or {}, "metadata.labels")
    for key in metadata.get("annotations") or {}:
        causes += key_causes(key.lower(), "metadata.annotations")
    if sum(len(k) + len(v) for k, v in (metadata.get("annotations") or {}).items()) > _LARGEST_ANNOTATIONS:
        causes.append(Cause("metadata.annotations", "FieldValueTooLong", f"Too long: may not be more than {_LARGEST_ANNOTATIONS} bytes"))
    for index, finalizer in enumerate(metadata.get("finalizers") or ()):
        causes += finalizer_causes(finalizer, f"metadata.finalizers[{index}]") if not resource.custom else []
    owners = metadata.get("ownerReferences") or ()
    for owner in owners:
        causes += owner_causes(owner, "metadata.ownerReferences")
        if (owner.get("apiVersion"), owner.get("kind")) == ("v1", "Event"):
            causes.append(bad_value("metadata.ownerReferences", _shown(owner), "/v1, Kind=Event is disallowed from being an owner"))
    ruling = [o for o in owners if o.get("controller")]
    if len(ruling) > 1:
        both = " and ".join(f"{o.get('kind', '')}/{o.get('name', '')}" for o in ruling[:2])
        text = f'Only one reference can have Controller set to true. Found "true" in references for {both}'
        causes.append(bad_value("metadata.ownerReferences", _shown(owners), text))
    return causes


# ---------------------------------------------------------------------- required scalars


def missing(value: Any, node: Node, path: str, causes: list[Cause]) -> None:
    """Required scalar fields that are absent. (A required list or struct is simply empty after decoding.)"""
    if isinstance(value, dict):
        for field in node.required:
            child = node.child(field)
            if child is not None and child.type in ("string", "integer", "int-or-string") and value.get(field) in (None, ""):
                causes.append(required(joined(path, field)))
        for key, item in value.items():
            if not path and key in ("status", "metadata"):
                continue
            child = node.child(key)
            if child is not None and isinstance(item, (dict, list)):
                missing(item, child, joined(path, key), causes)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            missing(item, node.items, f"{path}[{index}]", causes)


# ---------------------------------------------------------------------- pods and what makes them


def _pod(obj: Object) -> list[Cause]:
    return pod_causes(obj.get("spec") or {}, "spec")


def _node(obj: Object) -> list[Cause]:
    return taints((obj.get("spec") or {}).get("taints") or [], "metadata.taints")


# ---------------------------------------------------------------------- services, storage, data


def _service(obj: Object) -> list[Cause]:
    spec = obj.get("spec") or {}
    causes = []
    if not spec.get("ports") and spec.get("type") != "ExternalName" and spec.get("clusterIP") != "None":
        causes.append(required("spec.ports"))
    address = spec.get("clusterIP")
    if address and address != "None" and not re.fullmatch(r"\d+\.\d+\.\d+\.\d+", address):
        text = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
        causes.append(bad_value("spec.clusterIPs[0]", f'"{address}"', text))
    for index, port in enumerate(spec.get("ports") or ()):
        if port.get("protocol", "TCP") not in ("TCP", "UDP", "SCTP"):
            causes.append(unsupported(f"spec.ports[{index}].protocol", port["protocol"], ("SCTP", "TCP", "UDP")))
        if not 1 <= port.get("port", 0) <= 65535:
            causes.append(bad_value(f"spec.ports[{index}].port", str(port.get("port", 0)), "must be between 1 and 65535, inclusive"))
        if len(spec["ports"]) > 1 and not port.get("name"):
            causes.append(required(f"spec.ports[{index}].name"))
    if spec.get("type") not in ("ClusterIP", "NodePort", "LoadBalancer", "ExternalName"):
        listed = '"ClusterIP", "ExternalName", "LoadBalancer", "NodePort"'
        causes.append(Cause("spec.type", "FieldValueNotSupported", f'Unsupported value: "{spec.get("type")}": supported values: {listed}'))
    return causes


_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")


def _claim(obj: Object) -> list[Cause]:
    spec = obj.get("spec") or {}
    causes = [] if spec.get("accessModes") else [required("spec.accessModes", "at least 1 access mode is required")]
    causes += [unsupported("spec.accessModes", m, _MODES) for m in spec.get("accessModes") or () if m not in _MODES]
    size = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if size is None:
        causes.append(required("spec.resources[storage]"))
    elif amount(size) <= 0:
        causes.append(bad_value("spec.resources[storage]", f'"{size}"', "must be greater than zero"))
    return causes


def _volume(obj: Object) -> list[Cause]:
    spec = obj.get("spec") or {}
    causes = [] if spec.get("accessModes") else [required("spec.accessModes")]
    causes += [unsupported("spec.accessModes", m, _MODES) for m in spec.get("accessModes") or () if m not in _MODES]
    if not spec.get("capacity"):
        causes.append(required("spec.capacity"))
    if not (spec.get("capacity") or {}).get("storage"):
        causes.append(Cause("spec.capacity", "FieldValueNotSupported", 'Unsupported value: null: supported values: "storage"'))
    if not any(isinstance(v, dict) and k not in ("capacity", "claimRef", "nodeAffinity") for k, v in spec.items()):
        causes.append(required("spec", "must specify a volume type"))
    return causes


def _data(obj: Object) -> list[Cause]:
    causes = []
    for field in ("data", "binaryData"):
        for key in obj.get(field) or {}:
            causes += data_key_causes(key, f"{field}[{key}]")
    for key in sorted(set(obj.get("data") or {}) & set(obj.get("binaryData") or {})):
        causes.append(bad_value(f"data[{key}]", f'"{key}"', "duplicate of key present in binaryData"))
    size = sum(len(v) for field in ("data", "binaryData") for v in (obj.get(field) or {}).values())
    if size > 1024 * 1024:
        causes.append(Cause("", "FieldValueTooLong", "Too long: may not be more than 1048576 bytes"))
    return causes


#: what a Secret of a type must hold; of basic-auth one of the two is enough
_SECRET_KEYS: Final = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/basic-auth": ("username", "password"),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}


def _secret(obj: Object) -> list[Cause]:
    kind, data = obj.get("type", "Opaque"), obj.get("data") or {}
    lacking = [key for key in _SECRET_KEYS.get(kind, ()) if key not in data]
    if kind == "kubernetes.io/basic-auth" and len(lacking) == 1:
        lacking = []
    return _data(obj) + [required(f"data[{key}]") for key in lacking]


def _event(obj: Object) -> list[Cause]:
    about = (obj.get("involvedObject") or {}).get("namespace", "")
    namespace = obj["metadata"].get("namespace", "")
    if about and about != namespace:
        return [bad_value("involvedObject.namespace", f'"{about}"', "does not match event.namespace")]
    return []


def _role(obj: Object) -> list[Cause]:
    causes: list[Cause] = []
    for index, rule in enumerate(obj.get("rules") or ()):
        where = f"rules[{index}]"
        if not rule.get("verbs"):
            causes.append(required(f"{where}.verbs", "verbs must contain at least one value"))
        if rule.get("nonResourceURLs"):
            continue
        if not rule.get("apiGroups"):
            causes.append(required(f"{where}.apiGroups", "resource rules must supply at least one api group"))
        if not rule.get("resources"):
            causes.append(required(f"{where}.resources", "resource rules must supply at least one resource"))
    return causes


def _budget(obj: Object) -> list[Cause]:
    spec = obj.get("spec") or {}
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        shown = _shown({
            "MinAvailable": spec["minAvailable"], "Selector": spec.get("selector"), "MaxUnavailable": spec["maxUnavailable"],
            "UnhealthyPodEvictionPolicy": spec.get("unhealthyPodEvictionPolicy"),
        })  # fmt: skip
        return [bad_value("spec", shown, "minAvailable and maxUnavailable cannot be both set")]
    return [cause for name in ("minAvailable", "maxUnavailable") for cause in _share(spec.get(name), f"spec.{name}")]


_PERCENT_TEXT: Final = (
    "a valid percent string must be a numeric string followed by an ending '%' "
    "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
)


def _share(value: Any, field: str) -> list[Cause]:
    """A number of pods or a share of them."""
    if isinstance(value, str):
        if not re.fullmatch(r"[0-9]+%", value):
            return [bad_value(field, _shown(value), _PERCENT_TEXT)]
        return [bad_value(field, _shown(value), "must not be greater than 100%")] if int(value[:-1]) > 100 else []
    if isinstance(value, int) and value < 0:
        return [bad_value(field, str(value), "must be greater than or equal to 0")]
    return []


def _ingress(obj: Object) -> list[Cause]:
    spec = obj.get("spec") or {}
    if spec.get("rules") or spec.get("defaultBackend"):
        return []
    return [bad_value("spec", "null", "either `defaultBackend` or `rules` must be specified")]


def _priority(obj: Object) -> list[Cause]:
    if obj.get("value", 0) > 1_000_000_000 and not obj["metadata"]["name"].startswith("system-"):
        text = "maximum allowed value of a user defined priority is 1000000000"
        return [Cause("value", "FieldValueForbidden", f"Forbidden: {text}")]
    return []


def _role_binding(obj: Object) -> list[Cause]:
    reference = obj.get("roleRef") or {}
    if reference.get("kind") not in ("Role", "ClusterRole"):
        causes = [unsupported("roleRef.kind", reference.get("kind", ""), ("Role", "ClusterRole"))]
    else:
        causes = []
    return causes if reference.get("name") else [*causes, required("roleRef.name")]


_BY_RESOURCE: Final[dict[str, Callable[[Object], list[Cause]]]] = {
    "pods": _pod,
    "deployments.apps": workload_rules.deployment,
    "replicasets.apps": workload_rules.replica_set,
    "statefulsets.apps": workload_rules.stateful_set,
    "daemonsets.apps": workload_rules.daemon_set,
    "jobs.batch": workload_rules.job,
    "cronjobs.batch": workload_rules.cron_job,
    "services": _service,
    "persistentvolumeclaims": _claim,
    "persistentvolumes": _volume,
    "configmaps": _data,
    "secrets": _secret,
    "nodes": _node,
    "events": _event,
    f"roles.{_RBAC}": _role,
    "poddisruptionbudgets.policy": _budget,
    "ingresses.networking.k8s.io": _ingress,
    "priorityclasses.scheduling.k8s.io": _priority,
    f"rolebindings.{_RBAC}": _role_binding,
    f"clusterrolebindings.{_RBAC}": _role_binding,
}


def causes_of(qualified: str, obj: Object) -> list[Cause]:
    """Violations of a built-in object by the rules of its kind."""
    check = _BY_RESOURCE.get(qualified)
    return check(obj) if check is not None else []
