"""What HyperPod said of a cluster, a group or a node, with the reason that only an event's details tell (aws-facts A1.8)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from instantstart.aws.session import Aws
from instantstart.base import problems
from instantstart.ensure.capacity import instances

#: events do not change; their details are asked for once
_KEPT_SECONDS = 3600.0
#: written at each scaling, with a misleading reason (aws-facts A1.8)
NOISE = "lost orchestration-ready status"
TROUBLE = frozenset({"Error", "Warn"})


@dataclass(frozen=True)
class Said:
    """One event. ``reason`` is the FailureMessage of its details; both texts are of others."""

    event_id: str
    at: dt.datetime
    level: str
    group: str | None
    instance_id: str | None
    description: str
    reason: str | None = None

    @property
    def is_trouble(self) -> bool:
        """Whether it tells of something that went wrong."""
        return self.level in TROUBLE and NOISE not in self.description

    @property
    def text(self) -> str:
        """The reason, else what was described."""
        return self.reason or self.description


def read(aws: Aws, cluster: Mapping[str, Any], *, node: str | None = None, limit: int = 40, detailed: int = 8) -> list[Said]:
    """The newest events, newest first, with the reasons of the first ``detailed`` troubles; none of a cluster that keeps none."""
    if not instances.is_continuous(cluster):
        return []
    only = {"NodeId": node} if node else {}
    params = {"SortBy": "EventTime", "SortOrder": "Descending", "MaxResults": limit} | only
    told = aws.read("sagemaker", "list_cluster_events", ClusterName=cluster["ClusterArn"], **params)
    found = []
    for event in told.get("Events", ()):
        one = _said(event)
        if one.is_trouble and detailed > 0:
            one, detailed = _said(event, reason(aws, cluster, one.event_id)), detailed - 1
        found.append(one)
    return found


def reason(aws: Aws, cluster: Mapping[str, Any], event_id: str) -> str | None:
    """The FailureMessage of an event, whichever member of the union carries it; None when it tells none or cannot be read."""
    params = {"ClusterName": cluster["ClusterArn"], "EventId": event_id}
    try:
        told = aws.cached(f"event/{event_id}", _KEPT_SECONDS, lambda: aws.read("sagemaker", "describe_cluster_event", **params))
    except problems.Problem:
        return None
    metadata = told.get("EventDetails", {}).get("EventDetails", {}).get("EventMetadata", {})
    found = (member.get("FailureMessage") for member in metadata.values() if isinstance(member, dict))
    return next((str(text) for text in found if text), None)


def _said(event: Mapping[str, Any], told: str | None = None) -> Said:
    return Said(
        event["EventId"],
        event["EventTime"],
        event.get("EventLevel", "Info"),
        event.get("InstanceGroupName") or None,
        event.get("InstanceId") or None,
        event.get("Description", ""),
        told,
    )
