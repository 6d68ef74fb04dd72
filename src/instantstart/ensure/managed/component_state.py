"""How each managed component stands, judged over one look at the world: a state, a sentence why, who installed it, who rests on it.

DEGRADED before the first node is not a failure and not a success (case 24): it is told as it is. A component whose identity chain does
not hold is ``drifted``, however ACTIVE it says it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from instantstart.base import names, problems
from instantstart.ensure.identity_chains.chain_links import BROKEN, Link, Standing
from instantstart.ensure.installs import addon_offers, configurations
from instantstart.ensure.installs.releases import BUNDLE, VERSION, is_ours, sentence
from instantstart.ensure.managed import component_settings, copies
from instantstart.ensure.managed.component_reads import World, links_of
from instantstart.ensure.managed.components import COMPONENTS, KEDA_ROLE, Component, Way
from instantstart.ensure.managed.copies import Copy

US = "InstantStart"
_NEEDS_NODES = "InsufficientNumberOfReplicas"


class State(StrEnum):
    """Where a component stands."""

    off = "off"
    installing = "installing"
    on = "on"
    degraded = "degraded"
    failed = "failed"
    removing = "removing"
    drifted = "drifted"
    unknown = "unknown"


#: the component is in the cluster, in whatever health
PRESENT = frozenset({State.installing, State.on, State.degraded, State.drifted})
_OF_ADDON = {
    "CREATING": State.installing, "UPDATING": State.installing, "ACTIVE": State.on, "DEGRADED": State.degraded,
    "UPDATE_FAILED": State.degraded, "CREATE_FAILED": State.failed, "DELETE_FAILED": State.failed, "DELETING": State.removing,
}  # fmt: skip


@dataclass(frozen=True)
class Status:
    """One component. ``why`` is one sentence. ``by`` is who installed it: InstantStart, another feature, or somebody else, by name."""

    name: str
    state: State
    why: str
    version: str | None = None
    available: str | None = None
    by: str | None = None
    links: tuple[Link, ...] = ()
    copies: tuple[Copy, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    #: all that it lacks is a node to run on
    waits_for_nodes: bool = False

    @property
    def is_present(self) -> bool:
        """Whether it is in the cluster."""
        return self.state in PRESENT


def judge(world: World) -> dict[str, Status]:
    """Every component."""
    return {name: _judge(world, component) for name, component in COMPONENTS.items()}


def needed_by(statuses: Mapping[str, Status], name: str) -> tuple[str, ...]:
    """The components that are there and need this one. An add-on that is but failed still has objects that need it."""
    there = [s for s in statuses.values() if s.is_present or s.state in (State.failed, State.removing)]
    found = [s.name for s in there if name in COMPONENTS[s.name].needs]
    if name == "keda" and statuses[name].by == US and _rests_on_keda(statuses["inference_operator"]):
        found.append("inference_operator")
    return tuple(found)


def _rests_on_keda(inference: Status) -> bool:
    keda = (inference.settings.get("configuration") or {}).get("keda") or {}
    return inference.is_present and keda.get("enabled") is False


def _judge(world: World, component: Component) -> Status:
    if component.way is Way.setting:
        return _setting(world, component)
    status = _addon(world, component) if component.way is Way.addon else _bundle(world, component)
    return _verified(world, component, status)


def _verified(world: World, component: Component, status: Status) -> Status:
    """The status with its identity chain; ``drifted`` when the chain does not hold though the component runs."""
    links = (*links_of(world, component), *_configuration_link(world, component))
    broken = next((link for link in links if link.status in BROKEN), None)
    state, why = status.state, status.why
    if state in (State.on, State.degraded) and broken is not None:
        lame = f" {why}" if state is State.degraded else ""
        state, why = State.drifted, f"{broken.detail} Repair puts it right.{lame}"
    return Status(
        status.name, state, why, status.version, status.available, status.by, links, status.copies, status.settings, status.waits_for_nodes
    )


def _configuration_link(world: World, component: Component) -> tuple[Link, ...]:
    """Whether the add-on still has what we gave it: roles, bucket, workspace. Only for add-ons of ours."""
    told = world.addon(component)
    if not told or told.get("tags", {}).get(names.CLUSTER_TAG) != world.where.tag:
        return ()
    wanted = component_settings.bound(world, component)
    if not wanted:
        return ()
    lost = list(configurations.differences(wanted, world.configuration(component)))
    if lost:
        detail = f"Its configuration is not what it was given: {sentence(lost)}."
        return (Link(component.name, "configuration", Standing.wrong, detail),)
    return (Link(component.name, "configuration", Standing.ok, "It is configured with its roles."),)


# --- add-ons


def _addon(world: World, component: Component) -> Status:
    if isinstance(world.addons, problems.Problem):
        return Status(component.name, State.unknown, f"The add-ons cannot be read: {world.addons.detail}")
    told = world.addon(component)
    offer = world.offers.get(component.source) if isinstance(world.offers, Mapping) else None
    available = offer.default if offer else None
    if told is None:
        return _absent(world, component, available)
    if not told:
        return Status(component.name, State.on, f"{component.title} is there.", by="an EKS add-on")
    state = _OF_ADDON.get(str(told["status"]), State.unknown)
    issues = told.get("health", {}).get("issues", [])
    waits = state in (State.degraded, State.installing) and any(i.get("code") == _NEEDS_NODES for i in issues) and not world.has_nodes
    ours = told.get("tags", {}).get(names.CLUSTER_TAG) == world.where.tag
    version = str(told["addonVersion"])
    settings = {"configuration": world.configuration(component), "addon": component.source, "status": told["status"]}
    why = _why_addon(component, told, issues, waits=waits)
    found = copies.find(component, world.workloads, world.present) if isinstance(world.workloads, tuple) else ()
    return Status(
        component.name, state, why, version, available, US if ours else "an EKS add-on", (), found, settings, waits_for_nodes=waits
    )  # fmt: skip


def _why_addon(component: Component, told: Mapping[str, Any], issues: list[Mapping[str, Any]], *, waits: bool) -> str:
    title, version, status = component.title, told["addonVersion"], told["status"]
    if waits:
        return f"{title} {version} waits for the first node, as is normal."
    issue = "; ".join(f"{i.get('code')}: {i.get('message')}" for i in issues)
    words = {
        "ACTIVE": f"{title} {version} runs.",
        "CREATING": f"EKS is installing {title} {version}.",
        "UPDATING": f"EKS is updating {title} to {version}.",
        "DELETING": f"EKS is removing {title}.",
    }
    said = words.get(str(status), f"{title} {version} is {status}.")
    return f"{said} {issue}".strip()


def _absent(world: World, component: Component, available: str | None) -> Status:
    """No add-on: off, or a copy of somebody else does the work."""
    if component.role is None:
        return Status(component.name, State.off, f"{component.title} is not installed.", available=available)
    if isinstance(world.workloads, problems.Problem):
        return Status(component.name, State.unknown, f"Kubernetes cannot be read: {world.workloads.detail}", available=available)
    ours = [w for w in world.workloads if is_ours(w) and copies.plays(w, component.role)]
    if ours:
        return _running(component, ours[0], US, world)
    found = [c for c in copies.find(component, world.workloads, world.present) if c.role == component.role.name]
    if not found:
        return Status(component.name, State.off, f"{component.title} is not installed.", available=available)
    made = _running(component, found[0].resource, found[0].manager, world)
    return Status(made.name, made.state, made.why, made.version, available, made.by, (), tuple(found), {}, made.waits_for_nodes)


# --- bundles


def _bundle(world: World, component: Component) -> Status:
    if isinstance(world.workloads, problems.Problem):
        return Status(component.name, State.unknown, f"Kubernetes cannot be read: {world.workloads.detail}")
    ours = [w for w in world.workloads if is_ours(w) and w["metadata"]["labels"].get(BUNDLE) == component.source]
    if ours:
        worst = min(ours, key=lambda w: _counts(w)[0] - _counts(w)[1])
        return _running(component, worst, US, world)
    if component.role is KEDA_ROLE and copies.brings_keda(world.present, world.workloads):
        return Status(component.name, State.on, "KEDA came with the inference operator.", by="inference_operator")
    found = copies.find(component, world.workloads, world.present)
    if found:
        made = _running(component, found[0].resource, found[0].manager, world)
        return Status(made.name, made.state, made.why, made.version, None, made.by, (), found, {}, made.waits_for_nodes)
    return Status(component.name, State.off, f"{component.title} is not installed.")


def _running(component: Component, workload: Mapping[str, Any], by: str, world: World) -> Status:
    """A component that is there as workloads: by the counts of the worst of them."""
    ready, wanted = _counts(workload)
    version = (workload["metadata"].get("annotations") or {}).get(VERSION) or _image_version(workload)
    told = f"{component.title}{f' {version}' if version else ''}{'' if by == US else f' (by {by})'}"
    if workload["metadata"].get("deletionTimestamp"):
        return Status(component.name, State.removing, f"{told} is being removed.", version, by=by)
    if ready >= wanted:
        return Status(component.name, State.on, f"{told} runs.", version, by=by)
    waits = not world.has_nodes
    why = "waits for the first node, as is normal" if waits else f"has {ready} of {wanted} pods ready"
    return Status(component.name, State.degraded, f"{told} {why}.", version, by=by, waits_for_nodes=waits)


def _counts(workload: Mapping[str, Any]) -> tuple[int, int]:
    status = workload.get("status") or {}
    if workload["kind"] == "DaemonSet":
        return int(status.get("numberReady") or 0), int(status.get("desiredNumberScheduled") or 0)
    return int(status.get("readyReplicas") or 0), int((workload.get("spec") or {}).get("replicas", 1))


def _image_version(workload: Mapping[str, Any]) -> str | None:
    containers = workload.get("spec", {}).get("template", {}).get("spec", {}).get("containers") or ()
    tags = [str(c.get("image", "")).rpartition(":")[2] for c in containers if ":" in str(c.get("image", "")).rsplit("/", 1)[-1]]
    return tags[0] if tags else None


# --- settings of the HyperPod cluster


def _setting(world: World, component: Component) -> Status:
    told = world.hyperpod
    if isinstance(told, problems.Problem):
        return Status(component.name, State.unknown, f"The HyperPod cluster cannot be read: {told.detail}")
    if told is None:
        return Status(component.name, State.off, "There is no HyperPod cluster yet.")
    if component.name == "karpenter":
        status = _karpenter(component, told)
        return _verified(world, component, status) if status.is_present else status
    status = _tiered(component, told)
    return _verified(world, component, status) if status.is_present or world.begun(component) else status


def _tiered(component: Component, told: Mapping[str, Any]) -> Status:
    config = told.get("TieredStorageConfig") or {}
    percent = config.get("InstanceMemoryAllocationPercentage")
    if config.get("Mode") != "Enable":
        return Status(component.name, State.off, f"{component.title} is off.")
    settings = {"memory_percent": percent}
    busy = told.get("ClusterStatus") in ("Updating", "SystemUpdating")
    state = State.installing if busy else State.on
    told_share = f"with {percent} % of each node's memory" if percent else "with the usual share of each node's memory"
    return Status(component.name, state, f"{component.title} is on, {told_share}.", by=US, settings=settings)


def _karpenter(component: Component, told: Mapping[str, Any]) -> Status:
    scaling = told.get("AutoScaling") or {}
    if scaling.get("Mode") != "Enable":
        return Status(component.name, State.off, f"{component.title} is off.")
    words = {"InService": State.on, "Creating": State.installing, "Failed": State.failed, "Deleting": State.removing}
    state = words.get(str(scaling.get("Status")), State.unknown)
    why = {State.on: "runs", State.installing: "is being switched on", State.removing: "is being switched off"}.get(state, "failed")
    detail = f" {scaling['FailureMessage']}" if scaling.get("FailureMessage") else ""
    return Status(component.name, state, f"{component.title} {why}.{detail}", by="SageMaker HyperPod")


def older_than_needed(statuses: Mapping[str, Status], name: str) -> dict[str, str]:
    """What a component needs and is there in a version that is too old: ``{needed: minimum}``."""
    minima = COMPONENTS[name].minima
    found = {n: statuses[n].version for n in minima}
    return {
        n: minima[n] for n, version in found.items() if version and statuses[n].is_present and addon_offers.is_older(version, minima[n])
    }
