"""How soon a submission is answered, and what the list and the preview of jobs cost."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from tests.bench.rig import INSTANCE_TYPE, ControlPlane, Rig

_TAG, _JOBS = "bench-a", 20
_RATE = 30.0


def submissions() -> Iterator[str]:
    """Twenty jobs of other names, one after another, on a cluster with the training operator. Goal: answered within 300 ms."""
    with Rig(_RATE) as rig:
        rig.settle()
        rig.create(_TAG)
        _operator(rig.product)
        base = f"/clusters/{_TAG}/training-jobs"
        yield f"submission: {_quantiles([_timed(rig.product, 'POST', base, _job(n)) for n in range(_JOBS)])}"
        yield f"preview: {_quantiles([_timed(rig.product, 'POST', base + '/previews', _job(99)) for _ in range(_JOBS)])}"
        yield f"list of {_JOBS}: {_quantiles([_timed(rig.product, 'GET', base) for _ in range(_JOBS)])}"


def _operator(product: ControlPlane) -> None:
    asked = {"training_operator": {"enabled": True}}
    answer = product.ask("PATCH", f"/clusters/{_TAG}/features", asked)
    for operation in answer["operations"]:
        product.follow(product.ask("GET", f"/operations/{operation['id']}"))


def _job(number: int) -> dict[str, Any]:
    recipe = {"framework": "pytorch", "script": "train.py", "project": "/data"}
    mount = {"claim": "s3-claim", "path": "/data"}
    return {"name": f"job-{number}", "image": "trainer:1", "instance_type": INSTANCE_TYPE, "recipe": recipe, "mounts": [mount]}


def _timed(product: ControlPlane, method: str, path: str, body: dict[str, Any] | None = None) -> float:
    began = time.perf_counter()
    product.ask(method, path, body)
    return (time.perf_counter() - began) * 1000


def _quantiles(took: list[float]) -> str:
    ordered = sorted(took)
    return f"first {took[0]:.0f} ms, p50 {ordered[len(ordered) // 2]:.0f} ms, p95 {ordered[int(len(ordered) * 0.95) - 1]:.0f} ms"
