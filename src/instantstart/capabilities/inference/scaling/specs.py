"""What may be asked of autoscalers. Every description is read by a person in the console and by a model through MCP."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from instantstart.base import patterns
from instantstart.capabilities.vocabulary import Ask, Namespace, Target

TargetName = Annotated[
    str,
    Field(min_length=1, max_length=63, pattern=patterns.KUBERNETES_NAME, description="Deployment or pool that it scales; never a router."),
]
Metric = Annotated[
    Literal["waiting", "running", "cache", "router_requests", "custom"],
    Field(
        description="waiting and running: requests of each pod; cache: share of the KV cache in use, 0 to 1; router_requests: requests a "
        "second and pod through its router; custom: query."
    ),
]
Replicas = Annotated[int, Field(ge=0, le=1000)]


class CreateAutoscaler(Ask):
    """Ask for the autoscaler of one deployment or pool (KEDA). From then on it owns the number of pods."""

    target: TargetName
    namespace: Namespace = "default"
    min_replicas: Annotated[Replicas, Field(description="Fewest pods. At 0, traffic to a plain Service wakes nothing.")] = 1
    max_replicas: Annotated[Replicas, Field(description="Most pods.")]
    metric: Metric = "waiting"
    threshold: Annotated[float, Field(gt=0, le=1e9, description="What each pod may have of the metric before one more comes.")]
    activation: Annotated[float, Field(ge=0, le=1e9, description="From 0 pods: the metric above which the first one comes.")] = 0
    query: Annotated[
        str | None, Field(min_length=1, max_length=5000, description="PromQL of metric custom: one number for all pods together.")
    ] = None
    prometheus: Annotated[
        str | None,
        Field(
            max_length=150,
            pattern=patterns.SERVICE_PLACE,
            examples=["monitoring/prometheus-server:80"],
            description="A Prometheus of the cluster, as namespace/service:port. Left out: the cluster's AMP workspace.",
        ),
    ] = None
    workspace_arn: Annotated[
        str | None, Field(max_length=300, pattern=patterns.WORKSPACE_ARN, description="Another AMP workspace than the cluster's own.")
    ] = None
    polling_seconds: Annotated[int, Field(ge=5, le=3600, description="Seconds between two looks at the metric.")] = 30
    cooldown_seconds: Annotated[int, Field(ge=0, le=86_400, description="Seconds of quiet before it goes to 0 pods.")] = 300
    scale_down_seconds: Annotated[int, Field(ge=0, le=3600, description="Seconds that less must be needed before pods go.")] = 300
    scale_up_seconds: Annotated[int, Field(ge=0, le=3600, description="Seconds that more must be needed before pods come.")] = 0
    accept_no_data: Annotated[
        bool, Field(description="Take a query that answers nothing now: the metric is to come, with the first requests, say.")
    ] = False


class AutoscalerTarget(Target, CreateAutoscaler):
    """autoscaler.create with its place."""


class DeleteTarget(Target):
    """autoscaler.delete with its place."""

    namespace: str
    target: str


def subject(target: Any) -> str:
    """What an operation works on: the autoscaler of one target."""
    return f"autoscaler/{target.region}/{target.tag}/{target.namespace}/{target.target}"
