"""What must hold before a feature is switched. Pure: differences and obstacles over what was read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from instantstart.base import problems
from instantstart.base.problems import Violation
from instantstart.ensure.findings import Finding
from instantstart.ensure.installs import addon_offers, configurations
from instantstart.ensure.installs.releases import sentence
from instantstart.ensure.managed import component_settings, component_state, copies
from instantstart.ensure.managed.component_reads import World
from instantstart.ensure.managed.component_state import State, Status
from instantstart.ensure.managed.components import COMPONENTS, Way, with_needs

Asked = Mapping[str, Mapping[str, Any]]
Statuses = Mapping[str, Status]
Kind = Literal["enable", "disable"]
_STANDING = frozenset({State.on, State.degraded})


@dataclass(frozen=True)
class Change:
    """One switch that an ask comes down to. ``ask`` is what was sent of the feature."""

    feature: str
    kind: Kind
    ask: Mapping[str, Any]

    @property
    def destroys(self) -> bool:
        """Whether it takes something away: ours, or a named copy of somebody else."""
        return self.kind == "disable" or bool(self.ask.get("overwrite"))


@dataclass(frozen=True)
class Obstacle:
    """Why a switch is refused."""

    feature: str
    code: str
    detail: str
    hint: str | None = None
    evidence: Mapping[str, Any] = field(default_factory=dict)

    @property
    def finding(self) -> Finding:
        return Finding(self.code.partition(".")[2], "fail", self.detail, self.hint)


def changes(asked: Asked, statuses: Statuses, world: World) -> list[Change]:
    """The difference between what is asked and what is, in the order to make it: off from the outside in, then on from the inside out."""
    off = [Change(n, "disable", fields) for n, fields in asked.items() if fields.get("enabled") is False and not _is_off(statuses[n])]
    on = [
        Change(n, "enable", fields)
        for n, fields in asked.items()
        if fields.get("enabled") is not False and not is_so(n, fields, statuses, world)
    ]
    rank = list(COMPONENTS).index
    return [*sorted(off, key=lambda c: -rank(c.feature)), *sorted(on, key=lambda c: rank(c.feature))]


def _is_off(status: Status) -> bool:
    """Off, with nothing left over of its chain."""
    return status.state is State.off and not status.links


def is_so(name: str, asked: Mapping[str, Any], statuses: Statuses, world: World) -> bool:
    """Whether a feature is as asked already: there, holding together, of that version, with those values."""
    status = statuses[name]
    if status.state not in _STANDING or asked.get("overwrite"):
        return False
    if asked.get("version") not in (None, status.version):
        return False
    if list(configurations.differences(asked.get("configuration") or {}, status.settings.get("configuration") or {})):
        return False
    if name == "tiered_checkpointing":
        remembered = world.chains[name].remembers if name in world.chains else {}
        kept = {**status.settings, **remembered}
        return all(kept.get(key) == value for key, value in asked.items() if key != "enabled")
    return not (name == "observability" and _moves(asked, status))


def _moves(asked: Mapping[str, Any], status: Status) -> bool:
    values = status.settings.get("configuration") or {}
    here = (values.get("ampWorkspace") or {}).get("arn"), (values.get("amgWorkspace") or {}).get("arn")
    return asked.get("workspace_arn") not in (None, here[0]) or asked.get("grafana_workspace_arn") not in (None, here[1])


def violations(asked: Asked, statuses: Statuses, world: World) -> list[Violation]:
    """Everything that is wrong with an ask as such, each at its place."""
    found: list[Violation] = []
    off = {name for name, fields in asked.items() if fields.get("enabled") is False}
    for name, fields in asked.items():
        status = statuses[name]
        if "enabled" not in fields and not status.is_present:
            found.append(Violation(f"/{name}/enabled", f"{COMPONENTS[name].title} is {status.state}: say enabled: true."))
        if fields.get("enabled") is not False:
            found += [
                Violation(f"/{need}/enabled", f"{name} in the same request needs {need}.")
                for need in with_needs(name)
                if need in off - {name}
            ]
            found += _wrong_version(name, fields, world)
            found += component_settings.check_bound(COMPONENTS[name], fields.get("configuration") or {}, f"/{name}/configuration")
            found += _wrong_names(name, fields, world)
        found += _moved_account(name, fields, world)
    return found


def _wrong_version(name: str, fields: Mapping[str, Any], world: World) -> list[Violation]:
    offer = world.offers.get(COMPONENTS[name].source) if isinstance(world.offers, Mapping) else None
    asked = fields.get("version")
    if asked is None or offer is None or asked in offer.versions:
        return []
    return [Violation(f"/{name}/version", f"EKS does not offer {asked} for this cluster; it offers {', '.join(offer.versions)}.")]


def _wrong_names(name: str, fields: Mapping[str, Any], world: World) -> Iterator[Violation]:
    known = {copy.object for copy in found_copies(name, world)}
    for at, text in enumerate(fields.get("overwrite") or ()):
        if text not in known:
            there = ", ".join(sorted(known)) or "nothing"
            yield Violation(f"/{name}/overwrite/{at}", f"{text} is not in the way of {name}; what is: {there}.")


def _moved_account(name: str, fields: Mapping[str, Any], world: World) -> Iterator[Violation]:
    """The account of tiered checkpointing is moved by switching off and on: jobs run under the old one."""
    remembered = world.chains[name].remembers if name in world.chains else {}
    for key in ("namespace", "service_account"):
        if fields.get(key) and remembered.get(key) and fields[key] != remembered[key]:
            yield Violation(f"/{name}/{key}", f"It is {remembered[key]} now; switch {name} off first to move it.")


def found_copies(name: str, world: World) -> tuple[copies.Copy, ...]:
    """What of somebody else is in the way of a feature."""
    if not isinstance(world.workloads, tuple):
        return ()
    return copies.find(COMPONENTS[name], world.workloads, world.present)


def obstacles(wanted: Sequence[Change], statuses: Statuses, world: World, used: Mapping[str, Sequence[str]]) -> list[Obstacle]:
    """Why changes are refused, all at once. ``used``: the custom resources and volumes under each feature that goes."""
    going = {c.feature for c in wanted if c.kind == "disable"}
    found: list[Obstacle] = []
    for change in wanted:
        status = statuses[change.feature]
        if status.state is State.unknown:
            found.append(Obstacle(change.feature, "feature.unreadable", status.why, "Ask again when it can be read."))
        elif change.kind == "enable":
            found += _against_on(change, statuses, world)
        else:
            found += _against_off(change.feature, statuses, going, used.get(change.feature, ()))
    return found


def _against_on(change: Change, statuses: Statuses, world: World) -> Iterator[Obstacle]:
    name, component = change.feature, COMPONENTS[change.feature]
    if component.on_hyperpod and not isinstance(world.hyperpod, Mapping):
        yield Obstacle(
            name, "feature.hyperpod_missing", f"{component.title} needs a HyperPod cluster.", "Create the HyperPod cluster first."
        )
    for need, minimum in component_state.older_than_needed(statuses, name).items():
        detail = f"{component.title} needs {need} {minimum} or newer; {statuses[need].version} is there."
        yield Obstacle(name, "feature.dependency_too_old", detail, f"Upgrade {need} first.", {"needs": need, "minimum": minimum})
    asked_of_eks = [COMPONENTS[n] for n in with_needs(name) if COMPONENTS[n].way is Way.addon and not statuses[n].is_present]
    offered = world.offers if isinstance(world.offers, Mapping) else None
    for each in asked_of_eks:
        if offered is not None and each.source not in offered:
            told = f"EKS offers no {each.source} for Kubernetes {world.eks['version']} here."
            yield Obstacle(name, "feature.not_offered", told)
    if name == "observability" and not world.where.aws.is_in_partition("amp"):
        told = f"Amazon Managed Service for Prometheus, where its metrics go, is not offered in {world.where.aws.partition}."
        yield Obstacle(name, "feature.not_offered", told)
    if name == "karpenter" and isinstance(world.hyperpod, Mapping):
        modes = {"NodeProvisioningMode": "Continuous", "NodeRecovery": "Automatic"}
        wrong = [f"{key} is {world.hyperpod.get(key)}, not {mode}" for key, mode in modes.items() if world.hyperpod.get(key) != mode]
        if wrong:
            yield Obstacle(name, "feature.cluster_unfit", f"Managed Karpenter cannot work here: {sentence(wrong)}.")
    yield from _against_copies(change, world)


def _against_copies(change: Change, world: World) -> Iterator[Obstacle]:
    found = found_copies(change.feature, world)
    named = change.ask.get("overwrite") or ()
    left = [copy for copy in found if copy.object not in named]
    if left and not change.ask.get("adopt"):
        told = sentence([copy.told for copy in left])
        hint = "Send adopt: true to use it as it is, or name it in overwrite to put ours in its place; else nothing is touched."
        evidence = {"found": [{"object": c.object, "role": c.role, "manager": c.manager} for c in left], "choices": ["adopt", "overwrite"]}
        yield Obstacle(change.feature, "feature.copies_present", f"The cluster already has {told}.", hint, evidence)


def _against_off(name: str, statuses: Statuses, going: set[str], used: Sequence[str]) -> Iterator[Obstacle]:
    status, title = statuses[name], COMPONENTS[name].title
    others = [n for n in component_state.needed_by(statuses, name) if n not in going]
    if others:
        told = f"{title} cannot be switched off: {sentence([COMPONENTS[n].title for n in others])} need{'s' * (len(others) == 1)} it."
        yield Obstacle(name, "feature.needed_by", told, f"Switch off {sentence(others)} first.", {"needed_by": others})
    if status.by == "inference_operator":
        yield Obstacle(name, "feature.brought_by", f"{title} came with the inference operator and goes with it.", "Switch off that one.")
    elif status.copies and status.is_present and "addon" not in status.settings:
        yield Obstacle(name, "feature.not_ours", f"{status.why} It is not InstantStart's to remove.", f"Remove it as {status.by}.")
    if used:
        told = f"{title} cannot be switched off while these are there: {sentence(used)}."
        evidence = {"objects": list(used[:50]), "count": len(used)}
        yield Obstacle(name, "feature.in_use", told, "Delete them first; nothing would finish their removal afterwards.", evidence)


def refusal(found: Sequence[Obstacle]) -> problems.Problem | None:
    """The Problem that obstacles mean, or None. One keeps its own code; several are told together."""
    if not found:
        return None
    fields = [Violation(f"/{o.feature}/enabled", o.detail) for o in found]
    if len(found) == 1:
        one = found[0]
        return problems.Conflict(one.code, one.detail, hint=one.hint, fields=fields, evidence=one.evidence)
    hints = " ".join(dict.fromkeys(o.hint for o in found if o.hint))
    evidence = {"refusals": [{"feature": o.feature, "code": o.code, **o.evidence} for o in found]}
    return problems.Conflict("feature.refused", " ".join(o.detail for o in found), hint=hints or None, fields=fields, evidence=evidence)


def warnings(wanted: Sequence[Change], world: World, jobs: Sequence[Mapping[str, Any]]) -> list[Finding]:
    """What is told and does not stand in the way. ``jobs``: HyperPodPyTorchJobs that are there."""
    found = []
    names = {c.feature for c in wanted if c.kind == "enable"}
    if "tiered_checkpointing" in names:
        elastic = [f"{j['metadata']['namespace']}/{j['metadata']['name']}" for j in jobs if (j.get("spec") or {}).get("elasticPolicy")]
        if elastic:
            told = f"Elastic training and tiered checkpointing exclude one another: {sentence(elastic)}."
            found.append(Finding("elastic_training", "warn", told, "Let these jobs end, or give them no elasticPolicy."))
        groups = world.hyperpod.get("InstanceGroups", []) if isinstance(world.hyperpod, Mapping) else []
        spot = [g["InstanceGroupName"] for g in groups if "Spot" in (g.get("CapacityRequirements") or {})]
        if spot:
            told = f"Spot nodes take their memory tier with them: {sentence(spot)}. Elastic training takes neither Spot nor this."
            found.append(Finding("spot", "warn", told, "Save to S3 often enough."))
        told = "Checkpointless training keeps its own copies in memory; do not combine the two in one job."
        found.append(Finding("checkpointless", "warn", told))
    if "inference_operator" in names and not world.has_nodes:
        found.append(Finding("nodes", "warn", "No node is there yet: the operators are installed and wait for the first one."))
    return found


def choose_version(name: str, world: World) -> str:
    """The version that would be installed. Raises NotFound, Conflict, or what stood in the way of reading offers."""
    if isinstance(world.offers, problems.Problem):
        raise world.offers
    return addon_offers.choose(world.offers, COMPONENTS[name].source)


# --- which stages a switch has


def subject(target: Any) -> str:
    """The features of one cluster: one switch at a time, in order, beside what is done with the cluster itself."""
    return f"cluster/{target.region}/{target.tag}/features"


def needs(name: str) -> Callable[[Any], bool]:
    """Whether a spec's feature needs a component."""
    return lambda spec: name in with_needs(spec.feature)[:-1]


def has_chains(spec: Any) -> bool:
    """Whether a spec's feature has an identity chain."""
    return bool(COMPONENTS[spec.feature].chains)


def is_prepared(spec: Any) -> bool:
    """Whether a spec's feature has something outside of the cluster."""
    return spec.feature in ("inference_operator", "observability")


def overwrites(spec: Any) -> bool:
    """Whether copies of somebody else were named to be taken away."""
    return bool(spec.ask.get("overwrite"))
