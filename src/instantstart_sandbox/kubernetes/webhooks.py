"""Admission webhooks: nothing is called, but a webhook that cannot answer refuses writes as it does in a real cluster.

A webhook whose Service has a ready endpoint is taken to allow everything (its program is not simulated). One without makes every write
that it matches fail, unless its failurePolicy is Ignore: what a user sees while an add-on's pods are not up yet.
"""

from __future__ import annotations

from typing import Any, Final

from instantstart_sandbox.kubernetes.admission import Reader
from instantstart_sandbox.kubernetes.autoscaling import admission as autoscaling
from instantstart_sandbox.kubernetes.errors import ApiError
from instantstart_sandbox.kubernetes.resources import Resource
from instantstart_sandbox.kubernetes.selectors import selector_matches

Object = dict[str, Any]

_CONFIGURATIONS: Final = tuple(f"{kind}webhookconfigurations.admissionregistration.k8s.io" for kind in ("mutating", "validating"))
_NEVER_ASKED: Final = frozenset(_CONFIGURATIONS)


def check(reader: Reader, resource: Resource, obj: Object, operation: str) -> None:
    """500 when a webhook must be asked and cannot be. ``operation`` is CREATE, UPDATE or DELETE."""
    if resource.qualified in _NEVER_ASKED:
        return
    for kind in _CONFIGURATIONS:
        for configuration in reader.read_all(kind):
            for hook in configuration.get("webhooks") or ():
                if hook.get("failurePolicy") != "Ignore" and _matches(reader, hook, resource, obj, operation):
                    _ask(reader, hook)
    autoscaling.check(reader, resource, obj, operation)


def _matches(reader: Reader, hook: Object, resource: Resource, obj: Object, operation: str) -> bool:
    if not any(_rule_matches(rule, resource, operation) for rule in hook.get("rules") or ()):
        return False
    metadata = obj["metadata"]
    if not selector_matches(hook.get("objectSelector") or {}, metadata.get("labels") or {}):
        return False
    chosen = hook.get("namespaceSelector") or {}
    if not chosen or (not resource.namespaced and resource.qualified != "namespaces"):
        return True
    if resource.qualified == "namespaces":
        return selector_matches(chosen, metadata.get("labels") or {})
    namespace = reader.read("namespaces", metadata.get("namespace", "")) or {"metadata": {}}
    return selector_matches(chosen, namespace["metadata"].get("labels") or {})


def _rule_matches(rule: Object, resource: Resource, operation: str) -> bool:
    scope = rule.get("scope", "*")
    wanted = (
        ("operations", {"*", operation}),
        ("apiGroups", {"*", resource.group}),
        ("apiVersions", {"*", resource.version}),
        ("resources", {"*", "*/*", resource.plural}),
    )
    if scope != "*" and (scope == "Namespaced") != resource.namespaced:
        return False
    return all(set(rule.get(field) or ()) & values for field, values in wanted)


def _ask(reader: Reader, hook: Object) -> None:
    service = (hook.get("clientConfig") or {}).get("service")
    if not service:
        return
    name, namespace = service.get("name", ""), service.get("namespace", "")
    if reader.read("services", name, namespace) is None:
        why = f'service "{name}" not found'
    elif not _has_endpoint(reader, name, namespace):
        why = f'no endpoints available for service "{name}"'
    else:
        return
    url = f"https://{name}.{namespace}.svc:{service.get('port', 443)}{service.get('path', '')}?timeout={hook.get('timeoutSeconds', 10)}s"
    text = f'failed calling webhook "{hook.get("name", "")}": failed to call webhook: Post "{url}": {why}'
    raise ApiError(500, "InternalError", f"Internal error occurred: {text}", {"causes": [{"message": text}]})


def _has_endpoint(reader: Reader, name: str, namespace: str) -> bool:
    endpoints = reader.read("endpoints", name, namespace)
    if endpoints is not None:
        return any(subset.get("addresses") for subset in endpoints.get("subsets") or ())
    for piece in reader.read_all("endpointslices.discovery.k8s.io", namespace):
        if (piece["metadata"].get("labels") or {}).get("kubernetes.io/service-name") != name:
            continue
        if any((e.get("conditions") or {}).get("ready", True) for e in piece.get("endpoints") or ()):
            return True
    return False
