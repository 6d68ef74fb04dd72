"""Jobs of all shapes, settled without a cluster: what the objects are made of."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

from instantstart.capabilities.training.jobs import objects, rules, specs
from instantstart.ensure.capacity import accelerators
from instantstart.ensure.capacity.accelerators import Offer, Share

GIB = 1024**3
P5 = Offer("ml.p5.48xlarge", "nodes", 190_000, 1900 * GIB, gpus=8, efa=32, nodes=4, usable=4)
PYTORCH = {"framework": "pytorch", "script": "train.py", "project": "/data/gpt", "arguments": ["--note", 'a "b" $(HOME) $HOME; rm -rf /']}
RECIPES: dict[str, dict[str, Any]] = {
    "pytorch": PYTORCH,
    "torchrun": {**PYTORCH, "launcher": "torchrun"},
    "llama_factory": {"framework": "llama_factory", "config_file": "sft.yaml", "settings": {"learning_rate": 1e-5}},
    "ms_swift": {"framework": "ms_swift", "command": "megatron sft", "settings": {"model": "Qwen/Qwen3-8B"}},
    "verl": {"framework": "verl", "settings": {"data": {"train_files": "/data/a b.parquet"}}},
    "container": {"framework": "container", "command": ["python3", "-c", "print('x')"]},
    "direct": {"framework": "container", "command": ["/app/run", "$(X)"], "direct": True},
}
FULL: dict[str, Any] = {
    "nodes": 2,
    "mounts": [{"claim": "s3", "path": "/data"}, {"claim": "s3", "path": "/models", "folder": "models", "read_only": True}],
    "env": {"A": "b $(C)"},
    "secret_env": {"HF_TOKEN": {"secret": "hub", "key": "token"}},
    "service_account": "trainer",
    "tracking": {"uri": "arn:aws:sagemaker:us-west-2:111122223333:mlflow-tracking-server/t", "experiment": "e", "tags": {"a": "b"}},
    "queue": "team-a",
    "priority": "high",
    "tolerate": ["team=red:NoSchedule"],
    "run_within_seconds": 3600,
}
OPERATED: dict[str, Any] = {
    "log_rules": [
        {"name": "hang", "pattern": "loss", "start_within_seconds": 600, "repeat_within_seconds": 900},
        {"name": "spike", "pattern": "loss=([0-9.]+)", "threshold": 9, "comparison": "gt", "data_points": 3, "stop_pattern": "done"},
    ],
    "recovery": {"avoid_repeat_offenders": 2, "start_within_seconds": 900, "recover_within_seconds": 600},
    "elastic": {"min_nodes": 1, "max_nodes": 4, "step": 1, "scaling_timeout_seconds": 60},
}


def ask(**more: Any) -> specs.SubmitTrainingJob:
    """A request as it comes on the wire."""
    told = {"name": "llm", "image": "rayproject/ray:2.46.0-gpu", "instance_type": "ml.p5.48xlarge", "recipe": PYTORCH, **more}
    return specs.SubmitTrainingJob.model_validate_json(json.dumps(told))


def settled(asked: specs.SubmitTrainingJob, offer: Offer = P5) -> rules.Settled:
    """What is left open, decided on an offer alone."""
    sizing = accelerators.size(offer, Share(asked.accelerators, asked.efa, asked.cpu, asked.memory, asked.mig))
    return rules.Settled(asked.name, asked.instance_group, asked.zone, asked.nodes > 1, sizing, asked.processes or sizing.processes)


def wanted(**more: Any) -> objects.Wanted:
    """A job, ready to be made."""
    asked = ask(**more)
    return objects.Wanted(asked, settled(asked), "op-1")


def shapes() -> Iterator[tuple[str, objects.Wanted]]:
    """Every recipe on every kind of job that it runs on, with little said and with everything."""
    for (name, recipe), full in itertools.product(RECIPES.items(), (False, True)):
        kinds = ["ray_job"] if name == "verl" else ["pytorch", "ray_job"] if name == "container" else ["pytorch"]
        for kind in kinds:
            more = {**(FULL if full else {}), **(OPERATED if full and kind == "pytorch" else {})}
            yield f"{kind} {name} {'full' if full else 'plain'}", wanted(kind=kind, recipe=recipe, **more)
    for full in (False, True):
        more = {**FULL, "ray": {"max_nodes": 8, "version": "2.40.0"}} if full else {}
        yield f"ray_cluster {'full' if full else 'plain'}", wanted(kind="ray_cluster", recipe=None, **more)
