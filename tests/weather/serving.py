"""Servers that the scenarios ask for: small ones, which the sandbox runs as processes of this machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from instantstart.capabilities.inference.endpoints import plans, specs

if TYPE_CHECKING:
    from tests.weather.ground import Ground

_MODEL = "Qwen/Qwen2.5-0.5B-Instruct"
_TYPE = "ml.g5.8xlarge"
NAMED = {"namespace": "default", "name": "qwen"}
DEPLOYMENT: dict[str, Any] = {**NAMED, "command": f"python3 -m sglang.launch_server --model-path {_MODEL}", "gpus": 1}
ROUTED = {"namespace": "default", "name": "qwen-router"}
ROUTER: dict[str, Any] = {**ROUTED, "target": "qwen", "policy": "round_robin"}
#: as many as there are, so that it is not by chance whether it has scaled already
AUTOSCALER: dict[str, Any] = {
    "target": "qwen",
    "min_replicas": 1,
    "max_replicas": 3,
    "metric": "running",
    "threshold": 1000,
    "prometheus": "default/prometheus:9090",
    "accept_no_data": True,
}
SCALED = {"namespace": "default", "target": "qwen"}
#: whose replicas are the autoscaler's is ours no more as soon as it has scaled, which is a matter of real seconds
SCALED_BY = (r', \{"spec": \{"replicas": \d+\}\}',)
POOLED = {"namespace": "default", "name": "warm"}
POOL: dict[str, Any] = {**POOLED, "command": f"vllm serve {_MODEL} --max-model-len 512", "gpus": 1, "workers": 2, "drain_seconds": 5}
_PATIENCE_SECONDS = 60.0


def prometheus(ground: Ground) -> None:
    """A Prometheus in the cluster, and two pods to scale."""
    kube = ground.site.kube(ground.room)
    labels, meta = {"app": "prometheus"}, {"name": "prometheus", "namespace": "default"}
    container = {"name": "prometheus", "image": "prom/prometheus:v3.5.0", "ports": [{"containerPort": 9090}]}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"selector": {"matchLabels": labels}, "template": pod}
    ports = [{"port": 9090, "targetPort": 9090}]
    kube.apply({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec})
    kube.apply({"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": {"selector": labels, "ports": ports}})
    give_up = time.monotonic() + _PATIENCE_SECONDS
    while not (kube.get("Deployment", "prometheus", "default").get("status") or {}).get("readyReplicas"):
        assert time.monotonic() < give_up, "Prometheus does not come up"
        ground.sandbox.warp(5)
        time.sleep(0.1)


def put_model(ground: Ground) -> None:
    """A model in the cluster's bucket."""
    s3, bucket = ground.sandbox.client("s3"), ground.site.names.data_bucket
    config = f'{{"max_position_embeddings": 4096, "repository": "{_MODEL}"}}'.encode()
    s3.put_object(Bucket=bucket, Key="models/qwen/config.json", Body=config)
    s3.put_object(Bucket=bucket, Key="models/qwen/model.safetensors", Body=b"x" * 1000)


@dataclass(frozen=True)
class Wish:
    """What is asked of a managed endpoint: the body of its route, and the spec that the door makes of it."""

    body: Callable[[Ground], Mapping[str, Any]] | None
    asks: Callable[[Ground], Mapping[str, Any]]


def _created(ground: Ground) -> dict[str, Any]:
    source = {"type": "s3", "bucket": ground.site.names.data_bucket, "location": "models/qwen"}
    server = {"image": "vllm/vllm-openai:v0.11.0", "args": ["--model", "/opt/ml/model"], "accelerators": 1}
    return {"name": "managed", "source": source, "server": server, "instance_types": [_TYPE], "sagemaker_endpoint": "managed-ep"}


def _create(ground: Ground) -> dict[str, Any]:
    ask = specs.CreateInferenceEndpoint.model_validate(_created(ground))
    return dict(plans.prepare_create(ground.room, ground.site, ask).checked().model_dump())


def _changed(_ground: Ground) -> dict[str, Any]:
    return {"replicas": 2}


def _change(ground: Ground) -> dict[str, Any]:
    ask = specs.UpdateInferenceEndpoint.model_validate(_changed(ground))
    return dict(plans.prepare_update(ground.room, ground.site, ("default", "managed"), ask).target.model_dump())


def _end(ground: Ground) -> dict[str, Any]:
    return dict(plans.plan_delete(ground.room, ground.site, "default", "managed").target.model_dump())


CREATED, CHANGED, ENDED = Wish(_created, _create), Wish(_changed, _change), Wish(None, _end)
