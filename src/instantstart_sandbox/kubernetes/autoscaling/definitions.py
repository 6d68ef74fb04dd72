"""KEDA's definitions (2.17): the fields of ScaledObject and of TriggerAuthentication, in our own words."""

from __future__ import annotations

from typing import Any, Final

from ..workloads import definition, named

Schema = dict[str, Any]
SCALED: Final = "scaledobjects.keda.sh"


def _text(**more: Any) -> Schema:
    return {"type": "string", **more}


def _whole() -> Schema:
    return {"type": "integer", "format": "int32"}


def _object(required: tuple[str, ...] = (), /, **properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, **({"required": list(required)} if required else {})}


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


_STRINGS: Schema = {"type": "object", "additionalProperties": {"type": "string"}}
_FLAG: Schema = {"type": "boolean"}


def _rules() -> Schema:
    policy = _object(("periodSeconds", "type", "value"), periodSeconds=_whole(), type=_text(), value=_whole())
    return _object(
        policies={**_list(policy), "x-kubernetes-list-type": "atomic"}, selectPolicy=_text(), stabilizationWindowSeconds=_whole()
    )


def _scaled_object() -> Schema:
    behaviors = ["static", "currentReplicas", "currentReplicasIfHigher", "currentReplicasIfLower"]
    fallback = _object(
        ("failureThreshold", "replicas"), behavior=_text(enum=behaviors, default="static"), failureThreshold=_whole(), replicas=_whole()
    )
    modifiers = _object(activationTarget=_text(), formula=_text(), metricType=_text(enum=["AverageValue", "Value"]), target=_text())
    config = _object(behavior=_object(scaleDown=_rules(), scaleUp=_rules()), name=_text())
    trigger = _object(
        ("metadata", "type"),
        authenticationRef=_object(("name",), kind=_text(), name=_text()),
        metadata=_STRINGS,
        metricType=_text(),
        name=_text(),
        type=_text(),
        useCachedMetrics=_FLAG,
    )
    spec = _object(
        ("scaleTargetRef", "triggers"),
        advanced=_object(horizontalPodAutoscalerConfig=config, restoreToOriginalReplicaCount=_FLAG, scalingModifiers=modifiers),
        cooldownPeriod=_whole(),
        fallback=fallback,
        idleReplicaCount=_whole(),
        initialCooldownPeriod=_whole(),
        maxReplicaCount=_whole(),
        minReplicaCount=_whole(),
        pollingInterval=_whole(),
        scaleTargetRef=_object(("name",), apiVersion=_text(), envSourceContainerName=_text(), kind=_text(), name=_text()),
        triggers=_list(trigger),
    )
    return _object(("spec",), spec=spec, status=_scaled_status())


def _scaled_status() -> Schema:
    condition = _object(("status", "type"), message=_text(), reason=_text(), status=_text(), type=_text())
    health = {"type": "object", "additionalProperties": _object(numberOfFailures=_whole(), status=_text())}
    resource = _object(("group", "kind", "resource", "version"), group=_text(), kind=_text(), resource=_text(), version=_text())
    texts = ("authenticationsTypes", "compositeScalerName", "hpaName", "scaleTargetKind", "triggersTypes")
    return _object(
        conditions=_list(condition),
        externalMetricNames=_list(_text()),
        health=health,
        lastActiveTime=_text(format="date-time"),
        originalReplicaCount=_whole(),
        pausedReplicaCount=_whole(),
        resourceMetricNames=_list(_text()),
        scaleTargetGVKR=resource,
        **{name: _text() for name in texts},
    )


_COLUMNS = (
    ("ScaleTargetKind", "string", ".status.scaleTargetKind"),
    ("ScaleTargetName", "string", ".spec.scaleTargetRef.name"),
    ("Min", "integer", ".spec.minReplicaCount"),
    ("Max", "integer", ".spec.maxReplicaCount"),
    ("Ready", "string", '.status.conditions[?(@.type=="Ready")].status'),
    ("Active", "string", '.status.conditions[?(@.type=="Active")].status'),
    ("Fallback", "string", '.status.conditions[?(@.type=="Fallback")].status'),
    ("Paused", "string", '.status.conditions[?(@.type=="Paused")].status'),
    ("Triggers", "string", ".status.triggersTypes"),
    ("Authentications", "string", ".status.authenticationsTypes"),
    ("Age", "date", ".metadata.creationTimestamp"),
)


def definitions() -> list[dict[str, Any]]:
    """What KEDA serves; ScaledJob and the authentications keep every field."""
    version = {
        "name": "v1alpha1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": _scaled_object()},
        "subresources": {"status": {}},
        "additionalPrinterColumns": [{"name": n, "type": t, "jsonPath": p} for n, t, p in _COLUMNS],
    }
    names = {"kind": "ScaledObject", "listKind": "ScaledObjectList", "plural": "scaledobjects", "singular": "scaledobject"}
    spec = {"group": "keda.sh", "names": {**names, "shortNames": ["so"]}, "scope": "Namespaced", "versions": [version]}
    made = named("apiextensions.k8s.io/v1", "CustomResourceDefinition", SCALED, spec=spec)
    return [
        made,
        definition("keda.sh", "ScaledJob", "scaledjobs", "v1alpha1"),
        definition("keda.sh", "TriggerAuthentication", "triggerauthentications", "v1alpha1"),
        definition("keda.sh", "ClusterTriggerAuthentication", "clustertriggerauthentications", "v1alpha1", "Cluster"),
    ]
