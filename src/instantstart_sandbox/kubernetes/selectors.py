"""Label and field selectors: parsing, matching, and which fields of an object a field selector may name."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from instantstart_sandbox.kubernetes.errors import bad_request
from instantstart_sandbox.kubernetes.resources import Resource
from instantstart_sandbox.kubernetes.store import Entry

Object = dict[str, Any]
Match = Callable[[Entry], bool]
_Requirement = tuple[str, str, frozenset[str]]

_SET: Final = re.compile(r"([\w./-]+)\s+(in|notin)\s*\(([^)]*)\)")
_EQUAL: Final = re.compile(r"([\w./-]+)\s*(==|=|!=)\s*([\w.-]*)")
_COMPARE: Final = re.compile(r"([\w./-]+)\s*([<>])\s*(-?\d+)")
_EXISTS: Final = re.compile(r"(!?)\s*([\w./-]+)")
_TERM: Final = re.compile(r"(?:[^,(]|\([^)]*\))+")

#: collection -> selectable field -> path in the object; metadata.name and metadata.namespace go without saying
_SELECTABLE: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "pods": {
        f: tuple(f.split(".")) for f in (
            "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "spec.hostNetwork", "status.phase",
            "status.podIP", "status.nominatedNodeName",
        )
    },
    "nodes": {"spec.unschedulable": ("spec", "unschedulable")},
    "namespaces": {"status.phase": ("status", "phase")},
    "secrets": {"type": ("type",)},
    "services": {"spec.clusterIP": ("spec", "clusterIP"), "spec.type": ("spec", "type")},
    "replicasets.apps": {"status.replicas": ("status", "replicas")},
    "jobs.batch": {"status.successful": ("status", "succeeded")},
    "events": {
        **{
            f"involvedObject.{f}": ("involvedObject", f)
            for f in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
        },
        **{f: (f,) for f in ("reason", "reportingComponent", "type")},
        "source": ("source", "component"),
    },
}  # fmt: skip
_BOOLEAN: Final = frozenset({"spec.unschedulable", "spec.hostNetwork"})
_NUMBER: Final = frozenset({"status.replicas", "status.successful"})


def extractor(resource: Resource) -> Callable[[Object], dict[str, str]]:
    """A function from an object to the fields that selectors may name."""
    selectable = _SELECTABLE.get(resource.qualified, {})
    namespaced = resource.namespaced

    def extract(obj: Object) -> dict[str, str]:
        metadata = obj["metadata"]
        out = {"metadata.name": metadata["name"]}
        if namespaced:
            out["metadata.namespace"] = metadata.get("namespace", "")
        for field, path in selectable.items():
            out[field] = _text(obj, path, field)
        return out

    return extract


def _text(obj: Object, path: tuple[str, ...], field: str) -> str:
    value: Any = obj
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    if value is None:
        return "false" if field in _BOOLEAN else "0" if field in _NUMBER else ""
    return str(value).lower() if isinstance(value, bool) else str(value)


# ---------------------------------------------------------------------- labels


def parse_labels(text: str) -> list[_Requirement]:
    """The requirements of a label selector. 400 when it cannot be read."""
    out: list[_Requirement] = []
    for part in (p.strip() for p in _TERM.findall(text)):
        if match := _SET.fullmatch(part):
            out.append((match[1], match[2], frozenset(v.strip() for v in match[3].split(","))))
        elif match := _EQUAL.fullmatch(part):
            out.append((match[1], "notin" if match[2] == "!=" else "in", frozenset({match[3]})))
        elif match := _COMPARE.fullmatch(part):
            out.append((match[1], match[2], frozenset({match[3]})))
        elif match := _EXISTS.fullmatch(part):
            out.append((match[2], "absent" if match[1] else "exists", frozenset()))
        else:
            raise bad_request(f"unable to parse requirement: found '{part}', expected: identifier")
    return out


def labels_match(labels: Mapping[str, str], requirements: list[_Requirement]) -> bool:
    """Whether labels satisfy every requirement."""
    return all(_satisfies(labels.get(key), operator, values) for key, operator, values in requirements)


def _satisfies(value: str | None, operator: str, values: frozenset[str]) -> bool:
    if operator == "in":
        return value is not None and value in values
    if operator == "notin":
        return value is None or value not in values
    if operator in ("<", ">"):
        limit = int(next(iter(values)))
        return value is not None and value.lstrip("-").isdigit() and (int(value) < limit if operator == "<" else int(value) > limit)
    return (value is not None) == (operator == "exists")


def selector_matches(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """Whether labels satisfy a LabelSelector object (``matchLabels``, ``matchExpressions``). None matches nothing, empty all."""
    if selector is None:
        return False
    if any(labels.get(k) != v for k, v in (selector.get("matchLabels") or {}).items()):
        return False
    operators = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "absent"}
    expressions = selector.get("matchExpressions") or ()
    return all(
        _satisfies(labels.get(e.get("key", "")), operators.get(e.get("operator", ""), "in"), frozenset(e.get("values") or ()))
        for e in expressions
    )


# ---------------------------------------------------------------------- fields


def parse_fields(resource: Resource, text: str) -> list[tuple[str, bool, str]]:
    """(field, wanted equal, value) of a field selector. 400 for a field that cannot be selected."""
    known = {"metadata.name", "metadata.namespace", *_SELECTABLE.get(resource.qualified, ())}
    out = []
    for term in filter(None, text.split(",")):
        match = re.fullmatch(r"([^=!]+)(==|=|!=)(.*)", term)
        if not match:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
        if match[1] not in known:
            raise bad_request(f"field label not supported: {match[1]}")
        out.append((match[1], match[2] != "!=", match[3]))
    return out


def matcher(resource: Resource, labels: str, fields: str) -> Match | None:
    """A test for entries, or None when everything matches."""
    wanted_labels, wanted_fields = parse_labels(labels), parse_fields(resource, fields)
    if not wanted_labels and not wanted_fields:
        return None

    def match(entry: Entry) -> bool:
        if not labels_match(entry.labels, wanted_labels):
            return False
        return all((entry.fields.get(f, "") == value) == equal for f, equal, value in wanted_fields)

    return match
