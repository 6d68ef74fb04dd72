"""The ScaledObject and what it queries, as data. The names in a query are those of the target that stands, never placeholders."""

from __future__ import annotations

import json
from typing import Any

from instantstart.capabilities.inference.scaling import specs
from instantstart.ensure import autoscalers, serving
from instantstart.ensure.metric_queries import Source
from instantstart.ensure.serving import Marks
from instantstart.ensure.targets import Target

Resource = dict[str, Any]
#: KEDA: after so many failed looks the number of pods is held where it is, and never below the fewest
_FAILURES = 3
#: a ReplicaSet's digest and a pod's random end, as Kubernetes writes them
_POD_END = "-[a-z0-9]{1,10}-[a-z0-9]{5}"
#: requests that routers sent on (SGLang Model Gateway: Observability)
ROUTER_REQUESTS = "smg_router_requests_total"


def name_of(target: str) -> str:
    """One ScaledObject for each target: it is called like it."""
    return target


def query(ask: specs.CreateAutoscaler, target: Target, router: str | None) -> str:
    """The PromQL. Raises ValueError for a metric that the target's engine is not known to have."""
    if ask.metric == "custom":
        return str(ask.query)
    engine = serving.ENGINES[target.marks.engine]
    if ask.metric == "router_requests":
        if router is None:
            raise ValueError(f"{ask.target} has no router: make one, or choose another metric.")
        return f"sum(rate({ROUTER_REQUESTS}{_of(ask.namespace, router)}[1m]))"
    gauge = {"waiting": engine.waiting, "running": engine.running, "cache": engine.cache}[ask.metric]
    if gauge is None:
        raise ValueError(f"{engine.title} is not known to have such a metric: give a query with metric custom.")
    return f"{'avg' if ask.metric == 'cache' else 'sum'}({gauge}{_of(ask.namespace, target.name)})"


def _of(namespace: str, deployment: str) -> str:
    """The matcher of a Deployment's pods; names of Kubernetes need no escaping in a regular expression."""
    return f'{{namespace="{namespace}",pod=~"{deployment}{_POD_END}"}}'


def make(ask: specs.CreateAutoscaler, target: Target, source: Source, promql: str, region: str) -> list[Resource]:
    """Everything, in the order of making."""
    marks = Marks(name_of(ask.target), "autoscaler", target.marks.engine, target.marks.model)
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
    where = told.get("prometheus")
    return specs.CreateAutoscaler.model_construct(
        **{**told, "prometheus": specs.PrometheusService.model_construct(**where) if where else None}
    )


KINDS = (autoscalers.SCALED_OBJECT, autoscalers.TRIGGER_AUTHENTICATION)
