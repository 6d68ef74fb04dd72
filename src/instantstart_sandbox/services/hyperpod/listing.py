"""DescribeCluster, ListClusters, ListClusterNodes, DescribeClusterNode, DeleteCluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from instantstart_sandbox.gateway.errors import AwsError
from instantstart_sandbox.services.hyperpod.events import note
from instantstart_sandbox.services.hyperpod.provision import retire
from instantstart_sandbox.services.hyperpod.state import Cluster, Node, conflict, continuous, find, in_region, invalid, nudge
from instantstart_sandbox.services.hyperpod.views import cluster_view, node_details, node_summary
from instantstart_sandbox.services.paging import page

if TYPE_CHECKING:
    from instantstart_sandbox.gateway.registry import Context


def describe_cluster(ctx: Context, **params: Any) -> dict[str, Any]:
    """DescribeCluster."""
    return cluster_view(ctx.world, find(ctx, params["ClusterName"]))


def list_clusters(ctx: Context, **params: Any) -> dict[str, Any]:
    """ListClusters, newest first unless asked otherwise."""
    found = [c for c in in_region(ctx.world, ctx.region) if _wanted(c, params)]
    key = "name" if params.get("SortBy") == "NAME" else "created"
    found.sort(key=lambda c: c[key], reverse=params.get("SortOrder") != "Ascending")
    some, token = page(found, params.get("NextToken"), params.get("MaxResults"))
    return {"ClusterSummaries": [_summary(c) for c in some]} | ({"NextToken": token} if token else {})


def _wanted(cluster: Cluster, params: dict[str, Any]) -> bool:
    after, before = params.get("CreationTimeAfter"), params.get("CreationTimeBefore")
    plan = params.get("TrainingPlanArn")
    return (
        params.get("NameContains", "") in cluster["name"]
        and not (after and cluster["created"] <= after)
        and not (before and cluster["created"] >= before)
        and not (plan and plan not in _plans(cluster))
    )


def _plans(cluster: Cluster) -> list[str]:
    return sorted({g["spec"]["TrainingPlanArn"] for g in cluster["groups"].values() if "TrainingPlanArn" in g["spec"]})


def _summary(cluster: Cluster) -> dict[str, Any]:
    view = {
        "ClusterArn": cluster["arn"],
        "ClusterName": cluster["name"],
        "CreationTime": cluster["created"],
        "ClusterStatus": cluster["status"],
    }
    return view | ({"TrainingPlanArns": _plans(cluster)} if _plans(cluster) else {})


def list_cluster_nodes(ctx: Context, **params: Any) -> dict[str, Any]:
    """ListClusterNodes. Nodes without an instance show only with IncludeNodeLogicalIds, in Continuous mode (facts A1.6)."""
    cluster = find(ctx, params["ClusterName"])
    logical = bool(params.get("IncludeNodeLogicalIds"))
    if logical and not continuous(cluster):
        raise invalid("IncludeNodeLogicalIds is only supported for clusters with NodeProvisioningMode Continuous.")
    nodes = [n for n in cluster["nodes"].values() if (n["id"] or logical) and _wanted_node(n, params)]
    key = "group" if params.get("SortBy") == "NAME" else "launched"
    nodes.sort(key=lambda n: (n[key], n["logical"]), reverse=params.get("SortOrder") == "Descending")
    some, token = page(nodes, params.get("NextToken"), params.get("MaxResults"))
    return {"ClusterNodeSummaries": [node_summary(cluster, n, logical) for n in some]} | ({"NextToken": token} if token else {})


def _wanted_node(node: Node, params: dict[str, Any]) -> bool:
    after, before = params.get("CreationTimeAfter"), params.get("CreationTimeBefore")
    return (
        params.get("InstanceGroupNameContains", "") in node["group"]
        and not (after and node["launched"] <= after)
        and not (before and node["launched"] >= before)
    )


def describe_cluster_node(ctx: Context, **params: Any) -> dict[str, Any]:
    """DescribeClusterNode, by NodeId or NodeLogicalId."""
    cluster = find(ctx, params["ClusterName"])
    instance, logical = params.get("NodeId"), params.get("NodeLogicalId")
    if bool(instance) == bool(logical):
        raise invalid("Exactly one of NodeId and NodeLogicalId must be specified.")
    for node in cluster["nodes"].values():
        if (instance and node["id"] == instance) or (logical and node["logical"] == logical):
            return {"NodeDetails": node_details(cluster, node)}
    raise AwsError("ResourceNotFound", f"Node {instance or logical} not found in cluster {cluster['name']}.")


def delete_cluster(ctx: Context, **params: Any) -> dict[str, Any]:
    """DeleteCluster. Refused while the cluster is created or updated; a Failed one can be deleted (facts A1.7)."""
    cluster = find(ctx, params["ClusterName"])
    if cluster["status"] not in ("InService", "Failed"):
        raise conflict(f"Cluster {cluster['name']} is in status {cluster['status']} and cannot be deleted.")
    cluster["status"] = "Deleting"
    note(ctx.world, cluster, f"Deletion of cluster {cluster['name']} has started.")
    for node in list(cluster["nodes"].values()):
        node["replacing"] = False
        retire(ctx.world, cluster, node)
    for group in cluster["groups"].values():
        group |= {"target": 0, "gated": False}
    ctx.clock.after(ctx.world.settings.cluster_delete_seconds, "hyperpod.cluster.gone", arn=cluster["arn"])
    nudge(ctx.world, cluster)
    return {"ClusterArn": cluster["arn"]}


OPERATIONS = {
    "DescribeCluster": describe_cluster,
    "ListClusters": list_clusters,
    "ListClusterNodes": list_cluster_nodes,
    "DescribeClusterNode": describe_cluster_node,
    "DeleteCluster": delete_cluster,
}
