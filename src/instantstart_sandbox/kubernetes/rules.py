"""What the API server refuses in built-in objects: names, missing fields, contradictions, changes of immutable fields."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final

from instantstart_sandbox.kubernetes.errors import Cause, bad_value, required
from instantstart_sandbox.kubernetes.quantities import amount
from instantstart_sandbox.kubernetes.resources import Resource
from instantstart_sandbox.kubernetes.schema import Node
from instantstart_sandbox.kubernetes.selectors import selector_matches
from instantstart_sandbox.kubernetes.validation import joined

Object = dict[str, Any]

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_LABEL_1035: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_VALUE: Final = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?"
_KEY_NAME: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_USED: Final = "regex used for validation is"
_LABEL_TEXT: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an "
    f"alphanumeric character (e.g. 'my-name',  or '123-abc', {_USED} '{_LABEL}')"
)
_LABEL_1035_TEXT: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an "
    f"alphanumeric character (e.g. 'my-name',  or 'abc-123', {_USED} '{_LABEL_1035}')"
)
_SUBDOMAIN_TEXT: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an "
    f"alphanumeric character (e.g. 'example.com', {_USED} '{_SUBDOMAIN}')"
)
_VALUE_TEXT: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    f"alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', {_USED} '{_VALUE}')"
)
_KEY_TEXT: Final = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    f"(e.g. 'MyName',  or 'my.name',  or '123-abc', {_USED} '{_KEY_NAME}')"
)
_DATA_KEY_TEXT: Final = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', "
    f"{_USED} '[-._a-zA-Z0-9]+')"
)
_LARGEST_ANNOTATIONS: Final = 256 * 1024
_RBAC: Final = "rbac.authorization.k8s.io"


def _shown(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


# ---------------------------------------------------------------------- metadata


def name_causes(name: str, resource: Resource, field: str = "metadata.name") -> list[Cause]:
    """Violations of an object's name by the rule of its kind."""
    shown = f'"{name}"'
    if resource.group == _RBAC:
        bad = next((c for c in ("/", "%") if c in name), None)
        return [bad_value(field, shown, f"may not contain '{bad}'")] if bad else []
    pattern, limit, text = _SUBDOMAIN, 253, _SUBDOMAIN_TEXT
    if resource.qualified == "namespaces":
        pattern, limit, text = _LABEL, 63, _LABEL_TEXT
    elif resource.qualified == "services":
        pattern, limit, text = _LABEL_1035, 63, _LABEL_1035_TEXT
    causes = []
    if len(name) > limit:
        causes.append(bad_value(field, shown, f"must be no more than {limit} bytes"))
    if not re.fullmatch(pattern, name):
        causes.append(bad_value(field, shown, text))
    return causes


def label_causes(labels: dict[str, str], field: str) -> list[Cause]:
    """Violations of label keys and values."""
    causes = []
    for key, value in labels.items():
        prefix, _, name = key.rpartition("/")
        if not re.fullmatch(_KEY_NAME, name) or len(name) > 63:
            causes.append(bad_value(field, f'"{key}"', _KEY_TEXT))
        if prefix and not re.fullmatch(_SUBDOMAIN, prefix):
            causes.append(bad_value(field, f'"{key}"', f"prefix part {_SUBDOMAIN_TEXT}"))
        if len(value) > 63:
            causes.append(bad_value(field, f'"{value}"', "must be no more than 63 bytes"))
        elif not re.fullmatch(_VALUE, value):
            causes.append(bad_value(field, f'"{value}"', _VALUE_TEXT))
    return causes


def metadata_causes(obj: Object, resource: Resource) -> list[Cause]:
    """Violations in an object's metadata."""
    metadata = obj["metadata"]
    name = metadata.get("name", "")
    causes = name_causes(name, resource) if name else [required("metadata.name", "name or generateName is required")]
    causes += label_causes(metadata.get("labels") or {}, "metadata.labels")
    if sum(len(k) + len(v) for k, v in (metadata.get("annotations") or {}).items()) > _LARGEST_ANNOTATIONS:
        causes.append(Cause("metadata.annotations", "FieldValueTooLong", f"Too long: may not be more than {_LARGEST_ANNOTATIONS} bytes"))
    for index, finalizer in enumerate(metadata.get("finalizers") or ()):
        if not resource.custom and "/" not in finalizer and finalizer not in ("orphan", "foregroundDeletion", "kubernetes"):
            causes.append(
                bad_value(
                    f"metadata.finalizers[{index}]", f'"{finalizer}"', "name is neither a standard finalizer name nor is it fully qualified"
                )
            )
    for index, owner in enumerate(metadata.get("ownerReferences") or ()):
        causes += [
            required(f"metadata.ownerReferences[{index}].{f}", f"{f} must not be empty")
            for f in ("uid", "name", "kind")
            if not owner.get(f)
        ]
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


# ---------------------------------------------------------------------- pods

_OVERCOMMITTED: Final = frozenset({"cpu", "memory", "ephemeral-storage"})


def _resource_causes(resources: Object, path: str) -> list[Cause]:
    causes = []
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for name, quantity in requests.items():
        limit = limits.get(name)
        field = f"{path}.requests"
        if limit is not None and amount(quantity) > amount(limit):
            causes.append(bad_value(field, f'"{quantity}"', f"must be less than or equal to {name} limit of {limit}"))
        elif name not in _OVERCOMMITTED and not name.startswith("hugepages-") and limit is None:
            causes.append(required(f"{path}.limits", "Limit must be set for non overcommitable resources"))
        elif name not in _OVERCOMMITTED and limit is not None and amount(quantity) != amount(limit):
            causes.append(bad_value(field, f'"{quantity}"', f"must be equal to {name} limit of {limit}"))
    return causes


def _container_causes(container: Object, volumes: set[str], path: str) -> list[Cause]:
    causes = [] if container.get("image") else [required(f"{path}.image")]
    name = container.get("name", "")
    if name and (not re.fullmatch(_LABEL, name) or len(name) > 63):
        causes.append(bad_value(f"{path}.name", f'"{name}"', _LABEL_TEXT))
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        if mount.get("name") not in volumes:
            causes.append(Cause(f"{path}.volumeMounts[{index}].name", "FieldValueNotFound", f'Not found: "{mount.get("name")}"'))
    return causes + _resource_causes(container.get("resources") or {}, f"{path}.resources")


def pod_causes(spec: Object, path: str, volumes: set[str] = frozenset()) -> list[Cause]:  # type: ignore[assignment]
    """Violations in a pod's spec; ``volumes`` are further volume names (claim templates)."""
    causes: list[Cause] = []
    known = {v.get("name", "") for v in spec.get("volumes") or ()} | set(volumes)
    if not spec.get("containers"):
        causes.append(required(f"{path}.containers"))
    seen: set[str] = set()
    for kind in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(kind) or ()):
            where = f"{path}.{kind}[{index}]"
            causes += _container_causes(container, known, where)
            if container.get("name") in seen:
                causes.append(Cause(f"{where}.name", "FieldValueDuplicate", f'Duplicate value: "{container["name"]}"'))
            seen.add(container.get("name", ""))
    policy = spec.get("restartPolicy")
    if policy not in ("Always", "OnFailure", "Never"):
        listed = '"Always", "OnFailure", "Never"'
        causes.append(
            Cause(f"{path}.restartPolicy", "FieldValueNotSupported", f'Unsupported value: "{policy}": supported values: {listed}')
        )
    return causes


def _pod(obj: Object) -> list[Cause]:
    return pod_causes(obj.get("spec") or {}, "spec")


def _workload(obj: Object) -> list[Cause]:
    spec = obj.get("spec") or {}
    template = spec.get("template") or {}
    labels = (template.get("metadata") or {}).get("labels") or {}
    causes = [] if spec.get("selector") else [required("spec.selector")]
    if spec.get("selector") and not selector_matches(spec["selector"], labels):
        causes.append(bad_value("spec.template.metadata.labels", _shown(labels), "`selector` does not match template `labels`"))
    claims = {c["metadata"].get("name", "") for c in spec.get("volumeClaimTemplates") or () if "metadata" in c}
    causes += pod_causes(template.get("spec") or {"restartPolicy": "Always"}, "spec.template.spec", claims)
    if (template.get("spec") or {}).get("restartPolicy", "Always") != "Always":
        causes.append(
            Cause(
                "spec.template.spec.restartPolicy",
                "FieldValueNotSupported",
                f'Unsupported value: "{template["spec"]["restartPolicy"]}": supported values: "Always"',
            )
        )
    if (spec.get("replicas") or 0) < 0:
        causes.append(bad_value("spec.replicas", str(spec["replicas"]), "must be greater than or equal to 0"))
    return causes


def _job_spec(spec: Object, path: str) -> list[Cause]:
    template = (spec.get("template") or {}).get("spec") or {"restartPolicy": "Never"}
    causes = pod_causes(template, f"{path}.template.spec")
    if template.get("restartPolicy") == "Always":
        causes.append(required(f"{path}.template.spec.restartPolicy", 'valid values: "OnFailure", "Never"'))
    for field in ("parallelism", "completions", "backoffLimit"):
        if (spec.get(field) or 0) < 0:
            causes.append(bad_value(f"{path}.{field}", str(spec[field]), "must be greater than or equal to 0"))
    return causes


def _job(obj: Object) -> list[Cause]:
    return _job_spec(obj.get("spec") or {}, "spec")


def _cron_job(obj: Object) -> list[Cause]:
    spec = obj.get("spec") or {}
    return _job_spec((spec.get("jobTemplate") or {}).get("spec") or {}, "spec.jobTemplate.spec")


# ---------------------------------------------------------------------- services, storage, data


def _service(obj: Object) -> list[Cause]:
    spec = obj.get("spec") or {}
    causes = []
    if not spec.get("ports") and spec.get("type") != "ExternalName" and spec.get("clusterIP") != "None":
        causes.append(required("spec.ports"))
    for index, port in enumerate(spec.get("ports") or ()):
        if not 1 <= port.get("port", 0) <= 65535:
            causes.append(bad_value(f"spec.ports[{index}].port", str(port.get("port", 0)), "must be between 1 and 65535, inclusive"))
        if len(spec["ports"]) > 1 and not port.get("name"):
            causes.append(required(f"spec.ports[{index}].name"))
    if spec.get("type") not in ("ClusterIP", "NodePort", "LoadBalancer", "ExternalName"):
        listed = '"ClusterIP", "ExternalName", "LoadBalancer", "NodePort"'
        causes.append(Cause("spec.type", "FieldValueNotSupported", f'Unsupported value: "{spec.get("type")}": supported values: {listed}'))
    return causes


def _claim(obj: Object) -> list[Cause]:
    spec = obj.get("spec") or {}
    causes = [] if spec.get("accessModes") else [required("spec.accessModes", "at least 1 access mode is required")]
    if not ((spec.get("resources") or {}).get("requests") or {}).get("storage"):
        causes.append(required("spec.resources[storage]"))
    return causes


def _volume(obj: Object) -> list[Cause]:
    spec = obj.get("spec") or {}
    causes = [] if spec.get("accessModes") else [required("spec.accessModes")]
    if not (spec.get("capacity") or {}).get("storage"):
        causes.append(required("spec.capacity"))
    return causes


def _data(obj: Object) -> list[Cause]:
    causes = []
    for field in ("data", "binaryData"):
        for key in obj.get(field) or {}:
            if not re.fullmatch(r"[-._a-zA-Z0-9]+", key) or len(key) > 253:
                causes.append(bad_value(f"{field}[{key}]", f'"{key}"', _DATA_KEY_TEXT))
    size = sum(len(v) for field in ("data", "binaryData") for v in (obj.get(field) or {}).values())
    if size > 1024 * 1024:
        causes.append(Cause("", "FieldValueTooLong", "Too long: may not be more than 1048576 bytes"))
    return causes


def _role_binding(obj: Object) -> list[Cause]:
    reference = obj.get("roleRef") or {}
    if reference.get("kind") not in ("Role", "ClusterRole"):
        shown = f'Unsupported value: "{reference.get("kind", "")}": supported values: "ClusterRole", "Role"'
        return [Cause("roleRef.kind", "FieldValueNotSupported", shown)]
    return [] if reference.get("name") else [required("roleRef.name")]


_BY_RESOURCE: Final[dict[str, Callable[[Object], list[Cause]]]] = {
    "pods": _pod,
    "deployments.apps": _workload,
    "replicasets.apps": _workload,
    "statefulsets.apps": _workload,
    "daemonsets.apps": _workload,
    "jobs.batch": _job,
    "cronjobs.batch": _cron_job,
    "services": _service,
    "persistentvolumeclaims": _claim,
    "persistentvolumes": _volume,
    "configmaps": _data,
    "secrets": _data,
    f"rolebindings.{_RBAC}": _role_binding,
    f"clusterrolebindings.{_RBAC}": _role_binding,
}


def causes_of(qualified: str, obj: Object) -> list[Cause]:
    """Violations of a built-in object by the rules of its kind."""
    check = _BY_RESOURCE.get(qualified)
    return check(obj) if check is not None else []
