"""The instances of a HyperPod cluster as SageMaker lists them: one call for a hundred, none for each (aws-facts A1.6).

An instance id changes when a node is replaced; the logical id is there before the instance and stays. Only Continuous clusters
have logical ids; the others refuse to be asked for them.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from instantstart.aws.session import Aws
from instantstart.base import problems

_PAGE = 100
INSTANCE_ID = re.compile(r"i-(?:[0-9a-f]{8}|[0-9a-f]{17})")
NODE_PREFIX = "hyperpod-"


@dataclass(frozen=True)
class Instance:
    """One instance, or one that was asked for and has no ``instance_id`` yet. ``message`` is the last problem told; it stays."""

    logical_id: str | None
    instance_id: str | None
    group: str
    instance_type: str
    status: str
    message: str | None
    launched_at: dt.datetime | None
    software: str | None
    software_status: str | None
    software_updated_at: dt.datetime | None
    private_dns: str | None
    ultraserver: str | None

    @property
    def key(self) -> str:
        """What it is called in requests and results: its instance id, or its logical id while it has none."""
        return self.instance_id or self.logical_id or ""

    @property
    def node_name(self) -> str | None:
        """What Kubernetes calls it."""
        return NODE_PREFIX + self.instance_id if self.instance_id else None


def is_continuous(cluster: Mapping[str, Any]) -> bool:
    """Whether a described cluster provisions continuously: it then has logical ids, events and operations."""
    return bool(cluster.get("NodeProvisioningMode") == "Continuous")


def read(aws: Aws, cluster: Mapping[str, Any]) -> tuple[Instance, ...]:
    """Every instance of a described cluster, also those only asked for, read anew. Raises what the API does."""
    more = {"IncludeNodeLogicalIds": True} if is_continuous(cluster) else {}
    told = aws.pages("sagemaker", "list_cluster_nodes", "ClusterNodeSummaries", ClusterName=cluster["ClusterArn"], MaxResults=_PAGE, **more)
    return tuple(view(each) for each in told)


def describe_id(aws: Aws, cluster: Mapping[str, Any], instance_id: str | None, logical_id: str | None) -> dict[str, Any] | None:
    """What DescribeClusterNode tells of a node; None when it is gone. Only one id may be sent: the logical one outlives a replacement."""
    asked = {"NodeLogicalId": logical_id} if logical_id else {"NodeId": instance_id}
    try:
        found = aws.read("sagemaker", "describe_cluster_node", ClusterName=cluster["ClusterArn"], **asked)
    except problems.NotFound:
        return None
    return dict(found["NodeDetails"])


def view(told: Mapping[str, Any]) -> Instance:
    """One entry of ListClusterNodes, or the details of DescribeClusterNode."""
    status = told["InstanceStatus"]
    return Instance(
        logical_id=told.get("NodeLogicalId") or None,
        instance_id=told.get("InstanceId") or None,
        group=told["InstanceGroupName"],
        instance_type=told["InstanceType"],
        status=status["Status"],
        message=status.get("Message") or None,
        launched_at=told.get("LaunchTime"),
        software=told.get("CurrentImageReleaseVersion"),
        software_status=told.get("ImageVersionStatus"),
        software_updated_at=told.get("LastSoftwareUpdateTime"),
        private_dns=told.get("PrivateDnsHostname"),
        ultraserver=(told.get("UltraServerInfo") or {}).get("Id"),
    )
