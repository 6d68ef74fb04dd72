"""What a request about a group would do before it does it: the dry run of each changing route, and what the route needs to go on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from instantstart.capabilities import activity
from instantstart.capabilities.capacity.groups import judging, resizing, rules, specs, stages
from instantstart.capabilities.planning import Plan
from instantstart.capabilities.room import Room
from instantstart.capabilities.vocabulary import Target
from instantstart.ensure.capacity import arrivals, drains, groups, karpenter, nodes, scaling
from instantstart.ensure.findings import Finding
from instantstart.ensure.networking import addresses, network
from instantstart.ensure.sites import Site
from instantstart.operations.record import HOLDING

_SHOWN = 20


@dataclass(frozen=True)
class Step:
    """A request thought through: its plan, the spec of its operation, and how it is begun.

    ``already``: nothing is to be done. ``exact``: what the plan's approval is for; None when none is needed.
    """

    plan: Plan
    target: Target
    already: bool = False
    exact: str | None = None


def add(room: Room, where: Site, ask: specs.AddInstanceGroup) -> Step:
    """A new group. Raises Conflict when the name is taken by another one; the plan's findings are not raised here."""
    activity.check_not_deleting(room, where.tag)
    target = specs.AddTarget(**ask.model_dump(), tag=where.tag, region=where.aws.region)
    cluster = scaling.get_cluster(where)
    have = groups.find(cluster, ask.name)
    if have is not None and not _joins(room, "instance_group.add", target):
        stages.check_same(have, stages.wish(where, cluster, ask, ask.subnet_id))
        return Step(Plan(keep=(f"{ask.name} is there as asked",)), target, already=True)
    if have is not None:
        return Step(Plan(), target)
    facts = rules.observe(where, where.kube(room), ask, room.clock.now())
    placed, found = rules.place(ask, facts), tuple(rules.findings(ask, facts))
    zone = f" in {placed.zone.name} ({placed.zone.zone_id})" if placed.zone else ""
    make = [f"instance group {ask.name}: {ask.instance_count} x {ask.instance_type}{zone} ({ask.capacity_type})"]
    if placed.subnet_id is None and placed.zone is not None:
        prefix = addresses.prefix_for(rules.needed(ask, facts)) if ask.subnet == "dedicated" else 20
        make.append(f"a {ask.subnet} subnet, /{prefix}{zone}")
    left = (f"subnet {placed.subnet_id}, which the group {placed.left_by} left, is used again",) if placed.left_by else ()
    kept = left or ((f"subnet {placed.subnet_id} is used",) if placed.subnet_id else ())
    return Step(Plan(make=tuple(make), keep=kept, findings=found), target)


def checked(step: Step) -> Step:
    """The same step. Raises what its failing findings mean, all of them at once."""
    refused = rules.refusal(step.plan.findings)
    if refused and not step.already:
        raise refused
    return step


def update(room: Room, where: Site, name: str, ask: specs.UpdateInstanceGroup) -> Step:
    """A change of a group; equal is already so."""
    activity.check_not_deleting(room, where.tag)
    target = specs.UpdateTarget(**ask.model_dump(), tag=where.tag, region=where.aws.region, group=name)
    cluster = scaling.get_cluster(where)
    have = groups.get(cluster, name)
    judging.check_standing(have)
    owner = karpenter.karpenter_owner(where.kube(room), name)
    found = judging.check_change(cluster, have, ask, owner)
    before = groups.to_request(have)
    after = stages.patched(before, ask)
    fields = groups.changed_fields(before, after)
    if not fields and not rules.refusal(found) and not _joins(room, "instance_group.update", target):
        return Step(Plan(keep=(f"{name} is as asked",), findings=tuple(found)), target, already=True)
    change = tuple(f"{name}: {field}: {_told(before.get(field))} -> {_told(after.get(field))}" for field in fields)
    strange = groups.unknown_fields(have)
    if strange:
        found.append(Finding("group", "fail", f"SageMaker tells settings that this InstantStart does not know: {', '.join(strange)}."))
    warnings = [*_checks_running(where, name), *_only_new_nodes(fields)]
    return Step(Plan(change=change, findings=tuple(found), warnings=tuple(warnings)), target)


def _only_new_nodes(fields: Sequence[str]) -> list[str]:
    late = [f for f in fields if f in ("LifeCycleConfig", "OnStartDeepHealthChecks")]
    return [f"{' and '.join(late)} count for nodes that are made from now on."] if late else []


def _told(value: Any) -> str:
    return "none" if value in (None, {}, [], "") else str(value)


def scale(room: Room, where: Site, name: str, ask: specs.ScaleInstanceGroup) -> Step:
    """Another number of nodes. Raises Conflict for a group of Karpenter's, and when the count is not the one that was seen."""
    activity.check_not_deleting(room, where.tag)
    cluster = scaling.get_cluster(where)
    have = groups.get(cluster, name)
    judging.check_standing(have)
    judging.check_owner(where.kube(room), name, "scaled")
    target = specs.ScaleTarget(**ask.model_dump(), tag=where.tag, region=where.aws.region, group=name)
    running = _running(room, "instance_group.scale", target)
    if running is not None:
        return Step(Plan(), specs.ScaleTarget.model_validate(running))
    now, wanted = have["TargetCount"], ask.instance_count
    if ask.expected_count is not None:
        scaling.check_expected(name, now, ask.expected_count)
    if now == wanted:
        return Step(Plan(keep=(f"{name} has {wanted} nodes wished",)), target, already=True)
    if wanted < now:
        return _fewer(room, where, have, target)
    growth = judging.more_of(cluster, have, wanted - now)
    facts = rules.observe(where, where.kube(room), growth, room.clock.now())
    found = judging.growth_findings(growth, facts)
    make = (f"{wanted - now} x {growth.instance_type} in {name} ({now} -> {wanted})",)
    return Step(Plan(make=make, findings=tuple(found), warnings=tuple(_checks_running(where, name))), target)


def _fewer(room: Room, where: Site, have: Mapping[str, Any], target: specs.ScaleTarget) -> Step:
    name, now, wanted = target.group, have["TargetCount"], target.instance_count
    found: list[Finding] = []
    if have.get("MinCount") and wanted < have["MinCount"]:
        told = f"The group's min_instance_count is {have['MinCount']}: fewer nodes than that cannot be asked."
        found.append(Finding("instance_count", "fail", told, "Lower min_instance_count of the group first."))
    picked, work = resizing.pick_nodes(room, where, name, now - wanted)
    remove = tuple(n["node"] or n["instance"] or n["logical"] for n in picked)
    plan = Plan(
        change=(f"{name}: {now} -> {wanted} nodes",),
        remove=(*remove[:_SHOWN], *([f"and {len(remove) - _SHOWN} more"] if len(remove) > _SHOWN else [])),
        findings=tuple(found),
        warnings=(*(f"Disturbed: {w}" for w in work), *_checks_running(where, name)),
    )
    if not work:
        return Step(plan, target)
    exact = f"instance_group.scale {where.aws.region} {where.tag} {name} to {wanted} drain={target.drain_minutes}"
    return Step(plan, target.model_copy(update={"disturb": True}), exact=exact)


def delete(room: Room, where: Site, name: str, drain_minutes: int) -> Step:
    """The end of a group. Raises Conflict for the last one and for one of Karpenter's."""
    activity.check_not_deleting(room, where.tag)
    cluster = scaling.get_cluster(where)
    have = groups.get(cluster, name)
    judging.check_not_last(cluster, name)
    kube = where.kube(room)
    judging.check_owner(kube, name, "deleted")
    mine = [n.name for n in nodes.read(kube, where.hyperpod_cluster) if n.group == name]
    work = drains.busy(kube, mine)
    subnets = [network.get_subnet(where.aws, s) for s in (have.get("OverrideVpcConfig") or {}).get("Subnets", ())]
    keep = tuple(f"dedicated subnet {s.subnet_id}, for a successor" for s in subnets if network.dedicated_to(s, where.tag))
    plan = Plan(
        remove=(f"instance group {name}", f"{have['TargetCount']} nodes and everything on their volumes"),
        keep=keep,
        warnings=(*(f"Disturbed: {w}" for w in work), *_checks_running(where, name)),
    )
    target = specs.DeleteTarget(tag=where.tag, region=where.aws.region, group=name, drain_minutes=drain_minutes)
    return Step(plan, target, exact=f"instance_group.delete {where.aws.region} {where.tag} {name} drain={drain_minutes}")


def _checks_running(where: Site, name: str) -> list[str]:
    waiting = arrivals.await_checks(where.aws, where.hyperpod_cluster, name, 0.0)
    return [f"{waiting.because}."] if waiting else []


def _joins(room: Room, workflow: str, target: Target) -> bool:
    return _running(room, workflow, target) is not None


def _running(room: Room, workflow: str, target: Target) -> Mapping[str, Any] | None:
    """The spec of the operation that is at just this already: the same request joins it, whatever it has reached."""
    wanted = target.model_dump(mode="json", exclude={"disturb"})
    for row in room.store.operations.find_active(specs.subject(target)):
        if row.workflow == workflow and row.status in HOLDING and {k: v for k, v in row.spec.items() if k != "disturb"} == wanted:
            return dict(row.spec)
    return None
