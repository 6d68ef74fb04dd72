"""MoveClusterNodes: nodes change their instance group, with its labels and taints; both target counts follow (service model, A1.6).

What AWS does to the instance itself is not documented: here it stays, with its id and its pods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from instantstart_sandbox.services.hyperpod.events import note_node
from instantstart_sandbox.services.hyperpod.state import Cluster, Group, Node, find, invalid, nodes_of, nudge, types_of

if TYPE_CHECKING:
    from instantstart_sandbox.gateway.registry import Context
    from instantstart_sandbox.world.state import World

_WAYS = ("InstanceCount", "NodeIds", "NodeLogicalIds")


def move_cluster_nodes(ctx: Context, **params: Any) -> dict[str, Any]:
    """MoveClusterNodes. A client token answers the same again; one bad id does not spoil the others."""
    source, target = find(ctx, params["SourceClusterArn"]), find(ctx, params["TargetClusterArn"])
    if source["arn"] != target["arn"]:
        raise invalid("The sandbox moves nodes inside one cluster only.")
    known: dict[str, Any] = source.setdefault("moves", {})
    token = params.get("ClientToken")
    if token in known:
        return dict(known[token])
    answer = _move(ctx.world, source, params)
    if token:
        known[token] = answer
    nudge(ctx.world, source)
    return answer


def _move(world: World, cluster: Cluster, params: dict[str, Any]) -> dict[str, Any]:
    if sum(bool(params.get(way)) for way in _WAYS) != 1:
        raise invalid(f"Exactly one of {', '.join(_WAYS)} must be specified.")
    if cluster["status"] != "InService":
        raise invalid(f"Cluster {cluster['name']} is in status {cluster['status']}; it must be InService.")
    here, there = (_group(cluster, params[f"{side}InstanceGroupName"]) for side in ("Source", "Target"))
    if here is there:
        raise invalid("Source and target instance group must differ.")
    found = _chosen(cluster, here, params)
    answer: dict[str, Any] = {"Successful": [], "Failed": [], "SuccessfulNodeLogicalIds": [], "FailedNodeLogicalIds": []}
    logical = bool(params.get("NodeLogicalIds"))
    suffix, field = ("NodeLogicalIds", "NodeLogicalId") if logical else ("", "NodeId")
    for key, node in found.items():
        problem = _problem(here, there, key, node)
        if problem is None and node is not None:
            _place(world, cluster, here, there, node)
            answer["Successful" + suffix].append(key)
        elif problem is not None:
            answer["Failed" + suffix].append({field: key, "Code": problem[0], "Message": problem[1]})
    return {k: v for k, v in answer.items() if v}


def _group(cluster: Cluster, name: str) -> Group:
    if name not in cluster["groups"]:
        raise invalid(f"Instance group {name} does not exist in cluster {cluster['name']}.")
    found: Group = cluster["groups"][name]
    return found


def _chosen(cluster: Cluster, here: Group, params: dict[str, Any]) -> dict[str, Node | None]:
    if params.get("NodeLogicalIds"):
        return {i: cluster["nodes"].get(i) for i in dict.fromkeys(params["NodeLogicalIds"])}
    by_id = {n["id"]: n for n in cluster["nodes"].values() if n["id"]}
    if params.get("NodeIds"):
        return {i: by_id.get(i) for i in dict.fromkeys(params["NodeIds"])}
    return {n["id"]: n for n in [n for n in nodes_of(cluster, here["name"]) if n["id"]][: params["InstanceCount"]]}


def _problem(here: Group, there: Group, key: str, node: Node | None) -> tuple[str, str] | None:
    if node is None or node["group"] != here["name"]:
        return "NodeIdNotFound", f"Node {key} is not in instance group {here['name']}."
    if node["status"] == "SystemUpdating":
        return "NodeIdInUse", f"Node {key} is being updated."
    if node["status"] != "Running":
        return "InvalidNodeStatus", f"Node {key} is in status {node['status']}."
    if node["type"] not in types_of(there):
        return "NodeInstanceTypeMismatch", f"Node {key} is {node['type']}; instance group {there['name']} has {', '.join(types_of(there))}."
    return None


def _place(world: World, cluster: Cluster, here: Group, there: Group, node: Node) -> None:
    here["target"] -= 1
    there["target"] += 1
    kubernetes = there["spec"].get("KubernetesConfig") or {}
    node |= {"group": there["name"], "labels": dict(kubernetes.get("Labels") or {}), "taints": list(kubernetes.get("Taints") or [])}
    note_node(world, cluster, node, f"Instance {node['id']} was moved from instance group {here['name']} to {there['name']}.")


OPERATIONS = {"MoveClusterNodes": move_cluster_nodes}
