"""What a request would do before it does it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from instantstart.base import problems
from instantstart.capabilities.inference.scaling import objects, rules, specs
from instantstart.capabilities.planning import Plan
from instantstart.capabilities.room import Room
from instantstart.ensure.findings import Finding
from instantstart.ensure.inference import autoscalers, load_queries, serving
from instantstart.ensure.inference.metric_queries import Sample
from instantstart.ensure.installs.releases import identity
from instantstart.ensure.sites import Site


@dataclass(frozen=True)
class AutoscalerPlan(Plan):
    """A plan, with the query, what it answers now, and the objects."""

    query: str = ""
    value: float | None = None
    objects: tuple[dict[str, Any], ...] = ()


def prepare_create(
    room: Room, where: Site, ask: specs.CreateAutoscaler, strict: bool
) -> tuple[specs.AutoscalerTarget, AutoscalerPlan, bool]:
    """autoscaler.create: target, plan, and whether it is there already. ``strict``: raises its refusal."""
    facts = rules.observe(room, where, ask)
    found = rules.findings(ask, facts)
    present = objects.asked_of(facts.live) if facts.live else None
    differing = [f for f in specs.CreateAutoscaler.model_fields if present is not None and getattr(present, f) != getattr(ask, f)]
    if differing:
        told = f"{ask.target} is scaled already, with another {', '.join(differing)}."
        if strict:
            raise problems.Conflict("autoscaler.exists", told, hint="Delete that autoscaler first.")
        found.append(Finding("target", "fail", told, "Delete that autoscaler first."))
    refused = rules.refusal(found)
    if strict and refused:
        raise refused
    made = tuple(objects.make(ask, facts.target, facts.source, facts.query, where.aws.region)) if facts.source else ()
    names = tuple(identity(each) for each in made)
    value = facts.tried.value if isinstance(facts.tried, Sample) else None
    there = present is not None
    owned = f"It owns the number of pods of {ask.target} from then on: scaling by hand is refused."
    plan = AutoscalerPlan(
        make=() if there else names, keep=names if there else (), findings=tuple(found), warnings=(owned,), query=facts.query, value=value,
        objects=made,
    )  # fmt: skip
    target = specs.AutoscalerTarget.model_construct(**dict(ask), tag=where.tag, region=where.aws.region)
    return target, plan, there and not differing


def get(room: Room, where: Site, namespace: str, target: str) -> dict[str, Any]:
    """The live ScaledObject of ours. Raises NotFound."""
    live = where.kube(room).find(autoscalers.SCALED_OBJECT, load_queries.name_of(target), namespace)
    marks = serving.marks(live) if live else None
    if live is None or marks is None:
        detail = f"InstantStart made no autoscaler for {namespace}/{target}."
        raise problems.NotFound("autoscaler.unknown", detail, hint="List the autoscalers; one that others made is theirs to remove.")
    return live


def plan_delete(room: Room, where: Site, target: specs.DeleteTarget) -> Plan:
    """What autoscaler.delete would remove. Raises NotFound."""
    live = get(room, where, target.namespace, target.target)
    return Plan(remove=(identity(live),), keep=(f"the pods of {target.target}, as many as there are then",))
