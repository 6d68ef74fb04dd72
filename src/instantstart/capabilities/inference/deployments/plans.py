"""What a request would do before it does it, and the whole ask that a change makes of the present one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from instantstart.base import problems, sentences
from instantstart.capabilities import server_asks
from instantstart.capabilities.inference.deployments import objects, removal, rules, specs, stages
from instantstart.capabilities.planning import Plan
from instantstart.capabilities.room import Room
from instantstart.ensure.findings import Finding
from instantstart.ensure.inference import autoscalers, server_checks, servers
from instantstart.ensure.inference.servers import Settled
from instantstart.ensure.inference.serving import ASKED
from instantstart.ensure.running import commands
from instantstart.ensure.sites import Site


@dataclass(frozen=True)
class DeploymentPlan(Plan):
    """A plan, with the command as the container will get it: ``argv`` as typed, ``added`` what the server needs beside it."""

    argv: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    #: the argv as one line that gives the same argv again
    line: str = ""
    #: the objects as they would be applied
    objects: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True)
class Prepared:
    """A request made ready. ``equal``: nothing would change. ``exact``: it opens an address to the internet, in words."""

    target: specs.DeploymentTarget
    plan: DeploymentPlan
    equal: bool
    exact: str | None = None


def prepare_create(room: Room, where: Site, ask: specs.CreateModelDeployment, strict: bool) -> Prepared:
    """model_deployment.create. ``strict``: raises its refusal, all violations at once; else they are findings of the plan.

    A command that cannot be read is refused in any case: there is nothing to plan.
    """
    facts = rules.observe(room, where, ask)
    named = ask.model_copy(update={"name": facts.server.meant.name})
    found = rules.findings(named, facts)
    present = objects.asked_of(facts.live) if facts.live else None
    differing = _differences(present, named) if present is not None else ()
    if strict or server_checks.unreadable(named, facts.server.meant):
        _check(found)
        if differing:
            raise problems.Conflict(
                "model_deployment.exists",
                f"{named.namespace}/{named.name} serves already, with other settings: {'; '.join(differing)}.",
                hint="Update it, or choose another name.",
            )
    if differing:
        found.append(Finding("name", "fail", f"{named.name} serves already, with other settings: {'; '.join(differing)}.", "Update it."))
    plan = _plan(room, where, named, facts, found)
    made = () if present is not None else tuple(_told(each) for each in plan.objects)
    kept = (f"Deployment {named.namespace}/{named.name}, which is already so",) if present is not None and not differing else ()
    return Prepared(
        _target(where, named), _with(plan, make=made, keep=kept), present is not None and not differing, _exact(where, named, None)
    )


def prepare_update(room: Room, where: Site, at: tuple[str, str], ask: specs.UpdateModelDeployment, strict: bool) -> Prepared:
    """model_deployment.update: the present ask with what is given put onto it. Raises NotFound, or Invalid with every violation."""
    namespace, name = at
    rules.check_variables(ask)
    live = removal.get(where.kube(room), namespace, name)
    present = objects.asked_of(live)
    if present is None:
        detail = f"What was asked of {namespace}/{name} cannot be read from it: {ASKED} was removed or spoiled."
        raise problems.Conflict("model_deployment.ask_lost", detail, hint="Delete it and deploy it anew.")
    whole = _whole(ask.onto(server_asks.kept(present)))
    differing = _differences(present, whole)
    facts = rules.observe(room, where, whole)
    found = rules.findings(whole, facts)
    if facts.autoscaler and whole.replicas != present.replicas:
        found.append(Finding("replicas", "fail", rules.scaled_by(name, facts.autoscaler).detail, "Change or delete the autoscaler."))
    if strict or server_checks.unreadable(whole, facts.server.meant):
        _check(found)
    plan = _plan(room, where, whole, facts, found)
    return Prepared(_target(where, whole), _with(plan, change=differing), not differing, _exact(where, whole, present))


def prepare_scale(room: Room, where: Site, at: tuple[str, str], replicas: int) -> tuple[specs.ScaleTarget, Plan, bool]:
    """model_deployment.scale. Raises NotFound, or Conflict while an autoscaler owns the replicas."""
    kube, (namespace, name) = where.kube(room), at
    live = removal.get(kube, namespace, name)
    present = int(live["spec"].get("replicas", 1))
    owner = autoscalers.owner(kube, namespace, "Deployment", name)
    if owner is not None and replicas != present:
        raise rules.scaled_by(name, owner)
    target = specs.ScaleTarget(tag=where.tag, region=where.aws.region, namespace=namespace, name=name, replicas=replicas)
    warnings = ("It will serve nothing: no pod is left.",) if replicas == 0 else ()
    change = (f"replicas: {present} -> {replicas}",) if replicas != present else ()
    return target, Plan(change=change, warnings=warnings), replicas == present


def plan_delete(room: Room, where: Site, target: specs.DeleteTarget) -> Plan:
    """What model_deployment.delete would remove. Raises NotFound, or Conflict while something rests on it."""
    kube = where.kube(room)
    removal.get(kube, target.namespace, target.name)
    removal.check_free(kube, target)
    found = removal.find(kube, target.namespace, target.name)
    return Plan(remove=tuple(_told(each) for each in found), warnings=("Requests that run end with the pods.",))


def _plan(room: Room, where: Site, ask: specs.CreateModelDeployment, facts: rules.Facts, found: list[Finding]) -> DeploymentPlan:
    meant = facts.server.meant
    settled = stages.settle(ask, facts)
    room_for = stages.surge(ask, facts, settled)
    server = server_checks.server(ask, meant, settled, ask.exposure == "load_balancer")
    told = tuple(objects.make(ask, server, settled, room_for, ask.replicas))
    added = servers.added(meant.engine, meant.argv, meant.port) if not ask.shell else ()
    argv = ("/bin/sh", "-c", ask.command) if ask.shell else meant.argv
    line = commands.shown([*argv, *added])
    return DeploymentPlan(
        findings=tuple(found), warnings=_warnings(ask, settled, room_for), argv=argv, added=added, line=line, objects=told
    )  # fmt: skip


def _warnings(ask: specs.CreateModelDeployment, settled: Settled, surge: bool) -> tuple[str, ...]:
    minutes = settled.startup_seconds // 60
    told = [f"Each pod gets {', '.join(f'{k} {v}' for k, v in settled.resources.items())}, and {minutes} minutes until its first health."]
    if not surge and ask.replicas == 1:
        told.append("There is no room for a second pod: a change stops the only one first, and nothing is served until the new one is up.")
    elif not surge:
        told.append("There is no room for one more pod: changes stop one pod before they start its successor.")
    if ask.exposure == "load_balancer" and not ask.api_key_secret:
        told.append("Whoever reaches the load balancer uses the model without a password: see source_ranges and api_key_secret.")
    return tuple(told)


def _differences(present: specs.CreateModelDeployment, wanted: specs.CreateModelDeployment) -> tuple[str, ...]:
    before, after = server_asks.kept(present), server_asks.kept(wanted)
    return tuple(f"{f}: {_short(before.get(f))} -> {_short(after.get(f))}" for f in server_asks.differing(present, wanted))


def _short(value: Any) -> str:
    text = str(value) if value not in (None, "", [], {}) else "none"
    return text if len(text) <= 200 else text[:199] + "…"


def _whole(fields: Mapping[str, Any]) -> specs.CreateModelDeployment:
    """The whole ask, checked again: two fields that were right by themselves may not be together. Raises Invalid."""
    try:
        return specs.CreateModelDeployment.model_validate(dict(fields), strict=False)
    except ValidationError as error:
        violations = [problems.Violation("/" + "/".join(map(str, e["loc"])), _wrong(fields, e)) for e in error.errors()]
        told = " ".join(v.message for v in violations)
        raise problems.Invalid("model_deployment.refused", f"The deployment would be wrong: {told}", fields=violations) from error


def _wrong(fields: Mapping[str, Any], error: Any) -> str:
    name = str(error["loc"][0]) if error["loc"] else "It"
    return f"{name} has no default to go back to: give a value." if fields.get(name, "") is None else sentences.sentence(error)


def _target(where: Site, ask: specs.CreateModelDeployment) -> specs.DeploymentTarget:
    return specs.DeploymentTarget.model_construct(**dict(ask), tag=where.tag, region=where.aws.region)


def _with(plan: DeploymentPlan, **more: Any) -> DeploymentPlan:
    return DeploymentPlan(**{**vars(plan), **more})


def _check(found: list[Finding]) -> None:
    refused = rules.refusal(found)
    if refused:
        raise refused


def _exact(where: Site, ask: specs.CreateModelDeployment, present: specs.CreateModelDeployment | None) -> str | None:
    """In words, what an administrator must agree to: an address on the internet, or other addresses that may reach it."""
    opened = ask.exposure == "load_balancer" and ask.scheme == "internet-facing"
    if not opened:
        return None
    same = present is not None and all(getattr(present, f) == getattr(ask, f) for f in ("exposure", "scheme", "source_ranges"))
    if same:
        return None
    ranges = ",".join(sorted(ask.source_ranges))
    return f"model_deployment internet-facing {where.aws.region} {where.tag} {ask.namespace}/{ask.name} for {ranges}"


def _told(resource: Mapping[str, Any]) -> str:
    metadata = resource["metadata"]
    return f"{resource['kind']} {metadata['namespace']}/{metadata['name']}"
