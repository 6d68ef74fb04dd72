"""What the process counts about itself, for Prometheus. No label holds a cluster's, person's or model's name: their number has no bound."""

from __future__ import annotations

import contextlib
import time
from types import TracebackType

from prometheus_client import CollectorRegistry, Histogram

REGISTRY = CollectorRegistry()
_SECONDS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
HTTP = Histogram(
    "instantstart_http_request_seconds", "Answers of the API by route.", ("method", "route", "status"), buckets=_SECONDS, registry=REGISTRY
)
AWS = Histogram("instantstart_aws_call_seconds", "Calls of AWS.", ("service", "operation", "outcome"), buckets=_SECONDS, registry=REGISTRY)
KUBERNETES = Histogram(
    "instantstart_kubernetes_call_seconds", "Requests to clusters' API servers.", ("method", "outcome"), buckets=_SECONDS, registry=REGISTRY
)
LOOKS = Histogram(
    "instantstart_stage_look_seconds",
    "Single looks of operations' stages.",
    ("workflow", "stage", "outcome"),
    buckets=_SECONDS,
    registry=REGISTRY,
)


class _Timer(contextlib.AbstractContextManager[None]):
    """Looks at what left the block, and lets it go on."""

    def __init__(self, histogram: Histogram, labels: tuple[str, ...]) -> None:
        self._histogram, self._labels = histogram, labels

    def __enter__(self) -> None:
        self._began = time.perf_counter()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        outcome = kind.__name__ if kind is not None else "ok"
        self._histogram.labels(*self._labels, outcome).observe(time.perf_counter() - self._began)


def timed(histogram: Histogram, *labels: str) -> contextlib.AbstractContextManager[None]:
    """Observe how long the block takes; the last label is its outcome: ``ok``, or the kind of the exception."""
    return _Timer(histogram, labels)
