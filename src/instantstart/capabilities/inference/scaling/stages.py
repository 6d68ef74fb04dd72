"""The stages of an autoscaler: made after all is checked once more, then until KEDA says that it works."""

from __future__ import annotations

from typing import Any

from instantstart.base import problems
from instantstart.base.outcome import Done, Outcome, Wait
from instantstart.capabilities.inference.scaling import objects, rules
from instantstart.capabilities.room import Room
from instantstart.ensure.inference import autoscalers, load_queries, serving
from instantstart.ensure.sites import site
from instantstart.operations.declare import Run


def apply(room: Room, run: Run) -> Outcome:
    """Check what is asked, and make it."""
    where, spec = site(room, run.spec), run.spec
    facts = rules.observe(room, where, spec)
    refused = rules.refusal(rules.findings(spec, facts))
    if refused:
        raise refused
    if facts.source is None:
        raise problems.Broken("autoscaler.no_source", f"There is nothing to ask for the metrics of {spec.target}.")
    kube, changed = where.kube(room), facts.live is None
    for resource in objects.make(spec, facts.target, facts.source, facts.query, where.aws.region):
        after = kube.apply(resource)
        before = facts.live if resource["kind"] == "ScaledObject" else None
        changed = changed or (before is not None and before["metadata"]["generation"] != after["metadata"]["generation"])
    return Done({"name": load_queries.name_of(spec.target), "query": facts.query}, already=not changed)


def await_ready(room: Room, run: Run) -> Outcome:
    """Until KEDA has made its HorizontalPodAutoscaler and says Ready; its own words while it does not."""
    kube, spec = site(room, run.spec).kube(room), run.spec
    live = kube.get(autoscalers.SCALED_OBJECT, load_queries.name_of(spec.target), spec.namespace)
    ready = condition(live, "Ready")
    if ready.get("status") == "True":
        return Done({"hpa": (live.get("status") or {}).get("hpaName")})
    said = " ".join(str(ready.get("message") or "").split())[:300]
    return Wait(3, f"KEDA has not taken it yet{': ' + said if said else ''}")


def condition(live: dict[str, Any], kind: str) -> dict[str, Any]:
    """One condition of a ScaledObject; empty when KEDA has not said it."""
    found = (live.get("status") or {}).get("conditions") or ()
    return next((dict(c) for c in found if c["type"] == kind), {})


def remove(room: Room, run: Run) -> Outcome:
    """Take it out; the number of pods stays what it is."""
    kube, spec = site(room, run.spec).kube(room), run.spec
    name, left = load_queries.name_of(spec.target), []
    for kind in objects.KINDS:
        found = kube.find(kind, name, spec.namespace)
        if found is None or not serving.is_ours(found):
            continue
        left.append(f"{found['kind']} {name}")
        if not found["metadata"].get("deletionTimestamp"):
            kube.delete(kind, name, spec.namespace)
    return Wait(2, f"Going: {', '.join(left)}") if left else Done({"target": spec.target}, already=run.waited_seconds == 0)
