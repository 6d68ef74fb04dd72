"""What must hold of autoscaling: limits, and each trigger by itself. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from instantstart.base.trees import Tree
from instantstart.ensure.findings import Finding

_NEEDED = {"cloudwatch": ("namespace", "metric"), "prometheus": ("query", "workspace")}
_OWN = {"cloudwatch": {"namespace", "metric", "statistic", "dimensions"}, "prometheus": {"query", "workspace"}}
_SHARED = {"type", "name", "target", "activation"}


def check(settings: Tree, facts: Any) -> Iterable[Finding]:
    """Everything wrong with the group ``autoscaling``; ``facts`` are the slice's."""
    scaling = settings.get("autoscaling")
    if scaling is None:
        return
    low, high = scaling.get("min_replicas", 1), scaling.get("max_replicas", 5)
    if low > high:
        yield _fail("min_replicas", f"At least {low} replicas and at most {high} cannot both be.")
    if high == 0:
        yield _fail("max_replicas", "With at most 0 replicas nothing is ever served.")
    if low == 0:
        told = "From 0 replicas only a trigger wakes it: requests meet nobody meanwhile, and metrics of the server itself are not there."
        yield Finding("autoscaling/min_replicas", "warn", told)
    given = scaling.get("triggers") or []
    if not given:
        yield _fail("triggers", "Autoscaling needs at least one trigger: a CloudWatch metric or a Prometheus query.")
    names = [t["name"] for t in given]
    for at, trigger in enumerate(given):
        if trigger["name"] in names[:at]:
            yield _fail(f"triggers/{at}/name", f"Two triggers are called {trigger['name']}.")
        yield from _trigger(f"triggers/{at}", trigger, facts.suffix)


def _trigger(at: str, trigger: Mapping[str, Any], suffix: str) -> Iterable[Finding]:
    kind = trigger["type"]
    for name in _NEEDED[kind]:
        if not trigger.get(name):
            more = " (the cluster has none of its own)" if name == "workspace" else ""
            yield _fail(f"{at}/{name}", f"A trigger of type {kind} needs {name}{more}.")
    for name, value in trigger.items():
        if value is not None and name not in _OWN[kind] | _SHARED:
            yield _fail(f"{at}/{name}", f"{name} does not belong to a trigger of type {kind}.")
    workspace = trigger.get("workspace")
    if workspace and suffix and f".{suffix}/" not in workspace:
        told = (
            f"The operator takes only addresses of Amazon Managed Prometheus here: https://aps-workspaces.REGION.{suffix}/workspaces/ws-…"
        )
        yield _fail(f"{at}/workspace", told)


def _fail(at: str, detail: str) -> Finding:
    return Finding(f"autoscaling/{at}", "fail", detail)
