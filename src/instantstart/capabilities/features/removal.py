"""The stages of switching a feature off: refused while anything rests on it, then the component, then its chain, link by link.

No finalizer is ever patched away: what holds a removal up is named, and a person decides.
"""

from __future__ import annotations

from instantstart.base import problems
from instantstart.base.outcome import Done, Outcome, Wait
from instantstart.capabilities.features import rules
from instantstart.capabilities.features.scene import Scene, release
from instantstart.capabilities.room import Room
from instantstart.ensure.capacity import hyperpod_settings
from instantstart.ensure.identity_chains import chain_steps
from instantstart.ensure.identity_chains import chains as declared
from instantstart.ensure.installs import manifests
from instantstart.ensure.managed import addon_steps, component_reads, component_state, component_uses
from instantstart.ensure.managed.component_state import State
from instantstart.ensure.managed.components import COMPONENTS, Way
from instantstart.ensure.sites import site
from instantstart.ensure.storage import buckets
from instantstart.operations.declare import Run

_PATIENCE_SECONDS = 120.0


def look(room: Room, run: Run) -> Outcome:
    """Nothing rests on it: no other component, no custom resource, no volume. Looked at again here, for it may have changed."""
    where = site(room, run.spec)
    world = component_reads.read(where, room)
    statuses = component_state.judge(world)
    change = rules.Change(run.spec.feature, "disable", run.spec.ask)
    used = {change.feature: component_uses.find(where.kube(room), change.feature, world)}
    if statuses[change.feature].is_present:
        refused = rules.refusal(rules.obstacles([change], statuses, world, used))
        if refused:
            raise refused
    return Done({"version": statuses[change.feature].version, "chains": _chains(world, change.feature)})


def _chains(world: component_reads.World, feature: str) -> list[str]:
    """The chains that are there; shared ones are left to whoever else uses them."""
    return [name for name in COMPONENTS[feature].chains if name in world.chains and not world.chains[name].shared]


def uninstall(here: Scene) -> Outcome:
    """The add-on with its objects, our bundle's objects in reverse order, or the setting of the cluster."""
    if here.component.way is Way.bundle:
        return manifests.remove(here.kube, release(here))
    if here.component.way is Way.setting:
        outcome = hyperpod_settings.tiered_storage(here.where, None)
        return outcome if isinstance(outcome, Wait) else hyperpod_settings.settled(here.where) or Done()
    return addon_steps.remove(here.where.aws, here.where.eks_cluster, here.component.source)


def unchain(here: Scene) -> Outcome:
    """The identity chain backward: association or annotation, account, policies, role. Exactly what it had made."""
    names = here.look.get("chains") or here.component.chains
    for name in names:
        chain = here.chain(name)
        step = None if chain.shared else chain_steps.remove_step(here.hands, chain)
        if step is not None:
            return step
    return Done({"roles": [declared.declare(n, declared.Ground(here.where, here.cluster)).role for n in names]})


def clear(here: Scene) -> Outcome:
    """What it kept outside of the cluster: the certificate bucket. Metrics stay where they are."""
    if here.component.name == "inference_operator":
        return buckets.remove_bucket(here.where.aws, here.where.names.tls_bucket, here.where.tag) or Done()
    if here.component.name == "observability":
        return Done(note="The Prometheus workspace with its metrics is kept.")
    return Done(already=True)


def verify(here: Scene) -> Outcome:
    """Read everything anew: off, and nothing of its chain is left."""
    world = component_reads.read(here.where, here.room)
    status = component_state.judge(world)[here.component.name]
    if status.state is State.off and not status.links:
        return Done({"feature": status.name, "state": status.state.value})
    if status.is_present and status.by not in (None, component_state.US):
        return Done({"feature": status.name, "state": status.state.value}, note=status.why)
    why = status.links[0].detail if status.state is State.off else status.why
    if here.run.waited_seconds < _PATIENCE_SECONDS:
        return Wait(5, why)
    raise problems.Blocked(
        "feature.not_removed",
        f"{here.component.title} is not gone: {why}",
        hint="Look at what holds it, then retry; nothing is forced.",
        evidence={"state": status.state.value, "links": [vars(link) for link in status.links]},
    )
