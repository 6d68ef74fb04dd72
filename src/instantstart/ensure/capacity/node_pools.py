"""NodePools and HyperpodNodeClasses as objects: built from what was asked, changed field by field, read back, judged ready.

Facts: aws-facts A12 and B1. What Kubernetes would fill in by itself is written out, so that the object shows what holds.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from instantstart.ensure.capacity.karpenter import NODE_CLASS, NODE_CLASS_GROUP, groups_of
from instantstart.ensure.capacity.nodes import INSTANCE_TYPE, ZONE
from instantstart.ensure.installs.releases import MANAGED_BY, MANAGER

Resource = dict[str, Any]
CAPACITY_TYPE, ARCHITECTURE = "karpenter.sh/capacity-type", "kubernetes.io/arch"
#: on a class: how many nodes its groups had before Karpenter took them over, as JSON
COUNTS = "instantstart.dev/counts-before"
#: keys of requirements that have a field of their own
_OWN_KEYS = (INSTANCE_TYPE, ZONE)


def node_class(name: str, groups: Iterable[str], counts: Mapping[str, int]) -> Resource:
    """The class that lets Karpenter scale these groups; ``counts`` is what they had before."""
    group, version, kind = NODE_CLASS.split("/")
    noted = {COUNTS: json.dumps({g: n for g, n in sorted(counts.items()) if n})}
    metadata = {"name": name, "labels": {MANAGED_BY: MANAGER}, "annotations": noted}
    return {"apiVersion": f"{group}/{version}", "kind": kind, "metadata": metadata, "spec": {"instanceGroups": list(groups)}}


def counts_before(found: Resource) -> dict[str, int]:
    """What the groups of a class had before Karpenter took them over; empty for a class that others made."""
    text = (found["metadata"].get("annotations") or {}).get(COUNTS)
    return {str(g): int(n) for g, n in json.loads(text).items()} if text else {}


def class_of(pool: Resource) -> str:
    """The name of a pool's class; empty when it is of another provider."""
    reference = pool["spec"]["template"]["spec"]["nodeClassRef"]
    return str(reference["name"]) if reference.get("group") == NODE_CLASS_GROUP else ""


def is_ours(found: Resource) -> bool:
    """Whether InstantStart made the object."""
    return bool((found["metadata"].get("labels") or {}).get(MANAGED_BY) == MANAGER)


def node_pool(name: str, asked: Mapping[str, Any]) -> Resource:
    """The whole pool of an ask (the fields of AddNodePool), on the class of its own name."""
    reference = {"group": NODE_CLASS_GROUP, "kind": NODE_CLASS.rpartition("/")[2], "name": name}
    spec = _changes(asked)
    spec["template"]["spec"]["nodeClassRef"] = reference
    metadata = {"name": name, "labels": {MANAGED_BY: MANAGER}}
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": metadata, "spec": spec}


def pool_patch(asked: Mapping[str, Any], present: Resource) -> Resource:
    """A merge patch for the fields that are given (None: untouched); maps are replaced as wholes."""
    given = {k: v for k, v in asked.items() if v is not None}
    now = read(present)
    requirements = {k: given.get(k, now[k]) for k in ("instance_types", "zones", "requirements")}
    touched = {**given, **(requirements if set(requirements) & set(given) else {})}
    spec = _changes(touched)
    for path, whole in (("limits", now["limits"]), ("labels", now["labels"])):
        if path in given:
            gone = dict.fromkeys(set(whole) - set(given[path]))
            target = spec if path == "limits" else spec["template"]["metadata"]
            target[path] = {**target[path], **gone}
    return {"spec": spec}


def _changes(asked: Mapping[str, Any]) -> Resource:
    """The parts of a pool's spec that these fields are."""
    node: Resource = {}
    if "instance_types" in asked:
        node["requirements"] = _requirements(asked)
    if "taints" in asked:
        node["taints"] = [_taint(t) for t in asked["taints"]]
    if "expire_after" in asked:
        node["expireAfter"] = asked["expire_after"]
    spec: Resource = {}
    template = {**({"metadata": {"labels": dict(asked["labels"])}} if "labels" in asked else {}), **({"spec": node} if node else {})}
    if template:
        spec["template"] = template
    names = {"consolidation_policy": "consolidationPolicy", "consolidate_after": "consolidateAfter"}
    disruption = {wire: asked[field] for field, wire in names.items() if field in asked}
    if "budgets" in asked:
        disruption["budgets"] = [_budget(b) for b in asked["budgets"]]
    if disruption:
        spec["disruption"] = disruption
    if "limits" in asked:
        spec["limits"] = {k: str(v) for k, v in asked["limits"].items()}
    if asked.get("weight") is not None:
        spec["weight"] = asked["weight"]
    return spec


def _requirements(asked: Mapping[str, Any]) -> list[Resource]:
    found = [{"key": INSTANCE_TYPE, "operator": "In", "values": list(asked["instance_types"])}]
    found.append({"key": ARCHITECTURE, "operator": "In", "values": ["amd64"]})
    if asked.get("zones"):
        found.append({"key": ZONE, "operator": "In", "values": list(asked["zones"])})
    return [*found, *({k: v for k, v in r.items() if v not in (None, [])} for r in asked.get("requirements") or [])]


def _budget(budget: Mapping[str, Any]) -> Resource:
    return {k: (list(v) if isinstance(v, (list, tuple)) else v) for k, v in budget.items() if v not in (None, [])}


def _taint(text: str) -> Resource:
    head, _, effect = text.rpartition(":")
    key, _, value = head.partition("=")
    return {"key": key, "effect": effect, **({"value": value} if value else {})}


def taint_text(taint: Mapping[str, Any]) -> str:
    """``key=value:Effect``."""
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint['key']}{value}:{taint['effect']}"


def read(pool: Resource) -> dict[str, Any]:
    """The fields of an ask, as the pool has them now."""
    spec, template = pool["spec"], pool["spec"]["template"]
    inner, disruption = template["spec"], pool["spec"].get("disruption") or {}
    requirements = inner.get("requirements") or []
    plain = {r["key"]: r for r in requirements if r["operator"] == "In"}
    others = [r for r in requirements if r["key"] not in (*_OWN_KEYS, ARCHITECTURE) or r["operator"] != "In"]
    return {
        "instance_types": list(plain.get(INSTANCE_TYPE, {}).get("values") or []),
        "zones": list(plain.get(ZONE, {}).get("values") or []),
        "requirements": [{"key": r["key"], "operator": r["operator"], "values": list(r.get("values") or [])} for r in others],
        "labels": dict((template.get("metadata") or {}).get("labels") or {}),
        "taints": [taint_text(t) for t in inner.get("taints") or []],
        "limits": {k: str(v) for k, v in (spec.get("limits") or {}).items()},
        "weight": spec.get("weight"),
        "consolidation_policy": disruption.get("consolidationPolicy"),
        "consolidate_after": disruption.get("consolidateAfter"),
        "budgets": [dict(b) for b in disruption.get("budgets") or []],
        "expire_after": inner.get("expireAfter"),
    }


def conditions(found: Resource) -> dict[str, Resource]:
    """The conditions by type."""
    return {c["type"]: c for c in (found.get("status") or {}).get("conditions") or []}


def unready(found: Resource) -> str | None:
    """Why an object is not Ready, in one sentence; None when it is, for the spec it has now."""
    known = conditions(found)
    ready = known.get("Ready")
    name = f"{found['kind']} {found['metadata']['name']}"
    if ready is None or int(ready.get("observedGeneration") or 0) < _seen(found, ready):
        return f"{name} has not been looked at by Karpenter yet"
    if ready["status"] == "True":
        return None
    told = [c.get("message") or c.get("reason") or c["type"] for t, c in known.items() if t != "Ready" and c["status"] == "False"]
    return f"{name} is not ready: {' '.join(told) or ready.get('message') or ready.get('reason')}"


def _seen(found: Resource, ready: Resource) -> int:
    """The generation that must have been seen; a service that tells none is believed."""
    return int(found["metadata"].get("generation") or 0) if "observedGeneration" in ready else 0


__all__ = ["class_of", "conditions", "counts_before", "groups_of", "is_ours", "node_class", "node_pool", "pool_patch", "read", "unready"]


def unmeetable(requirements: Sequence[Mapping[str, Any]], known: Mapping[str, Collection[str]]) -> Iterator[int]:
    """Where requirements leave nothing: the place of each that no node meets together with those before it of the same key.

    ``known`` are the values that nodes can have for a key; of other keys every value that the requirements name is possible.
    """
    left: dict[str, set[str] | None] = {key: set(values) for key, values in known.items()}
    for at, each in enumerate(requirements):
        before = left.get(each["key"])
        after = left[each["key"]] = _left(each["operator"], list(each.get("values") or ()), before)
        if after is not None and not after and (before is None or before):
            yield at


def _left(operator: str, values: list[str], before: set[str] | None) -> set[str] | None:
    """The values that are possible after one more requirement; None: any."""
    if operator == "In" and values:
        return set(values) if before is None else before & set(values)
    if operator == "DoesNotExist":
        return set() if before else before
    if before is None or operator in ("Exists", "In"):
        return before
    if operator == "NotIn":
        return before - set(values)
    bound = int(values[0]) if len(values) == 1 and values[0].isdigit() else None
    numbers = {v for v in before if v.isdigit()}
    return before if bound is None else {v for v in numbers if (int(v) > bound if operator == "Gt" else int(v) < bound)}
