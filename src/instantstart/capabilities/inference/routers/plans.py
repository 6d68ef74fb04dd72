"""What a request would do before it does it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from instantstart.base import problems
from instantstart.capabilities.inference.routers import objects, rules, specs
from instantstart.capabilities.planning import Plan
from instantstart.capabilities.room import Room
from instantstart.ensure.findings import Finding
from instantstart.ensure.inference import serving
from instantstart.ensure.installs.releases import identity
from instantstart.ensure.running import commands
from instantstart.ensure.sites import Site


@dataclass(frozen=True)
class RouterPlan(Plan):
    """A plan, with the router's command and objects."""

    line: str = ""
    objects: tuple[dict[str, Any], ...] = ()


def prepare_create(room: Room, where: Site, given: specs.CreateSglangRouter, strict: bool) -> tuple[specs.RouterTarget, RouterPlan, bool]:
    """sglang_router.create: target, plan, and whether it is there already. ``strict``: raises its refusal."""
    ask = rules.named(given)
    facts = rules.observe(room, where, ask)
    found = rules.findings(ask, facts)
    present = objects.asked_of(facts.live) if facts.live else None
    fields = specs.CreateSglangRouter.model_fields
    differing = [f for f in fields if present is not None and getattr(present, f) != getattr(ask, f)]
    if differing:
        told = f"The router {ask.name} is there with another {', '.join(differing)}."
        if strict:
            raise problems.Conflict("sglang_router.exists", told, hint="Delete it first, or choose another name.")
        found.append(Finding("name", "fail", told, "Delete it first, or choose another name."))
    refused = rules.refusal(found)
    if strict and refused:
        raise refused
    made = tuple(objects.make(ask, facts.target, rules.image_of(room, ask)))
    names = tuple(identity(each) for each in made)
    line = commands.shown(objects.command(ask, facts.target))
    there = present is not None
    plan = RouterPlan(make=() if there else names, keep=names if there else (), findings=tuple(found), line=line, objects=made)
    target = specs.RouterTarget.model_construct(**dict(ask), tag=where.tag, region=where.aws.region)
    return target, plan, there and not differing


def get(room: Room, where: Site, namespace: str, name: str) -> dict[str, Any]:
    """The live router. Raises NotFound."""
    live = where.kube(room).find("Deployment", name, namespace)
    marks = serving.marks(live) if live else None
    if live is None or marks is None or marks.part != "sglang-router":
        raise problems.NotFound("sglang_router.unknown", f"There is no router {namespace}/{name}.", hint="List the routers.")
    return live


def plan_delete(room: Room, where: Site, target: specs.DeleteTarget) -> Plan:
    """What sglang_router.delete would remove. Raises NotFound."""
    get(room, where, target.namespace, target.name)
    told = "Requests through it end; its workers stay, and are reached by their own Service."
    return Plan(remove=(f"router {target.namespace}/{target.name} with its Service and rights",), warnings=(told,))
