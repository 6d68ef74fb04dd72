"""The way back: a binding gives its workers back, a pool goes when nobody is bound."""

from __future__ import annotations

from instantstart.base import problems
from instantstart.base.outcome import Done, Outcome, Wait
from instantstart.capabilities.inference.pools import rules
from instantstart.capabilities.room import Room
from instantstart.ensure.inference import autoscalers, pool_guard, pools, serving
from instantstart.ensure.sites import site
from instantstart.kube.client import Propagation
from instantstart.operations.declare import Run


def unbind(room: Room, run: Run) -> Outcome:
    """Release the workers of a business, then remove its Service: the count goes first, so that no keeper gives it new ones."""
    kube, spec = site(room, run.spec).kube(room), run.spec
    pool = pools.find(kube, spec.namespace, spec.name)
    found = next((b for b in pool.bindings if b.business == spec.business), None) if pool else None
    if pool is None or found is None:
        return Done({"business": spec.business}, already=run.waited_seconds == 0)
    if found.workers:
        pools.set_count(kube, found, 0)
    for worker in pool.bound(spec.business):
        try:
            pools.relabel(kube, worker, serving.UNASSIGNED)
        except problems.Conflict:
            return Wait(1, f"{worker.name} changed under us: looked at again")
    kube.delete("Service", found.service, spec.namespace)
    return Done({"business": spec.business, "released": [w.name for w in pool.bound(spec.business)]})


def check_free(room: Room, run: Run) -> Outcome:
    """Nobody is bound, and nobody scales it."""
    kube, spec = site(room, run.spec).kube(room), run.spec
    pool = pools.find(kube, spec.namespace, spec.name)
    if pool is None:
        return Done(already=True)
    rules.check_unbound(pool)
    owners = autoscalers.owners(kube, spec.namespace, "Deployment", spec.name)
    if owners:
        raise problems.Conflict("model_pool.in_use", f"{', '.join(owners)} scales {spec.name}.", hint="Delete the autoscaler first.")
    return Done(already=True)


def remove(room: Room, run: Run) -> Outcome:
    """Take the pool out and wait until its workers are gone."""
    kube, spec = site(room, run.spec).kube(room), run.spec
    live = kube.find("Deployment", spec.name, spec.namespace)
    budget = kube.find("PodDisruptionBudget", spec.name, spec.namespace)
    if budget is not None and serving.is_ours(budget):
        kube.delete("PodDisruptionBudget", spec.name, spec.namespace)
    if live is not None and pools.is_pool(live):
        if not live["metadata"].get("deletionTimestamp"):
            kube.delete("Deployment", spec.name, spec.namespace, propagation=Propagation.foreground, uid=live["metadata"]["uid"])
        return Wait(3, f"The workers of {spec.name} are ending")
    pool_guard.remove_if_last(kube)
    return Done({"name": spec.name}, already=run.waited_seconds == 0)
