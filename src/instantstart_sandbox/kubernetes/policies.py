"""Validating admission policies: CEL expressions that refuse writes, evaluated by the runtime of ``expressions.py``.

Kubernetes' own: policies and bindings with selectors, match conditions, variables, failure policy, ``Deny`` and ``Warn``. Not here:
parameters (a binding with a paramRef refuses as a missing parameter does), ``authorizer``, namespaceObject, audit annotations.
Source: Kubernetes documentation, "Validating Admission Policy" (stable in 1.30).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from cel_expr_python import cel
from cel_expr_python.ext import ext_optional, ext_strings

from instantstart_sandbox.kubernetes.admission import Reader
from instantstart_sandbox.kubernetes.errors import ApiError
from instantstart_sandbox.kubernetes.resources import Resource
from instantstart_sandbox.kubernetes.selectors import selector_matches

Object = dict[str, Any]
POLICIES: Final = "validatingadmissionpolicies.admissionregistration.k8s.io"
BINDINGS: Final = "validatingadmissionpolicybindings.admissionregistration.k8s.io"
_CODES: Final = {"Unauthorized": 401, "Forbidden": 403, "Invalid": 422, "RequestEntityTooLarge": 413}
_CONTROLLERS: Final = ("-controller", "-garbage-collector")


@dataclass(frozen=True)
class Write:
    """A write that is about to happen. ``obj`` is None for DELETE, ``old`` for CREATE."""

    resource: Resource
    operation: str
    obj: Object | None
    old: Object | None
    user: str
    dry_run: bool = False

    @property
    def present(self) -> Object:
        """The object, whichever there is."""
        return self.obj if self.obj is not None else self.old or {}

    def variables(self) -> Object:
        """What expressions see."""
        metadata, resource = self.present.get("metadata", {}), self.resource
        kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
        request = {
            "kind": kind,
            "resource": {"group": resource.group, "version": resource.version, "resource": resource.plural},
            "name": metadata.get("name", ""),
            "namespace": metadata.get("namespace", ""),
            "operation": self.operation,
            "userInfo": {"username": username(self.user), "groups": ["system:authenticated"]},
            "dryRun": self.dry_run,
        }
        return {"object": self.obj, "oldObject": self.old, "request": request}


def username(user: str) -> str:
    """Controllers act under service accounts of kube-system, each under its own, as EKS runs them."""
    name = user.removeprefix("system:")
    return f"system:serviceaccount:kube-system:{name}" if name != user and name.endswith(_CONTROLLERS) else user


def check(reader: Reader, write: Write) -> None:
    """Raise the refusal of the first policy that denies the write."""
    if write.resource.group == "admissionregistration.k8s.io":
        return
    for binding in reader.read_all(BINDINGS):
        spec = binding["spec"]
        policy = reader.read(POLICIES, spec.get("policyName", "")) if "Deny" in spec.get("validationActions", ()) else None
        if policy is None or not _matches(reader, spec.get("matchResources") or {}, write, bare=True):
            continue
        if _matches(reader, policy["spec"].get("matchConstraints") or {}, write, bare=False):
            _judge(policy, binding, write)


def _judge(policy: Object, binding: Object, write: Write) -> None:
    spec, seen = policy["spec"], write.variables()
    try:
        if not all(_evaluate(c["expression"], seen) is True for c in spec.get("matchConditions") or ()):
            return
        seen["variables"] = {}
        for variable in spec.get("variables") or ():
            seen["variables"][variable["name"]] = _evaluate(variable["expression"], seen)
        failed = next((v for v in spec.get("validations") or () if _evaluate(v["expression"], seen) is not True), None)
    except ValueError as error:
        if spec.get("failurePolicy") == "Ignore":
            return
        raise _refusal(policy, binding, write, str(error), "Invalid") from error
    if failed is not None:
        told = failed.get("message") or f"failed expression: {' '.join(failed['expression'].split())}"
        raise _refusal(policy, binding, write, told, failed.get("reason", "Invalid"))


def _refusal(policy: Object, binding: Object, write: Write, told: str, reason: str) -> ApiError:
    name, resource = write.present.get("metadata", {}).get("name", ""), write.resource
    names = f"'{policy['metadata']['name']}' with binding '{binding['metadata']['name']}'"
    message = f'{resource.qualified} "{name}" is forbidden: ValidatingAdmissionPolicy {names} denied request: {told}'
    details = {"name": name, "kind": resource.plural, "causes": [{"message": f"ValidatingAdmissionPolicy {names} denied request: {told}"}]}
    return ApiError(_CODES.get(reason, 422), reason, message, {**details, **({"group": resource.group} if resource.group else {})})


def _matches(reader: Reader, rules: Object, write: Write, *, bare: bool) -> bool:
    """Whether a write is among those that are meant; ``bare``: no rules mean all of them."""
    wanted = rules.get("resourceRules") or ()
    if not (bare and not wanted) and not any(_rule(rule, write) for rule in wanted):
        return False
    if any(_rule(rule, write) for rule in rules.get("excludeResourceRules") or ()):
        return False
    selector = rules.get("objectSelector") or {}
    labels = [o["metadata"].get("labels") or {} for o in (write.obj, write.old) if o is not None]
    return any(selector_matches(selector, each) for each in labels) and _in_namespace(reader, rules, write)


def _in_namespace(reader: Reader, rules: Object, write: Write) -> bool:
    selector = rules.get("namespaceSelector") or {}
    if not selector or not write.resource.namespaced:
        return True
    namespace = reader.read("namespaces", write.present["metadata"].get("namespace", "")) or {"metadata": {}}
    return selector_matches(selector, namespace["metadata"].get("labels") or {})


def _rule(rule: Object, write: Write) -> bool:
    resource, scope = write.resource, rule.get("scope", "*")
    wanted = (
        ("operations", {"*", write.operation}),
        ("apiGroups", {"*", resource.group}),
        ("apiVersions", {"*", resource.version}),
        ("resources", {"*", "*/*", resource.plural}),
    )
    if scope != "*" and (scope == "Namespaced") != resource.namespaced:
        return False
    names = rule.get("resourceNames") or ()
    return all(set(rule.get(field) or ()) & values for field, values in wanted) and (
        not names or write.present.get("metadata", {}).get("name") in names
    )


@functools.cache
def _environment() -> Any:
    names = ("object", "oldObject", "request", "variables", "params", "namespaceObject")
    variables = dict.fromkeys(names, cel.Type.DYN)
    return cel.NewEnv(variables=variables, extensions=[ext_optional.ExtOptional(), ext_strings.ExtStrings()])


@functools.lru_cache(maxsize=1024)
def _program(text: str) -> Any:
    try:
        return _environment().compile(text)
    except RuntimeError as error:
        raise ValueError(f"expression '{text}' resulted in error: compilation failed: {error}") from error


def _evaluate(text: str, seen: Object) -> Any:
    found = _program(text).eval(data={"params": None, "namespaceObject": None, "variables": {}, **seen})
    if str(found.type().name()) == "ERROR":
        raise ValueError(f"expression '{text}' resulted in error: {found.value()}")
    return found.plain_value()


def expressions(policy: Object) -> Iterator[tuple[str, str]]:
    """Path and text of every expression of a policy."""
    for part in ("matchConditions", "variables", "validations"):
        for at, each in enumerate(policy["spec"].get(part) or ()):
            yield f"spec.{part}[{at}].expression", str(each.get("expression", ""))
