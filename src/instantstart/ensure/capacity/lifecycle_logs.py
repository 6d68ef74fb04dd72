"""What the lifecycle script of an instance wrote: its stream in CloudWatch Logs, of which the end is read (aws-facts A1.1).

The stream is there once the script has run; the group belongs to the cluster's name and id, and outlives the cluster.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from instantstart.aws.session import Aws
from instantstart.base import problems

#: how much of the end is read, and how many pages are asked for it
_LINES, _CHARACTERS, _PAGES = 40, 4000, 5


@dataclass(frozen=True)
class ScriptLog:
    """The end of one script's log. ``text`` was written by others."""

    instance_id: str
    instance_group: str
    #: log group and stream, as CloudWatch's console takes them
    place: str
    text: str
    at: dt.datetime | None


def log_group(cluster: Mapping[str, Any]) -> str:
    """``/aws/sagemaker/Clusters/<name>/<id>`` of a cluster as DescribeCluster tells it."""
    return f"/aws/sagemaker/Clusters/{cluster['ClusterName']}/{cluster['ClusterArn'].rpartition('/')[2]}"


def read(aws: Aws, cluster: Mapping[str, Any], group: str, instance_id: str) -> ScriptLog | None:
    """The end of what the script of an instance wrote; None where it wrote nothing (yet). Raises Denied without logs:GetLogEvents."""
    place, stream = log_group(cluster), f"LifecycleConfig/{group}/{instance_id}"
    try:
        events = _last(aws, {"logGroupName": place, "logStreamName": stream, "limit": _LINES})
    except problems.NotFound:
        return None
    text = "\n".join(str(event.get("message", "")).rstrip() for event in events)[-_CHARACTERS:]
    if not text.strip():
        return None
    last = events[-1].get("timestamp")
    at = dt.datetime.fromtimestamp(last / 1000, dt.UTC) if last else None
    return ScriptLog(instance_id, group, f"{place} {stream}", text, at)


def _last(aws: Aws, where: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The last page that has something: CloudWatch may answer an empty one while there is more behind its token (GetLogEvents)."""
    token: dict[str, str] = {}
    for _ in range(_PAGES):
        told = aws.read("logs", "get_log_events", **where, startFromHead=False, **token)
        before = told.get("nextBackwardToken")
        if told.get("events") or not before or before == token.get("nextToken"):
            return list(told.get("events") or ())
        token = {"nextToken": before}
    return []
