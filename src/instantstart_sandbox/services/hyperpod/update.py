"""UpdateCluster: a listed group is a full replacement of its spec, an unlisted one is untouched (facts A1.5, part C)."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from instantstart_sandbox.services import lookups
from instantstart_sandbox.services.hyperpod import entries, operations, received
from instantstart_sandbox.services.hyperpod.create import (
    check_autoscaling,
    check_placed_group,
    new_group,
    roles_of,
    set_gate,
)
from instantstart_sandbox.services.hyperpod.events import note
from instantstart_sandbox.services.hyperpod.group_checks import check_tiered
from instantstart_sandbox.services.hyperpod.provision import reconcile, retire
from instantstart_sandbox.services.hyperpod.quota import check_quota
from instantstart_sandbox.services.hyperpod.state import (
    Cluster,
    Group,
    conflict,
    continuous,
    eks_arn,
    find,
    invalid,
    nodes_of,
    nudge,
    types_of,
)

if TYPE_CHECKING:
    from instantstart_sandbox.gateway.registry import Context

_BUSY = ("Creating", "Updating", "SystemUpdating", "RollingBack", "Deleting")
#: must be sent as they are [D]; leaving one out is a change, too
_FIXED = ("InstanceType", "ExecutionRole", "ThreadsPerCore", "OverrideVpcConfig")
#: may not be changed; left out they are lost, like every other field (product post, part C 1 and 4)
_FIXED_WHEN_SENT = ("CapacityRequirements", "NetworkInterface")


def update_cluster(ctx: Context, **params: Any) -> dict[str, Any]:
    """UpdateCluster."""
    received.record(ctx, "UpdateCluster", params)
    cluster = find(ctx, params["ClusterName"])
    if cluster["status"] in _BUSY or (cluster["status"] == "Failed" and not continuous(cluster)):
        raise conflict(f"Cluster {cluster['name']} is in status {cluster['status']} and cannot be updated.")
    after = _cluster_fields(ctx, cluster, params)
    groups = _desired_groups(ctx, cluster | after, params)
    check_quota(ctx, cluster, [g for g in groups.values() if g["status"] != "Deleting"])
    new_roles = sorted({g["spec"]["ExecutionRole"] for g in groups.values()} - set(roles_of(cluster)))
    orchestrator = eks_arn(cluster)
    if orchestrator and new_roles:
        entries.make(ctx, orchestrator, new_roles)
    _apply(ctx, cluster, after, groups, params)
    return {"ClusterArn": cluster["arn"]}


def _cluster_fields(ctx: Context, cluster: Cluster, params: dict[str, Any]) -> dict[str, Any]:
    """The cluster's own fields after the update; what is left out stays."""
    if params.get("Orchestrator") and params["Orchestrator"] != cluster["orchestrator"]:
        raise invalid("The orchestrator of a cluster cannot be changed.")
    after = {
        "recovery": params.get("NodeRecovery") or cluster["recovery"],
        "mode": params.get("NodeProvisioningMode") or cluster["mode"],
        "tiered": params.get("TieredStorageConfig") or cluster["tiered"],
        "role": params.get("ClusterRole") or cluster["role"],
        "autoscaling": cluster["autoscaling"],
        "rig_config": params.get("RestrictedInstanceGroupsConfig") or cluster["rig_config"],
    }
    check_tiered(after["tiered"])
    scaling = params.get("AutoScaling")
    if cluster["autoscaling"] and after["role"] != cluster["role"]:
        raise invalid("ClusterRole cannot be changed while AutoScaling is enabled.")
    if scaling:
        after["autoscaling"] = _switched(cluster, scaling)
    check_autoscaling(ctx, cluster | after)
    return after


def _switched(cluster: Cluster, asked: dict[str, Any]) -> dict[str, Any] | None:
    """AutoScaling after the request; what failed may be tried again, what is going must be gone first."""
    present: dict[str, Any] | None = cluster["autoscaling"]
    if asked["Mode"] == "Disable":
        return present | {"Status": "Deleting"} if present else None
    if present and present["Status"] == "Deleting":
        raise conflict(f"AutoScaling of cluster {cluster['name']} is being disabled.")
    return asked | {"Status": "Creating"} if present is None or present["Status"] == "Failed" else present


def _desired_groups(ctx: Context, cluster: Cluster, params: dict[str, Any]) -> dict[str, Group]:
    """Every group after the update; those to go have status Deleting."""
    asked = [(g, False) for g in params.get("InstanceGroups") or []] + [(g, True) for g in params.get("RestrictedInstanceGroups") or []]
    names, doomed = [spec["InstanceGroupName"] for spec, _ in asked], params.get("InstanceGroupsToDelete") or []
    if len(set(names)) != len(names):
        raise invalid("Instance group names must be unique within a cluster.")
    if both := set(names) & set(doomed):
        raise invalid(f"Instance group {sorted(both)[0]} is both in InstanceGroups and in InstanceGroupsToDelete.")
    for name in doomed:
        if name not in cluster["groups"]:
            raise invalid(f"Instance group {name} does not exist in cluster {cluster['name']}.")
    groups = {n: (g | {"status": "Deleting"} if n in doomed else g) for n, g in cluster["groups"].items()}
    vpc = _vpc(ctx, cluster)
    for spec, restricted in asked:
        name, old = spec["InstanceGroupName"], cluster["groups"].get(spec["InstanceGroupName"])
        if old is not None:
            _check_change(cluster, old, spec)
        check_placed_group(ctx, cluster, spec, vpc, restricted)
        groups[name] = new_group(ctx.world, spec, restricted) if old is None else _changed(ctx, old, spec)
    if not any(g["status"] != "Deleting" for g in groups.values()):
        raise invalid("A cluster must keep at least one instance group.")
    return groups


def _vpc(ctx: Context, cluster: Cluster) -> str | None:
    if not eks_arn(cluster) or not cluster["vpc"]:
        return None
    found = lookups.subnets(ctx.world, ctx.region, cluster["vpc"]["Subnets"])
    return str(next(iter(found.values()))["VpcId"]) if found else None


def _check_change(cluster: Cluster, old: Group, spec: dict[str, Any]) -> None:
    name, before = old["name"], old["spec"]
    if old["status"] == "Deleting":
        raise conflict(f"Instance group {name} is being deleted.")
    for field in _FIXED:
        if spec.get(field) != before.get(field):
            raise invalid(f"Instance group {name}: {field} cannot be changed. Send it as it is.")
    for field in _FIXED_WHEN_SENT:
        if spec.get(field) is not None and spec[field] != before.get(field):
            raise invalid(f"Instance group {name}: {field} cannot be changed after the group was created.")
    if bool(spec.get("InstanceRequirements")) != bool(before.get("InstanceRequirements")):
        raise invalid(f"Instance group {name}: a group cannot be switched between InstanceType and InstanceRequirements.")
    wanted = (spec.get("InstanceRequirements") or {}).get("InstanceTypes")
    if wanted:
        left_out = sorted({n["type"] for n in nodes_of(cluster, name) if n["id"]} - set(wanted))
        if left_out:
            raise invalid(f"Instance group {name}: instance type {left_out[0]} still has nodes and cannot be removed.")


def _changed(ctx: Context, old: Group, spec: dict[str, Any]) -> Group:
    """The group as newly specified: everything that was not sent is gone; counts and state as they were."""
    fresh = new_group(ctx.world, spec, old["restricted"])
    kept = ("labels", "taints", "software", "status", "image", "image_id")
    fresh |= {k: old[k] for k in kept} | {k: old[k] for k in ("broken_script",) if k in old}
    if spec.get("ImageId"):
        fresh["image_id"] = spec["ImageId"]
    if fresh["gated"]:
        fresh |= {"status": "Updating", "before": {"target": old["target"], "min": old["min"]}}
    return fresh


def _apply(ctx: Context, cluster: Cluster, after: dict[str, Any], groups: dict[str, Group], params: dict[str, Any]) -> None:
    world, settings = ctx.world, ctx.world.settings
    touched = [name for name, group in groups.items() if group is not cluster["groups"].get(name)]
    original = {name: operations.counts(cluster, name) for name in touched}
    if not continuous(cluster):
        cluster |= {"status": "Updating", "before": copy.deepcopy(cluster["groups"]), "shortage": "", "built": False, "failure": ""}
        world.clock.after(settings.cluster_update_seconds, "hyperpod.cluster.built", arn=cluster["arn"])
    cluster |= after
    cluster["groups"] = groups
    note(world, cluster, f"Update of cluster {cluster['name']} has been accepted.")
    if touched:
        operations.start_scaling(world, cluster, original)
    for name in touched:
        _apply_group(ctx, cluster, groups[name])
    if params.get("AutoScaling"):
        world.clock.after(settings.cluster_update_seconds, "hyperpod.autoscaling", arn=cluster["arn"])
    world.clock.after(settings.cluster_update_seconds, "hyperpod.cluster.settle", arn=cluster["arn"])
    nudge(world, cluster)


def _apply_group(ctx: Context, cluster: Cluster, group: Group) -> None:
    world, name = ctx.world, group["name"]
    scaling = {"InstanceCount": len(nodes_of(cluster, name)), "TargetCount": group["target"]}
    if group["min"] is not None:
        scaling["MinCount"] = group["min"]
    note(world, cluster, f"Instance group {name} is being updated.", "Info", {"InstanceGroupScaling": scaling}, InstanceGroupName=name)
    if group["status"] == "Deleting":
        group["target"] = 0
        for node in nodes_of(cluster, name):
            retire(world, cluster, node)
        return
    group["ready_at"] = world.clock.now() + world.settings.cluster_update_seconds
    if not continuous(cluster) and group["status"] == "InService":
        group["status"] = "Updating"
    for node in nodes_of(cluster, name):
        if not node["id"]:
            node["type"] = types_of(group)[0]
    reconcile(world, cluster, group)
    set_gate(world, cluster, group)
    world.clock.after(world.settings.cluster_update_seconds, "hyperpod.group.labels", arn=cluster["arn"], name=name)


OPERATIONS = {"UpdateCluster": update_cluster}
