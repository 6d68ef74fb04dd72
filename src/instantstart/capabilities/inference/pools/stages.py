"""The stages of pools and bindings. A scale-in first marks whom it will take, so that nobody is given what is about to go."""

from __future__ import annotations

from typing import Any

from instantstart.base import problems
from instantstart.base.outcome import Done, Outcome, Progress, Wait, pace
from instantstart.capabilities.inference.pools import objects, rules
from instantstart.capabilities.room import Room
from instantstart.ensure.inference import first_answers, pool_guard, pools, server_checks, serving, serving_budgets, workload_rollouts
from instantstart.ensure.inference.servers import Settled
from instantstart.ensure.sites import site
from instantstart.kube.client import Door, KubeCluster
from instantstart.operations.declare import Run

_TYPICAL_SECONDS = 300.0
#: longer than anybody takes between giving a worker and counting it
_COUNTED_SECONDS = 5.0


def check(room: Room, run: Run) -> Outcome:
    """Everything that can be known before."""
    where, spec = site(room, run.spec), run.spec
    facts = rules.observe(room, where, spec)
    refused = rules.refusal(rules.findings(spec, facts))
    if refused:
        raise refused
    return Done({"settled": server_checks.settle(spec, facts.server).document(), "existed": facts.live is not None})


def guard(room: Room, run: Run) -> Outcome:
    """The API server is told to keep bound workers."""
    kube = site(room, run.spec).kube(room)
    if pool_guard.stands(kube):
        return Done({"guarded": True}, already=True)
    guarded = pool_guard.ensure(kube)
    told = None if guarded else "This cluster has no admission policies: bound workers are kept by order and cost alone."
    return Done({"guarded": guarded}, note=told)


def apply(room: Room, run: Run) -> Outcome:
    """Make the pool; a repeat makes nothing twice, and the size of a pool that is there is left alone."""
    kube, spec = site(room, run.spec).kube(room), run.spec
    settled = Settled.of(run.learned["check"]["settled"])
    server = server_checks.server(spec, server_checks.mean(spec, room.settings), settled)
    live = kube.find("Deployment", server.name, server.namespace)
    stands = live is not None and bool(serving.asked(live))
    for resource in objects.make(spec, server, settled, spec.workers):
        if not (stands and resource["kind"] == "Deployment"):  # its settings do not change: its workers would
            kube.apply(resource)
    return Done({"name": server.name}, already=stands)


def roll_out(room: Room, run: Run) -> Outcome:
    """Until all workers are ready."""
    where, spec = site(room, run.spec), run.spec
    found = workload_rollouts.look(room, where, spec.namespace, spec.name)
    if found.done:
        return Done({"ready": found.ready})
    if found.hopeless(run.waited_seconds):
        detail = f"Workers of {spec.name} do not come up: {found.why}"
        raise problems.Conflict("model_pool.failing", detail, hint=found.next_step, evidence=dict(found.evidence))
    return Wait(pace(run.waited_seconds, _TYPICAL_SECONDS), found.why, Progress(found.ready, max(found.wanted, 1), "workers"))


def await_answer(room: Room, run: Run) -> Outcome:
    """One token of one free worker: warm means that it answers."""
    kube, spec = site(room, run.spec).kube(room), run.spec
    pool = pools.get(kube, spec.namespace, spec.name)
    ready = [w for w in pool.workers if w.ready and not w.leaving]
    if not ready:
        return Done(already=True, note="It has no workers: nothing is asked.") if pool.size == 0 else Wait(5, "No worker is ready")
    return _answered(kube, pool, Door(spec.namespace, ready[0].name, serving.container_port(pool.live) or 0, kind="Pod"))


def _answered(kube: KubeCluster, pool: pools.Pool, door: Door) -> Outcome:
    marks, asked = serving.marks(pool.live), serving.asked(pool.live)
    engine = marks.engine if marks else "custom"
    told = first_answers.ask(kube, door, engine, asked.get("health_path") or serving.ENGINES[engine].health)
    if isinstance(told, first_answers.FirstAnswer):
        return Done({"model": told.model, "milliseconds": told.milliseconds})
    if told.wants_key and asked.get("api_key_secret"):
        return Done({"model": None}, note="It serves and wants its key: the first token is for whoever has it.")
    return Wait(2, told.why)


# --- scaling


def choose(room: Room, run: Run) -> Outcome:
    """Mark the workers that go. From now on nobody is given one of them; a worker that was given meanwhile is not taken."""
    kube, spec = site(room, run.spec).kube(room), run.spec
    pool = pools.get(kube, spec.namespace, spec.name)
    rules.check_size(kube, pool, spec.workers)
    staying = [w for w in pool.workers if not w.leaving]
    surplus = len(staying) - spec.workers
    if surplus <= 0 or spec.workers >= pool.size:
        return Done({"marked": []}, already=True)
    chosen = pools.victims(pool, surplus)
    for each in chosen:
        if each.business == serving.RETIRING:
            continue
        try:
            pools.relabel(kube, each, serving.RETIRING)
        except problems.Conflict:
            return Wait(0.5, f"{each.name} was given to somebody meanwhile: chosen anew")
    return Done({"marked": [w.name for w in chosen]})


def resize(room: Room, run: Run) -> Outcome:
    """The number of workers, while it is what it was seen to be."""
    kube, spec = site(room, run.spec).kube(room), run.spec
    live = pools.get(kube, spec.namespace, spec.name).live
    present = int(live["spec"].get("replicas", 1))
    serving_budgets.keep(kube, live, spec.workers)
    if present == spec.workers:
        return Done({"workers": spec.workers}, already=True)
    metadata = {"resourceVersion": live["metadata"]["resourceVersion"]}
    kube.patch("Deployment", spec.name, {"metadata": metadata, "spec": {"replicas": spec.workers}}, namespace=spec.namespace)
    return Done({"workers": spec.workers})


def see_off(room: Room, run: Run) -> Outcome:
    """Until those that were marked are gone and the rest is ready. What the ReplicaSet leaves standing is deleted here, by its uid."""
    where, spec = site(room, run.spec), run.spec
    kube = where.kube(room)
    pool = pools.get(kube, spec.namespace, spec.name)
    staying = [w for w in pool.workers if not w.leaving]
    marked = [w for w in staying if w.business == serving.RETIRING]
    surplus = len(staying) - pool.size
    for each in marked[: max(surplus, 0)] if run.waited_seconds > 2 else ():
        kube.delete("Pod", each.name, each.namespace, uid=each.uid)
    for each in marked if surplus <= 0 else ():
        pools.relabel(kube, each, serving.UNASSIGNED)  # the ReplicaSet took another that was free
    leaving = [w for w in pool.workers if w.leaving]
    if marked or leaving or surplus > 0:
        ending = "1 worker is" if len(leaving) == 1 else f"{len(leaving)} workers are"
        return Wait(2, f"{ending} ending, {max(surplus, 0)} to go still")
    return roll_out(room, run)


# --- bindings


def bind(room: Room, run: Run) -> Outcome:
    """The Service of the business. Raises Conflict for one of that name which is another's."""
    kube, spec = site(room, run.spec).kube(room), run.spec
    pool = pools.get(kube, spec.namespace, spec.name)
    wanted = objects.bind(pool, spec.business)
    name = wanted["metadata"]["name"]
    present = kube.find("Service", name, spec.namespace)
    check_service(present, pool, spec.business)
    kube.apply(wanted)
    return Done({"service": name}, already=present is not None)


def check_service(present: dict[str, Any] | None, pool: pools.Pool, business: str) -> None:
    """Raises Conflict for a Service of that name which is not this binding."""
    if present is None or any(b.business == business and b.service == present["metadata"]["name"] for b in pool.bindings):
        return
    raise problems.Conflict(
        "model_pool.service_taken",
        f"The Service {present['metadata']['name']} of {pool.namespace} is not the binding of {business}.",
        hint="Choose another name for the business.",
    )


def give(room: Room, run: Run) -> Outcome:
    """As many workers as were asked, of those that are free and ready."""
    kube, spec = site(room, run.spec).kube(room), run.spec
    pool = pools.get(kube, spec.namespace, spec.name)
    have = len(pool.bound(spec.business))
    for free in pool.free()[: max(spec.workers - have, 0)]:
        wish = pools.Relabel(spec.namespace, spec.name, free.name, spec.business, serving.UNASSIGNED)
        try:
            have += pools.assign(kube, wish)[1]
        except problems.Conflict:
            continue  # somebody was faster
    if have >= spec.workers:
        return _counted(kube, run) or Done({"workers": have}, already=spec.workers == 0)
    return Wait(5, f"{have} of {spec.workers} workers: no other is free and ready", Progress(have, spec.workers, "workers"))


def _counted(kube: KubeCluster, run: Run) -> Wait | None:
    """A worker that was given while its counting failed, or was cut off, is not counted: when nobody else does it, it is done here."""
    spec = run.spec
    short = pools.uncounted(pools.get(kube, spec.namespace, spec.name), spec.business)
    if short is None:
        return None
    if run.waited_seconds >= _COUNTED_SECONDS:
        pools.claim(kube, *short)
    return Wait(_COUNTED_SECONDS, "Its workers are being counted")


def await_binding(room: Room, run: Run) -> Outcome:
    """One token through the Service of the business."""
    kube, spec = site(room, run.spec).kube(room), run.spec
    pool = pools.get(kube, spec.namespace, spec.name)
    name = pools.binding_name(spec.name, spec.business)
    return _answered(kube, pool, Door(spec.namespace, name, serving.container_port(pool.live) or 0))
