"""What the API server refuses in a pod's spec, in its order and with its sentences (v1.34)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, Final

from instantstart_sandbox.kubernetes.errors import Cause, bad_value, forbidden_field, required, unsupported
from instantstart_sandbox.kubernetes.names import LABEL, LABEL_TEXT, SUBDOMAIN, SUBDOMAIN_TEXT, key_causes, label_causes, value_text
from instantstart_sandbox.kubernetes.quantities import amount

Object = dict[str, Any]

_OVERCOMMITTED: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_SOURCES: Final = [
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "flexVolume",
    "azureDisk",
    "storageos",
    "portworxVolume",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
]
_POSITIVE_TEXT: Final = "must be greater than or equal to 0"
_PORT_TEXT: Final = "must be between 1 and 65535, inclusive"
#: what a source must name
_NAMED_SOURCES: Final = {"secret": "secretName", "configMap": "name", "persistentVolumeClaim": "claimName", "hostPath": "path"}


def duplicate(field: str, shown: str) -> Cause:
    """The value is there twice."""
    return Cause(field, "FieldValueDuplicate", f'Duplicate value: "{shown}"')


def _label(name: str, field: str) -> list[Cause]:
    """Violations of a DNS label."""
    causes = [] if len(name) <= 63 else [bad_value(field, f'"{name}"', "must be no more than 63 bytes")]
    return causes if re.fullmatch(LABEL, name) else [*causes, bad_value(field, f'"{name}"', LABEL_TEXT)]


# ---------------------------------------------------------------------- volumes


def _volumes(volumes: list[Object], path: str) -> tuple[set[str], list[Cause]]:
    """The good volumes' names, and what is wrong with the others."""
    known: set[str] = set()
    causes: list[Cause] = []
    for index, volume in enumerate(volumes):
        where, name = f"{path}[{index}]", volume.get("name", "")
        found = _source(volume, where)
        found += _label(name, f"{where}.name") if name else [required(f"{where}.name")]
        if name in known:
            found.append(duplicate(f"{where}.name", name))
        if not found:
            known.add(name)
        causes += found
    return known, causes


def _source(volume: Object, where: str) -> list[Cause]:
    given = [s for s in _SOURCES if volume.get(s) is not None]
    if not given:
        return [required(where, "must specify a volume type")]
    causes: list[Cause] = []
    for number, source in enumerate(given):
        field = _NAMED_SOURCES.get(source)
        if number:
            causes.append(forbidden_field(f"{where}.{source}", "may not specify more than 1 volume type"))
        elif field and not volume[source].get(field):
            causes.append(required(f"{where}.{source}.{field}"))
    return causes


# ---------------------------------------------------------------------- resources


def _resource_name(name: str, field: str) -> list[Cause]:
    if "/" in name or name.startswith("hugepages-") or name in _OVERCOMMITTED:
        return []
    if name in ("storage", "pods", "services", "configmaps", "secrets", "persistentvolumeclaims"):
        return [bad_value(field, f'"{name}"', "must be a standard resource for containers")]
    return [
        bad_value(field, f'"{name}"', "must be a standard resource type or fully qualified"),
        bad_value(field, f'"{name}"', "must be a standard resource for containers"),
    ]


def _quantity(name: str, quantity: Any, field: str) -> list[Cause]:
    causes = [] if amount(quantity) >= 0 else [bad_value(field, f'"{quantity}"', _POSITIVE_TEXT)]
    if name not in _OVERCOMMITTED and "/" in name and amount(quantity).denominator != 1:
        causes.append(bad_value(field, f'"{quantity}"', "must be an integer"))
    return causes


def _resources(resources: Object, path: str) -> list[Cause]:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    causes: list[Cause] = []
    for kind, listed in (("limits", limits), ("requests", requests)):
        for name, quantity in sorted(listed.items()):
            field = f"{path}.{kind}[{name}]" if "/" in name or "." in name else f"{path}.{kind}.{name}"
            causes += _resource_name(name, f"{path}.{kind}") or []
            causes += _quantity(name, quantity, field.replace(f".{kind}.{name}", f".{kind}[{name}]"))
            causes += _against_limit(name, quantity, limits, path) if kind == "requests" else []
    return causes


def _against_limit(name: str, quantity: Any, limits: Object, path: str) -> list[Cause]:
    limit, field = limits.get(name), f"{path}.requests"
    if limit is None:
        free = name in _OVERCOMMITTED
        return [] if free else [required(f"{path}.limits", "Limit must be set for non overcommitable resources")]
    if name not in _OVERCOMMITTED and amount(quantity) != amount(limit):
        return [bad_value(field, f'"{quantity}"', f"must be equal to {name} limit of {limit}")]
    if amount(quantity) > amount(limit):
        return [bad_value(field, f'"{quantity}"', f"must be less than or equal to {name} limit of {limit}")]
    return []


# ---------------------------------------------------------------------- containers


def _port_name(name: str, field: str) -> list[Cause]:
    checks = (
        (len(name) <= 15, "must be no more than 15 characters"),
        (re.fullmatch("[-a-z0-9]+", name), "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"),
        (re.search("[a-z]", name), "must contain at least one letter (a-z)"),
        ("--" not in name, "must not contain consecutive hyphens"),
        (not name.startswith("-") and not name.endswith("-"), "must not begin or end with a hyphen"),
    )
    return [bad_value(field, f'"{name}"', text) for good, text in checks if not good]


def _ports(ports: list[Object], path: str) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[str] = set()
    for index, port in enumerate(ports):
        where, name = f"{path}[{index}]", port.get("name")
        if name:
            bad = _port_name(name, f"{where}.name")
            causes += bad or ([duplicate(f"{where}.name", name)] if name in seen else [])
            seen.add(name)
        number = port.get("containerPort", 0)
        if not number:
            causes.append(required(f"{where}.containerPort"))
        for field in ("containerPort", "hostPort"):
            if port.get(field) and not 1 <= port[field] <= 65535:
                causes.append(bad_value(f"{where}.{field}", str(port[field]), _PORT_TEXT))
        if port.get("protocol") not in ("TCP", "UDP", "SCTP"):
            causes.append(unsupported(f"{where}.protocol", str(port.get("protocol", "")), ("SCTP", "TCP", "UDP")))
    return causes


def _environment(variables: list[Object], path: str) -> list[Cause]:
    causes: list[Cause] = []
    text = "a valid environment variable name must consist only of printable ASCII characters other than '='"
    for index, variable in enumerate(variables):
        name = variable.get("name", "")
        if not name:
            causes.append(required(f"{path}[{index}].name"))
        elif "=" in name or not (name.isascii() and name.isprintable()):
            causes.append(bad_value(f"{path}[{index}].name", f'"{name}"', text))
    return causes


def _mounts(mounts: list[Object], known: set[str], path: str) -> list[Cause]:
    causes: list[Cause] = []
    places: set[str] = set()
    for index, mount in enumerate(mounts):
        where, place = f"{path}[{index}]", mount.get("mountPath", "")
        if not mount.get("name"):
            causes.append(required(f"{where}.name"))
        if mount.get("name") not in known:
            causes.append(Cause(f"{where}.name", "FieldValueNotFound", f'Not found: "{mount.get("name", "")}"'))
        if not place:
            causes.append(required(f"{where}.mountPath"))
        if place in places:
            causes.append(bad_value(f"{where}.mountPath", f'"{place}"', "must be unique"))
        places.add(place)
    return causes


def _probe(probe: Object, path: str) -> list[Cause]:
    handlers = [h for h in ("exec", "httpGet", "tcpSocket", "grpc") if probe.get(h) is not None]
    causes = [] if handlers else [required(path, "must specify a handler type")]
    causes += [forbidden_field(f"{path}.{h}", "may not specify more than 1 handler type") for h in handlers[1:]]
    if handlers and handlers[0] in ("httpGet", "tcpSocket"):
        port = probe[handlers[0]].get("port")
        if isinstance(port, int) and not 1 <= port <= 65535:
            causes.append(bad_value(f"{path}.{handlers[0]}.port", str(port), _PORT_TEXT))
    for field in ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"):
        if (probe.get(field) or 0) < 0:
            causes.append(bad_value(f"{path}.{field}", str(probe[field]), _POSITIVE_TEXT))
    if path.endswith(("livenessProbe", "startupProbe")) and probe.get("successThreshold", 1) != 1:
        causes.append(bad_value(f"{path}.successThreshold", str(probe["successThreshold"]), "must be 1"))
    return causes


def _security(context: Object, path: str) -> list[Cause]:
    if context.get("allowPrivilegeEscalation") is False and context.get("privileged"):
        text = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
        return [bad_value(path, json.dumps(context, separators=(",", ":")), text)]
    return []


def _container(container: Object, known: set[str], path: str) -> list[Cause]:
    name = container.get("name", "")
    causes = _label(name, f"{path}.name") if name else [required(f"{path}.name")]
    causes += [] if container.get("image") else [required(f"{path}.image")]
    policies = ("File", "FallbackToLogsOnError")
    if container.get("terminationMessagePolicy", "File") not in policies:
        causes.append(unsupported(f"{path}.terminationMessagePolicy", container["terminationMessagePolicy"], policies))
    causes += _ports(container.get("ports") or [], f"{path}.ports")
    causes += _environment(container.get("env") or [], f"{path}.env")
    causes += _mounts(container.get("volumeMounts") or [], known, f"{path}.volumeMounts")
    pull = container.get("imagePullPolicy", "Always")
    if pull not in ("Always", "IfNotPresent", "Never"):
        causes.append(unsupported(f"{path}.imagePullPolicy", pull, ("Always", "IfNotPresent", "Never")))
    causes += _resources(container.get("resources") or {}, f"{path}.resources")
    return causes + _security(container.get("securityContext") or {}, f"{path}.securityContext")


def _containers(spec: Object, known: set[str], path: str) -> list[Cause]:
    causes = [] if spec.get("containers") else [required(f"{path}.containers")]
    seen: set[str] = set()
    for kind in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(kind) or ()):
            where = f"{path}.{kind}[{index}]"
            causes += _container(container, known, where)
            if container.get("name") in seen:
                causes.append(duplicate(f"{where}.name", container["name"]))
            seen.add(container.get("name", ""))
            for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
                if container.get(probe) is not None:
                    causes += _probe(container[probe], f"{where}.{probe}")
    return causes


# ---------------------------------------------------------------------- the spec's own fields


def tolerations(listed: Iterable[Object], path: str) -> list[Cause]:
    """Violations of tolerations."""
    causes: list[Cause] = []
    for index, toleration in enumerate(listed):
        where = f"{path}[{index}]"
        operator, effect, value = (str(toleration.get(f) or "") for f in ("operator", "effect", "value"))
        if toleration.get("key"):
            causes += key_causes(toleration["key"], f"{where}.key")
        elif operator != "Exists":
            text = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            causes.append(bad_value(f"{where}.operator", f'"{operator}"', text))
        if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
            causes.append(bad_value(f"{where}.effect", f'"{effect}"', "effect must be 'NoExecute' when `tolerationSeconds` is set"))
        causes += _operator(operator, value, where)
        if effect and effect not in _EFFECTS:
            causes.append(unsupported(f"{where}.effect", effect, _EFFECTS))
    return causes


def _operator(operator: str, value: str, where: str) -> list[Cause]:
    if operator in ("Equal", ""):
        text = value_text(value)
        return [bad_value(f"{where}.operator", f'"{value}"', text)] if text else []
    if operator == "Exists":
        text = "value must be empty when `operator` is 'Exists'"
        return [bad_value(f"{where}.operator", f'"{value}"', text)] if value else []
    return [unsupported(f"{where}.operator", operator, ("Equal", "Exists"))]


def taints(listed: list[Object], path: str) -> list[Cause]:
    """Violations of a node's taints."""
    causes: list[Cause] = []
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(listed):
        where, key, effect = f"{path}[{index}]", taint.get("key", ""), taint.get("effect", "")
        causes += key_causes(key, f"{where}.key")
        text = value_text(taint.get("value") or "")
        causes += [bad_value(f"{where}.value", f'"{taint["value"]}"', text)] if text else []
        if not effect:
            causes.append(required(f"{where}.effect"))
        elif effect not in _EFFECTS:
            causes.append(unsupported(f"{where}.effect", effect, _EFFECTS))
        if (key, effect) in seen:
            shown = json.dumps({k: taint[k] for k in ("key", "value", "effect") if taint.get(k)}, separators=(",", ":"))
            causes.append(Cause(where, "FieldValueDuplicate", f"Duplicate value: {shown}"))
        seen.add((key, effect))
    return causes


def _affinity(affinity: Object, path: str) -> list[Cause]:
    needed = (affinity.get("nodeAffinity") or {}).get("requiredDuringSchedulingIgnoredDuringExecution")
    if needed is None:
        return []
    where = f"{path}.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
    terms = needed.get("nodeSelectorTerms") or []
    causes = [] if terms else [required(where, "must have at least one node selector term")]
    for number, term in enumerate(terms):
        for index, expression in enumerate(term.get("matchExpressions") or ()):
            causes += _expression(expression, f"{where}[{number}].matchExpressions[{index}]")
    return causes


def _expression(expression: Object, where: str) -> list[Cause]:
    operator, values = expression.get("operator", ""), expression.get("values") or []
    causes: list[Cause] = []
    if operator in ("In", "NotIn"):
        causes += [] if values else [required(f"{where}.values", "must be specified when `operator` is 'In' or 'NotIn'")]
    elif operator in ("Exists", "DoesNotExist"):
        text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        causes += [forbidden_field(f"{where}.values", text)] if values else []
    elif operator in ("Gt", "Lt"):
        causes += (
            [] if len(values) == 1 else [required(f"{where}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")]
        )
    else:
        causes.append(bad_value(f"{where}.operator", f'"{operator}"', "not a valid selector operator"))
    return causes + key_causes(expression.get("key", ""), f"{where}.key")


def _scalars(spec: Object, path: str) -> list[Cause]:
    causes: list[Cause] = []
    node = spec.get("nodeName")
    if node and not re.fullmatch(SUBDOMAIN, node):
        causes.append(bad_value(f"{path}.nodeName", f'"{node}"', SUBDOMAIN_TEXT))
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= 2147483647:
        causes.append(bad_value(f"{path}.activeDeadlineSeconds", str(deadline), "must be between 1 and 2147483647, inclusive"))
    for field in ("hostname", "subdomain"):
        causes += _label(spec[field], f"{path}.{field}") if spec.get(field) else []
    return causes


def pod_causes(spec: Object, path: str, volumes: set[str] = frozenset()) -> list[Cause]:  # type: ignore[assignment]
    """Violations in a pod's spec; ``volumes`` are further volume names (claim templates)."""
    known, causes = _volumes(spec.get("volumes") or [], f"{path}.volumes")
    causes += _containers(spec, known | set(volumes), path)
    policies = ("Always", "OnFailure", "Never")
    if spec.get("restartPolicy") not in policies:
        causes.append(unsupported(f"{path}.restartPolicy", str(spec.get("restartPolicy")), policies))
    dns = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
    if spec.get("dnsPolicy", "Default") not in dns:
        causes.append(unsupported(f"{path}.dnsPolicy", spec["dnsPolicy"], dns))
    causes += label_causes(spec.get("nodeSelector") or {}, f"{path}.nodeSelector")
    for field in ("runAsUser", "runAsGroup", "fsGroup"):
        number = (spec.get("securityContext") or {}).get(field)
        if number is not None and not 0 <= number <= 2147483647:
            causes.append(bad_value(f"{path}.securityContext.{field}", str(number), "must be between 0 and 2147483647, inclusive"))
    causes += _affinity(spec.get("affinity") or {}, f"{path}.affinity")
    causes += _scalars(spec, path)
    return causes + tolerations(spec.get("tolerations") or (), f"{path}.tolerations")
