"""The stages of a router: made, ready because it knows a worker, and asked for a first token."""

from __future__ import annotations

from instantstart.base import problems
from instantstart.base.outcome import Done, Outcome, Progress, Wait, pace
from instantstart.capabilities.inference.routers import objects, rules
from instantstart.capabilities.room import Room
from instantstart.ensure.inference import autoscalers, first_answers, serving, targets, workload_rollouts
from instantstart.ensure.installs.releases import identity
from instantstart.ensure.sites import site
from instantstart.kube.client import Door, Propagation
from instantstart.operations.declare import Run

_KINDS = ("Deployment", "Service", "PodDisruptionBudget", "RoleBinding", "Role", "ServiceAccount")


def apply(room: Room, run: Run) -> Outcome:
    """Check what is asked, and make it."""
    where, spec = site(room, run.spec), run.spec
    facts = rules.observe(room, where, spec)
    refused = rules.refusal(rules.findings(spec, facts))
    if refused:
        raise refused
    kube, changed = where.kube(room), False
    for resource in objects.make(spec, facts.target, rules.image_of(room, spec)):
        metadata = resource["metadata"]
        before = kube.find(resource["kind"], metadata["name"], metadata["namespace"])
        after = kube.apply(resource)
        changed = changed or before is None or before["metadata"]["resourceVersion"] != after["metadata"]["resourceVersion"]
    return Done({"name": spec.name, "target": spec.target}, already=not changed)


def roll_out(room: Room, run: Run) -> Outcome:
    """Until it is ready: it answers, and knows a healthy worker."""
    where, spec = site(room, run.spec), run.spec
    found = workload_rollouts.look(room, where, spec.namespace, spec.name)
    if found.done:
        return Done({"ready": found.ready})
    if found.hopeless(run.waited_seconds):
        detail = f"The router {spec.name} does not come up: {found.why}"
        raise problems.Conflict("sglang_router.failing", detail, hint=found.next_step, evidence=dict(found.evidence))
    target = targets.find(where.kube(room), spec.namespace, spec.target)
    lacking = f"; {spec.target} has no ready worker" if target is None or not target.ready else ""
    return Wait(pace(run.waited_seconds, 60), found.why + lacking, Progress(found.ready, max(found.wanted, 1), "routers"))


def await_answer(room: Room, run: Run) -> Outcome:
    """One token through the router."""
    kube, spec = site(room, run.spec).kube(room), run.spec
    told = first_answers.ask(kube, Door(spec.namespace, spec.name, spec.port), "sglang", "/liveness")
    if isinstance(told, first_answers.FirstAnswer):
        return Done({"model": told.model, "milliseconds": told.milliseconds})
    if told.wants_key:
        return Done({"model": None}, note="The workers want their key: the first token is for whoever has it.")
    return Wait(3, told.why)


def remove(room: Room, run: Run) -> Outcome:
    """Take everything of the router out."""
    kube, spec = site(room, run.spec).kube(room), run.spec
    listed = [kube.list(kind, spec.namespace, labels=serving.selector("sglang-router", spec.name)) for kind in _KINDS]
    found = [each for kind in listed for each in kind]
    if not found:
        return Done({"name": spec.name}, already=run.waited_seconds == 0)
    owners = autoscalers.owners(kube, spec.namespace, "Deployment", spec.name)
    if owners:
        raise problems.Conflict("sglang_router.in_use", f"{', '.join(owners)} scales {spec.name}.", hint="Delete the autoscaler first.")
    for each in found:
        if not each["metadata"].get("deletionTimestamp"):
            kube.delete(each["kind"], each["metadata"]["name"], spec.namespace, propagation=Propagation.foreground)
    return Wait(3, f"Going: {', '.join(identity(e) for e in found)}")
