"""What may be asked of SGLang routers. Every description is read by a person in the console and by a model through MCP."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from instantstart.base import patterns
from instantstart.capabilities import server_asks
from instantstart.capabilities.vocabulary import Ask, Namespace, Target

#: annotation of a router that leads to one business of a pool
BUSINESS_OF = "instantstart.dev/target-business"
#: flags of cache_aware (SGLang Model Gateway: Load Balancing Policies)
CACHE_FLAGS = {
    "cache_threshold": "--cache-threshold",
    "balance_abs_threshold": "--balance-abs-threshold",
    "balance_rel_threshold": "--balance-rel-threshold",
    "eviction_interval_seconds": "--eviction-interval-secs",
    "max_tree_size": "--max-tree-size",
}

TargetName = Annotated[
    str, Field(min_length=1, max_length=63, pattern=patterns.KUBERNETES_NAME, description="Deployment or pool whose workers it leads to.")
]


class CreateSglangRouter(Ask):
    """Ask for the router of one deployment, or of one business of a pool. It finds its workers by their labels, and no others."""

    target: TargetName
    namespace: Namespace = "default"
    business: Annotated[
        str | None,
        Field(min_length=1, max_length=40, pattern=patterns.KUBERNETES_NAME, description="Of a pool: whose workers it leads to."),
    ] = None
    name: Annotated[server_asks.Name | None, Field(description="Name of its objects. Left out: made of the target's.")] = None
    policy: Annotated[
        Literal["cache_aware", "round_robin", "random", "power_of_two"],
        Field(description="Which worker gets a request: the one that knows its beginning, each in turn, any, the lighter of two."),
    ] = "cache_aware"
    cache_threshold: Annotated[
        float | None, Field(ge=0, le=1, description="cache_aware: least share of a prompt that a worker must know.")
    ] = None
    balance_abs_threshold: Annotated[
        int | None, Field(ge=0, le=100_000, description="cache_aware: requests by which workers may differ before load counts more.")
    ] = None
    balance_rel_threshold: Annotated[
        float | None, Field(ge=1, le=1000, description="cache_aware: the same as a ratio of the busiest to the idlest.")
    ] = None
    eviction_interval_seconds: Annotated[
        int | None, Field(ge=1, le=86_400, description="cache_aware: seconds between two clean-ups of what it remembers.")
    ] = None
    max_tree_size: Annotated[int | None, Field(ge=1, le=2**40, description="cache_aware: most it remembers, in nodes of its tree.")] = None
    replicas: Annotated[int, Field(ge=1, le=20, description="Routers; each remembers for itself.")] = 1
    port: Annotated[int, Field(ge=1024, le=65535, description="Port that requests go to.")] = 30000
    metrics_port: Annotated[int, Field(ge=1024, le=65535, description="Port of its Prometheus metrics.")] = 29000
    image: server_asks.Image | None = None
    cpu: Annotated[server_asks.Quantity, Field(description="CPU of each router.")] = "2"
    memory: Annotated[server_asks.Quantity, Field(description="Memory of each router.")] = "4Gi"


class RouterTarget(Target, CreateSglangRouter):
    """sglang_router.create with its place."""


class DeleteTarget(Target):
    """sglang_router.delete with its place."""

    namespace: str
    name: str


def subject(target: Any) -> str:
    """What an operation works on: one router."""
    return f"serving/{target.region}/{target.tag}/{target.namespace}/{target.name}"
