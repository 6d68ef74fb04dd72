"""SageMaker HyperPod clusters, groups and nodes: what DescribeCluster means, and why nodes are late.

Facts: aws-facts A1. In Continuous mode InService says nothing about nodes: a group has arrived when its current
count is its target count *and* Kubernetes calls the nodes Ready. The reason for a failed node is only in
DescribeClusterEvent.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any

from instantstart.aws.session import Aws
from instantstart.base import names, problems

_NOISE = "lost orchestration-ready status"


@dataclass(frozen=True)
class Arrival:
    """How much of a cluster is there: nodes Running, nodes wanted, nodes that failed, and the last reason told."""

    running: int
    wanted: int
    failed: int
    reason: str | None

    @property
    def is_complete(self) -> bool:
        return self.running >= self.wanted


def find_cluster(aws: Aws, name: str) -> dict[str, Any] | None:
    """The cluster as DescribeCluster tells it, or None."""
    try:
        return aws.read("sagemaker", "describe_cluster", ClusterName=name)
    except problems.NotFound:
        return None


def cluster_tags(aws: Aws, arn: str) -> dict[str, str]:
    """The tags of a cluster (DescribeCluster does not tell them)."""
    return {t["Key"]: t["Value"] for t in aws.pages("sagemaker", "list_tags", "Tags", ResourceArn=arn)}


def check_ours(aws: Aws, cluster: dict[str, Any], tag: str) -> None:
    """Raise Conflict when the cluster does not carry our tag."""
    if cluster_tags(aws, cluster["ClusterArn"]).get(names.CLUSTER_TAG) != tag:
        raise problems.Conflict(
            "hyperpod.not_ours",
            f"A HyperPod cluster named {cluster['ClusterName']} exists and was not made for {tag}.",
            hint="Choose another tag, or import that cluster.",
            evidence={"cluster_arn": cluster["ClusterArn"]},
        )


def list_nodes(aws: Aws, cluster: str) -> list[dict[str, Any]]:
    """Every node, also those that have no instance yet (Continuous mode)."""
    return aws.pages("sagemaker", "list_cluster_nodes", "ClusterNodeSummaries", ClusterName=cluster, IncludeNodeLogicalIds=True, MaxResults=100)


def arrival(aws: Aws, cluster: dict[str, Any], group: str | None = None) -> Arrival:
    """How many of the wanted nodes are Running, with the event that says why the rest are not."""
    groups = [g for g in cluster["InstanceGroups"] if group in (None, g["InstanceGroupName"])]
    wanted = sum(g["TargetCount"] for g in groups)
    mine = {g["InstanceGroupName"] for g in groups}
    nodes = [n for n in list_nodes(aws, cluster["ClusterName"]) if n["InstanceGroupName"] in mine]
    running = sum(n["InstanceStatus"]["Status"] == "Running" for n in nodes)
    failed = sum(n["InstanceStatus"]["Status"] == "Failure" for n in nodes)
    reason = None
    if running < wanted:
        told = next((n["InstanceStatus"].get("Message") for n in nodes if n["InstanceStatus"]["Status"] == "Failure"), None)
        reason = last_reason(aws, cluster["ClusterName"]) or told
    return Arrival(running, wanted, failed, reason)


def list_events(aws: Aws, cluster: str, since: dt.datetime | None = None, limit: int = 100) -> list[dict[str, Any]]:
    """The newest events of a Continuous cluster, newest first; empty for a cluster that keeps none."""
    params: dict[str, Any] = {"ClusterName": cluster, "SortBy": "EventTime", "SortOrder": "Descending", "MaxResults": limit}
    if since:
        params["EventTimeAfter"] = since
    try:
        return list(aws.read("sagemaker", "list_cluster_events", **params).get("Events", []))
    except problems.Invalid:
        return []


def last_reason(aws: Aws, cluster: str) -> str | None:
    """The newest failure in one sentence: the event's own FailureMessage, else its description."""
    for event in list_events(aws, cluster, limit=20):
        if event.get("EventLevel") in ("Error", "Warn") and _NOISE not in event.get("Description", ""):
            told = aws.read("sagemaker", "describe_cluster_event", ClusterName=cluster, EventId=event["EventId"])
            return _failure_message(told) or event.get("Description")
    return None


def _failure_message(told: dict[str, Any]) -> str | None:
    metadata = told.get("EventDetails", {}).get("EventDetails", {}).get("EventMetadata", {})
    return next((str(member["FailureMessage"]) for member in metadata.values() if isinstance(member, dict) and member.get("FailureMessage")), None)


def find_plan(aws: Aws, arn: str) -> dict[str, Any] | None:
    """A training plan by ARN, or None."""
    try:
        return aws.read("sagemaker", "describe_training_plan", TrainingPlanName=arn)
    except problems.NotFound:
        return None
