"""Everything that deployments, pools, routers and autoscalers make, with little said and with all, without a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from instantstart.base.settings import Settings
from instantstart.capabilities.inference.deployments import objects as deployments
from instantstart.capabilities.inference.deployments import specs as deployment_specs
from instantstart.capabilities.inference.pools import objects as pool_objects
from instantstart.capabilities.inference.pools import specs as pool_specs
from instantstart.capabilities.inference.routers import objects as routers
from instantstart.capabilities.inference.routers import specs as router_specs
from instantstart.capabilities.inference.scaling import objects as autoscalers
from instantstart.capabilities.inference.scaling import specs as autoscaler_specs
from instantstart.capabilities.server_asks import VolumeMount
from instantstart.ensure.inference import load_queries, metric_queries, pool_guard, pools, server_checks, serving, targets
from instantstart.ensure.inference.servers import Settled

Object = dict[str, Any]
LINE = 'vllm serve org/model-8B --max-model-len 8192 --speculative-config \'{"method":"ngram"}\''
SGLANG = "python3 -m sglang.launch_server --model-path org/model-8B --tp 2"
SETTLED = Settled({"cpu": "29", "memory": "115Gi", "nvidia.com/gpu": "1"}, 1200)
WHOLE: dict[str, Any] = {
    "command": LINE,
    "image": "vllm/vllm-openai:v0.26.0",
    "instance_types": ["ml.g5.8xlarge", "ml.g6.8xlarge"],
    "instance_group": "workers",
    "shared_memory": "8Gi",
    "env": {"VLLM_LOGGING_LEVEL": "DEBUG"},
    "token_secret": "hub",
    "api_key_secret": "key",
    "volumes": [VolumeMount(claim_name="s3-claim", mount_path="/models", folder="models", read_only=True)],
    "port": 8001,
    "drain_seconds": 300,
}


def deployment(surge: bool = True, **more: Any) -> list[Object]:
    """The objects of a deployment."""
    ask = deployment_specs.CreateModelDeployment(**{"name": "qwen", "gpus": 1, "command": LINE, **more})
    server = server_checks.server(ask, server_checks.mean(ask, Settings()), SETTLED, ask.exposure == "load_balancer")
    return deployments.make(ask, server, SETTLED, surge, ask.replicas)


def pool(**more: Any) -> list[Object]:
    """The objects of a pool."""
    ask = pool_specs.CreateModelPool(**{"name": "warm", "gpus": 1, "command": SGLANG, "workers": 4, **more})
    return pool_objects.make(ask, server_checks.server(ask, server_checks.mean(ask, Settings()), SETTLED), SETTLED, ask.workers)


def target(made: list[Object]) -> targets.Target:
    """A deployment or pool as a router or an autoscaler finds it."""
    live = next(o for o in made if o["kind"] == "Deployment")
    marks = serving.marks(live)
    assert marks is not None
    return targets.Target(live, marks, serving.container_port(live) or 0)


def router(**more: Any) -> list[Object]:
    """The objects of a router."""
    ask = router_specs.CreateSglangRouter(**{"name": "warm-router", "target": "warm", "business": "chat", **more})
    return routers.make(ask, target(pool()), "lmsysorg/sglang:v0.5.18")


def autoscaler(amp: bool = False, **more: Any) -> list[Object]:
    """The objects of an autoscaler."""
    ask = autoscaler_specs.CreateAutoscaler(**{"target": "qwen", "max_replicas": 4, "threshold": 5, **more})
    source = (
        metric_queries.Source("amp", "https://aps.example/workspaces/ws-1") if amp else metric_queries.service("monitoring/prometheus:9090")
    )
    metric = "waiting" if ask.metric == "custom" else ask.metric
    query = ask.query or load_queries.query(metric, "default", target(deployment()), "qwen-router")
    return autoscalers.make(ask, target(deployment()), source, query, "region-1")


def everything() -> Iterator[tuple[str, Object]]:
    """(what it is, the object)"""
    live = pool()[0]
    groups = {
        "deployment plain": deployment(),
        "deployment whole": deployment(surge=False, replicas=3, exposure="load_balancer", scheme="internet-facing",
                                       source_ranges=["203.0.113.0/24"], **WHOLE),
        "deployment by a shell": deployment(command="sleep 1; vllm serve $MODEL", shell=True, model="org/m"),
        "deployment of flags": deployment(command="--model org/m", engine="vllm"),
        "deployment of any container": deployment(command="", image="nginx:1", gpus=0, health_path="/", port=8080),
        "pool": pool(),
        "binding": [pool_objects.bind(pools.Pool("warm", "default", live, (), ()), "chat")],
        "guard": list(pool_guard.resources()),
        "router": router(),
        "router whole": router(replicas=2, cache_threshold=0.5, balance_abs_threshold=32, balance_rel_threshold=1.5,
                               eviction_interval_seconds=60, max_tree_size=1000),
        "autoscaler": autoscaler(),
        "autoscaler by AMP": autoscaler(amp=True, metric="running"),
        "autoscaler by the cache": autoscaler(metric="cache", threshold=0.8, min_replicas=0),
        "autoscaler by its router": autoscaler(metric="router_requests"),
        "autoscaler by a query": autoscaler(metric="custom", query="sum(up)"),
    }  # fmt: skip
    for about, made in groups.items():
        yield from ((f"{about} {resource['kind']}", resource) for resource in made)
