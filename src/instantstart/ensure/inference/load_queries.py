"""How the load of a deployment is asked for in PromQL: with the names of what stands, never with placeholders.

Facts: production metrics of vLLM and SGLang; SGLang Model Gateway, "Observability". A pod of a Deployment is called
``<deployment>-<digest>-<five letters>``; ``namespace`` and ``pod`` are what Prometheus' own discovery of pods is told to label with.
"""

from __future__ import annotations

from typing import Literal

from instantstart.ensure.inference import serving
from instantstart.ensure.inference.targets import Target

Metric = Literal["waiting", "running", "cache", "router_requests"]
_POD_END = "-[a-z0-9]{1,10}-[a-z0-9]{5}"
#: requests that routers sent on
ROUTER_REQUESTS = "smg_router_requests_total"


def name_of(target: str) -> str:
    """One ScaledObject for each target: it is called like it."""
    return target


def query(metric: Metric, namespace: str, target: Target, router: str | None) -> str:
    """The PromQL. Raises ValueError with a sentence for a metric that the target is not known to have."""
    engine = serving.ENGINES[target.marks.engine]
    if metric == "router_requests":
        if router is None:
            raise ValueError(f"{target.name} has no router: make one, or choose another metric.")
        return f"sum(rate({ROUTER_REQUESTS}{_of(namespace, router)}[1m]))"
    gauge = {"waiting": engine.waiting, "running": engine.running, "cache": engine.cache}[metric]
    if gauge is None:
        raise ValueError(f"{engine.title} is not known to have such a metric: give a query with metric custom.")
    return f"{'avg' if metric == 'cache' else 'sum'}({gauge}{_of(namespace, target.name)})"


def _of(namespace: str, deployment: str) -> str:
    """The matcher of a Deployment's pods; names of Kubernetes need no escaping in a regular expression."""
    return f'{{namespace="{namespace}",pod=~"{deployment}{_POD_END}"}}'
