"""Whether the nodes of one instance group are there: Running in SageMaker, Ready in Kubernetes; and why the rest are not."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from instantstart.aws.session import Aws
from instantstart.base import problems
from instantstart.base.counting import counted
from instantstart.base.outcome import Done, Outcome, Progress, Wait, pace
from instantstart.ensure.capacity import hyperpod, nodes, offers, shortages
from instantstart.ensure.capacity.shortages import Shortage
from instantstart.kube.client import KubeCluster

NODES_TYPICAL, JOIN_TYPICAL, CHECK_TYPICAL, GONE_TYPICAL = 60.0, 60.0, 5400.0, 60.0
RUNNING, CHECKING, LEAVING = "Running", "DeepHealthCheckInProgress", "ShuttingDown"
_TROUBLE = frozenset({"Error", "Warn"})
#: said while nodes join, and means nothing (aws-facts A1.8)
_NOISE = "lost orchestration-ready status"
_EVENTS = 20


@dataclass(frozen=True)
class Nodes:
    """The nodes of one group as ListClusterNodes tells them."""

    items: tuple[Mapping[str, Any], ...]

    def having(self, *statuses: str) -> tuple[Mapping[str, Any], ...]:
        """Those in one of these statuses."""
        return tuple(n for n in self.items if n["InstanceStatus"]["Status"] in statuses)

    @property
    def staying(self) -> tuple[Mapping[str, Any], ...]:
        """Those that are not on their way out."""
        return tuple(n for n in self.items if n["InstanceStatus"]["Status"] != LEAVING)


def read(aws: Aws, cluster_name: str, group: str) -> Nodes:
    """The nodes of a group, also those that have no instance yet. The filter of the API is a part of a name: compared again here."""
    found = aws.pages(
        "sagemaker",
        "list_cluster_nodes",
        "ClusterNodeSummaries",
        ClusterName=cluster_name,
        InstanceGroupNameContains=group,
        IncludeNodeLogicalIds=True,
        MaxResults=100,
    )
    return Nodes(tuple(n for n in found if n["InstanceGroupName"] == group))


def await_running(aws: Aws, cluster: Mapping[str, Any], group: Mapping[str, Any], wanted: int, waited_seconds: float) -> Outcome:
    """Wait until ``wanted`` nodes of a group are Running; a partial arrival is told as 3/8 with the reason for the rest."""
    seen = read(aws, cluster["ClusterName"], group["InstanceGroupName"])
    running, checking = seen.having(RUNNING), seen.having(CHECKING)
    if len(running) >= wanted:
        return Done({"running": len(running), "wanted": wanted, "instances": sorted(n["InstanceId"] for n in running)})
    told = f"{len(running)}/{wanted} nodes Running"
    if checking:
        told += f"; deep health checks run on {len(checking)}, which takes one to two hours"
    reason = None if len(running) + len(checking) >= wanted else why_late(aws, cluster, group, seen)
    told += f"; last problem: {reason}" if reason else ""
    typical = CHECK_TYPICAL if checking else NODES_TYPICAL
    short = _shortage(cluster, group, seen, wanted, (waited_seconds, reason)) if shortages.is_one(reason) and reason else None
    last_word = partial(shortages.exhausted, aws, short) if short else None
    return Wait(pace(waited_seconds, typical, near_from=0), told, Progress(len(running), wanted, "nodes"), last_word)


def _shortage(cluster: Mapping[str, Any], group: Mapping[str, Any], seen: Nodes, wanted: int, late: tuple[float, str]) -> Shortage | None:
    """``late``: seconds waited, and the reason."""
    if not group.get("InstanceType"):
        return None
    subnets = (group.get("OverrideVpcConfig") or cluster.get("VpcConfig") or {}).get("Subnets") or [""]
    spot = hyperpod.capacity_type(dict(group)) == "spot"
    return Shortage(str(group["InstanceType"]), str(subnets[0]), spot, len(seen.having(RUNNING)), wanted, *late)


def why_late(aws: Aws, cluster: Mapping[str, Any], group: Mapping[str, Any], seen: Nodes) -> str | None:
    """The newest trouble of a group in one sentence with the way out, or None: its own events only, never another group's."""
    on_nodes = next((n["InstanceStatus"]["Message"] for n in seen.items if n["InstanceStatus"].get("Message")), None)
    if not on_nodes and not seen.having("Failure"):
        return None  # all are on their way, and the events are not asked
    told = last_reason(aws, cluster["ClusterName"], group["InstanceGroupName"]) or on_nodes
    if told is None:
        return None
    if "capacity" in told.lower():
        others = offers.other_zones(aws, str(group.get("InstanceType", "")), "") if group.get("InstanceType") else []
        return f"{told} {group['InstanceType']} is offered in {', '.join(others)}." if others else told
    return f"{told} See {hyperpod.node_logs(aws, dict(cluster))}." if "ifecycle" in told else told


def last_reason(aws: Aws, cluster_name: str, group: str, since: dt.datetime | None = None) -> str | None:
    """The newest failure of a group: the FailureMessage of its event, which only DescribeClusterEvent has, else the description."""
    more = {"EventTimeAfter": since} if since else {}
    try:
        events = aws.read(
            "sagemaker",
            "list_cluster_events",
            ClusterName=cluster_name,
            InstanceGroupName=group,
            SortBy="EventTime",
            SortOrder="Descending",
            MaxResults=_EVENTS,
            **more,
        ).get("Events", [])
    except problems.Invalid:  # a cluster that keeps no events
        return None
    for event in events:
        if event.get("EventLevel") in _TROUBLE and _NOISE not in event.get("Description", ""):
            told = aws.read("sagemaker", "describe_cluster_event", ClusterName=cluster_name, EventId=event["EventId"])
            return _failure_message(told) or event.get("Description")
    return None


def _failure_message(told: Mapping[str, Any]) -> str | None:
    metadata = told.get("EventDetails", {}).get("EventDetails", {}).get("EventMetadata", {})
    return next((str(m["FailureMessage"]) for m in metadata.values() if isinstance(m, dict) and m.get("FailureMessage")), None)


def await_ready(kube: KubeCluster, instances: Collection[str], waited_seconds: float) -> Outcome:
    """Wait until these instances are nodes that Kubernetes calls Ready and can put pods on: only then are they nodes."""
    joined = [n for n in nodes.read(kube) if n.instance_id in instances]
    ready = [n for n in joined if n.usable]
    if len(ready) >= len(instances):
        return Done({"ready": len(ready), "nodes": [n.name for n in ready]})
    late = next((n for n in joined if n not in ready), None)
    told = f"{late.name}: {late.because}" if late else "the instances have not registered yet"
    return Wait(
        pace(waited_seconds, JOIN_TYPICAL, near_from=0.4),
        f"{len(ready)}/{len(instances)} nodes Ready; {told}",
        Progress(len(ready), len(instances), "nodes"),
    )


def await_checks(aws: Aws, cluster_name: str, group: str, waited_seconds: float) -> Wait | None:
    """Wait while deep health checks run in a group: changing it meanwhile leaves their results undefined (aws-facts part C 9)."""
    checking = read(aws, cluster_name, group).having(CHECKING)
    if not checking:
        return None
    since = min((n["LaunchTime"] for n in checking if n.get("LaunchTime")), default=None)
    started = f" since {since.astimezone(dt.UTC):%H:%M UTC}" if since else ""
    many = counted(len(checking), "node")
    told = f"Deep health checks run on {many} of {group}{started}; they take one to two hours, and this goes on then"
    return Wait(max(15.0, pace(waited_seconds, CHECK_TYPICAL)), told)
