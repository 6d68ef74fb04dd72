"""A container's environment: values, fieldRef, resourceFieldRef, config maps and secrets, with $(NAME) expanded."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from typing import Any

from ..loops.objects import Object, annotations_of, labels_of, name_of, namespace_of, spec_of, status_of, uid_of

#: (resource, name, namespace) -> object or None
Reader = Callable[[str, str, str], Object | None]
_REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)")
_SUBSCRIPT = re.compile(r"^metadata\.(labels|annotations)\['(.+)'\]$")


class ConfigError(Exception):
    """A source that does not exist: the container waits with CreateContainerConfigError."""


def field_value(pod: Object, path: str) -> str:
    """The downward API's value of a field; ConfigError for a path it does not offer."""
    if found := _SUBSCRIPT.match(path):
        source = labels_of(pod) if found[1] == "labels" else annotations_of(pod)
        return source.get(found[2], "")
    known = {
        "metadata.name": name_of(pod),
        "metadata.namespace": namespace_of(pod),
        "metadata.uid": uid_of(pod),
        "spec.nodeName": spec_of(pod).get("nodeName"),
        "spec.serviceAccountName": spec_of(pod).get("serviceAccountName"),
        "status.podIP": status_of(pod).get("podIP"),
        "status.podIPs": status_of(pod).get("podIP"),
        "status.hostIP": status_of(pod).get("hostIP"),
        "status.hostIPs": status_of(pod).get("hostIP"),
    }
    if path not in known:
        raise ConfigError(f"unsupported fieldPath: {path}")
    return str(known[path] or "")


def contents(obj: Object, secret: bool) -> dict[str, bytes]:
    """The entries of a ConfigMap or Secret as bytes."""
    found = {}
    for key, value in (obj.get("data") or {}).items():
        found[key] = base64.b64decode(value) if secret else str(value).encode()
    for key, value in (obj.get("binaryData") or {}).items():
        found[key] = base64.b64decode(value)
    return found


def _lookup(read: Reader, pod: Object, resource: str, ref: Object) -> dict[str, bytes] | None:
    obj = read(resource, ref.get("name", ""), namespace_of(pod))
    if obj is not None:
        return contents(obj, resource == "secrets")
    if ref.get("optional"):
        return None
    raise ConfigError(f'{resource.removesuffix("s")} "{ref.get("name", "")}" not found')


def _resource_value(container: Object, ref: Object) -> str:
    side, _, resource = str(ref.get("resource", "")).partition(".")
    return str(((container.get("resources") or {}).get(side) or {}).get(resource, "0"))


def _from_source(read: Reader, pod: Object, container: Object, source: Object) -> str | None:
    if "fieldRef" in source:
        return field_value(pod, source["fieldRef"]["fieldPath"])
    if "resourceFieldRef" in source:
        return _resource_value(container, source["resourceFieldRef"])
    for kind, resource in (("configMapKeyRef", "configmaps"), ("secretKeyRef", "secrets")):
        if kind not in source:
            continue
        ref = source[kind]
        values = _lookup(read, pod, resource, ref)
        if values is None or (ref["key"] not in values and ref.get("optional")):
            return None
        if ref["key"] not in values:
            where = "ConfigMap" if resource == "configmaps" else "Secret"
            raise ConfigError(f"couldn't find key {ref['key']} in {where} {namespace_of(pod)}/{ref['name']}")
        return values[ref["key"]].decode(errors="replace")
    raise ConfigError("an env source of an unknown kind")


def expand(text: str, known: dict[str, str]) -> str:
    """Replace ``$(NAME)`` by known values; ``$$`` is a dollar, unknown names stay."""

    def one(found: re.Match[str]) -> str:
        if found[0] == "$$":
            return "$"
        return known.get(found[1], found[0])

    return _REFERENCE.sub(one, text)


def environment(read: Reader, pod: Object, container: Object) -> dict[str, str]:
    """The whole environment of the container. ConfigError when a source is missing."""
    known: dict[str, str] = {}
    for source in container.get("envFrom") or []:
        for kind, resource in (("configMapRef", "configmaps"), ("secretRef", "secrets")):
            if kind in source:
                values = _lookup(read, pod, resource, source[kind]) or {}
                prefix = source.get("prefix", "")
                known.update({prefix + k: v.decode(errors="replace") for k, v in values.items()})
    for entry in container.get("env") or []:
        value: Any = entry.get("value", "")
        if entry.get("valueFrom"):
            value = _from_source(read, pod, container, entry["valueFrom"])
            if value is None:
                continue
        known[entry["name"]] = expand(str(value), known)
    return known
