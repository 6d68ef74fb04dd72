"""The stages of a deployment: checked, made, rolled out, and asked for a first token: only then it is done."""

from __future__ import annotations

from typing import Any

from instantstart.base import problems
from instantstart.base.outcome import Done, Outcome, Progress, Wait, pace
from instantstart.capabilities.inference.deployments import objects, rules, specs
from instantstart.capabilities.room import Room
from instantstart.ensure.inference import autoscalers, first_answers, server_checks, servers, serving, serving_budgets, workload_rollouts
from instantstart.ensure.inference.servers import Settled
from instantstart.ensure.sites import site
from instantstart.kube.client import Door, KubeCluster
from instantstart.operations.declare import Run

_TYPICAL_SECONDS = 300.0


def check(room: Room, run: Run) -> Outcome:
    """Everything that can be known before; what is settled now stays so, whatever the hub or the nodes say later."""
    where, spec = site(room, run.spec), run.spec
    facts = rules.observe(room, where, spec)
    refused = rules.refusal(rules.findings(spec, facts))
    if refused:
        raise refused
    settled = settle(spec, facts)
    room_for = surge(spec, facts, settled)
    return Done({"settled": settled.document(), "surge": room_for, "existed": facts.live is not None})


def settle(spec: specs.CreateModelDeployment, facts: rules.Facts) -> Settled:
    """What was settled before, while what it rests on is asked unchanged; else anew."""
    before = objects.settled_of(facts.live) if facts.live else None
    asked = objects.asked_of(facts.live) if facts.live else None
    rests_on = ("command", "argv", "model", "gpus", "instance_types", "instance_group", "cpu", "memory", "startup_minutes", "engine")
    if before and asked and all(getattr(asked, f) == getattr(spec, f) for f in rests_on):
        return before
    return server_checks.settle(spec, facts.server)


def surge(spec: specs.CreateModelDeployment, facts: rules.Facts, settled: Settled) -> bool:
    if spec.changes != "auto":
        return spec.changes == "surge"
    return server_checks.has_room(spec, settled, facts.server.places)


def apply(room: Room, run: Run) -> Outcome:
    """Make what is wanted, remove what is no longer: by name, so that a repeat makes nothing twice."""
    kube, spec, learned = site(room, run.spec).kube(room), run.spec, run.learned["check"]
    settled = Settled.of(learned["settled"])
    server = server_checks.server(spec, server_checks.mean(spec, room.settings), settled, spec.exposure == "load_balancer")
    live = kube.find("Deployment", server.name, server.namespace)
    replicas = live["spec"].get("replicas", 1) if live else spec.replicas
    wanted = objects.make(spec, server, settled, bool(learned["surge"]), replicas)
    try:
        changed = [_put(kube, resource) for resource in wanted]
    except problems.Conflict as problem:
        if [f.pointer for f in problem.fields] != ["/spec/replicas"]:
            raise
        return Wait(2, "The number of pods changed under us: looked at again")
    names = {(r["kind"], r["metadata"]["name"]) for r in wanted}
    for kind, name in (("Service", server.name + servers.EXTERNAL), ("PodDisruptionBudget", server.name)):
        found = kube.find(kind, name, server.namespace)
        if (kind, name) not in names and found is not None and serving.is_ours(found):
            changed.append(kube.delete(kind, name, server.namespace))
    return Done({"name": server.name, "port": server.port}, already=not any(changed))


def _put(kube: KubeCluster, resource: dict[str, Any]) -> bool:
    """Apply; whether that changed anything."""
    before = kube.find(resource["kind"], resource["metadata"]["name"], resource["metadata"]["namespace"])
    after = kube.apply(resource)
    return before is None or before["metadata"]["resourceVersion"] != after["metadata"]["resourceVersion"]


def set_replicas(room: Room, run: Run) -> Outcome:
    """The number of pods, where nobody else owns it."""
    kube, spec = site(room, run.spec).kube(room), run.spec
    live = kube.get("Deployment", spec.name, spec.namespace)
    if live["spec"].get("replicas", 1) == spec.replicas:
        serving_budgets.keep(kube, live, spec.replicas)
        return Done({"replicas": spec.replicas}, already=True)
    owner = autoscalers.owner(kube, spec.namespace, "Deployment", spec.name)
    if owner is not None and run.workflow == "model_deployment.scale":
        raise rules.scaled_by(spec.name, owner)
    if owner is not None:
        return Done(already=True, note=f"{owner} owns the replicas.")
    kube.patch("Deployment", spec.name, {"spec": {"replicas": spec.replicas}}, namespace=spec.namespace, subresource="scale")
    serving_budgets.keep(kube, live, spec.replicas)
    return Done({"replicas": spec.replicas})


def roll_out(room: Room, run: Run) -> Outcome:
    """Until the newest generation is observed and all its pods are ready, and no older pod is left."""
    where, spec = site(room, run.spec), run.spec
    found = workload_rollouts.look(room, where, spec.namespace, spec.name)
    if found.done:
        return Done({"ready": found.ready, "generation": found.generation})
    if found.hopeless(run.waited_seconds):
        kept = " The pods of before go on serving." if found.ready else ""
        detail = f"{spec.name} does not come up: {found.why}{kept}"
        raise problems.Conflict("model_deployment.failing", detail, hint=found.next_step, evidence=dict(found.evidence))
    return Wait(pace(run.waited_seconds, _TYPICAL_SECONDS), found.why, Progress(found.updated_ready, max(found.wanted, 1), "pods"))


def await_answer(room: Room, run: Run) -> Outcome:
    """One token, through its Service: ready means that it answers."""
    kube, spec = site(room, run.spec).kube(room), run.spec
    live = kube.get("Deployment", spec.name, spec.namespace)
    marks = serving.marks(live)
    if live["spec"].get("replicas", 1) == 0 or marks is None:
        return Done(already=True, note="It has no pods: nothing is asked.")
    asked = serving.asked(live)
    health = asked.get("health_path") or serving.ENGINES[marks.engine].health
    door = Door(spec.namespace, spec.name, serving.container_port(live) or serving.ENGINES[marks.engine].port)
    told = first_answers.ask(kube, door, marks.engine, health)
    if isinstance(told, first_answers.FirstAnswer):
        return Done({"model": told.model, "path": told.path, "milliseconds": told.milliseconds})
    if told.wants_key and asked.get("api_key_secret"):
        return Done({"model": None}, note="It serves and wants its key: the first token is for whoever has it.")
    return Wait(5, told.why)


def await_address(room: Room, run: Run) -> Outcome:
    """Until the load balancer has an address; while it has none, in the controller's own words why (case 64)."""
    kube, spec = site(room, run.spec).kube(room), run.spec
    name = spec.name + servers.EXTERNAL
    live = kube.get("Service", name, spec.namespace)
    address = servers.address_of(live)
    if address is not None:
        return Done({"address": address})
    about = kube.list("Event", spec.namespace, fields=f"involvedObject.kind=Service,involvedObject.name={name}")
    said = [e for e in about if e.get("type") == "Warning"]
    told = max(said, key=lambda e: str(e.get("lastTimestamp") or e.get("eventTime") or ""), default=None)
    why = f": {told.get('reason')}: {' '.join(str(told.get('message')).split())[:300]}" if told else ""
    return Wait(5, f"The load balancer has no address yet{why}")
