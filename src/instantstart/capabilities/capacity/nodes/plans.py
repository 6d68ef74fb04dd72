"""What would happen to nodes and to the work on them: the plan of each act, and the target that the operation then gets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from instantstart.base import problems
from instantstart.base.problems import Violation
from instantstart.capabilities import activity
from instantstart.capabilities.capacity.nodes import rules, specs
from instantstart.capabilities.capacity.nodes.rules import Action, Facts
from instantstart.capabilities.planning import Plan
from instantstart.capabilities.room import Room
from instantstart.capabilities.vocabulary import Target
from instantstart.ensure import sites
from instantstart.ensure.capacity import drains, instances
from instantstart.ensure.capacity.drains import Work
from instantstart.ensure.capacity.instances import Instance
from instantstart.ensure.sites import Site
from instantstart.operations.record import HOLDING
from instantstart.store.records import OperationFilter

_SHOWN = 20


@dataclass(frozen=True)
class Prepared:
    """A checked request: the target of its operation, its plan, and whether that plan must be approved."""

    workflow: str
    target: Target
    plan: Plan
    exact: str
    needs_approval: bool


def prepare(room: Room, cluster: str, action: Action, ask: Any) -> Prepared:
    """Check a request about nodes, name the work it would disturb, and say what would happen. Raises its refusal."""
    where = sites.find(room, cluster)
    activity.check_not_deleting(room, cluster)
    facts = rules.observe(room, where)
    chosen, wrong = rules.resolve(ask.nodes, facts.instances)
    if action is Action.check:
        facts = rules.with_accelerators(where, facts, chosen)
    rules.check(action, ask.nodes, facts, chosen, wrong)
    if action is Action.move:
        rules.check_move(facts, chosen, ask.target_group)
    work = rules.busy(room, where, chosen)
    target = _target(where, action, ask, chosen, work)
    names = " ".join(target.nodes)
    more = f" to {ask.target_group}" if action is Action.move else ""
    exact = f"node.{action.value} {where.aws.region} {cluster} {names}{more} drain={target.drain_seconds:g} work={','.join(target.work)}"
    destroys = action in (Action.replace, Action.delete)
    return Prepared(f"node.{action.value}", target, _plan(action, ask, facts, chosen, work), exact, bool(work) or destroys)


def _target(where: Site, action: Action, ask: Any, chosen: Sequence[Instance], work: Sequence[Work]) -> specs.NodesTarget:
    told: dict[str, Any] = {
        "tag": where.tag,
        "region": where.aws.region,
        "nodes": tuple(sorted(each.key for each in chosen)),
        "work": rules.names_of(work),
    }
    if action is Action.move:
        return specs.MoveTarget(**told, target_group=ask.target_group)
    told["drain_seconds"] = ask.drain_minutes * 60.0
    return specs.CheckTarget(**told, checks=tuple(ask.checks)) if action is Action.check else specs.NodesTarget(**told)


def _plan(action: Action, ask: Any, facts: Facts, chosen: Sequence[Instance], work: Sequence[Work]) -> Plan:
    lines = tuple(_line(facts, each) for each in chosen)
    warnings = [f"Running work is disturbed: {each}." for each in work[:_SHOWN]]
    if len(work) > _SHOWN:
        warnings.append(f"And {len(work) - _SHOWN} more.")
    if facts.unknown:
        warnings.append(facts.unknown)
    warnings += [told for told in _WARNINGS[action] if told]
    if action is not Action.move and getattr(ask, "drain_minutes", 0) == 0:
        warnings.append("Nothing is drained: pods on the nodes end with them, whatever their disruption budgets say.")
    if action in (Action.delete, Action.replace, Action.reboot, Action.check):
        warnings += rules.last_ones(facts, chosen)
    change = {Action.reboot: "reboot", Action.replace: "replace", Action.check: "check", Action.move: "move"}
    if action is Action.delete:
        return Plan(remove=lines, change=tuple(_counts(facts, chosen)), warnings=tuple(warnings))
    return Plan(change=tuple(f"{change[action]} {line}" for line in lines), warnings=tuple(warnings))


def _line(facts: Facts, instance: Instance) -> str:
    node = facts.node(instance)
    state = (node.because if node else None) or instance.status
    return f"{instance.key} ({instance.group}, {instance.instance_type}): {state}"


def _counts(facts: Facts, chosen: Sequence[Instance]) -> list[str]:
    """How the target counts go down: a node that is deleted is not asked for again."""
    told = []
    for name in sorted({each.group for each in chosen}):
        target, less = facts.group(name).get("TargetCount", 0), sum(each.group == name for each in chosen)
        told.append(f"target count of {name}: {target} to {max(target - less, 0)}")
    return told


_WARNINGS: Mapping[Action, tuple[str, ...]] = {
    Action.reboot: (),
    Action.replace: (
        "The data on the nodes' volumes is lost; the new instances have other ids and names, and their lifecycle scripts run again.",
    ),
    Action.delete: ("The data on the nodes' volumes is lost.",),
    Action.move: ("The nodes get the labels, taints and settings of the other group.",),
    Action.check: ("The nodes take no pods for 60 to 120 minutes. HyperPod replaces a node that fails.",),
}


def prepare_software(room: Room, cluster: str, ask: specs.UpdateSoftware) -> Prepared:
    """The same for a software update. ``change`` of its plan is empty when every asked group runs that already."""
    where = sites.find(room, cluster)
    activity.check_not_deleting(room, cluster)
    have = rules.described(where)
    every = [g["InstanceGroupName"] for g in have["InstanceGroups"]] if ask.release_version or ask.image_id else rules.outdated(have)
    asked = tuple(ask.instance_groups if ask.instance_groups is not None else every)
    _check_software(have, ask, asked)
    wanted = tuple(name for name in asked if not _up_to_date(have, name, ask))
    work = rules.busy(room, where, [each for each in instances.read(where.aws, have) if each.group in wanted]) if wanted else ()
    told = ask.model_dump() | {"instance_groups": wanted, "work": rules.names_of(work)}
    told["rollback_alarms"] = tuple(ask.rollback_alarms) if ask.rollback_alarms else None
    target = specs.SoftwareTarget(tag=where.tag, region=where.aws.region, **told)
    change = tuple(f"software of {name}: {_release(have, name)} to {ask.release_version or 'the newest'}" for name in wanted)
    keep = tuple(f"{g['InstanceGroupName']} runs {_release(have, g['InstanceGroupName'])}" for g in have["InstanceGroups"])
    keep = tuple(line for line in keep if line.split(" ")[0] not in wanted)
    warnings = [f"Running work is disturbed: {each}." for each in work[:_SHOWN]]
    if wanted:
        warnings.append("Root volumes are written anew and lifecycle scripts run again; the whole cluster takes no other change meanwhile.")
    if wanted and ask.batch_size is None:
        warnings.append("Without batch_size all nodes of a group are updated at once.")
    exact = f"software.update {where.aws.region} {cluster} {target.model_dump_json()}"
    return Prepared("software.update", target, Plan(change=change, keep=keep, warnings=tuple(warnings)), exact, bool(work))


def _check_software(have: Mapping[str, Any], ask: specs.UpdateSoftware, groups: Sequence[str]) -> None:
    known = {g["InstanceGroupName"]: g for g in have["InstanceGroups"]}
    told = []
    for at, name in enumerate(ask.instance_groups or ()):
        if name not in known:
            told.append(Violation(f"/instance_groups/{at}", f"There is no instance group {name}; there are {', '.join(known)}."))
        elif name in (ask.instance_groups or ())[:at]:
            told.append(Violation(f"/instance_groups/{at}", f"{name} is named before."))
    told += [Violation("/image_id", text) for name in groups if (text := _custom(known.get(name, {}), ask)) is not None]
    if ask.batch_type == "CAPACITY_PERCENTAGE":
        sizes = {"batch_size": ask.batch_size, "rollback_batch_size": ask.rollback_batch_size}
        told += [Violation(f"/{key}", "Per cent of a group: at most 100.") for key, value in sizes.items() if (value or 0) > 100]
    if ask.rollback_batch_size is not None and ask.batch_size is None:
        told.append(Violation("/rollback_batch_size", "It needs batch_size: both are of one rolling policy."))
    if told:
        raise problems.Invalid("software.invalid", " ".join(v.message for v in told[:5]), fields=told)
    if have["ClusterStatus"] != "InService":
        raise problems.Conflict(
            "hyperpod.not_in_service",
            f"The HyperPod cluster {have['ClusterName']} is {have['ClusterStatus']}; it is updated while it is InService.",
            hint="Wait until it is InService, then ask again.",
        )
    _check_free(known, groups)


def _check_free(known: Mapping[str, Mapping[str, Any]], groups: Sequence[str]) -> None:
    """Raise Conflict when a group waits for its minimum count: SageMaker refuses updates meanwhile (aws-facts A1.5)."""
    held = [name for name in groups if known[name].get("MinCount") and known[name].get("Status") in ("Creating", "Updating")]
    if held:
        raise problems.Conflict(
            "software.group_held",
            f"Waiting for their minimum count, so not updated now: {', '.join(held)}.",
            hint="SageMaker gives up on a minimum after three hours; ask again when the groups are InService.",
        )


def _custom(group: Mapping[str, Any], ask: specs.UpdateSoftware) -> str | None:
    image = group.get("CurrentImageId")
    if image and image != "default" and ask.image_id is None:
        return f"The group {group['InstanceGroupName']} runs the custom image {image}: say image_id, or default for SageMaker's own."
    return None


def _up_to_date(have: Mapping[str, Any], name: str, ask: specs.UpdateSoftware) -> bool:
    group = next(g for g in have["InstanceGroups"] if g["InstanceGroupName"] == name)
    if ask.image_id is not None and ask.image_id != group.get("CurrentImageId"):
        return False
    if ask.release_version is not None:
        return bool(group.get("CurrentImageReleaseVersion") == ask.release_version)
    return bool(group.get("ImageVersionStatus") == "UpToDate")


def _release(have: Mapping[str, Any], name: str) -> str:
    group = next(g for g in have["InstanceGroups"] if g["InstanceGroupName"] == name)
    return str(group.get("CurrentImageReleaseVersion") or "unknown")


@dataclass(frozen=True)
class Uncordoned:
    """Names of the nodes that take pods again; and of those that do not, each with the reason."""

    uncordoned: tuple[str, ...]
    left: dict[str, str]


def uncordon(room: Room, cluster: str, ask: specs.UncordonNodes) -> Uncordoned:
    """Let pods onto nodes that a drain of ours cordoned. Raises Invalid for unknown names, Conflict while an operation needs them empty."""
    where = sites.find(room, cluster)
    facts = rules.observe(room, where)
    chosen, wrong = rules.resolve(ask.nodes, facts.instances)
    if wrong:
        raise problems.Invalid("node.unknown", " ".join(w.message for w in wrong), hint="List the nodes.", fields=wrong)
    _check_idle(room, cluster, chosen)
    kube, left = where.kube(room), dict[str, str]()
    names = [name for each in chosen if (name := each.node_name)]
    for name in names:
        found = kube.find("Node", name)
        if found is None:
            left[name] = "It is not in Kubernetes."
        elif drains.CORDONED not in (found["metadata"].get("annotations") or {}) and found["spec"].get("unschedulable"):
            left[name] = f"Somebody else cordoned it: kubectl uncordon {name}."
    done = [name for name in names if name not in left]
    drains.uncordon(kube, done)
    return Uncordoned(tuple(done), left)


def _check_idle(room: Room, cluster: str, chosen: Sequence[Instance]) -> None:
    page = room.engine.list(OperationFilter(statuses=tuple(sorted(HOLDING)), cluster=cluster), limit=200)
    names = {name for each in chosen for name in (each.key, each.node_name, each.instance_id, f"group {each.group}") if name}
    for operation in page.items:
        spec = operation.spec
        if names & {*spec.get("nodes", ()), f"group {spec.get('group')}"}:
            told = f"The operation {operation.id} ({operation.title}) works on these nodes."
            raise problems.Conflict("node.in_use", told, hint="Wait for its end, or cancel it.", evidence={"operation_id": operation.id})
