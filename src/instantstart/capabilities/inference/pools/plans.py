"""What a request would do before it does it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from instantstart.base import problems
from instantstart.capabilities import server_asks
from instantstart.capabilities.inference.pools import objects, rules, specs, stages
from instantstart.capabilities.planning import Plan
from instantstart.capabilities.room import Room
from instantstart.ensure.findings import Finding
from instantstart.ensure.inference import pool_guard, pools, server_checks, servers
from instantstart.ensure.installs.releases import identity
from instantstart.ensure.running import commands
from instantstart.ensure.sites import Site


@dataclass(frozen=True)
class PoolPlan(Plan):
    """A plan, with the command as the container will get it."""

    argv: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    line: str = ""
    objects: tuple[dict[str, Any], ...] = ()


def prepare_create(room: Room, where: Site, ask: specs.CreateModelPool, strict: bool) -> tuple[specs.PoolTarget, PoolPlan, bool]:
    """model_pool.create: target, plan, and whether it is there already. ``strict``: raises its refusal instead of planning it."""
    facts = rules.observe(room, where, ask)
    named = ask.model_copy(update={"name": facts.server.meant.name})
    found = rules.findings(named, facts)
    present = objects.asked_of(facts.live) if facts.live else None
    differing = server_asks.differing(present, named) if present is not None else ()
    if differing:
        told = f"The pool {named.name} is there with another {', '.join(differing)}."
        found.append(Finding("name", "fail", told, "Scale it, or choose another name: the settings of warm workers do not change."))
    refused = rules.refusal(found)
    if refused and (strict or server_checks.unreadable(ask, facts.server.meant)):
        if differing and all(f.check == "name" for f in found if f.level == "fail"):
            raise problems.Conflict("model_pool.exists", refused.detail, hint=refused.hint)
        raise refused
    target = specs.PoolTarget.model_construct(**dict(named), tag=where.tag, region=where.aws.region)
    return target, _plan(named, facts, found, present is not None), present is not None and not differing


def _plan(ask: specs.CreateModelPool, facts: rules.Facts, found: list[Finding], there: bool) -> PoolPlan:
    meant = facts.server.meant
    settled = server_checks.settle(ask, facts.server)
    server = server_checks.server(ask, meant, settled)
    told = tuple(objects.make(ask, server, settled, ask.workers))
    argv = ("/bin/sh", "-c", ask.command) if ask.shell else meant.argv
    added = servers.added(meant.engine, meant.argv, meant.port) if not ask.shell else ()
    minutes = settled.startup_seconds // 60
    sized = f"Each worker gets {', '.join(f'{k} {v}' for k, v in settled.resources.items())}, and {minutes} minutes until its first health."
    names = tuple(identity(each) for each in told)
    return PoolPlan(
        make=() if there else names, keep=names if there else (), findings=tuple(found), warnings=(sized,), argv=argv, added=added,
        line=commands.shown([*argv, *added]), objects=told,
    )  # fmt: skip


def prepare_scale(room: Room, where: Site, at: tuple[str, str], wanted: int) -> tuple[specs.ScaleTarget, Plan, bool]:
    """model_pool.scale. Raises NotFound, or Conflict when bound workers would not fit or an autoscaler owns the number."""
    kube = where.kube(room)
    pool = pools.get(kube, *at)
    rules.check_size(kube, pool, wanted)
    target = specs.ScaleTarget(tag=where.tag, region=where.aws.region, namespace=at[0], name=at[1], workers=wanted)
    staying = len([w for w in pool.workers if not w.leaving])
    gone = pools.victims(pool, staying - wanted) if wanted < pool.size else []
    change = (f"workers: {pool.size} -> {wanted}",) if wanted != pool.size else ()
    kept = tuple(f"worker {w.name} of {w.business}" for w in pool.bound())
    told = () if pool_guard.stands(kube) else ("The guard of bound workers is not there; it is made first.",)
    return target, Plan(change=change, remove=tuple(f"worker {w.name}" for w in gone), keep=kept, warnings=told), wanted == pool.size


def plan_delete(room: Room, where: Site, target: specs.DeleteTarget) -> Plan:
    """What model_pool.delete would remove. Raises NotFound, or Conflict while somebody is bound."""
    pool = pools.get(where.kube(room), target.namespace, target.name)
    rules.check_unbound(pool)
    return Plan(remove=(f"Deployment {pool.namespace}/{pool.name}", *(f"worker {w.name}" for w in pool.workers)))


def prepare_bind(room: Room, where: Site, at: tuple[str, str], ask: specs.CreateModelBinding) -> tuple[specs.BindingTarget, Plan]:
    """model_binding.create. Raises NotFound, Invalid, or Conflict when its name is taken or too few workers are free."""
    rules.check_business(ask.business)
    kube = where.kube(room)
    pool = pools.get(kube, *at)
    wanted = objects.bind(pool, ask.business)
    stages.check_service(kube.find("Service", wanted["metadata"]["name"], at[0]), pool, ask.business)
    lacking = ask.workers - len(pool.bound(ask.business))
    given = tuple(f"worker {w.name} for {ask.business}" for w in pool.free()[: max(lacking, 0)])
    if lacking > len(pool.free()):
        told = f"{len(pool.free())} workers of {pool.name} are free and ready; {lacking} are wanted."
        raise problems.Conflict("model_pool.none_free", told, hint="Scale the pool first, or ask for fewer.")
    target = specs.BindingTarget(
        tag=where.tag, region=where.aws.region, namespace=at[0], name=at[1], business=ask.business, workers=ask.workers
    )
    return target, Plan(make=(identity(wanted),), change=given)


def plan_unbind(room: Room, where: Site, target: specs.UnbindTarget) -> Plan:
    """What model_binding.delete would do. Raises NotFound."""
    pool = pools.get(where.kube(room), target.namespace, target.name)
    found = next((b for b in pool.bindings if b.business == target.business), None)
    if found is None:
        raise problems.NotFound("model_pool.binding_unknown", f"{target.business} is not bound to {pool.name}.", hint="Look at the pool.")
    released = tuple(f"worker {w.name}: {target.business} -> unassigned" for w in pool.bound(target.business))
    return Plan(remove=(f"Service {pool.namespace}/{found.service}",), change=released, warnings=("Requests to this Service then fail.",))
