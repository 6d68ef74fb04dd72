"""BatchAddClusterNodes, BatchDeleteClusterNodes, BatchRebootClusterNodes, BatchReplaceClusterNodes (facts A1.6).

One bad id does not spoil the others; only BatchDelete answers 400 when every id fails.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from instantstart_sandbox.services import lookups
from instantstart_sandbox.services.hyperpod import operations, received
from instantstart_sandbox.services.hyperpod.events import note
from instantstart_sandbox.services.hyperpod.node_life import reboot
from instantstart_sandbox.services.hyperpod.provision import ask, retire
from instantstart_sandbox.services.hyperpod.quota import check_quota
from instantstart_sandbox.services.hyperpod.state import (
    Cluster,
    Group,
    Node,
    find,
    invalid,
    need_continuous,
    network_of,
    nudge,
    types_of,
)

if TYPE_CHECKING:
    from instantstart_sandbox.gateway.registry import Context
    from instantstart_sandbox.world.state import World

_MOST_ADDED = 50
_MOST_DELETED = 99
_TOKEN_SECONDS = 8 * 3600.0
Act = Callable[["World", Cluster, Node], None]


def batch_add_cluster_nodes(ctx: Context, **params: Any) -> dict[str, Any]:
    """BatchAddClusterNodes. A token is good for eight hours: a replay answers the same logical ids with today's status."""
    received.record(ctx, "BatchAddClusterNodes", params)
    cluster = find(ctx, params["ClusterName"])
    need_continuous(cluster, "BatchAddClusterNodes")
    if cluster["status"] != "InService":
        raise invalid(f"Cluster {cluster['name']} is in status {cluster['status']}; nodes can be added when it is InService.")
    token = params.get("ClientToken")
    known = cluster["adds"].get(token) if token else None
    if known is not None and ctx.clock.now() - known["at"] < _TOKEN_SECONDS:
        return _replay(cluster, known)
    wishes = params["NodesToAdd"]
    if sum(w["IncrementTargetCountBy"] for w in wishes) > _MOST_ADDED:
        raise invalid(f"At most {_MOST_ADDED} nodes can be added in one call.")
    problems = [_obstacle(ctx, cluster, w) for w in wishes]
    good = [w for w, problem in zip(wishes, problems, strict=True) if problem is None]
    check_quota(ctx, cluster, _after(cluster, good))
    original = {w["InstanceGroupName"]: operations.counts(cluster, w["InstanceGroupName"]) for w in good}
    added = [_added(n, w) for w in good for n in _add(ctx, cluster, w)]
    failed = [_failure(w, p) for w, p in zip(wishes, problems, strict=True) if p is not None]
    if good:
        operations.start_scaling(ctx.world, cluster, original)
        note(ctx.world, cluster, f"{len(added)} node(s) were asked for.")
    if token:
        cluster["adds"][token] = {"at": ctx.clock.now(), "added": added, "failed": failed}
    nudge(ctx.world, cluster)
    return {"Successful": added, "Failed": failed}


def _replay(cluster: Cluster, known: dict[str, Any]) -> dict[str, Any]:
    nodes = cluster["nodes"]
    gone = {"status": "NotFound"}
    added = [a | {"Status": nodes.get(a["NodeLogicalId"], gone)["status"]} for a in known["added"]]
    return {"Successful": added, "Failed": known["failed"]}


def _obstacle(ctx: Context, cluster: Cluster, wish: dict[str, Any]) -> tuple[str, str] | None:
    """(error code, message) of a wish that cannot be granted."""
    name = wish["InstanceGroupName"]
    group = cluster["groups"].get(name)
    if group is None:
        return "InstanceGroupNotFound", f"Instance group {name} does not exist."
    if group["status"] not in ("InService", "Degraded"):
        return "InvalidInstanceGroupStatus", f"Instance group {name} is in status {group['status']}."
    zones = {s["AvailabilityZone"] for s in lookups.subnets(ctx.world, ctx.region, network_of(cluster, group)["Subnets"]).values()}
    if not set(wish.get("AvailabilityZones") or []) <= zones:
        return "IncompatibleAvailabilityZones", f"Instance group {name} has no subnet in all of {wish['AvailabilityZones']}."
    if not set(wish.get("InstanceTypes") or []) <= set(types_of(group)):
        return "IncompatibleInstanceTypes", f"Instance group {name} does not have all of {wish['InstanceTypes']}."
    return None


def _failure(wish: dict[str, Any], problem: tuple[str, str]) -> dict[str, Any]:
    code, message = problem
    view = {"InstanceGroupName": wish["InstanceGroupName"], "ErrorCode": code, "FailedCount": wish["IncrementTargetCountBy"]}
    return view | _echo(wish) | {"Message": message}


def _echo(wish: dict[str, Any]) -> dict[str, Any]:
    return {k: wish[k] for k in ("AvailabilityZones", "InstanceTypes") if wish.get(k)}


def _after(cluster: Cluster, good: list[dict[str, Any]]) -> list[Group]:
    more: dict[str, int] = {}
    for wish in good:
        more[wish["InstanceGroupName"]] = more.get(wish["InstanceGroupName"], 0) + wish["IncrementTargetCountBy"]
    return [g | {"target": g["target"] + more.get(n, 0)} for n, g in cluster["groups"].items()]


def _add(ctx: Context, cluster: Cluster, wish: dict[str, Any]) -> list[Node]:
    group = cluster["groups"][wish["InstanceGroupName"]]
    group["target"] += wish["IncrementTargetCountBy"]
    nodes = [ask(ctx.world, cluster, group) for _ in range(wish["IncrementTargetCountBy"])]
    for node in nodes:
        node |= {"zones": list(wish.get("AvailabilityZones") or []), "types": list(wish.get("InstanceTypes") or [])}
    return nodes


def _added(node: Node, wish: dict[str, Any]) -> dict[str, Any]:
    return {"NodeLogicalId": node["logical"], "InstanceGroupName": node["group"], "Status": node["status"]} | _echo(wish)


def _by_instance(cluster: Cluster, instance: str) -> Node | None:
    return next((n for n in cluster["nodes"].values() if n["id"] == instance), None)


def _ids(params: dict[str, Any]) -> tuple[list[str], list[str]]:
    """The ids without repetitions; at least one is needed."""
    instances = list(dict.fromkeys(params.get("NodeIds") or []))
    logicals = list(dict.fromkeys(params.get("NodeLogicalIds") or []))
    if not instances and not logicals:
        raise invalid("At least one of NodeIds and NodeLogicalIds must be specified.")
    return instances, logicals


def batch_delete_cluster_nodes(ctx: Context, **params: Any) -> dict[str, Any]:
    """BatchDeleteClusterNodes: the groups' targets go down with the nodes."""
    received.record(ctx, "BatchDeleteClusterNodes", params)
    cluster = find(ctx, params["ClusterName"])
    if cluster["status"] != "InService":
        raise invalid(f"Cluster {cluster['name']} is in status {cluster['status']}; nodes can be deleted when it is InService.")
    instances, logicals = _ids(params)
    if len(instances) > _MOST_DELETED:
        raise invalid(f"At most {_MOST_DELETED} nodes can be deleted in one call.")
    done, failed = _delete_each(ctx.world, cluster, {i: _by_instance(cluster, i) for i in instances})
    done_logical, failed_logical = _delete_each(ctx.world, cluster, {i: cluster["nodes"].get(i) for i in logicals})
    if not done and not done_logical:
        reasons = "; ".join(f"{i}: {code}" for i, (code, _) in {**failed, **failed_logical}.items())
        raise invalid(f"None of the nodes can be deleted: {reasons}")
    nudge(ctx.world, cluster)
    answer: dict[str, Any] = {
        "Successful": done,
        "SuccessfulNodeLogicalIds": done_logical,
        "Failed": [{"NodeId": i, "Code": code, "Message": text} for i, (code, text) in failed.items()],
        "FailedNodeLogicalIds": [{"NodeLogicalId": i, "Code": code, "Message": text} for i, (code, text) in failed_logical.items()],
    }
    return {k: v for k, v in answer.items() if v}


def _delete_each(world: World, cluster: Cluster, nodes: dict[str, Node | None]) -> tuple[list[str], dict[str, tuple[str, str]]]:
    done: list[str] = []
    failed: dict[str, tuple[str, str]] = {}
    for key, node in nodes.items():
        if node is None:
            failed[key] = ("NodeIdNotFound", f"Node {key} is not in cluster {cluster['name']}.")
        elif node["status"] == "ShuttingDown" or cluster["groups"][node["group"]]["gated"]:
            failed[key] = ("InvalidNodeStatus", f"Node {key} is in status {node['status']}.")
        elif node["status"] == "SystemUpdating":
            failed[key] = ("NodeIdInUse", f"Node {key} is being updated.")
        else:
            group = cluster["groups"][node["group"]]
            group["target"] -= 1
            retire(world, cluster, node)
            done.append(key)
    return done, failed


def _each(ctx: Context, params: dict[str, Any], act: Act) -> dict[str, Any]:
    """Reboot or replace: the same answer, the same codes."""
    cluster = find(ctx, params["ClusterName"])
    if cluster["status"] != "InService":
        raise invalid(f"Cluster {cluster['name']} is in status {cluster['status']}; it must be InService.")
    instances, logicals = _ids(params)
    targets = [(i, "NodeId", _by_instance(cluster, i)) for i in instances]
    targets += [(i, "NodeLogicalId", cluster["nodes"].get(i)) for i in logicals]
    answer: dict[str, Any] = {"Successful": [], "Failed": [], "SuccessfulNodeLogicalIds": [], "FailedNodeLogicalIds": []}
    for key, field, node in targets:
        suffix = "NodeLogicalIds" if field == "NodeLogicalId" else ""
        problem = _not_actable(cluster, key, node)
        if problem is not None or node is None:
            code, text = problem or ("InstanceIdNotFound", key)
            answer["Failed" + suffix].append({field: key, "ErrorCode": code, "Message": text})
        else:
            act(ctx.world, cluster, node)
            answer["Successful" + suffix].append(key)
    nudge(ctx.world, cluster)
    return {k: v for k, v in answer.items() if v}


def _not_actable(cluster: Cluster, key: str, node: Node | None) -> tuple[str, str] | None:
    if node is None:
        return "InstanceIdNotFound", f"Node {key} is not in cluster {cluster['name']}."
    if node["status"] == "SystemUpdating":
        return "InstanceIdInUse", f"Node {key} is being updated."
    if node["status"] not in ("Running", "Failure"):
        return "InvalidInstanceStatus", f"Node {key} is in status {node['status']}."
    return None


def replace(world: World, cluster: Cluster, node: Node) -> None:
    """Give a logical node another instance; its volumes are lost."""
    node["health"] = "UnschedulablePendingReplacement"
    retire(world, cluster, node, replace=True)


def batch_reboot_cluster_nodes(ctx: Context, **params: Any) -> dict[str, Any]:
    """BatchRebootClusterNodes."""
    return _each(ctx, params, reboot)


def batch_replace_cluster_nodes(ctx: Context, **params: Any) -> dict[str, Any]:
    """BatchReplaceClusterNodes."""
    return _each(ctx, params, replace)


OPERATIONS = {
    "BatchAddClusterNodes": batch_add_cluster_nodes,
    "BatchDeleteClusterNodes": batch_delete_cluster_nodes,
    "BatchRebootClusterNodes": batch_reboot_cluster_nodes,
    "BatchReplaceClusterNodes": batch_replace_cluster_nodes,
}
