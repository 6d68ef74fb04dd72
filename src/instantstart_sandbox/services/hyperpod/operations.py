"""ListClusterOperations, DescribeClusterOperation: scalings and deep health checks of a Continuous cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from instantstart_sandbox.gateway.errors import AwsError
from instantstart_sandbox.services.hyperpod.state import Cluster, current_count, find, need_continuous, new_uuid
from instantstart_sandbox.services.paging import page

if TYPE_CHECKING:
    from instantstart_sandbox.gateway.registry import Context
    from instantstart_sandbox.world.state import World

_SUMMARY = ("OperationId", "ClusterArn", "Type", "Status", "CreationTime")


def counts(cluster: Cluster, name: str) -> dict[str, int]:
    """The counts of a group as an operation records them; zeros for a group that is not there yet."""
    group = cluster["groups"].get(name)
    if group is None:
        return {"CurrentCount": 0, "TargetCount": 0, "MinCount": 0}
    return {"CurrentCount": current_count(cluster, name), "TargetCount": group["target"], "MinCount": group["min"] or 0}


def start_scaling(world: World, cluster: Cluster, original: dict[str, dict[str, int]]) -> str:
    """Record a scaling of the groups in ``original``; earlier ones of the same groups are superseded. Answers its id."""
    for operation in cluster["operations"]:
        for detail in operation.get("ScalingDetails", []):
            if operation["Status"] == "InProgress" and detail["InstanceGroupName"] in original:
                detail["Status"] = operation["Status"] = "Superseded"
    details = [
        {
            "InstanceGroupName": name,
            "Status": "InProgress",
            "Original": before,
            "Desired": counts(cluster, name) | {"CurrentCount": counts(cluster, name)["TargetCount"]},
        }
        for name, before in original.items()
    ]
    return _record(world, cluster, "Scaling", {"ScalingDetails": details})


def start_health_check(world: World, cluster: Cluster, details: list[dict[str, Any]]) -> str:
    """Record a deep health check. Answers its id."""
    return _record(world, cluster, "DeepHealthCheck", {"DeepHealthCheckDetails": details})


def _record(world: World, cluster: Cluster, kind: str, more: dict[str, Any]) -> str:
    operation = {"OperationId": new_uuid(), "ClusterArn": cluster["arn"], "Type": kind, "Status": "InProgress"}
    operation |= {"CreationTime": world.clock.utc(), **more}
    cluster["operations"].append(operation)
    return str(operation["OperationId"])


def progress(cluster: Cluster) -> None:
    """Mark scalings whose groups have reached their targets as done."""
    for operation in cluster["operations"]:
        if operation["Type"] != "Scaling" or operation["Status"] != "InProgress":
            continue
        for detail in operation["ScalingDetails"]:
            now = counts(cluster, detail["InstanceGroupName"])
            if detail["Status"] == "InProgress" and now["CurrentCount"] == now["TargetCount"]:
                detail["Status"] = "Done"
        if all(d["Status"] != "InProgress" for d in operation["ScalingDetails"]):
            operation["Status"] = "Done"


def finish(cluster: Cluster, operation_id: str) -> None:
    """Mark one operation as done."""
    for operation in cluster["operations"]:
        if operation["OperationId"] == operation_id:
            operation["Status"] = "Done"


def list_cluster_operations(ctx: Context, **params: Any) -> dict[str, Any]:
    """ListClusterOperations, newest first unless asked otherwise."""
    cluster = find(ctx, params["ClusterName"])
    need_continuous(cluster, "ListClusterOperations")
    found = [o for o in cluster["operations"] if _wanted(o, params)]
    if params.get("SortOrder") != "Ascending":
        found.reverse()
    some, token = page(found, params.get("NextToken"), params.get("MaxResults"))
    return {"ClusterOperationSummaries": [{k: o[k] for k in _SUMMARY} for o in some]} | ({"NextToken": token} if token else {})


def _wanted(operation: dict[str, Any], params: dict[str, Any]) -> bool:
    if any(params.get(field) and operation[field] != params[field] for field in ("Status", "Type")):
        return False
    after, before = params.get("CreationTimeAfter"), params.get("CreationTimeBefore")
    return not (after and operation["CreationTime"] <= after) and not (before and operation["CreationTime"] >= before)


def describe_cluster_operation(ctx: Context, **params: Any) -> dict[str, Any]:
    """DescribeClusterOperation."""
    cluster = find(ctx, params["ClusterName"])
    need_continuous(cluster, "DescribeClusterOperation")
    for operation in cluster["operations"]:
        if operation["OperationId"] == params["OperationId"]:
            return dict(operation)
    raise AwsError("ResourceNotFound", f"Operation {params['OperationId']} not found in cluster {cluster['name']}")


OPERATIONS = {"ListClusterOperations": list_cluster_operations, "DescribeClusterOperation": describe_cluster_operation}
