"""SageMaker HyperPod clusters, groups and nodes: what DescribeCluster means, and why nodes are late.

Facts: aws-facts A1. In Continuous mode InService says nothing about nodes: a group has arrived when its current
count is its target count *and* Kubernetes calls the nodes Ready. The reason for a failed node is only in
DescribeClusterEvent.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from instantstart.aws.session import Aws
from instantstart.base import names, problems
from instantstart.ensure.capacity import lifecycle_logs
from instantstart.ensure.iam import identity, principals

_NOISE = "lost orchestration-ready status"
#: IAM's delay is seconds, two minutes at worst (case 13); what lasts longer is a wrong role
_ROLE_GRACE_SECONDS = 300.0


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


def is_ours(aws: Aws, cluster: dict[str, Any], tag: str) -> bool:
    """Whether a cluster carries our tag."""
    return cluster_tags(aws, cluster["ClusterArn"]).get(names.CLUSTER_TAG) == tag


def check_ours(aws: Aws, cluster: dict[str, Any], tag: str) -> None:
    """Raise Conflict when the cluster does not carry our tag."""
    if not is_ours(aws, cluster, tag):
        raise problems.Conflict(
            "hyperpod.not_ours",
            f"A HyperPod cluster named {cluster['ClusterName']} exists and was not made for {tag}.",
            hint="Choose another tag, or import that cluster.",
            evidence={"cluster_arn": cluster["ClusterArn"]},
        )


def list_nodes(aws: Aws, cluster: str) -> list[dict[str, Any]]:
    """Every node, also those that have no instance yet (Continuous mode)."""
    return aws.pages(
        "sagemaker", "list_cluster_nodes", "ClusterNodeSummaries", ClusterName=cluster, IncludeNodeLogicalIds=True, MaxResults=100
    )


def arrival(aws: Aws, cluster: dict[str, Any], group: str | None = None) -> Arrival:
    """How many of the wanted nodes are Running, with the event that says why the rest are not."""
    groups = [g for g in cluster["InstanceGroups"] if group in (None, g["InstanceGroupName"])]
    wanted = sum(g["TargetCount"] for g in groups)
    mine = {g["InstanceGroupName"] for g in groups}
    nodes = [n for n in list_nodes(aws, cluster["ClusterName"]) if n["InstanceGroupName"] in mine]
    running = sum(n["InstanceStatus"]["Status"] == "Running" for n in nodes)
    failed = sum(n["InstanceStatus"]["Status"] == "Failure" for n in nodes)
    reason = None
    told = next((n["InstanceStatus"]["Message"] for n in nodes if n["InstanceStatus"].get("Message")), None)
    if running < wanted and (told or failed or len(nodes) < wanted):  # else all are on their way, and the events are not asked
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
    return next(
        (str(member["FailureMessage"]) for member in metadata.values() if isinstance(member, dict) and member.get("FailureMessage")), None
    )


def find_plan(aws: Aws, arn: str) -> dict[str, Any] | None:
    """A training plan by ARN, or None."""
    try:
        return aws.read("sagemaker", "describe_training_plan", TrainingPlanName=arn)
    except problems.NotFound:
        return None


@dataclass(frozen=True)
class Place:
    """Where a new cluster's nodes go and how they start."""

    eks_arn: str
    subnet_id: str
    security_group_ids: tuple[str, ...]
    scripts_uri: str
    scripts_entry: str


#: what the VPC CNI does with the node role's rights; the Delete* ones are also how DeleteCluster ends (aws-facts A8.2, A1.7)
_INTERFACE_ACTIONS = [
    "ec2:AssignPrivateIpAddresses",
    "ec2:AttachNetworkInterface",
    "ec2:CreateNetworkInterface",
    "ec2:CreateNetworkInterfacePermission",
    "ec2:DeleteNetworkInterface",
    "ec2:DeleteNetworkInterfacePermission",
    "ec2:DetachNetworkInterface",
    "ec2:ModifyNetworkInterfaceAttribute",
    "ec2:UnassignPrivateIpAddresses",
]
_DESCRIBES = ["Instances", "InstanceTypes", "NetworkInterfaces", "Tags", "Vpcs", "DhcpOptions", "Subnets", "SecurityGroups"]
_IMAGES = ["ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetAuthorizationToken", "ecr:GetDownloadUrlForLayer"]


def node_role(aws: Aws, derived: names.Names, eks_cluster: str, boundary: str | None = None) -> identity.Role:
    """The execution role of the nodes: least privilege for HyperPod on EKS (aws-facts A8.2)."""
    partition, account = aws.partition, aws.identity().account
    anywhere = f"arn:{partition}:ec2:{aws.region}:{account}:"
    document = principals.policy(
        principals.allow(
            _INTERFACE_ACTIONS, [f"{anywhere}{kind}/*" for kind in ("instance", "network-interface", "subnet", "security-group")]
        ),
        principals.allow([f"ec2:Describe{noun}" for noun in _DESCRIBES], "*"),
        principals.allow(["ec2:CreateTags"], f"{anywhere}network-interface/*"),
        principals.allow(_IMAGES, "*"),
        principals.allow(["eks-auth:AssumeRoleForPodIdentity"], aws.arn("eks", f"cluster/{eks_cluster}")),
        principals.allow(["s3:GetObject", "s3:ListBucket"], [f"arn:{partition}:s3:::{derived.scripts_bucket}{end}" for end in ("", "/*")]),
    )
    trust, managed = principals.service_trust("sagemaker"), ("AmazonSageMakerClusterInstanceRolePolicy",)
    return identity.Role(derived.execution_role, trust, managed, {"hyperpod-node": document}, boundary)


def create_request(aws: Aws, derived: names.Names, ask: Any, place: Place, tags: Mapping[str, str]) -> dict[str, Any]:
    """The CreateCluster request: EKS, Continuous provisioning, automatic node recovery, one instance group.

    ``ask`` has the fields of HyperPodAsk. Limits and exclusions: aws-facts A1.2, A1.3.
    """
    network = {"SecurityGroupIds": list(place.security_group_ids), "Subnets": [place.subnet_id]}
    return {
        "ClusterName": derived.hyperpod_cluster,
        "Orchestrator": {"Eks": {"ClusterArn": place.eks_arn}},
        "NodeRecovery": "Automatic",
        "NodeProvisioningMode": "Continuous",
        "VpcConfig": network,
        "InstanceGroups": [_group(aws, derived, ask, place)],
        "Tags": [{"Key": k, "Value": v} for k, v in {**tags, names.SAGEMAKER_TAG: "true"}.items()],
    }


def request(aws: Aws, request_body: dict[str, Any], waited_seconds: float) -> str:
    """Ask SageMaker for a cluster; what to say of it. A cluster of that name that lists do not show yet is not asked for twice.

    A fresh role is not visible to SageMaker for a while: Busy, looked at again. Raises Blocked when that lasts: then it is no delay.
    """
    try:
        made = aws.create("sagemaker", "create_cluster", **request_body)
    except problems.Busy as problem:
        if problem.code != "aws.role_not_visible_yet" or waited_seconds < _ROLE_GRACE_SECONDS:
            raise
        raise problems.Blocked(
            "hyperpod.role_not_assumable",
            f"SageMaker still cannot assume the execution role after {waited_seconds:.0f} seconds: {problem.evidence['message']}",
            hint="Look at the role's trust and at organisation policies, then retry.",
            evidence=problem.evidence,
        ) from problem
    return "SageMaker took the request for the HyperPod cluster" if made else "The HyperPod cluster appeared a moment ago"


def create_failure(aws: Aws, cluster: dict[str, Any]) -> problems.Problem:
    """Why a cluster is Failed, with the place where its nodes write their logs."""
    reason = cluster.get("FailureMessage") or last_reason(aws, cluster["ClusterName"]) or "no reason told"
    kind = problems.Blocked if "capacity" in reason else problems.OutOfQuota if "limit" in reason else problems.Conflict
    return kind(
        "hyperpod.create_failed",
        f"SageMaker could not make the cluster: {reason}",
        hint="Mend it, or choose another zone or type, and retry: the failed cluster is removed and made again.",
        evidence={"service": "sagemaker", "cluster_arn": cluster["ClusterArn"], "message": reason, "logs": node_logs(aws, cluster)},
    )


def node_logs(aws: Aws, cluster: dict[str, Any]) -> str:
    """Where the lifecycle scripts write, and what is there: ``log group X: streams A, B`` (case 21)."""
    group = lifecycle_logs.log_group(cluster)
    try:
        told = aws.read("logs", "describe_log_streams", logGroupName=group, orderBy="LastEventTime", descending=True, limit=5)
    except problems.NotFound:
        return f"log group {group}: not there"
    except problems.Problem as problem:
        return f"log group {group}: could not be read ({problem.detail})"
    names_found = [stream["logStreamName"] for stream in told["logStreams"]]
    return f"log group {group}: " + (f"streams {', '.join(names_found)}" if names_found else "no streams")


def _group(aws: Aws, derived: names.Names, ask: Any, place: Place) -> dict[str, Any]:
    group: dict[str, Any] = {
        "InstanceGroupName": ask.instance_group_name,
        "InstanceType": ask.instance_type,
        "InstanceCount": ask.instance_count,
        "ExecutionRole": aws.arn("iam", f"role/{derived.execution_role}", regional=False),
        "LifeCycleConfig": {"SourceS3Uri": place.scripts_uri, "OnCreate": place.scripts_entry},
        "InstanceStorageConfigs": [{"EbsVolumeConfig": {"VolumeSizeInGB": ask.volume_gib}}],
    }
    if ask.deep_health_checks:
        group["OnStartDeepHealthChecks"] = list(ask.deep_health_checks)
    if ask.capacity_type == "training_plan":
        group["TrainingPlanArn"] = ask.training_plan_arn
    else:
        group["CapacityRequirements"] = {"Spot": {}} if ask.capacity_type == "spot" else {"OnDemand": {}}
    return group


def stuck_reason(aws: Aws, cluster: str) -> str | None:
    """Why a Deleting cluster does not end: the sign of a missing execution role (aws-facts A1.7), or None."""
    told = [n["InstanceStatus"].get("Message", "") for n in list_nodes(aws, cluster)]
    return next((m for m in told if "does not have permission to perform" in m), None)


def capacity_type(group: dict[str, Any]) -> str:
    """How a group of DescribeCluster is paid for: ``spot``, ``training_plan`` or ``on_demand``."""
    if group.get("TrainingPlanArn"):
        return "training_plan"
    return "spot" if "Spot" in (group.get("CapacityRequirements") or {}) else "on_demand"
