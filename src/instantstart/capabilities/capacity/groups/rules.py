"""What must hold before a group is added: the world is read first, then pure checks tell everything that is wrong at once."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from instantstart.aws.session import Aws
from instantstart.base import problems
from instantstart.capabilities.capacity.groups import specs
from instantstart.ensure.capacity import hyperpod, labels, offers, plans, scaling
from instantstart.ensure.findings import Finding
from instantstart.ensure.networking import addresses, network
from instantstart.ensure.sites import Site
from instantstart.kube.client import KubeCluster

#: where a person mends what a check found, when it is not a field of that name
_POINTERS = {"instance_quota": "/instance_count", "addresses": "/instance_count", "security_groups": "/subnet_id"}


@dataclass(frozen=True)
class Facts:
    """What was read for a new group. None means "could not be read", or does not apply."""

    cluster: Mapping[str, Any]
    zones: tuple[offers.Zone, ...]
    type_facts: Mapping[str, Any] | None
    type_zones: frozenset[str] | None
    known_types: frozenset[str]
    quotas: Mapping[str, float] | None
    used: int | None
    plan: plans.TrainingPlan | None
    subnets: tuple[network.Subnet, ...]
    shared: Mapping[str, network.Subnet]
    left: tuple[network.Subnet, ...]
    prefixes: bool | None
    blocks: int | None
    missing_rules: tuple[str, ...]
    now: dt.datetime


@dataclass(frozen=True)
class Placement:
    """Where the nodes of a new group go. ``subnet_id`` None: a subnet is made. ``left_by``: the group whose dedicated subnet it was.

    ``as_is``: the subnet is taken as it stands; else it is ours, and what it lacks (routes) is made.
    """

    zone: offers.Zone | None
    subnet_id: str | None
    free: int | None
    left_by: str | None = None
    as_is: bool = False


def observe(where: Site, kube: KubeCluster, ask: specs.AddInstanceGroup, now: dt.datetime) -> Facts:
    """Read everything the checks need."""
    aws = where.aws
    cluster = scaling.get_cluster(where)
    subnets = tuple(network.list_subnets(aws, _vpc_of(aws, cluster)))
    theirs = {s.zone_id: s for s in subnets if s.subnet_id in cluster["VpcConfig"]["Subnets"]}
    shared = theirs | {s.zone_id: s for s in sorted(subnets, key=lambda s: s.subnet_id) if network.is_shared_compute(s)}
    prefixes = _maybe(lambda: addresses.delegates_prefixes(kube))
    zones = tuple(offers.list_zones(aws))
    plan = plans.find(aws, ask.training_plan_arn) if ask.training_plan_arn else None
    spot = ask.capacity_type == "spot"
    facts = Facts(
        cluster=cluster,
        zones=zones,
        type_facts=offers.describe_type(aws, ask.instance_type),
        type_zones=_frozen(_maybe(lambda: offers.zones_of_type(aws, ask.instance_type))),
        known_types=frozenset(offers.known_types(aws)),
        quotas=offers.cluster_quotas(aws),
        used=_maybe(lambda: count_used(aws, ask.instance_type, spot)),
        plan=plan,
        subnets=subnets,
        shared=shared,
        left=_left_over(cluster, subnets, where.tag),
        prefixes=prefixes,
        blocks=None,
        missing_rules=_missing_rules(aws, cluster),
        now=now,
    )
    return _with_blocks(aws, ask, facts) if prefixes else facts


def _with_blocks(aws: Aws, ask: specs.AddInstanceGroup, facts: Facts) -> Facts:
    placed = place(ask, facts)
    subnet = next((s for s in facts.subnets if s.subnet_id == placed.subnet_id), None)
    return facts if subnet is None else Facts(**{**vars(facts), "blocks": _maybe(lambda: addresses.read_free_blocks(aws, subnet))})


def count_used(aws: Aws, instance_type: str, spot: bool) -> int:
    """How many nodes of a type count against its quota now: those of all HyperPod clusters, on-demand or Spot, none of a plan."""
    listed = aws.pages("sagemaker", "list_clusters", "ClusterSummaries")
    found = [hyperpod.find_cluster(aws, c["ClusterName"]) for c in listed]
    groups = [g for cluster in found if cluster for g in cluster.get("InstanceGroups", ())]
    kind = "spot" if spot else "on_demand"
    mine = [g for g in groups if g.get("InstanceType") == instance_type and hyperpod.capacity_type(g) == kind]
    return sum(int(g.get("TargetCount", 0)) for g in mine)


def _vpc_of(aws: Aws, cluster: Mapping[str, Any]) -> str:
    """The VPC of a HyperPod cluster: that of its subnets."""
    return network.get_subnet(aws, cluster["VpcConfig"]["Subnets"][0]).vpc_id


def _missing_rules(aws: Aws, cluster: Mapping[str, Any]) -> tuple[str, ...]:
    """What EFA lacks: the nodes bear all the groups, so one that has both rules is enough."""
    lacking = [tuple(network.missing_efa_rules(aws, g)) for g in cluster["VpcConfig"]["SecurityGroupIds"]]
    return min(lacking, key=len, default=())


def _left_over(cluster: Mapping[str, Any], subnets: Sequence[network.Subnet], tag: str) -> tuple[network.Subnet, ...]:
    """Dedicated subnets of this cluster that no group uses: what their groups left to their successors."""
    used = {s for g in cluster.get("InstanceGroups", ()) for s in (g.get("OverrideVpcConfig") or {}).get("Subnets", ())}
    return tuple(s for s in subnets if network.dedicated_to(s, tag) and s.subnet_id not in used)


def _maybe(read: Callable[[], Any]) -> Any:
    """The answer, or None when it may not, or cannot, be read: unknown is neither yes nor no."""
    try:
        return read()
    except (problems.Denied, problems.NotFound, problems.Invalid, problems.Unreachable):
        return None


def _frozen(found: set[str] | None) -> frozenset[str] | None:
    return None if found is None else frozenset(found)


# Who may touch it


# Where it goes


def place(ask: specs.AddInstanceGroup, facts: Facts) -> Placement:
    """Zone and subnet: the explicit subnet's, the asked zone, else the plan's; a left dedicated subnet is taken again. Pure."""
    explicit = next((s for s in facts.subnets if s.subnet_id == ask.subnet_id), None)
    zone = zone_of(ask, facts)
    if ask.subnet_id:
        return Placement(zone, ask.subnet_id, explicit.free_addresses if explicit else None, as_is=True)
    if zone is None:
        return Placement(None, None, None)
    if ask.subnet == "shared":
        shared = facts.shared.get(zone.zone_id)
        if shared is None:
            return Placement(zone, None, None)
        return Placement(zone, shared.subnet_id, shared.free_addresses, as_is=not network.is_shared_compute(shared))
    here = [s for s in facts.left if s.zone_id == zone.zone_id]
    here.sort(key=lambda s: (s.tags[network.GROUP_TAG] != ask.name, -s.free_addresses))
    if here and (here[0].tags[network.GROUP_TAG] == ask.name or here[0].free_addresses >= needed(ask, facts)):
        left_by = here[0].tags[network.GROUP_TAG]
        return Placement(zone, here[0].subnet_id, here[0].free_addresses, left_by, as_is=left_by != ask.name)
    return Placement(zone, None, None)


def zone_of(ask: specs.AddInstanceGroup, facts: Facts) -> offers.Zone | None:
    """The zone that is meant, or None when it is not told or not known. Pure."""
    explicit = next((s.zone_id for s in facts.subnets if s.subnet_id == ask.subnet_id), None)
    planned = facts.plan.zones(ask.instance_type) if facts.plan else ()
    wanted = ask.zone or explicit or (planned[0].zone_id or planned[0].zone if planned else None)
    return next((z for z in facts.zones if wanted in (z.name, z.zone_id)), None)


def needed(ask: specs.AddInstanceGroup, facts: Facts) -> int:
    """Addresses that all nodes of the group take. Pure."""
    each = addresses.per_node(ask.instance_type, facts.type_facts, ask.network_interface == "efa_only")
    return each.total * ask.instance_count


# The checks


Checked = list[Finding]


def check_capacity(ask: specs.AddInstanceGroup, facts: Facts) -> Checked:
    """Exactly one way to pay (case 42), and a plan that really fits (case 39)."""
    planned = ask.capacity_type == "training_plan"
    if planned and ask.training_plan_arn is None:
        return [Finding("training_plan_arn", "fail", "capacity_type training_plan needs training_plan_arn.", "List the training plans.")]
    if not planned and ask.training_plan_arn is not None:
        told = f"training_plan_arn does not go with capacity_type {ask.capacity_type}: a group is paid for in exactly one way."
        return [Finding("capacity_type", "fail", told, "Choose on_demand, spot, or training_plan with its ARN.")]
    if not planned:
        return []
    if facts.plan is None:
        told = f"The training plan {ask.training_plan_arn} is not in this account and region."
        return [Finding("training_plan_arn", "fail", told, "List the training plans.")]
    return plans.findings(facts.plan, ask.instance_type, ask.instance_count, facts.now)


def check_zone(ask: specs.AddInstanceGroup, facts: Facts) -> Checked:
    """The zone exists, is the plan's and the subnet's, and EC2 offers the type there. A contradiction is told, never overridden."""
    zone = zone_of(ask, facts)
    if ask.subnet_id and not any(s.subnet_id == ask.subnet_id for s in facts.subnets):
        return [Finding("subnet_id", "fail", f"The subnet {ask.subnet_id} is not in the VPC of the cluster.", "Choose one that is.")]
    if zone is None:
        have = ", ".join(f"{z.name} ({z.zone_id})" for z in facts.zones)
        told = f"{ask.zone} is no zone this account can use." if ask.zone else "Say in which zone the nodes shall be."
        return [Finding("zone", "fail", told, f"Choose one of: {have}.")]
    found = [*_check_planned_zone(ask, facts, zone), *_check_subnet_zone(ask, facts, zone)]
    if facts.type_zones is None:
        return found  # an unknown type: check_type tells
    if zone.zone_id not in facts.type_zones and not (facts.plan and facts.plan.zones(ask.instance_type)):
        others = ", ".join(f"{z.name} ({z.zone_id})" for z in facts.zones if z.zone_id in facts.type_zones)
        hint = f"Zones that have it: {others}." if others else "No zone of this region has it."
        found.append(Finding("zone", "fail", f"{ask.instance_type} is not offered in {zone.name} ({zone.zone_id}).", hint))
    return found or [Finding("zone", "ok", f"The nodes go to {zone.name} ({zone.zone_id}).")]


def _check_planned_zone(ask: specs.AddInstanceGroup, facts: Facts, zone: offers.Zone) -> Checked:
    planned = facts.plan.zones(ask.instance_type) if facts.plan else ()
    if not planned or any(zone.zone_id == c.zone_id or zone.name == c.zone for c in planned):
        return []
    have = ", ".join(f"{c.zone} ({c.zone_id})" for c in planned)
    at = "zone" if ask.zone else "subnet_id"
    told = f"The training plan's capacity is in {have}, not in {zone.name} ({zone.zone_id})."
    return [Finding(at, "fail", told, "Leave the zone out: it comes from the plan.")]


def _check_subnet_zone(ask: specs.AddInstanceGroup, facts: Facts, zone: offers.Zone) -> Checked:
    explicit = next((s for s in facts.subnets if s.subnet_id == ask.subnet_id), None)
    found: Checked = []
    if explicit and explicit.zone_id != zone.zone_id:
        told = f"{explicit.subnet_id} is in {explicit.zone} ({explicit.zone_id}), not in {zone.name} ({zone.zone_id})."
        found.append(Finding("subnet_id", "fail", told, "Leave the zone out: it comes from the subnet."))
    if explicit and ask.subnet == "dedicated":
        found.append(Finding("subnet", "fail", "A dedicated subnet is made; with subnet_id the group takes that one. Give one of them."))
    return found


def check_type(ask: specs.AddInstanceGroup, facts: Facts) -> Checked:
    """A type that nobody describes stays creatable: SageMaker has the last word."""
    if facts.type_facts is None:
        told = f"EC2 does not describe {ask.instance_type}, so its zones, cards and addresses are not known; SageMaker decides."
        return [Finding("instance_type", "warn", told)]
    if ask.instance_type not in facts.known_types:
        return [
            Finding("instance_type", "warn", f"{ask.instance_type} is not on the list of HyperPod types known here; SageMaker decides.")
        ]
    return []


def check_interface(ask: specs.AddInstanceGroup, facts: Facts) -> Checked:
    """efa-only is for types with several network cards (aws-facts A14)."""
    if ask.network_interface != "efa_only":
        return []
    cards = addresses.network_cards(facts.type_facts)
    if cards is None:
        return [Finding("network_interface", "warn", f"The network cards of {ask.instance_type} are not known; SageMaker decides.")]
    if cards < 2:
        told = f"efa_only is for types with several network cards; {ask.instance_type} has {cards}."
        return [Finding("network_interface", "fail", told, "Leave network_interface out.")]
    return [Finding("network_interface", "ok", f"{cards - 1} of {cards} network cards carry EFA only and take no address.")]


def check_quota(ask: specs.AddInstanceGroup, facts: Facts) -> Checked:
    """The quota of the type by its exact name; unreadable is unknown, never zero (case 37)."""
    if ask.capacity_type == "training_plan":
        return []
    name = offers.quota_name(ask.instance_type, ask.capacity_type == "spot")
    if facts.quotas is None or name not in facts.quotas or facts.used is None:
        return [Finding("instance_quota", "unknown", f'The quota "{name}", or its use, cannot be read.')]
    limit = facts.quotas[name]
    if ask.instance_count and facts.used + ask.instance_count > limit:
        told = f'Quota "{name}" is {limit:.0f} with {facts.used} in use; {ask.instance_count} more are asked.'
        return [Finding("instance_quota", "fail", told, "Request an increase in Service Quotas; approval takes hours to days.")]
    return [Finding("instance_quota", "ok", f'Quota "{name}": {facts.used} of {limit:.0f} in use, {ask.instance_count} asked.')]


def check_addresses(ask: specs.AddInstanceGroup, facts: Facts) -> Checked:
    """The addresses that the nodes take, against those that are free, or that a new subnet has (case 43)."""
    placed, need = place(ask, facts), needed(ask, facts)
    prefix = addresses.prefix_for(need) if ask.subnet == "dedicated" and not ask.subnet_id else 20
    free = 2 ** (32 - prefix) - 5 if placed.free is None else placed.free
    where = placed.subnet_id or f"a new /{prefix} subnet"
    cards = addresses.network_cards(facts.type_facts) or 1
    efa_only = "" if ask.network_interface == "efa_only" or cards < 2 else " the network interface mode efa_only,"
    hint = f"Fewer nodes,{efa_only} a dedicated subnet, or a secondary range for the VPC."
    if need > free:
        told = f"{ask.instance_count} x {ask.instance_type} take {need} addresses; {where} has {free}."
        return [Finding("addresses", "fail", told, hint)]
    each = addresses.per_node(ask.instance_type, facts.type_facts, ask.network_interface == "efa_only")
    blocks = each.blocks * ask.instance_count
    if facts.prefixes and facts.blocks is not None and blocks > facts.blocks:
        told = f"The VPC CNI takes whole /28 blocks here: the nodes need {blocks}, and {where} has {facts.blocks} free ({free} addresses)."
        return [Finding("addresses", "fail", told, hint)]
    return [Finding("addresses", "ok", f"{need} addresses needed ({each.total} a node), {free} free in {where}.")]


def check_security_groups(ask: specs.AddInstanceGroup, facts: Facts) -> Checked:
    """EFA needs the rules that name the group itself, both ways (case 44)."""
    interfaces = addresses.efa_interfaces(facts.type_facts)
    if not interfaces or not facts.missing_rules:
        return []
    told = (
        f"None of the cluster's security groups has both all-traffic rules that name the group itself; "
        f"EFA of {ask.instance_type} hangs without ({' and '.join(facts.missing_rules)} missing)."
    )
    hint = f"Add to one of them a rule for all traffic with itself as the other side ({' and '.join(facts.missing_rules)})."
    return [Finding("security_groups", "fail" if interfaces > 1 else "warn", told, hint)]


def check_settings(ask: specs.AddInstanceGroup, facts: Facts) -> Checked:
    """Labels, taints, checks, minimum, scripts, and what only a Continuous cluster takes."""
    found = labels.findings(ask.labels, ask.taints, bool(ask.deep_health_checks))
    if ask.min_instance_count > ask.instance_count:
        found.append(Finding("min_instance_count", "fail", "min_instance_count must not exceed instance_count."))
    if ask.lifecycle_script and not ask.lifecycle_uri:
        found.append(Finding("lifecycle_uri", "fail", "lifecycle_script needs lifecycle_uri: the folder it is in."))
    if not scaling.is_continuous(facts.cluster):
        only = "is only for clusters that provision continuously; this one does not."
        asked = {"min_instance_count": ask.min_instance_count > 0, "capacity_type": ask.capacity_type == "spot"}
        found += [Finding(field, "fail", f"{field} {only}") for field, wrong in asked.items() if wrong]
    accelerated = facts.type_facts is None or any(facts.type_facts.get(k) for k in ("GpuInfo", "NeuronInfo"))
    if ask.deep_health_checks and not accelerated:
        found.append(Finding("deep_health_checks", "warn", f"{ask.instance_type} has no accelerators; deep health checks do nothing."))
    return found


RULES: tuple[Callable[[specs.AddInstanceGroup, Facts], Checked], ...] = (
    check_capacity,
    check_zone,
    check_type,
    check_interface,
    check_quota,
    check_addresses,
    check_security_groups,
    check_settings,
)


def findings(ask: specs.AddInstanceGroup, facts: Facts) -> list[Finding]:
    """Every finding, in the order of the rules."""
    return [found for rule in RULES for found in rule(ask, facts)]


def refusal(found: Sequence[Finding]) -> problems.Problem | None:
    """The Problem that failing findings mean, each at its field; None when nothing fails."""
    failing = [f for f in found if f.level == "fail"]
    if not failing:
        return None
    quota = all(f.check == "instance_quota" for f in failing)
    told, hint = " ".join(f.detail for f in failing), " ".join(dict.fromkeys(f.hint for f in failing if f.hint)) or None
    fields = [problems.Violation(_POINTERS.get(f.check, "/" + f.check), f.detail) for f in failing]
    if quota:
        return problems.OutOfQuota("instance_group.quota_too_low", told, hint=hint, fields=fields)
    return problems.Invalid("instance_group.not_possible", told, hint=hint, fields=fields)
