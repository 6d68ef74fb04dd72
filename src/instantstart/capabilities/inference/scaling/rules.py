"""What must hold before something is scaled: KEDA and metrics that answer, bounds that make sense, and nobody else who scales it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from instantstart.base import problems
from instantstart.capabilities.inference.scaling import specs
from instantstart.capabilities.room import Room
from instantstart.ensure.findings import Finding, invalid
from instantstart.ensure.inference import autoscalers, load_queries, metric_queries, pools, serving, targets
from instantstart.ensure.inference.metric_queries import Sample, Source
from instantstart.ensure.inference.targets import Target
from instantstart.ensure.managed.components import KEDA_ROLE
from instantstart.ensure.sites import Site
from instantstart.kube.client import KubeCluster


@dataclass(frozen=True)
class Facts:
    """What was read. ``keda`` None: it runs; ``query`` empty: none could be made; ``tried``: what it answered, or why it did not."""

    target: Target
    live: dict[str, Any] | None
    owners: tuple[str, ...]
    keda: str | None
    source: Source | None
    query: str
    tried: Sample | problems.Problem | None
    bound: int
    wrong: tuple[Finding, ...] = ()


def observe(room: Room, where: Site, ask: specs.CreateAutoscaler) -> Facts:
    """Read everything the checks need, the trial query too. Raises NotFound for a target that is not there."""
    kube = where.kube(room)
    target = targets.get(kube, ask.namespace, ask.target)
    live = kube.find(autoscalers.SCALED_OBJECT, load_queries.name_of(ask.target), ask.namespace)
    mine = f"ScaledObject {load_queries.name_of(ask.target)}" if live is not None and _is_ours(live) else None
    owners = tuple(o for o in autoscalers.owners(kube, ask.namespace, "Deployment", ask.target) if o != mine)
    source, wrong = _source(where, ask)
    promql, more = _query(kube, ask, target)
    tried = _try(where, kube, source, promql) if source and promql else None
    bound = len(pools.get(kube, ask.namespace, ask.target).bound()) if pools.is_pool(target.live) else 0
    kept = live if mine else None
    return Facts(target, kept, owners, keda_lacks(kube), source, promql, tried, bound, (*wrong, *more))


def _is_ours(resource: dict[str, Any]) -> bool:
    marks = serving.marks(resource)
    return marks is not None and marks.part == "autoscaler"


def keda_lacks(kube: KubeCluster) -> str | None:
    """Why KEDA cannot work, in one sentence; None when it runs, whoever installed it."""
    if not kube.serves(autoscalers.SCALED_OBJECT):
        return "KEDA is not in the cluster."
    for each in kube.list("Deployment"):
        containers = each["spec"]["template"]["spec"].get("containers") or ()
        by_image = any(part in str(c.get("image")) for c in containers for part in KEDA_ROLE.images)
        if (by_image or each["metadata"]["name"] in KEDA_ROLE.names) and "operator" in each["metadata"]["name"]:
            ready = int((each.get("status") or {}).get("readyReplicas", 0))
            return None if ready else f"KEDA's operator {each['metadata']['namespace']}/{each['metadata']['name']} is not ready."
    return "KEDA's definitions are there, and no operator that acts on them."


def _source(where: Site, ask: specs.CreateAutoscaler) -> tuple[Source | None, list[Finding]]:
    if ask.prometheus is not None:
        wrong = [Finding("workspace_arn", "fail", "Give prometheus or workspace_arn, not both.")] if ask.workspace_arn else []
        return metric_queries.service(ask.prometheus), wrong
    try:
        found = metric_queries.workspace(where, ask.workspace_arn)
    except problems.NotFound as problem:
        return None, [Finding("workspace_arn", "fail", problem.detail)]
    if found is None:
        text = "The cluster has no Prometheus workspace of ours to ask."
        return None, [Finding("prometheus", "fail", text, "Switch on observability, or name a Prometheus of the cluster or a workspace.")]
    return found, []


def _query(kube: KubeCluster, ask: specs.CreateAutoscaler, target: Target) -> tuple[str, list[Finding]]:
    if (ask.metric == "custom") != (ask.query is not None):
        told = "metric custom needs a query." if ask.query is None else f"query is for metric custom; the metric is {ask.metric}."
        return "", [Finding("query", "fail", told)]
    if ask.metric == "custom":
        return str(ask.query), []
    routers = kube.list("Deployment", ask.namespace, labels=serving.selector("sglang-router"))
    router = next((r["metadata"]["name"] for r in routers if serving.target_of(r) == ask.target), None)
    try:
        return load_queries.query(ask.metric, ask.namespace, target, router), []
    except ValueError as error:
        return "", [Finding("metric", "fail", str(error))]


def _try(where: Site, kube: KubeCluster, source: Source, promql: str) -> Sample | problems.Problem:
    try:
        return metric_queries.ask(where, kube, source, promql)
    except problems.Problem as problem:
        return problem


def findings(ask: specs.CreateAutoscaler, facts: Facts) -> list[Finding]:
    """Everything that was found, each ``fail`` at its field."""
    found = [*facts.wrong, *_bounds(ask, facts), *_trial(ask, facts)]
    if facts.keda:
        found.append(Finding("keda", "fail", facts.keda, "Switch on KEDA (or the inference operator, which brings it)."))
    if facts.owners:
        text = f"{', '.join(facts.owners)} scales {ask.target} already: two autoscalers undo one another."
        found.append(Finding("target", "fail", text, "Delete that one first."))
    if ask.metric == "cache" and ask.threshold > 1:
        found.append(Finding("threshold", "fail", "The share of the cache is between 0 and 1: a threshold above 1 is never reached."))
    return found


def _bounds(ask: specs.CreateAutoscaler, facts: Facts) -> list[Finding]:
    found = []
    if ask.min_replicas > ask.max_replicas:
        text = f"min_replicas {ask.min_replicas} is more than max_replicas {ask.max_replicas}."
        found += [Finding("min_replicas", "fail", text), Finding("max_replicas", "fail", text)]
    if ask.max_replicas == 0:
        found.append(Finding("max_replicas", "fail", "With 0 pods at most, nothing would ever be served."))
    if facts.bound > ask.min_replicas:
        text = f"{facts.bound} workers of {ask.target} work for somebody: with fewer at least, it would try to take them."
        found.append(Finding("min_replicas", "fail", text, f"Ask for min_replicas {facts.bound} or more, or release workers."))
    if ask.min_replicas == 0:
        text = "At 0 pods a request to the Service fails and wakes nothing: only a metric that exists without pods can."
        found.append(Finding("min_replicas", "warn", text))
    present = facts.target.replicas
    if not ask.min_replicas <= present <= ask.max_replicas:
        found.append(Finding("max_replicas", "warn", f"{ask.target} has {present} pods now: that changes at once."))
    return found


def _trial(ask: specs.CreateAutoscaler, facts: Facts) -> list[Finding]:
    tried = facts.tried
    at = "query" if ask.metric == "custom" else "metric"
    if isinstance(tried, problems.Invalid):
        return [Finding(at, "fail", tried.detail, tried.hint)]
    if isinstance(tried, problems.Problem):
        return [Finding("prometheus", "fail", tried.detail, tried.hint)]
    if tried is None:
        return []
    if tried.series == 0:
        level = "warn" if ask.accept_no_data else "fail"
        text = f"The query answers nothing now: {facts.query}"
        hint = "Send the model a request and look whether its metrics are collected; or say accept_no_data."
        return [Finding(at, level, text, hint)]  # type: ignore[arg-type]
    if tried.series > 1:
        return [
            Finding(at, "fail", f"The query answers {tried.series} series; KEDA wants one number.", "Put sum(...) or max(...) around it.")
        ]
    return [Finding(at, "ok", f"The query answers {tried.value:g} now: {facts.query}")]


def refusal(found: Sequence[Finding]) -> problems.Problem | None:
    """All violations at once, or None."""
    return invalid(found, "autoscaler.refused")
