"""The stages of adding, changing and scaling an instance group. Each looks first, acts at most once a tick, never sleeps.

The world is the memory: a group that is there as asked is done, a count that is reached is done, and every write is preceded by a read.
What SageMaker tells and takes is in ``ensure/capacity/groups.py``, what it is busy with in ``ensure/capacity/scaling.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from instantstart.base import problems
from instantstart.base.outcome import Done, Outcome, Wait, pace
from instantstart.capabilities.capacity.groups import judging, rules, specs
from instantstart.capabilities.room import Room
from instantstart.ensure.capacity import arrivals, groups, labels, scaling
from instantstart.ensure.networking import addresses, network
from instantstart.ensure.sites import Site, site
from instantstart.operations.declare import Run

SETTLE_TYPICAL = 60.0
#: a change that a read right after it does not show yet is waited for so long before it counts as somebody else's
_GRACE_SECONDS = 30.0
_INTERFACES = {"efa_only": "efa-only"}


# Adding


def check(room: Room, run: Run) -> Outcome:
    """Refuse before anything is made what would fail afterwards; decide zone and subnet once."""
    where, spec = site(room, run.spec), run.spec
    cluster = scaling.get_cluster(where)
    have = groups.find(cluster, spec.name)
    if have is not None:
        return Done({"subnet_id": (have.get("OverrideVpcConfig") or {}).get("Subnets", [None])[0], "as_is": True}, already=True)
    facts = rules.observe(where, where.kube(room), spec, room.clock.now())
    found = rules.findings(spec, facts)
    refused = rules.refusal(found)
    if refused:
        raise refused
    placed = rules.place(spec, facts)
    assert placed.zone is not None  # check_zone has refused otherwise
    return Done(
        {
            "zone": placed.zone.name,
            "zone_id": placed.zone.zone_id,
            "subnet_id": placed.subnet_id,
            "as_is": placed.as_is,
            "vpc_id": facts.subnets[0].vpc_id,
            "prefix": addresses.prefix_for(rules.needed(spec, facts)),
            "notes": [f.detail for f in found if f.level in ("warn", "unknown")],
        }
    )


def place_subnet(room: Room, run: Run) -> Outcome:
    """The subnet of the group: the one decided on, or the shared or dedicated one, made when it is not there."""
    where, told = site(room, run.spec), run.learned["check"]
    if told["as_is"]:
        return Done({"subnet_id": told["subnet_id"]}, already=True)
    dedicated = run.spec.subnet == "dedicated"
    wanted = network.Wanted(
        told["vpc_id"],
        told["zone_id"],
        group=run.spec.name if dedicated else None,
        prefix=told["prefix"] if dedicated else network.Wanted.prefix,
    )
    return network.ensure_subnet(where.aws, wanted, dict(where.tags), run.token("subnet"))


def request_group(room: Room, run: Run) -> Outcome:
    """Ask SageMaker for the group, and for nothing else: groups that are not listed stay as they are."""
    where, spec = site(room, run.spec), run.spec
    cluster = scaling.get_cluster(where)
    wished = wish(where, cluster, spec, run.learned["subnet"]["subnet_id"])
    have = groups.find(cluster, spec.name)
    if have is not None:
        check_same(have, wished)
        return Done({"group": spec.name, "count": wished["InstanceCount"]})
    waiting = scaling.await_free(cluster) or scaling.update(where.aws, cluster["ClusterName"], InstanceGroups=[wished])
    return waiting or Done({"group": spec.name, "count": wished["InstanceCount"]}, note=f"SageMaker took the group {spec.name}")


def wish(where: Site, cluster: Mapping[str, Any], spec: specs.AddInstanceGroup, subnet_id: str | None) -> groups.Request:
    """The request for a new group: role and scripts of the cluster's other groups unless told otherwise. ``subnet_id`` None: not known."""
    model = _model_group(where, cluster)
    asked: groups.Request = {
        "InstanceGroupName": spec.name,
        "InstanceType": spec.instance_type,
        "InstanceCount": spec.instance_count,
        "ExecutionRole": model["ExecutionRole"],
        "LifeCycleConfig": _scripts(model, spec),
        "InstanceStorageConfigs": [{"EbsVolumeConfig": {"VolumeSizeInGB": spec.volume_gib}}],
    }
    if spec.capacity_type == "training_plan":
        asked["TrainingPlanArn"] = spec.training_plan_arn
    else:
        asked["CapacityRequirements"] = {"Spot": {}} if spec.capacity_type == "spot" else {"OnDemand": {}}
    if subnet_id:
        asked["OverrideVpcConfig"] = {"SecurityGroupIds": list(cluster["VpcConfig"]["SecurityGroupIds"]), "Subnets": [subnet_id]}
    optional = {
        "MinInstanceCount": spec.min_instance_count,
        "OnStartDeepHealthChecks": list(spec.deep_health_checks),
        "KubernetesConfig": kubernetes_config(spec.labels, [labels.parse_taint(t) for t in spec.taints]),
        "NetworkInterface": {"InterfaceType": _INTERFACES[spec.network_interface]} if spec.network_interface in _INTERFACES else None,
    }
    return asked | {name: value for name, value in optional.items() if value}


def kubernetes_config(wished: Mapping[str, str], taints: list[dict[str, str]]) -> dict[str, Any]:
    """Labels and taints as SageMaker takes them; empty ones are left out."""
    return {name: value for name, value in (("Labels", dict(wished)), ("Taints", taints)) if value}


def _model_group(where: Site, cluster: Mapping[str, Any]) -> Mapping[str, Any]:
    """The group whose role and scripts a new one takes: one of our own role, else the first."""
    have = [g for g in cluster.get("InstanceGroups", ()) if g.get("LifeCycleConfig")]
    ours = [g for g in have if g["ExecutionRole"].endswith(f"role/{where.names.execution_role}")]
    if not have:
        raise problems.Conflict(
            "instance_group.no_model",
            f"The cluster {cluster['ClusterName']} has no instance group whose role and lifecycle scripts a new one could take.",
            hint="Make a first group with the AWS CLI, or make the cluster with InstantStart.",
        )
    return dict((ours or have)[0])


def _scripts(model: Mapping[str, Any], spec: specs.AddInstanceGroup | specs.UpdateInstanceGroup) -> dict[str, Any]:
    told = dict(model["LifeCycleConfig"])
    if not spec.lifecycle_uri and not spec.lifecycle_script:
        return told
    return {"SourceS3Uri": spec.lifecycle_uri or told["SourceS3Uri"], "OnCreate": spec.lifecycle_script or told["OnCreate"]}


def check_same(have: Mapping[str, Any], wished: groups.Request) -> None:
    """Raise Conflict when a group of that name is there and is not what was asked for."""
    told = groups.to_request(have)
    asked = {**told, **wished}
    if have.get("CapacityRequirements") is None and wished.get("CapacityRequirements") == {"OnDemand": {}}:
        asked.pop("CapacityRequirements")  # a group that says nothing is on-demand
    differing = groups.changed_fields(told, asked)
    if differing:
        raise problems.Conflict(
            "instance_group.name_taken",
            f"There is a group {have['InstanceGroupName']} already, and it differs in {', '.join(differing)}.",
            hint="Choose another name, or update that group.",
            evidence={"group": have["InstanceGroupName"], "fields": list(differing)},
        )


def await_nodes(room: Room, run: Run) -> Outcome:
    """Every wanted node Running in SageMaker; a partial arrival is kept and shown, with the event that says why."""
    where, wanted, start = site(room, run.spec), run.spec.instance_count, run.learned.get("survey")
    if start is not None and start["to"] <= start["from"]:
        return Done(already=True)
    name = specs.group_of(run.spec)
    cluster = scaling.get_cluster(where)
    have = groups.find(cluster, name)
    if have is None and run.waited_seconds < _GRACE_SECONDS:
        return Wait(3, f"SageMaker does not show the group {name} yet")
    have = have or groups.get(cluster, name)
    if have["TargetCount"] < wanted and run.waited_seconds >= _GRACE_SECONDS:
        raise _lowered(where, cluster, have, wanted)
    outcome = arrivals.await_running(where.aws, cluster, have, wanted, run.waited_seconds)
    if isinstance(outcome, Wait):
        return _planned(outcome, have)
    if have["Status"] in ("Creating", "Updating"):
        return Wait(pace(run.waited_seconds, SETTLE_TYPICAL, near_from=0.3), f"The group {name} is {have['Status']}")
    return outcome


def _planned(waiting: Wait, have: Mapping[str, Any]) -> Wait:
    status = have.get("TrainingPlanStatus")
    told = f"; the training plan is {status}: no node arrives before it begins" if status in ("Scheduled", "Pending") else ""
    return Wait(60.0 if told else waiting.seconds, waiting.because + told, waiting.progress, None if told else waiting.overdue)


def _lowered(where: Site, cluster: Mapping[str, Any], have: Mapping[str, Any], wanted: int) -> problems.Conflict:
    name = have["InstanceGroupName"]
    reason = arrivals.last_reason(where.aws, cluster["ClusterName"], name)
    return problems.Conflict(
        "instance_group.target_lowered",
        f"The target of {name} is {have['TargetCount']}, not the {wanted} that was asked for: somebody else, or SageMaker, took it back."
        + (f" Last problem: {reason}" if reason else ""),
        hint="Look at the group's events, then ask again for the count you want.",
        evidence={"group": name, "wanted": wanted, "found": have["TargetCount"]},
    )


def await_join(room: Room, run: Run) -> Outcome:
    """The same nodes Ready in Kubernetes: only then are they nodes."""
    return arrivals.await_ready(site(room, run.spec).kube(room), run.learned["nodes"].get("instances", ()), run.waited_seconds)


# Changing


def await_checks(room: Room, run: Run) -> Outcome:
    """Nothing is changed in a group while its nodes are under deep health checks; their end is waited for."""
    where = site(room, run.spec)
    return arrivals.await_checks(where.aws, where.hyperpod_cluster, run.spec.group, run.waited_seconds) or Done(already=True)


def request_update(room: Room, run: Run) -> Outcome:
    """Send the group as it is wished now with what was asked changed in it: read again right before, so that nothing else changes."""
    where, spec = site(room, run.spec), run.spec
    cluster = scaling.get_cluster(where)
    told = groups.get(cluster, spec.group)
    judging.check_standing(told)
    before = groups.to_request(told)
    after = patched(before, spec)
    if groups.equal(before, after):
        return Done({"count": before["InstanceCount"], "fields": []}, already=True)
    groups.check_known(told)
    known = scaling.list_scalings(where.aws, cluster["ClusterName"])  # between the read and the write: see overwritten_count
    waiting = scaling.await_free(cluster) or scaling.update(where.aws, cluster["ClusterName"], InstanceGroups=[after])
    changed = list(groups.changed_fields(before, after))
    return waiting or Done({"count": after["InstanceCount"], "fields": changed, "scalings": known})


def patched(before: groups.Request, spec: specs.UpdateInstanceGroup) -> groups.Request:
    """The request with what was asked changed in it; what was not asked stays. Pure."""
    after = dict(before)
    kubernetes = before.get("KubernetesConfig", {})
    wished = kubernetes.get("Labels", {}) if spec.labels is None else spec.labels
    taints = kubernetes.get("Taints", []) if spec.taints is None else [labels.parse_taint(t) for t in spec.taints]
    asked: dict[str, Any] = {"KubernetesConfig": kubernetes_config(wished, list(taints))}
    if spec.deep_health_checks is not None:
        asked["OnStartDeepHealthChecks"] = list(spec.deep_health_checks)
    if spec.min_instance_count is not None:
        asked["MinInstanceCount"] = spec.min_instance_count
    if spec.lifecycle_uri or spec.lifecycle_script:
        asked["LifeCycleConfig"] = before.get("LifeCycleConfig", {}) | _scripts(before, spec)
    for name, value in asked.items():
        if value or (name == "MinInstanceCount" and before.get(name)):
            after[name] = value
        elif not value:
            after.pop(name, None)
    return after


def settle_update(room: Room, run: Run) -> Outcome:
    """See the change in force: the wish as told equals the one asked, and what nodes bear is what is wished."""
    where, spec = site(room, run.spec), run.spec
    cluster = scaling.get_cluster(where)
    told, sent = groups.get(cluster, spec.group), run.learned["request"]
    outcome = _restore_count(where, cluster, told, sent)
    if outcome is not None:
        return outcome
    now = groups.to_request(told)
    late = groups.changed_fields(now, patched(now, spec))
    if late:
        if run.waited_seconds > _GRACE_SECONDS * 4:
            raise problems.Conflict(
                "instance_group.change_undone",
                f"The group {spec.group} does not show what was asked: {', '.join(late)}. Somebody else changed it meanwhile.",
                hint="Look at the group and ask again.",
            )
        return Wait(5, f"SageMaker does not show {', '.join(late)} yet")
    kubernetes = told.get("KubernetesConfig", {})
    pending = [n for n in ("Labels", "Taints") if kubernetes.get(f"Desired{n}", {} if n == "Labels" else []) != _current(kubernetes, n)]
    if told["Status"] in ("Updating", "SystemUpdating") or pending:
        what = f"; {' and '.join(pending).lower()} are on their way to the nodes" if pending else ""
        return Wait(pace(run.waited_seconds, SETTLE_TYPICAL, near_from=0.3), f"The group {spec.group} is {told['Status']}{what}")
    return Done({"group": spec.group, "changed": sent["fields"]})


def _current(kubernetes: Mapping[str, Any], name: str) -> Any:
    return kubernetes.get(f"Current{name}", {} if name == "Labels" else [])


def _restore_count(where: Site, cluster: Mapping[str, Any], told: Mapping[str, Any], sent: Mapping[str, Any]) -> Outcome | None:
    """Put back a count that somebody else set between our read and our write, which UpdateCluster replaced: it takes no precondition."""
    if not sent["fields"] or told["TargetCount"] != sent["count"] or not scaling.is_continuous(cluster):
        return None
    theirs = scaling.overwritten_count(where.aws, cluster["ClusterName"], told["InstanceGroupName"], sent["count"], sent["scalings"])
    if theirs is None:
        return None
    again = groups.to_request(told) | {"InstanceCount": theirs}
    waiting = scaling.await_free(cluster) or scaling.update(where.aws, cluster["ClusterName"], InstanceGroups=[again])
    name = told["InstanceGroupName"]
    return waiting or Wait(3, f"Somebody else set the count of {name} to {theirs} while this change was sent; their count was put back")


# Scaling


def survey(room: Room, run: Run) -> Outcome:
    """Write down the count that is there now: what the operation starts from, so that another client's change is noticed."""
    where, spec = site(room, run.spec), run.spec
    cluster = scaling.get_cluster(where)
    have = groups.get(cluster, spec.group)
    judging.check_standing(have)
    if spec.expected_count is not None:
        scaling.check_expected(spec.group, have["TargetCount"], spec.expected_count)
    return Done({"from": have["TargetCount"], "to": spec.instance_count, "by_name": scaling.is_continuous(cluster)})
