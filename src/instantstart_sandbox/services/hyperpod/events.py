"""ListClusterEvents, DescribeClusterEvent and the events themselves. The reason of a failure is only in the description of one event."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from instantstart_sandbox.gateway.errors import AwsError
from instantstart_sandbox.services.hyperpod.state import Cluster, Node, find, need_continuous, new_uuid
from instantstart_sandbox.services.paging import page

if TYPE_CHECKING:
    from instantstart_sandbox.gateway.registry import Context
    from instantstart_sandbox.world.state import World

#: about so many are kept (facts A1.8)
_KEPT = 500


def note(world: World, cluster: Cluster, text: str, level: str = "Info", metadata: dict[str, Any] | None = None, **about: Any) -> None:
    """Add an event. ``about``: InstanceGroupName, InstanceId, OperationId; ``metadata``: one member of EventMetadata."""
    kind = "Instance" if "InstanceId" in about else "InstanceGroup" if "InstanceGroupName" in about else "Cluster"
    event = {
        "EventId": new_uuid(),
        "ClusterArn": cluster["arn"],
        "ClusterName": cluster["name"],
        "ResourceType": kind,
        "EventTime": world.clock.utc(),
        "Description": text,
        "EventLevel": level,
        "metadata": metadata or {},
    }
    cluster["events"].append(event | {k: v for k, v in about.items() if v})
    del cluster["events"][:-_KEPT]


def note_node(world: World, cluster: Cluster, node: Node, text: str, level: str = "Info", failure: str = "", script: str = "") -> None:
    """Add an event about one node, with its interfaces and, if given, the reason and the lifecycle script's state."""
    detail: dict[str, Any] = {"NodeLogicalId": node["logical"]}
    if node["interfaces"]:
        detail |= {"CustomerEni": node["interfaces"][0], "AdditionalEnis": {"EfaEnis": node["interfaces"][1:]}}
    detail |= {k: v for k, v in (("FailureMessage", failure), ("LcsExecutionState", script)) if v}
    note(world, cluster, text, level, {"Instance": detail}, InstanceGroupName=node["group"], InstanceId=node["id"])


def list_cluster_events(ctx: Context, **params: Any) -> dict[str, Any]:
    """ListClusterEvents, newest first unless asked otherwise."""
    cluster = find(ctx, params["ClusterName"])
    need_continuous(cluster, "ListClusterEvents")
    events = [e for e in cluster["events"] if _wanted(e, params)]
    if params.get("SortOrder") != "Ascending":
        events.reverse()
    some, token = page(events, params.get("NextToken"), params.get("MaxResults"))
    return {"Events": [_summary(e) for e in some]} | ({"NextToken": token} if token else {})


def _wanted(event: dict[str, Any], params: dict[str, Any]) -> bool:
    same = {"InstanceGroupName": "InstanceGroupName", "NodeId": "InstanceId", "ResourceType": "ResourceType", "OperationId": "OperationId"}
    if any(params.get(asked) and event.get(field) != params[asked] for asked, field in same.items()):
        return False
    after, before = params.get("EventTimeAfter"), params.get("EventTimeBefore")
    return not (after and event["EventTime"] <= after) and not (before and event["EventTime"] >= before)


def _summary(event: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in event.items() if k != "metadata"}


def describe_cluster_event(ctx: Context, **params: Any) -> dict[str, Any]:
    """DescribeClusterEvent: the only place that gives the reason."""
    cluster = find(ctx, params["ClusterName"])
    need_continuous(cluster, "DescribeClusterEvent")
    event = next((e for e in cluster["events"] if e["EventId"] == params["EventId"]), None)
    if event is None:
        raise AwsError("ResourceNotFound", f"Event {params['EventId']} not found in cluster {cluster['name']}")
    details = _summary(event)
    if event["metadata"]:
        details["EventDetails"] = {"EventMetadata": event["metadata"]}
    return {"EventDetails": details}


OPERATIONS = {"ListClusterEvents": list_cluster_events, "DescribeClusterEvent": describe_cluster_event}
