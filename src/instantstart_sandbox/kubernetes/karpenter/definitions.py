"""The definitions of NodePool, NodeClaim and HyperpodNodeClass, in our own words after the field lists of the fact sheet (A12, B1).

The managed service is older than upstream and stricter: a pool's template takes no ``terminationGracePeriod``, pools are not static.
"""

from __future__ import annotations

from typing import Any, Final

from ..workloads import named

Object = dict[str, Any]
Schema = dict[str, Any]

POOLS, CLAIMS = "nodepools.karpenter.sh", "nodeclaims.karpenter.sh"
CLASS_GROUP: Final = "karpenter.sagemaker.amazonaws.com"
CLASSES = f"hyperpodnodeclasses.{CLASS_GROUP}"
KINDS = (CLASSES, POOLS, CLAIMS)
MOST_GROUPS = 10

_DURATION = r"^(([0-9]+(s|m|h))+|Never)$"
_NAME_PART = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_KEY = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(\/))?" + _NAME_PART + "$"
_VALUE = f"^({_NAME_PART})?$"


def _text(**more: Any) -> Schema:
    return {"type": "string", **more}


def _object(required: tuple[str, ...] = (), /, **properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, **({"required": list(required)} if required else {})}


def _list(items: Schema, **more: Any) -> Schema:
    return {"type": "array", "items": items, **more}


def _map(values: Schema, **more: Any) -> Schema:
    return {"type": "object", "additionalProperties": values, **more}


_QUANTITIES = _map({"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]})


def _ruled(schema: Schema, *rules: tuple[str, str]) -> Schema:
    """The schema with rules in CEL: (rule, message)."""
    return {**schema, "x-kubernetes-validations": [{"rule": rule, "message": message} for rule, message in rules]}


_TAINT = _object(
    ("effect", "key"),
    effect=_text(enum=["NoSchedule", "PreferNoSchedule", "NoExecute"]),
    key=_text(minLength=1, pattern=_KEY),
    value=_text(pattern=_VALUE),
    timeAdded=_text(format="date-time"),
)
_DOMAIN = (
    "self in ['karpenter.sh/capacity-type', 'karpenter.sh/nodepool'] || !self.find('^[^/]+').endsWith('karpenter.sh')",
    'label domain "karpenter.sh" is restricted',
)
_HOST = ("self != 'kubernetes.io/hostname'", 'label "kubernetes.io/hostname" is restricted')
_POOL_NAME = ("self != 'karpenter.sh/nodepool'", 'label "karpenter.sh/nodepool" is restricted')


def _requirements(*key_rules: tuple[str, str]) -> Schema:
    """Requirements of a pool or a claim: only a claim may name its pool."""
    item = _object(
        ("key", "operator"),
        key=_ruled(_text(maxLength=316, pattern=_KEY), *key_rules),
        operator=_text(enum=["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]),
        values=_list(_text(maxLength=63, pattern=_VALUE)),
        minValues={"type": "integer", "minimum": 1, "maximum": 50},
    )
    some = (
        "self.all(r, r.operator != 'In' || (has(r.values) && r.values.size() > 0))",
        "requirements with operator 'In' must have a value defined",
    )
    one = (
        "self.all(r, !(r.operator in ['Gt', 'Lt']) || (has(r.values) && r.values.size() == 1 && int(r.values[0]) >= 0))",
        "requirements operator 'Gt' or 'Lt' must have a single positive integer value",
    )
    return _ruled(_list(item, maxItems=100), some, one)


_REFERENCE = _object(
    ("group", "kind", "name"), group=_text(minLength=1, pattern="^[^/]*$"), kind=_text(minLength=1), name=_text(minLength=1)
)
_CONDITIONS = _list(
    _object(
        ("type", "status", "reason", "message", "lastTransitionTime"),
        type=_text(),
        status=_text(enum=["True", "False", "Unknown"]),
        reason=_text(),
        message=_text(),
        lastTransitionTime=_text(format="date-time"),
        observedGeneration={"type": "integer", "format": "int64", "minimum": 0},
    ),
    **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
)
_NODE_SPEC: dict[str, Schema] = {
    "nodeClassRef": _REFERENCE,
    "requirements": _requirements(_DOMAIN, _HOST),
    "taints": _list(_TAINT),
    "startupTaints": _list(_TAINT),
    "expireAfter": _text(default="720h", pattern=_DURATION),
}


def _fixed(schema: Schema, *names: str) -> Schema:
    """The schema with fields that cannot be changed."""
    return _ruled(schema, *((f"self.{n} == oldSelf.{n}", f"nodeClassRef.{n} is immutable") for n in names))


_POOL_NODE_SPEC = {
    **_NODE_SPEC,
    "nodeClassRef": _fixed(_REFERENCE, "group", "kind"),
    "requirements": _requirements(_DOMAIN, _HOST, _POOL_NAME),
}


def _budgets() -> Schema:
    budget = _object(
        ("nodes",),
        nodes=_text(default="10%", pattern="^((100|[0-9]{1,2})%|[0-9]+)$"),
        schedule=_text(),
        duration=_text(pattern=r"^((([0-9]+(h|m))|([0-9]+h[0-9]+m))(0s)?)$"),
        reasons=_list(_text(enum=["Underutilized", "Empty", "Drifted"]), maxItems=50),
    )
    together = ("self.all(b, has(b.schedule) == has(b.duration))", "'schedule' must be set with 'duration'")
    return _ruled(_list(budget, default=[{"nodes": "10%"}], maxItems=50), together)


def _pool_schema() -> Schema:
    labels = _map(_text(maxLength=63, pattern=_VALUE), maxProperties=100)
    template = _object(
        ("spec",),
        metadata=_object(annotations=_map(_text()), labels=labels),
        spec=_object(("nodeClassRef", "requirements"), **_POOL_NODE_SPEC),
    )
    disruption = _object(
        ("consolidateAfter",),
        consolidateAfter=_text(pattern=_DURATION),
        consolidationPolicy=_text(enum=["WhenEmpty", "WhenEmptyOrUnderutilized"], default="WhenEmptyOrUnderutilized"),
        budgets=_budgets(),
    )
    disruption["default"] = {"consolidateAfter": "0s"}
    weight = {"type": "integer", "format": "int32", "minimum": 1, "maximum": 100}
    spec = _object(("template",), template=template, disruption=disruption, limits=_QUANTITIES, weight=weight)
    nodes = {"type": "integer", "format": "int64"}
    return _object(("spec",), spec=spec, status=_object(conditions=_CONDITIONS, resources=_QUANTITIES, nodes=nodes))


def _claim_schema() -> Schema:
    spec = _object(("nodeClassRef", "requirements"), **_NODE_SPEC, resources=_object(requests=_QUANTITIES))
    texts = {name: _text() for name in ("imageID", "nodeName", "providerID")}
    status = _object(
        conditions=_CONDITIONS, capacity=_QUANTITIES, allocatable=_QUANTITIES, lastPodEventTime=_text(format="date-time"), **texts
    )
    return _object(("spec",), spec=_ruled(spec, ("self == oldSelf", "spec is immutable")), status=status)


def _class_schema() -> Schema:
    name = _text(minLength=1, maxLength=63, pattern=r"^[a-zA-Z0-9](-*[a-zA-Z0-9])*$")
    subnet = _object(id=_text(), zone=_text(), zoneId=_text())
    group = _object(
        name=_text(),
        instanceTypes=_list(_text()),
        subnets=_list(subnet),
        desiredLabels=_list(_object(key=_text(), value=_text())),
        capacities=_map(_QUANTITIES),
    )
    spec = _object(("instanceGroups",), instanceGroups=_list(name, minItems=1, maxItems=MOST_GROUPS))
    return _object(("spec",), spec=spec, status=_object(conditions=_CONDITIONS, instanceGroups=_list(group)))


def _ready(kind: str = "Ready") -> str:
    return f'.status.conditions[?(@.type=="{kind}")].status'


def _label(key: str) -> str:
    escaped = key.replace(".", "\\.")
    return f".metadata.labels.{escaped}"


_AGE = ("Age", "date", ".metadata.creationTimestamp")
_POOL_COLUMNS = (
    ("NodeClass", "string", ".spec.template.spec.nodeClassRef.name"),
    ("Nodes", "string", ".status.nodes"),
    ("Ready", "string", _ready()),
    _AGE,
)
_CLAIM_COLUMNS = (
    ("Type", "string", _label("node.kubernetes.io/instance-type")),
    ("Capacity", "string", _label("karpenter.sh/capacity-type")),
    ("Zone", "string", _label("topology.kubernetes.io/zone")),
    ("Node", "string", ".status.nodeName"),
    ("Ready", "string", _ready()),
    _AGE,
)
_CLASS_COLUMNS = (("Ready", "string", _ready()), _AGE)


def _definition(names: tuple[str, str, str], schema: Schema, columns: tuple[tuple[str, str, str], ...]) -> Object:
    group, plural, kind = names
    version: Object = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
        "additionalPrinterColumns": [{"name": n, "type": t, "jsonPath": p} for n, t, p in columns],
    }
    shown = {"kind": kind, "listKind": kind + "List", "plural": plural, "singular": kind.lower(), "categories": ["karpenter"]}
    spec: Object = {"group": group, "names": shown, "scope": "Cluster", "versions": [version]}
    return named("apiextensions.k8s.io/v1", "CustomResourceDefinition", f"{plural}.{group}", spec=spec)


def definitions() -> list[Object]:
    """The three definitions."""
    return [
        _definition(("karpenter.sh", "nodepools", "NodePool"), _pool_schema(), _POOL_COLUMNS),
        _definition(("karpenter.sh", "nodeclaims", "NodeClaim"), _claim_schema(), _CLAIM_COLUMNS),
        _definition((CLASS_GROUP, "hyperpodnodeclasses", "HyperpodNodeClass"), _class_schema(), _CLASS_COLUMNS),
    ]
