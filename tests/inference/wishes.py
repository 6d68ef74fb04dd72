"""Settings of endpoints, as a person would ask for them: whole ones, and what to change in them to make them wrong."""

from __future__ import annotations

import copy
from typing import Any

from instantstart.base import trees
from instantstart.capabilities.inference.endpoints import rules, specs
from instantstart.ensure.capacity.accelerators import Offer
from instantstart.ensure.managed.component_state import State, Status

Settings = dict[str, Any]
TYPE = "ml.g5.12xlarge"
WORKSPACE = "https://aps-workspaces.us-west-2.amazonaws.com/workspaces/ws-0a1b2c3d"


def plain(**changes: Any) -> Settings:
    """A vLLM server on a model in S3; ``changes`` are a merge patch."""
    asked: Settings = {
        "source": {"type": "s3", "bucket": "a-bucket", "region": "us-west-2", "location": "models/qwen"},
        "server": {"image": "vllm/vllm-openai:v0.11.0", "args": ["--model", "/opt/ml/model", "--port", "8000"], "accelerators": 4},
        "instance_types": [TYPE],
    }
    return rules.defaults("qwen", trees.merge(asked, changes, rules.WHOLE))


def everything() -> Settings:
    """Every setting that an InferenceEndpointConfig has a place for."""
    return plain(
        server={
            "command": ["vllm", "serve"],
            "env": {"A": "b", "HF_HUB_OFFLINE": "1"},
            "secret_env": [{"name": "KEY", "secret": "keys", "key": "api"}],
            "working_dir": "/srv",
            "cpu": "24",
            "memory": "120Gi",
            "max_concurrent_requests": 32,
            "max_queue_size": 8,
            "overflow_status": 503,
        },
        instance_types=[TYPE, "ml.g6.12xlarge"],
        replicas=None,
        sagemaker_endpoint="qwen-ep",
        max_deploy_seconds=7200,
        metrics={"enabled": True, "path": "/metrics", "interval_seconds": 30},
        cache={"l1": True, "l2": "redis", "redis_url": "redis://cache.default:6379"},
        routing={"enabled": True, "strategy": "session", "session_key": "x-user-id"},
        autoscaling={
            "min_replicas": 1,
            "max_replicas": 4,
            "polling_seconds": 15,
            "cooldown_seconds": 120,
            "scale_up_seconds": 0,
            "scale_down_seconds": 60,
            "triggers": [
                {
                    "type": "cloudwatch", "name": "calls", "target": 10.0, "activation": 0.0, "namespace": "AWS/SageMaker",
                    "metric": "Invocations", "statistic": "Sum", "dimensions": [{"name": "EndpointName", "value": "qwen-ep"}],
                },
                {"type": "prometheus", "name": "queue", "target": 5.0, "activation": 1.0, "workspace": WORKSPACE, "query": "sum(x)"},
            ],
        },
        load_balancer={"health_path": "/ping", "algorithm": "round_robin"},
        tls={
            "output_s3_uri": "s3://hyperpod-tls-a/certificates",
            "certificate_arn": "arn:aws:acm:us-west-2:111122223333:certificate/0a1b2c3d",
            "domain_name": "qwen.example.com",
            "hosted_zone_id": "Z0123456789",
        },
    )  # fmt: skip


SOURCES: dict[str, Settings] = {
    "s3": {"type": "s3", "bucket": "a-bucket", "region": "us-west-2", "location": "models/qwen", "prefetch": True},
    "fsx": {
        "type": "fsx", "file_system_id": "fs-0123456789abcdef0", "file_system_dns": "fs-0.fsx.example.com", "mount_name": "abcd",
        "location": "models/qwen",
    },
    "huggingface": {"type": "huggingface", "repository": "Qwen/Qwen3-0.6B", "commit": "a" * 40, "token_secret": "hub"},
    "volume": {"type": "volume", "claim": "s3-claim", "location": "models/qwen"},
}  # fmt: skip


def of_source(kind: str) -> Settings:
    """The plain wish with its model elsewhere."""
    made = plain()
    made["source"] = copy.deepcopy(SOURCES[kind])
    return made


def jumpstart(**changes: Any) -> Settings:
    """A JumpStart model."""
    asked: Settings = {
        "source": {"type": "jumpstart", "model_id": "huggingface-llm-qwen2-5-7b-instruct", "accept_eula": True},
        "instance_types": [TYPE],
    }
    return rules.defaults("jumping", trees.merge(asked, changes, rules.WHOLE))


def target(settings: Settings, kind: str, name: str = "qwen") -> specs.CreateTarget:
    """inference_endpoint.create of these settings."""
    return specs.CreateTarget(tag="demo", region="us-west-2", namespace="default", name=name, kind=kind, settings=settings)


def facts(**changes: Any) -> rules.Facts:
    """A world in which nothing stands in the way."""
    offer = Offer(TYPE, "nodes", cpu_millis=48_000, memory_bytes=180 * 2**30, gpus=4, nodes=2, usable=2)
    usual: dict[str, Any] = {
        "operator": Status("inference_operator", State.on, "HyperPod inference operator v1 runs."),
        "tiered": True,
        "offers": {TYPE: offer},
        "types": frozenset({TYPE, "ml.g6.12xlarge"}),
        "suffix": "amazonaws.com",
    }
    return rules.Facts(**{**usual, **changes})
