"""Which fields of built-in objects may not change, with the sentences of the API server."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any, Final

from instantstart_sandbox.kubernetes.errors import Cause, bad_value, forbidden_field
from instantstart_sandbox.kubernetes.quantities import amount

Object = dict[str, Any]
_Check = Callable[[Object, Object], list[Cause]]

_POD_TEXT: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_STATEFUL_FREE: Final = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)
_STATEFUL_TEXT: Final = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', "
    "'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)
_CLAIM_TEXT: Final = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"


_DIRECTIVES: Final = ("affinity", "nodeSelector", "tolerations", "schedulingGates")


def _shown(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _spec(obj: Object) -> Object:
    return obj.get("spec") or {}


def _same(old: Object, new: Object, *path: str) -> list[Cause]:
    before: Any = old
    after: Any = new
    for step in path:
        before, after = (before or {}).get(step), (after or {}).get(step)
    return [] if before == after else [bad_value(".".join(path), _shown(after), "field is immutable")]


def _pod(old: Object, new: Object) -> list[Cause]:
    before, after = copy.deepcopy(_spec(old)), copy.deepcopy(_spec(new))
    causes = _deadline(before.get("activeDeadlineSeconds"), after.get("activeDeadlineSeconds"))
    if causes:
        return causes
    tolerations = before.get("tolerations") or []
    if any(t not in (after.get("tolerations") or []) for t in tolerations):
        return [forbidden_field("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")]
    for spec in (before, after):
        for field in ("activeDeadlineSeconds", "tolerations"):
            spec.pop(field, None)
        for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
            container.pop("image", None)
    if _spec(old).get("schedulingGates") and not _spec(old).get("nodeName"):
        for spec in (before, after):
            for field in ("schedulingGates", "nodeSelector", "affinity"):
                spec.pop(field, None)
    return [] if before == after else [forbidden_field("spec", _POD_TEXT)]


def _deadline(before: int | None, after: int | None) -> list[Cause]:
    field = "spec.activeDeadlineSeconds"
    if before is None or before == after:
        return []
    if after is None:
        return [bad_value(field, "null", "must not update from a positive integer to nil value")]
    return [bad_value(field, str(after), "must be less than or equal to previous value")] if after > before else []


def _node(old: Object, new: Object) -> list[Cause]:
    range_before = _spec(old).get("podCIDR")
    if range_before and range_before != _spec(new).get("podCIDR"):
        return [forbidden_field("spec.podCIDRs", 'node updates may not change podCIDR except from "" to valid')]
    had = _spec(old).get("providerID")
    if had and had != _spec(new).get("providerID"):
        return [forbidden_field("spec.providerID", 'node updates may not change providerID except from "" to valid')]
    return []


def _selector(old: Object, new: Object) -> list[Cause]:
    return _same(old, new, "spec", "selector")


def _stateful(old: Object, new: Object) -> list[Cause]:
    before = {k: v for k, v in _spec(old).items() if k not in _STATEFUL_FREE}
    after = {k: v for k, v in _spec(new).items() if k not in _STATEFUL_FREE}
    return [] if before == after else [forbidden_field("spec", _STATEFUL_TEXT)]


def _job(old: Object, new: Object) -> list[Cause]:
    causes = _same(old, new, "spec", "selector") + _same(old, new, "spec", "completionMode")
    if _spec(old).get("completionMode") != "Indexed":
        causes += _same(old, new, "spec", "completions")
    never_started = _spec(old).get("suspend") and not (old.get("status") or {}).get("startTime")
    if not never_started:
        return causes + _same(old, new, "spec", "template")
    # a suspended Job may still be told where to run
    before, after = (_fixed_template(_spec(o).get("template") or {}) for o in (old, new))
    return causes if before == after else [*causes, bad_value("spec.template", _shown(_spec(new).get("template")), "field is immutable")]


def _fixed_template(template: Object) -> Object:
    spec = {k: v for k, v in (template.get("spec") or {}).items() if k not in _DIRECTIVES}
    return {**{k: v for k, v in template.items() if k != "metadata"}, "spec": spec}


def _claim(old: Object, new: Object) -> list[Cause]:
    before, after = copy.deepcopy(_spec(old)), copy.deepcopy(_spec(new))
    had, wants = ((s.get("resources") or {}).get("requests") or {} for s in (before, after))
    bound = (old.get("status") or {}).get("phase") == "Bound"
    if bound:
        for spec in (before, after):
            spec.pop("resources", None)
            spec.pop("volumeAttributesClassName", None)
    elif not before.get("volumeName"):
        before.pop("volumeName", None)
        after.pop("volumeName", None)
    if not before.get("storageClassName"):
        before.pop("storageClassName", None)
        after.pop("storageClassName", None)
    if before != after:
        return [forbidden_field("spec", _CLAIM_TEXT)]
    if bound and amount(wants.get("storage", 0)) < amount(had.get("storage", 0)):
        return [forbidden_field("spec.resources.requests.storage", "field can not be less than status.capacity")]
    return []


_VOLUME_FREE: Final = frozenset(
    {
        "capacity",
        "accessModes",
        "claimRef",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "mountOptions",
        "nodeAffinity",
        "volumeMode",
        "volumeAttributesClassName",
    }
)


def _volume(old: Object, new: Object) -> list[Cause]:
    before = {k: v for k, v in _spec(old).items() if k not in _VOLUME_FREE}
    after = {k: v for k, v in _spec(new).items() if k not in _VOLUME_FREE}
    text = "spec.persistentvolumesource is immutable after creation"
    return [] if before == after else [forbidden_field("spec.persistentvolumesource", text)]


def _data(old: Object, new: Object) -> list[Cause]:
    causes = []
    if old.get("immutable"):
        text = "field is immutable when `immutable` is set"
        if not new.get("immutable"):
            causes.append(forbidden_field("immutable", text))
        causes += [forbidden_field(f, text) for f in ("data", "binaryData") if old.get(f) != new.get(f)]
    return causes + _same(old, new, "type")


def _storage_class(old: Object, new: Object) -> list[Cause]:
    names = {"provisioner": "provisioner", "parameters": "parameters", "reclaimPolicy": "reclaimPolicy"}
    causes = [forbidden_field(f, f"updates to {f} are forbidden.") for f in names if old.get(f) != new.get(f)]
    return causes + _same(old, new, "volumeBindingMode")


def _binding(old: Object, new: Object) -> list[Cause]:
    if old.get("roleRef") == new.get("roleRef"):
        return []
    return [bad_value("roleRef", _shown(new.get("roleRef")), "cannot change roleRef")]


def _service(old: Object, new: Object) -> list[Cause]:
    before, after = _spec(old), _spec(new)
    same_family = before.get("type") != "ExternalName" and after.get("type") != "ExternalName"
    if same_family and before.get("clusterIP") and before.get("clusterIP") != after.get("clusterIP"):
        return [bad_value("spec.clusterIPs[0]", _shown(after.get("clusterIPs")), "may not change once set")]
    return []


def _definition(old: Object, new: Object) -> list[Cause]:
    causes: list[Cause] = []
    for path in (("spec", "scope"), ("spec", "group"), ("spec", "names", "kind"), ("spec", "names", "plural")):
        causes += _same(old, new, *path)
    return causes


def _priority(old: Object, new: Object) -> list[Cause]:
    if old.get("value") != new.get("value"):
        return [forbidden_field("value", "may not be changed in an update.")]
    return []


_BY_RESOURCE: Final[dict[str, _Check]] = {
    "pods": _pod,
    "nodes": _node,
    "deployments.apps": _selector,
    "replicasets.apps": _selector,
    "daemonsets.apps": _selector,
    "statefulsets.apps": _stateful,
    "jobs.batch": _job,
    "persistentvolumeclaims": _claim,
    "persistentvolumes": _volume,
    "configmaps": _data,
    "secrets": _data,
    "storageclasses.storage.k8s.io": _storage_class,
    "rolebindings.rbac.authorization.k8s.io": _binding,
    "clusterrolebindings.rbac.authorization.k8s.io": _binding,
    "services": _service,
    "customresourcedefinitions.apiextensions.k8s.io": _definition,
    "priorityclasses.scheduling.k8s.io": _priority,
}


def causes_of(qualified: str, old: Object, new: Object) -> list[Cause]:
    """Violations by a change of a built-in object."""
    check = _BY_RESOURCE.get(qualified)
    return check(old, new) if check is not None else []
