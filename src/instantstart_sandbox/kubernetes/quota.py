"""ResourceQuota: refusing what would exceed it, and showing what is used. Quotas with scopes are shown but not enforced."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any, Final

from instantstart_sandbox.kubernetes.errors import forbidden
from instantstart_sandbox.kubernetes.pipeline import Pipeline
from instantstart_sandbox.kubernetes.quantities import amount, show
from instantstart_sandbox.kubernetes.resources import Resource
from instantstart_sandbox.kubernetes.store import MODIFIED

Object = dict[str, Any]
Usage = dict[str, Fraction]

_QUOTAS: Final = "resourcequotas"
_COUNTED: Final = ("pods", "services", "configmaps", "secrets", "persistentvolumeclaims", "resourcequotas")
_COMPUTE: Final = ("cpu", "memory", "ephemeral-storage")


def _summed(containers: Iterable[Object], part: str) -> Usage:
    out: Usage = {}
    for container in containers:
        for name, quantity in ((container.get("resources") or {}).get(part) or {}).items():
            out[name] = out.get(name, Fraction(0)) + amount(quantity)
    return out


def _pod_usage(pod: Object) -> Usage:
    """What a pod that has not ended counts for."""
    if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return {}
    spec, out = pod.get("spec") or {}, {"pods": Fraction(1), "count/pods": Fraction(1)}
    for part in ("requests", "limits"):
        whole = _summed(spec.get("containers") or (), part)
        for container in spec.get("initContainers") or ():
            for name, value in _summed([container], part).items():
                whole[name] = max(whole.get(name, Fraction(0)), value)
        for name, value in whole.items():
            if part == "requests" or name in _COMPUTE:
                out[f"{part}.{name}"] = value
            if part == "requests" and name in _COMPUTE:
                out[name] = value
    return out


def usage(resource: Resource, obj: Object) -> Usage:
    """What an object counts for in a quota."""
    if resource.qualified == "pods":
        return _pod_usage(obj)
    out = {f"count/{resource.qualified}": Fraction(1)}
    if resource.qualified in _COUNTED:
        out[resource.qualified] = Fraction(1)
    if resource.qualified == "persistentvolumeclaims":
        requests = ((obj.get("spec") or {}).get("resources") or {}).get("requests") or {}
        out["requests.storage"] = amount(requests.get("storage", 0))
    return out


class Quotas:
    """Enforces the quotas of one cluster."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        pipeline.before.append(self.check)
        pipeline.after.append(self._after)

    def check(self, resource: Resource, obj: Object, operation: str) -> None:
        """403 when the new object does not fit into a quota of its namespace."""
        namespace = obj["metadata"].get("namespace")
        if operation != "CREATE" or namespace is None:
            return
        for quota in self.pipeline.read_all(_QUOTAS, namespace):
            spec = quota.get("spec") or {}
            if not spec.get("scopes") and not spec.get("scopeSelector"):
                self._check_one(resource, obj, quota)

    def _check_one(self, resource: Resource, obj: Object, quota: Object) -> None:
        hard, asked = (quota.get("spec") or {}).get("hard") or {}, usage(resource, obj)
        name, subject = quota["metadata"]["name"], obj["metadata"].get("name", "")
        touched = sorted(hard.keys() & asked.keys())
        missing = _unspecified(resource, obj, hard)
        if missing:
            raise forbidden(resource, subject, f"failed quota: {name}: must specify {missing}")
        used = self._used(quota, touched) if touched else {}
        over = [k for k in touched if used.get(k, Fraction(0)) + asked[k] > amount(hard[k])]
        if over:
            listed = [",".join(f"{k}={show(part.get(k, Fraction(0)), hard[k])}" for k in over) for part in (asked, used)]
            limits = ",".join(f"{k}={hard[k]}" for k in over)
            raise forbidden(resource, subject, f"exceeded quota: {name}, requested: {listed[0]}, used: {listed[1]}, limited: {limits}")

    def _used(self, quota: Object, names: Iterable[str]) -> Usage:
        namespace, out = quota["metadata"]["namespace"], dict.fromkeys(names, Fraction(0))
        for qualified in {_counted_resource(n) for n in out}:
            if qualified not in self.pipeline.catalog:
                continue
            resource = self.pipeline.catalog.find(qualified)
            for obj in self.pipeline.read_all(qualified, namespace):
                for name, value in usage(resource, obj).items():
                    if name in out:
                        out[name] += value
        return out

    def _after(self, resource: Resource, kind: str, obj: Object) -> None:
        namespace = obj["metadata"].get("namespace")
        if namespace is None or (resource.qualified == _QUOTAS and kind == "DELETED"):
            return
        for quota in self.pipeline.read_all(_QUOTAS, namespace):
            hard = (quota.get("spec") or {}).get("hard") or {}
            if resource.qualified != _QUOTAS and not any(_counted_resource(n) == resource.qualified for n in hard):
                continue
            used = {n: show(v, hard[n]) for n, v in self._used(quota, hard).items()}
            status = {"hard": hard, "used": used}
            if quota.get("status") != status:
                self.pipeline.commit(self.pipeline.catalog.find(_QUOTAS), MODIFIED, {**quota, "status": status})


def _counted_resource(name: str) -> str:
    """The resource that a quota's entry counts."""
    if name.startswith("count/"):
        return name.removeprefix("count/")
    if name in _COUNTED:
        return name
    return "persistentvolumeclaims" if name == "requests.storage" else "pods"


def _unspecified(resource: Resource, obj: Object, hard: Object) -> str:
    """The compute resources under quota that a pod's containers do not state: ``requests.cpu for: a,b``."""
    if resource.qualified != "pods":
        return ""
    found: list[str] = []
    for name in sorted(hard):
        part, _, compute = name.rpartition(".")
        if compute not in _COMPUTE or part not in ("", "requests", "limits"):
            continue
        bare = [
            c["name"]
            for c in (obj.get("spec") or {}).get("containers") or ()
            if compute not in ((c.get("resources") or {}).get(part or "requests") or {})
        ]
        if bare:
            found.append(f"{name} for: {','.join(bare)}")
    return "; ".join(found)
