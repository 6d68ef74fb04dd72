"""What an ask comes down to before it is done: the difference, what refuses it, and the dry run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from instantstart.base import problems
from instantstart.base.problems import Violation
from instantstart.capabilities.features import rules, specs
from instantstart.capabilities.features.rules import Change, Obstacle
from instantstart.capabilities.planning import Plan
from instantstart.capabilities.room import Room
from instantstart.ensure import eks
from instantstart.ensure.findings import Finding
from instantstart.ensure.identity_chains import chain_links
from instantstart.ensure.identity_chains import chains as declared
from instantstart.ensure.identity_chains.chain_links import BROKEN
from instantstart.ensure.identity_chains.chains import Ground, Via
from instantstart.ensure.installs import addon_offers, configurations
from instantstart.ensure.managed import component_reads, component_settings, component_state, component_uses, metrics_workspace
from instantstart.ensure.managed.component_reads import World
from instantstart.ensure.managed.component_state import State, Status
from instantstart.ensure.managed.components import COMPONENTS, Way, with_needs
from instantstart.ensure.sites import Site
from instantstart.ensure.storage import buckets

_JOBS = "sagemaker.amazonaws.com/v1/HyperPodPyTorchJob"


@dataclass(frozen=True)
class Prepared:
    """An ask against one look at the world: the changes it comes down to, and what stands in their way."""

    where: Site
    world: World
    statuses: Mapping[str, Status]
    changes: tuple[Change, ...]
    obstacles: tuple[Obstacle, ...]
    warnings: tuple[Finding, ...]
    exact: str

    @property
    def destroys(self) -> bool:
        """Whether it takes its plan's approval."""
        return any(change.destroys for change in self.changes)

    def checked(self) -> Prepared:
        """The same, when nothing stands in the way. Raises the refusal."""
        refused = rules.refusal(self.obstacles)
        if refused:
            raise refused
        return self


def prepare(room: Room, where: Site, ask: specs.UpdateFeatures) -> Prepared:
    """Look, and find the difference. Raises Invalid with every violation at its pointer."""
    asked = ask.touched()
    world = component_reads.read(where, room)
    statuses = component_state.judge(world)
    wrong = rules.violations(asked, statuses, world) + _wrong_values(asked, world, room)
    if wrong:
        told = " ".join(v.message for v in wrong[:5])
        raise problems.Invalid("feature.invalid", told, title="The request is not valid", fields=wrong)
    changes = rules.changes(asked, statuses, world)
    kube = room.kube.cluster(eks.ref(dict(world.eks), where.aws.region)) if changes else None
    used = {c.feature: component_uses.find(kube, c.feature, world) for c in changes if kube and c.kind == "disable"}
    found = rules.obstacles(changes, statuses, world, used)
    jobs = component_uses.listed(kube, _JOBS) if kube and any(c.feature == "tiered_checkpointing" for c in changes) else []
    exact = f"feature.update {where.aws.region} {where.tag} {configurations.canonical(asked)}"
    return Prepared(where, world, statuses, tuple(changes), tuple(found), tuple(rules.warnings(changes, world, jobs)), exact)


def _wrong_values(asked: rules.Asked, world: World, room: Room) -> list[Violation]:
    """What only AWS or Kubernetes can tell to be wrong: values of add-ons, buckets, workspaces, namespaces."""
    found: list[Violation] = []
    for name, fields in asked.items():
        if fields.get("configuration"):
            found += _wrong_configuration(name, fields, world)
        if fields.get("bucket"):
            found += _wrong_bucket(name, fields["bucket"], world)
        if fields.get("workspace_arn"):
            found += _wrong_workspace(name, fields["workspace_arn"], world)
        if fields.get("namespace"):
            kube = room.kube.cluster(eks.ref(dict(world.eks), world.where.aws.region))
            if kube.find("Namespace", fields["namespace"]) is None:
                found.append(Violation(f"/{name}/namespace", f"There is no namespace {fields['namespace']}."))
    return found


def _wrong_configuration(name: str, fields: Mapping[str, Any], world: World) -> list[Violation]:
    component, offers = COMPONENTS[name], world.offers if isinstance(world.offers, Mapping) else {}
    offer = offers.get(component.source)
    version = fields.get("version") or str((world.addon(component) or {}).get("addonVersion") or (offer.default if offer else ""))
    if not version or (offer and version not in offer.versions):
        return []
    schema = addon_offers.schema(world.where.aws, component.source, version)
    values = configurations.merged({}, fields["configuration"])
    wrong = configurations.violations(values, schema)
    return [Violation(f"/{name}/configuration{pointer}", f"{pointer or name} {told}.") for pointer, told in wrong]


def _wrong_bucket(name: str, bucket: str, world: World) -> list[Violation]:
    try:
        region = buckets.find_region(world.where.aws, bucket)
    except problems.Denied:
        return [Violation(f"/{name}/bucket", f"The bucket {bucket} belongs to another account, or may not be read.")]
    if region is None:
        return [Violation(f"/{name}/bucket", f"There is no bucket {bucket}.")]
    here = world.where.aws.region
    return [] if region == here else [Violation(f"/{name}/bucket", f"The bucket {bucket} is in {region}; the cluster is in {here}.")]


def _wrong_workspace(name: str, arn: str, world: World) -> list[Violation]:
    here = world.where.aws
    if arn.split(":")[3] != here.region or arn.split(":")[4] != world.where.names.account:
        return [Violation(f"/{name}/workspace_arn", f"The workspace must be in account {world.where.names.account}, region {here.region}.")]
    try:
        metrics_workspace.describe(world.where, metrics_workspace.id_of(arn))
    except problems.NotFound:
        return [Violation(f"/{name}/workspace_arn", f"There is no Prometheus workspace {metrics_workspace.id_of(arn)}.")]
    return []


# --- the dry run


def plan(prepared: Prepared) -> Plan:
    """What the changes would install, change, overwrite and remove; what refuses them; what is left as it is."""
    make: list[str] = []
    change: list[str] = []
    remove: list[str] = []
    keep: list[str] = []
    for each in prepared.changes:
        if each.kind == "disable":
            remove += _removed(prepared, each)
            keep += _kept_on_removal(each)
        elif prepared.statuses[each.feature].is_present and not each.ask.get("overwrite"):
            change.append(_changed(prepared, each))
        else:
            made, used = _made(prepared, each)
            make += [line for line in made if line not in make]
            keep += [line for line in used if line not in keep]
            remove += [f"{name} (of somebody else, as named)" for name in each.ask.get("overwrite") or ()]
    findings = (*(o.finding for o in prepared.obstacles), *prepared.warnings)
    if not prepared.changes:
        keep.append("everything: it is already so")
    return Plan(tuple(make), tuple(change), tuple(remove), tuple(keep), findings)


def _made(prepared: Prepared, change: Change) -> tuple[list[str], list[str]]:
    """What would be made, in its order, and what is there and used as it is."""
    made: list[str] = []
    used: list[str] = []
    for name in with_needs(change.feature):
        status, component = prepared.statuses[name], COMPONENTS[name]
        reason = "" if name == change.feature else f", because {change.feature} needs it"
        if status.is_present and name != change.feature:
            used.append(f"{component.title} {status.version or ''} (by {status.by or 'somebody'}){reason}".replace("  ", " "))
            continue
        made += _chain_lines(prepared, name)
        made += _outside_lines(prepared, name)
        made.append(f"{_source_line(prepared, name, change.ask)}{reason}")
    for copy in rules.found_copies(change.feature, prepared.world) if change.ask.get("adopt") else ():
        used.append(f"{copy.told}, used as it is")
    return made, used


def _source_line(prepared: Prepared, name: str, ask: Mapping[str, Any]) -> str:
    component, world = COMPONENTS[name], prepared.world
    if component.way is Way.setting:
        percent = ask.get("memory_percent")
        return f"{component.title}: a setting of {prepared.where.hyperpod_cluster}" + (f", {percent} % of memory" if percent else "")
    if component.way is Way.bundle:
        return f"{component.title} (pinned bundle {component.source}, namespace {component.namespace})"
    version = ask.get("version")
    if version is None and isinstance(world.offers, Mapping) and component.source in world.offers:
        version = addon_offers.choose(world.offers, component.source)
    inline = ""
    if version and any(a.via is Via.association for c in component.chains for a in _chain(prepared, c).accounts):
        takes = addon_offers.takes_inline_identity(prepared.where.aws, component.source, version)
        inline = "" if takes else "; takes no inline pod identity, so it is associated first"
    return f"{component.title} {version or ''} (EKS add-on {component.source}, namespace {component.namespace}{inline})"


def _chain(prepared: Prepared, name: str) -> declared.Chain:
    return declared.declare(name, Ground(prepared.where, prepared.world.eks))


def _chain_lines(prepared: Prepared, name: str) -> list[str]:
    left = {copy.role for copy in rules.found_copies(name, prepared.world)}
    names = component_settings.chain_names(COMPONENTS[name], keda="KEDA" not in left, balancer="a load balancer controller" not in left)
    return [
        f"role {chain.role} for {', '.join(a.label for a in chain.accounts) or 'its pods'}"
        for chain in (_chain(prepared, n) for n in names)
    ]


def _outside_lines(prepared: Prepared, name: str) -> list[str]:
    if name == "inference_operator":
        return [f"bucket {prepared.where.names.tls_bucket} for certificates", "tags on subnets for load balancers, where they lack"]
    return [f"Prometheus workspace {prepared.where.names.metrics_workspace}, unless one is given"] if name == "observability" else []


def _changed(prepared: Prepared, change: Change) -> str:
    status, title = prepared.statuses[change.feature], COMPONENTS[change.feature].title
    if status.state is State.drifted:
        return f"{title}: {status.why}"
    fields = ", ".join(f"{k}={configurations.canonical(v) if isinstance(v, dict) else v}" for k, v in change.ask.items() if k != "enabled")
    return f"{title}: {fields or status.why}"


def _removed(prepared: Prepared, change: Change) -> list[str]:
    component, status = COMPONENTS[change.feature], prepared.statuses[change.feature]
    lines = [f"{component.title} {status.version or ''} (by {status.by or 'InstantStart'})".replace("  ", " ")] if status.is_present else []
    chains = [prepared.world.chains[n] for n in component.chains if n in prepared.world.chains]
    lines += [f"role {chain.role}" for chain in chains if not chain.shared]
    lines += [f"bucket {prepared.where.names.tls_bucket}"] if change.feature == "inference_operator" else []
    return lines


def _kept_on_removal(change: Change) -> list[str]:
    kept = [COMPONENTS[n].title for n in with_needs(change.feature)[:-1]]
    lines = [f"{', '.join(kept)}: what it needs stays on"] if kept else []
    return lines + (["the Prometheus workspace with its metrics"] if change.feature == "observability" else [])


def plan_upgrade(world: World, feature: str, version: str) -> Plan:
    """What feature.upgrade would do."""
    have = (world.addon(COMPONENTS[feature]) or {}).get("addonVersion")
    return Plan(change=(f"{COMPONENTS[feature].title}: {have} to {version}; role and values stay",))


def upgrade_to(room: Room, where: Site, feature: str, ask: specs.UpgradeFeature) -> tuple[World, str | None]:
    """The version to go to; None when it is there already. Raises NotFound, Conflict, Invalid for what cannot be upgraded."""
    world = component_reads.read(where, room)
    component = COMPONENTS.get(feature)
    if component is None or not component.switchable:
        raise problems.NotFound("feature.unknown", f"There is no feature {feature}.", hint="List the features.")
    have = world.addon(component) if component.way is Way.addon else None
    if have is None:
        told = f"{component.title} is not there as an EKS add-on, so EKS cannot upgrade it."
        raise problems.Conflict("feature.not_upgradable", told)
    if isinstance(world.offers, problems.Problem):
        raise world.offers
    offer = world.offers[component.source]
    version = ask.version or offer.default
    if version not in offer.versions:
        wrong = Violation("/version", f"EKS does not offer {version} for this cluster; it offers {', '.join(offer.versions)}.")
        raise problems.Invalid("feature.invalid", wrong.message, fields=[wrong])
    return world, None if have["addonVersion"] == version else version


def to_repair(room: Room, where: Site, ask: specs.RepairFeatures) -> tuple[list[str], tuple[str, ...]]:
    """What a repair works on (what was named, else all that has a broken link), and every broken link of it in words.

    Raises Invalid for what has no identity chain, or is not there to be repaired.
    """
    world = component_reads.read(where, room)
    statuses = component_state.judge(world)
    links = {name: status.links for name, status in statuses.items() if COMPONENTS[name].chains}
    links["mlflow"] = chain_links.links(world.chains["mlflow"], world.seen) if "mlflow" in world.chains else ()
    broken = {name: [link.detail for link in found if link.status in BROKEN] for name, found in links.items()}
    named = list(dict.fromkeys(ask.features))
    wrong = [_unrepairable(at, name, statuses) for at, name in enumerate(named) if name != "mlflow" and not links.get(name)]
    if wrong:
        raise problems.Invalid("feature.invalid", " ".join(v.message for v in wrong), fields=wrong)
    names: list[str] = [*named] or [name for name, found in broken.items() if found]
    made = ("the role and the service account of mlflow",) if "mlflow" in names and not links["mlflow"] else ()
    return names, (*made, *(text for name in names for text in broken[name]))


def _unrepairable(at: int, name: str, statuses: Mapping[str, Status]) -> Violation:
    off = name in statuses and not statuses[name].is_present
    return Violation(f"/features/{at}", f"{name} is off: switch it on instead." if off else f"{name} has no identity chain of ours.")
