"""The stages of switching a feature on. Each looks first, acts at most once a tick, never sleeps, and can be killed anywhere.

The same parts, in the same order, bring what a feature needs (``bring``) and the feature itself: roles, accounts, component, readiness,
restart. What stands between the cloud and these functions is in ``ensure/``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from instantstart.base import problems
from instantstart.base.outcome import Done, Outcome, Wait
from instantstart.capabilities.features import rules
from instantstart.capabilities.features.scene import Scene, release, scene
from instantstart.capabilities.room import Room
from instantstart.ensure.capacity import hyperpod, hyperpod_settings
from instantstart.ensure.identity_chains import chain_links, chain_steps
from instantstart.ensure.identity_chains.chain_links import BROKEN
from instantstart.ensure.identity_chains.chain_steps import Hands
from instantstart.ensure.identity_chains.chains import Chain
from instantstart.ensure.installs import addons, configurations, manifests, workloads
from instantstart.ensure.installs.strangers import Takeover
from instantstart.ensure.managed import addon_steps, component_reads, component_settings, component_state, copies, metrics_workspace
from instantstart.ensure.managed.addon_steps import Wanted
from instantstart.ensure.managed.component_state import State
from instantstart.ensure.managed.components import COMPONENTS, Way, with_needs
from instantstart.ensure.networking import balancer_subnets
from instantstart.ensure.sites import site
from instantstart.ensure.storage import buckets
from instantstart.operations.declare import Run

DEFAULT_PERCENT = 50
#: how long what was made may take to be seen before it is told that it is not so
_VERIFY_PATIENCE = 180.0
Part = Callable[["Scene"], Outcome]


# --- before


def look(room: Room, run: Run) -> Outcome:
    """See what is there, and refuse what may not be done; decide once what is to be brought and what is used as it is."""
    where = site(room, run.spec)
    world = component_reads.read(where, room)
    statuses = component_state.judge(world)
    change = rules.Change(run.spec.feature, "enable", run.spec.ask)
    unread = next((statuses[n] for n in with_needs(change.feature) if statuses[n].state is State.unknown), None)
    if unread:
        raise problems.Unreachable("feature.unreadable", unread.why)
    refused = rules.refusal(rules.obstacles([change], statuses, world, {}))
    if refused:
        raise refused
    needs = [n for n in with_needs(change.feature)[:-1] if not statuses[n].is_present]
    have = statuses[change.feature].settings.get("configuration") or {}
    left = [c for c in rules.found_copies(change.feature, world) if c.object not in (change.ask.get("overwrite") or ())]
    roles = {copy.role for copy in left}
    keda = _own(have, "keda", others="KEDA" in roles or (statuses["keda"].is_present and statuses["keda"].by == component_state.US))
    return Done({"needs": needs, "keda": keda, "balancer": _own(have, "alb", others="a load balancer controller" in roles)})


def _own(have: Mapping[str, Any], part: str, *, others: bool) -> bool:
    """Whether the inference operator brings this part itself: as it does now, else unless another is there."""
    if part in have:
        return (have[part] or {}).get("enabled") is not False
    return not others


def bring(name: str) -> Callable[[Room, Run], Outcome]:
    """The stage that brings one component another needs; what was there before is waited for, and not changed."""

    def act(room: Room, run: Run) -> Outcome:
        there = name not in run.learned["look"]["needs"]
        here = scene(room, run, name)
        parts: tuple[Part, ...] = (_await_theirs,) if there else (make_roles, associate, install, annotate, ready, restart)
        for part in parts:
            outcome = part(here)
            if isinstance(outcome, Wait):
                return outcome
        return Done({"component": name}, already=there)

    return act


def part(act: Part) -> Callable[[Room, Run], Outcome]:
    """A part as a stage of the run's own feature."""
    return lambda room, run: act(scene(room, run))


def _await_theirs(here: Scene) -> Outcome:
    """An add-on that is there: ready, or as ready as it gets without nodes. A copy of somebody else is taken at its word."""
    if addons.find(here.where.aws, here.where.eks_cluster, here.component.source) is None:
        return Done(already=True)
    return addon_steps.ready(here.place, here.kube, here.component, here.run.waited_seconds)


# --- parts


def make_roles(here: Scene) -> Outcome:
    """OIDC provider, roles, trust, policies."""
    for chain in here.chains():
        step = chain_steps.role_step(here.hands, chain)
        if step is not None:
            return step
    return Done({"roles": [chain.role for chain in here.chains()]})


def associate(here: Scene) -> Outcome:
    """Associations, and accounts of our own: before the component, so that its first pods have their role."""
    return _accounts(here, late=False)


def annotate(here: Scene) -> Outcome:
    """Accounts that the component has brought get their role."""
    return _accounts(here, late=True)


def _accounts(here: Scene, *, late: bool) -> Outcome:
    for chain in here.chains():
        step = chain_steps.account_step(here.hands, chain, late=late)
        if step is not None:
            return step
    return Done()


def prepare(here: Scene) -> Outcome:
    """What is outside of the cluster and must be there first: certificate bucket and subnet tags, or the metrics workspace."""
    if here.component.name == "inference_operator":
        outcome = buckets.ensure_bucket(here.where.aws, here.where.names.tls_bucket, here.where.tags)
        if isinstance(outcome, Wait):
            return outcome
        step = balancer_subnets.step(here.where, str(here.cluster["resourcesVpcConfig"]["vpcId"]))
        return step or Done({"bucket": here.where.names.tls_bucket})
    if here.component.name == "observability":
        return _workspace(here)
    return Done(already=True)


def _workspace(here: Scene) -> Outcome:
    """The given workspace, the one it writes to already, or ours."""
    given = here.ask.get("workspace_arn")
    if given is None:
        have = addons.find(here.where.aws, here.where.eks_cluster, here.component.source)
        values = configurations.parse((have or {}).get("configurationValues"))
        given = (values.get("ampWorkspace") or {}).get("arn")
    if given:
        return Done(metrics_workspace.describe(here.where, metrics_workspace.id_of(given)))
    return metrics_workspace.ensure(here.where, here.run.token("workspace"))


def displace(here: Scene) -> Outcome:
    """Take away the copies that were named, one at a time, and no other."""
    named = here.ask.get("overwrite") or ()
    found = [w for kind in ("Deployment", "DaemonSet") for w in here.kube.list(kind)] if named else []
    present = here.where.aws.pages("eks", "list_addons", "addons", clusterName=here.where.eks_cluster) if named else []
    left = [c for c in copies.find(here.component, found, frozenset(present)) if c.object in named]
    for copy in left:
        if not copy.resource["metadata"].get("deletionTimestamp"):
            copies.remove(here.kube, copy)
            return Wait(2, f"Removed {copy.told}")
    if left:
        return Wait(2, f"{left[0].object} is going")
    return Done({"overwritten": list(named)}, already=not named)


def install(here: Scene) -> Outcome:
    """The add-on or the bundle, pinned."""
    if here.component.way is Way.bundle:
        takeover = Takeover.overwrite if here.ask.get("overwrite") else Takeover.refuse
        return manifests.ensure(here.kube, release(here), takeover)
    if here.component.way is Way.setting:
        return _set(here)
    bound = _bound(here)
    asked = configurations.merged(here.ask.get("configuration") or {}, bound)
    role = here.where.names.s3_csi_role if here.component.name == "s3_csi" else None
    minimum = _minimum(here)
    want = Wanted(
        here.component.source,
        here.ask.get("version"),
        minimum,
        here.where.aws.arn("iam", f"role/{role}", regional=False) if role else None,
        component_settings.wanted(here.component, bound, here.ask.get("configuration")),
        asked,
        overwrite=bool(here.ask.get("overwrite")),
    )
    outcome = addon_steps.install(here.place, want)
    version = here.ask.get("version")
    if isinstance(outcome, Done) and version and outcome.learned.get("version") != version:
        return addon_steps.upgrade(here.place, want)
    return outcome


def _minimum(here: Scene) -> str:
    """The oldest version that the run's own feature takes of what it needs."""
    own = COMPONENTS.get(str(getattr(here.run.spec, "feature", "")))
    return own.minima.get(here.component.name, "") if own else ""


def _bound(here: Scene) -> dict[str, Any]:
    """What binds an add-on to its roles, bucket and workspace."""
    if here.component.name == "inference_operator":
        have = hyperpod.find_cluster(here.where.aws, here.where.hyperpod_cluster)
        if have is None:
            raise problems.NotFound("hyperpod.not_found", f"There is no HyperPod cluster {here.where.hyperpod_cluster}.")
        flags = {"keda": bool(here.look.get("keda", True)), "balancer": bool(here.look.get("balancer", True))}
        return component_settings.inference(here.where, str(have["ClusterArn"]), **flags)
    if here.component.name == "observability" and "prepare" in here.run.learned:
        grafana = None
        if here.ask.get("grafana_workspace_arn"):
            grafana = {"name": str(here.ask["grafana_workspace_name"]), "arn": str(here.ask["grafana_workspace_arn"])}
        return component_settings.observability(here.run.learned["prepare"], grafana)
    return {}


def _set(here: Scene) -> Outcome:
    """A setting of the HyperPod cluster; a share that is not said stays as it is."""
    have = hyperpod.find_cluster(here.where.aws, here.where.hyperpod_cluster) or {}
    now = (have.get("TieredStorageConfig") or {}).get("InstanceMemoryAllocationPercentage")
    return hyperpod_settings.tiered_storage(here.where, int(here.ask.get("memory_percent") or now or DEFAULT_PERCENT))


def ready(here: Scene) -> Outcome:
    """See it work: EKS's word, its workloads, or the cluster at rest after the change."""
    if here.component.way is Way.setting:
        return hyperpod_settings.settled(here.where) or Done()
    if here.component.way is Way.bundle:
        return workloads.readiness(here.kube, release(here), without_nodes=True)
    return addon_steps.ready(here.place, here.kube, here.component, here.run.waited_seconds)


def restart(here: Scene) -> Outcome:
    """Pods that started before their role was given are restarted, by their controllers."""
    for chain in here.chains():
        step = chain_steps.restart_step(here.hands, chain)
        if step is not None:
            return step
    return Done()


def verify(here: Scene) -> Outcome:
    """Read everything anew: it works (or waits for the first node only), and every link of its chain holds."""
    world = component_reads.read(here.where, here.room)
    status = component_state.judge(world)[here.component.name]
    broken = [link for link in status.links if link.status in BROKEN]
    if not broken and (status.state is State.on or status.waits_for_nodes):
        told = {"feature": status.name, "state": status.state.value, "version": status.version, "waits_for_nodes": status.waits_for_nodes}
        return Done({**told, "links": len(status.links)}, note=status.why)
    why = broken[0].detail if broken else status.why
    if here.run.waited_seconds < _VERIFY_PATIENCE:
        return Wait(5, why)
    raise problems.Blocked(
        "feature.not_verified",
        f"{here.component.title} is not as asked: {why}",
        hint="Mend what is wrong and retry; everything is read anew.",
        evidence={"links": [vars(link) for link in broken]},
    )


# --- upgrade and repair


def upgrade(here: Scene) -> Outcome:
    """Ask EKS for the version; role and values stay."""
    return addon_steps.upgrade(here.place, Wanted(here.component.source, here.run.spec.version))


def repair_roles(room: Room, run: Run) -> Outcome:
    """Provider, role, trust and policies of every chain that is named."""
    hands, chains = _repaired(room, run)
    for chain in chains:
        step = chain_steps.role_step(hands, chain)
        if step is not None:
            return step
    return Done({"chains": [chain.name for chain in chains]})


def repair_accounts(room: Room, run: Run) -> Outcome:
    """Associations and annotations of every chain that is named: also those that a component wrote and somebody took away."""
    hands, chains = _repaired(room, run)
    for chain in chains:
        for late in (False, True):
            step = chain_steps.account_step(hands, chain, late=late, again=True)
            if step is not None:
                return step
    return Done()


def repair_configuration(room: Room, run: Run) -> Outcome:
    """Values that bind an add-on to its roles, where they were changed."""
    for name in run.spec.features:
        if name in COMPONENTS and COMPONENTS[name].way is Way.addon and name == "inference_operator":
            outcome = install(scene(room, run, name))
            if isinstance(outcome, Wait):
                return outcome
    return Done()


def repair_pods(room: Room, run: Run) -> Outcome:
    """Restart what started before its role was right."""
    hands, chains = _repaired(room, run)
    for chain in chains:
        step = chain_steps.restart_step(hands, chain)
        if step is not None:
            return step
    return Done()


def repair_verified(room: Room, run: Run) -> Outcome:
    """Read everything anew: no link of what was named is broken."""
    where = site(room, run.spec)
    world = component_reads.read(where, room)
    statuses = component_state.judge(world)
    links = [link for name in run.spec.features for link in links_of(world, statuses, name)]
    broken = [link for link in links if link.status in BROKEN]
    if not broken:
        return Done({"features": run.spec.features, "links": len(links)})
    if run.waited_seconds < _VERIFY_PATIENCE:
        return Wait(5, broken[0].detail)
    raise problems.Blocked(
        "feature.not_repaired",
        f"{len(broken)} links are still broken: {broken[0].detail}",
        hint="Look at what keeps changing it, then retry.",
        evidence={"links": [vars(link) for link in broken]},
    )


def links_of(world: component_reads.World, statuses: Mapping[str, component_state.Status], name: str) -> tuple[Any, ...]:
    """The links of a feature, or of a chain that is no feature's."""
    if name in statuses:
        return statuses[name].links
    chain = world.chains.get(name)
    return chain_links.links(chain, world.seen) if chain else ()


def _repaired(room: Room, run: Run) -> tuple[Hands, list[Chain]]:
    """The chains of what is named: of a component those that are there, of a chain's own name that one."""
    here = scene(room, run, "pod_identity")
    world = component_reads.read(here.where, room)
    wanted: list[Chain] = []
    for name in run.spec.features:
        if name in COMPONENTS:
            wanted += world.begun(COMPONENTS[name])
        else:
            wanted.append(here.chain(name))
    return here.hands, wanted
