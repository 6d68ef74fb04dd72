"""The ScaledObject and what it queries, as data. The names in a query are those of the target that stands, never placeholders."""

from __future__ import annotations

import json
from typing import Any

from instantstart.capabilities.inference.scaling import specs
from instantstart.ensure.inference import autoscalers, load_queries, serving
from instantstart.ensure.inference.metric_queries import Source
from instantstart.ensure.inference.serving import Marks
from instantstart.ensure.inference.targets import Target

Resource = dict[str, Any]
#: KEDA: after so many failed looks the number of pods is held where it is, and never below the fewest
_FAILURES = 3


def make(ask: specs.CreateAutoscaler, target: Target, source: Source, promql: str, region: str) -> list[Resource]:
    """Everything, in the order of making."""
    marks = Marks(load_queries.name_of(ask.target), "autoscaler", target.marks.engine, target.marks.model)
    told = {k: v for k, v in ask.model_dump(mode="json").items() if k in specs.CreateAutoscaler.model_fields}
    notes = {**marks.annotations(), serving.TARGET: ask.target, serving.ASKED: json.dumps(told, sort_keys=True)}
    metadata = {"name": marks.name, "namespace": ask.namespace, "labels": marks.labels(), "annotations": notes}
    trigger: Resource = {"type": "prometheus", "name": ask.metric.replace("_", "-"), "metadata": _trigger(ask, source, promql, region)}
    trigger["metricType"] = "Value" if ask.metric == "cache" else "AverageValue"
    made: list[Resource] = []
    if source.kind == "amp":
        trigger["authenticationRef"] = {"name": marks.name}
        spec = {"podIdentity": {"provider": "aws"}}
        made.append({"apiVersion": "keda.sh/v1alpha1", "kind": "TriggerAuthentication", "metadata": metadata, "spec": spec})
    made.append({"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": metadata, "spec": _spec(ask, trigger)})
    return made


def _spec(ask: specs.CreateAutoscaler, trigger: Resource) -> Resource:
    behavior = {
        "scaleUp": {"stabilizationWindowSeconds": ask.scale_up_seconds},
        "scaleDown": {"stabilizationWindowSeconds": ask.scale_down_seconds},
    }
    spec: Resource = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": ask.target},
        "minReplicaCount": ask.min_replicas,
        "maxReplicaCount": ask.max_replicas,
        "pollingInterval": ask.polling_seconds,
        "cooldownPeriod": ask.cooldown_seconds,
        "advanced": {"restoreToOriginalReplicaCount": False, "horizontalPodAutoscalerConfig": {"behavior": behavior}},
        "triggers": [trigger],
    }
    if trigger["metricType"] == "AverageValue":  # KEDA takes a fallback for these alone
        spec["fallback"] = {"failureThreshold": _FAILURES, "replicas": max(ask.min_replicas, 1), "behavior": "currentReplicasIfHigher"}
    return spec


def _trigger(ask: specs.CreateAutoscaler, source: Source, promql: str, region: str) -> dict[str, str]:
    told = {"serverAddress": source.address, "query": promql, "threshold": _number(ask.threshold)}
    told |= {"activationThreshold": _number(ask.activation), "ignoreNullValues": "true"}
    return {**told, "awsRegion": region} if source.kind == "amp" else told


def _number(value: float) -> str:
    return f"{value:g}"


def asked_of(live: Resource) -> specs.CreateAutoscaler | None:
    """What was asked of a live one of ours; None when that cannot be read."""
    told = {k: v for k, v in serving.asked(live).items() if k in specs.CreateAutoscaler.model_fields}
    if not told.get("target"):
        return None
    return specs.CreateAutoscaler.model_construct(**told)


KINDS = (autoscalers.SCALED_OBJECT, autoscalers.TRIGGER_AUTHENTICATION)
