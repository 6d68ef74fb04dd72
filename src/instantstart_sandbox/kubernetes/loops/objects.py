"""Reading and shaping Kubernetes objects as plain dictionaries. Nothing here touches the store or the clock."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Iterable
from typing import Any

Object = dict[str, Any]

#: The alphabet Kubernetes uses for generated suffixes: no vowels, so that no words appear.
_SAFE = "bcdfghjklmnpqrstvwxz2456789"
TERMINAL_PHASES = ("Succeeded", "Failed")


def meta(obj: Object) -> Object:
    """The object's metadata (an empty one when absent)."""
    found: Object = obj.get("metadata") or {}
    return found


def name_of(obj: Object) -> str:
    """``metadata.name``."""
    return str(meta(obj).get("name", ""))


def namespace_of(obj: Object) -> str:
    """``metadata.namespace``; empty for cluster-scoped objects."""
    return str(meta(obj).get("namespace") or "")


def uid_of(obj: Object) -> str:
    """``metadata.uid``."""
    return str(meta(obj).get("uid", ""))


def key_of(obj: Object) -> str:
    """The key of the object in its collection: ``namespace/name``, or ``name`` when cluster-scoped."""
    space = namespace_of(obj)
    return f"{space}/{name_of(obj)}" if space else name_of(obj)


def split(key: str) -> tuple[str | None, str]:
    """(namespace or None, name) of a key."""
    space, mark, name = key.partition("/")
    return (space, name) if mark else (None, key)


def labels_of(obj: Object) -> dict[str, str]:
    """``metadata.labels``."""
    return meta(obj).get("labels") or {}


def annotations_of(obj: Object) -> dict[str, str]:
    """``metadata.annotations``."""
    return meta(obj).get("annotations") or {}


def spec_of(obj: Object) -> Object:
    """``spec``."""
    return obj.get("spec") or {}


def status_of(obj: Object) -> Object:
    """``status``."""
    return obj.get("status") or {}


def deleting(obj: Object) -> bool:
    """Whether a deletion has been asked for."""
    return bool(meta(obj).get("deletionTimestamp"))


def owners_of(obj: Object) -> list[Object]:
    """``metadata.ownerReferences``."""
    return meta(obj).get("ownerReferences") or []


def controller_of(obj: Object) -> Object | None:
    """The owner reference with ``controller: true``, if any."""
    return next((o for o in owners_of(obj) if o.get("controller")), None)


def owner_reference(owner: Object) -> Object:
    """A controlling owner reference to ``owner``."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": name_of(owner),
        "uid": uid_of(owner),
        "controller": True,
        "blockOwnerDeletion": True,
    }


def reference(obj: Object) -> Object:
    """An ObjectReference as events and endpoints carry it."""
    found = {"kind": obj.get("kind"), "namespace": namespace_of(obj), "name": name_of(obj), "uid": uid_of(obj)}
    if obj.get("apiVersion"):
        found["apiVersion"] = obj["apiVersion"]
    if version := meta(obj).get("resourceVersion"):
        found["resourceVersion"] = version
    return {k: v for k, v in found.items() if v}


def stamp(seconds: float) -> str:
    """Seconds since the epoch as Kubernetes prints a Time: whole seconds, UTC."""
    return dt.datetime.fromtimestamp(seconds, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_stamp(seconds: float) -> str:
    """Seconds since the epoch as a MicroTime (leases)."""
    return dt.datetime.fromtimestamp(seconds, dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def seconds_of(text: str | None) -> float:
    """The inverse of ``stamp`` and ``micro_stamp``; 0 for nothing."""
    if not text:
        return 0.0
    return dt.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def condition_of(obj: Object, kind: str) -> Object | None:
    """The condition of that type."""
    return next((c for c in status_of(obj).get("conditions") or [] if c.get("type") == kind), None)


def is_true(obj: Object, kind: str) -> bool:
    """Whether the condition of that type has status True."""
    found = condition_of(obj, kind)
    return bool(found and found.get("status") == "True")


def with_condition(conditions: Iterable[Object] | None, wanted: Object, now: float) -> list[Object]:
    """The list with ``wanted`` in it; lastTransitionTime moves only when the status does."""
    result, found = [], False
    for old in conditions or []:
        if old.get("type") != wanted["type"]:
            result.append(old)
            continue
        found = True
        moved = old.get("status") != wanted["status"]
        when = stamp(now) if moved else old.get("lastTransitionTime") or stamp(now)
        kept = {k: v for k, v in old.items() if k in ("lastProbeTime", "lastUpdateTime", "observedGeneration")}
        result.append({**kept, **wanted, "lastTransitionTime": when})
    if not found:
        result.append({**wanted, "lastTransitionTime": stamp(now)})
    return result


def pod_ready(pod: Object) -> bool:
    """Whether the pod serves: Ready and not on its way out."""
    return is_true(pod, "Ready") and not deleting(pod)


def pod_finished(pod: Object) -> bool:
    """Whether the pod's phase is final."""
    return status_of(pod).get("phase") in TERMINAL_PHASES


def pod_active(pod: Object) -> bool:
    """Whether controllers count the pod: neither finished nor being deleted."""
    return not pod_finished(pod) and not deleting(pod)


def _expression(requirement: Object, labels: dict[str, str]) -> bool:
    key, operator, values = requirement["key"], requirement["operator"], requirement.get("values") or []
    if operator == "In":
        return labels.get(key) in values
    if operator == "NotIn":
        return labels.get(key) not in values
    if operator == "Exists":
        return key in labels
    return key not in labels


def selects(selector: Object | None, labels: dict[str, str]) -> bool:
    """Whether a LabelSelector matches; ``None`` matches nothing, an empty one everything."""
    if selector is None:
        return False
    wanted = selector.get("matchLabels") or {}
    if any(labels.get(k) != v for k, v in wanted.items()):
        return False
    return all(_expression(e, labels) for e in selector.get("matchExpressions") or [])


def short_hash(value: Any, length: int = 10) -> str:
    """A stable suffix for names made of any JSON value."""
    digest = int.from_bytes(hashlib.sha256(json.dumps(value, sort_keys=True).encode()).digest(), "big")
    letters = []
    for _ in range(length):
        digest, rest = divmod(digest, len(_SAFE))
        letters.append(_SAFE[rest])
    return "".join(letters)


def index_of(name: str) -> int:
    """The ordinal at the end of a StatefulSet's pod name; -1 when there is none."""
    tail = name.rpartition("-")[2]
    return int(tail) if tail.isdigit() else -1


def int_or_percent(value: Any, total: int, round_up: bool) -> int:
    """An IntOrString such as ``25%`` of ``total``."""
    if isinstance(value, str) and value.endswith("%"):
        share = int(value[:-1]) * total
        return -(-share // 100) if round_up else share // 100
    return int(value)


def prune_none(value: Object) -> Object:
    """The dictionary without keys whose value is None."""
    return {k: v for k, v in value.items() if v is not None}
