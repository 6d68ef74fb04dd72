"""The router's metrics, under the names of SGLang's router (``sgl_router_``) and of its successor, the model gateway (``smg_``)."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..serving.gauges import Histogram, Page
from .policies import Chooser
from .pool import Pool

_SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 30.0, 45.0, 60.0, 90.0, 120.0, 180.0, 240.0)


@dataclass
class Counts:
    """What has been forwarded."""

    by_route: dict[str, int] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)
    statuses: dict[int, int] = field(default_factory=dict)
    retries: int = 0
    queued: int = 0
    seconds: Histogram = field(default_factory=lambda: Histogram(_SECONDS))

    def observe(self, route: str, status: int, seconds: float) -> None:
        """One request answered."""
        self.by_route[route] = self.by_route.get(route, 0) + 1
        self.statuses[status] = self.statuses.get(status, 0) + 1
        if status >= 400:
            self.errors[route] = self.errors.get(route, 0) + 1
        self.seconds.observe(seconds)


def page(counts: Counts, pool: Pool, chooser: Chooser) -> str:
    """The text of ``/metrics``."""
    made, workers = Page(), list(pool.workers.values())
    _table(made, "sgl_router_requests_total", "counter", "Total number of requests by route", "route", counts.by_route)
    _table(made, "sgl_router_request_errors_total", "counter", "Total number of request errors by route", "route", counts.errors)
    made.histogram("sgl_router_request_duration_seconds", "Request duration in seconds by route", counts.seconds)
    made.value("sgl_router_retries_total", "counter", "Total number of request retries by route", counts.retries)
    made.value("sgl_router_job_queue_depth", "gauge", "Number of requests waiting for a place", counts.queued)
    made.value("sgl_router_active_workers", "gauge", "Number of currently active workers", len(pool.ready()))
    made.value("sgl_router_cache_hits_total", "counter", "Total cache hits", chooser.hits)
    made.value("sgl_router_cache_misses_total", "counter", "Total cache misses", chooser.misses)
    by_url = {w.url: w for w in workers}
    _table(made, "sgl_router_worker_health", "gauge", "Worker health status", "worker", {u: w.healthy for u, w in by_url.items()})
    _table(made, "sgl_router_running_requests", "gauge", "Running requests per worker", "worker", {u: w.load for u, w in by_url.items()})
    handled = {u: w.handled for u, w in by_url.items()}
    _table(made, "sgl_router_processed_requests_total", "counter", "Total requests processed by each worker", "worker", handled)
    made.head("sgl_router_policy_decisions_total", "counter", "Total routing policy decisions by policy and worker")
    for (policy, worker), count in chooser.decisions.items():
        made.line("sgl_router_policy_decisions_total", count, policy=policy, worker=worker)
    _table(made, "smg_http_requests_total", "counter", "Total HTTP requests", "path", counts.by_route)
    statuses = {str(k): v for k, v in counts.statuses.items()}
    _table(made, "smg_http_responses_total", "counter", "Total HTTP responses", "status_code", statuses)
    made.value("smg_worker_pool_size", "gauge", "Current worker pool size", len(workers))
    active = {u: w.load for u, w in by_url.items()}
    _table(made, "smg_worker_requests_active", "gauge", "Currently active requests per worker", "worker", active)
    _table(made, "smg_worker_health", "gauge", "Worker health", "worker", {u: w.healthy for u, w in by_url.items()})
    return made.text()


def _table(made: Page, name: str, kind: str, words: str, label: str, values: dict[str, int] | dict[str, bool]) -> None:
    made.head(name, kind, words)
    for key, value in values.items():
        made.line(name, value, **{label: key})
