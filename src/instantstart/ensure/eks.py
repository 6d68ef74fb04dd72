"""The EKS cluster: found by its name, ours by its tag, reached by what DescribeCluster tells."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

from instantstart.aws.session import Aws
from instantstart.base import names, problems
from instantstart.kube.cluster_ref import ClusterRef


def find_cluster(aws: Aws, name: str) -> dict[str, Any] | None:
    """The cluster as DescribeCluster tells it, or None."""
    try:
        told: dict[str, Any] = aws.read("eks", "describe_cluster", name=name)["cluster"]
    except problems.NotFound:
        return None
    return told


def get_cluster(aws: Aws, name: str) -> dict[str, Any]:
    """The cluster. Raises NotFound that says where it was looked for."""
    found = find_cluster(aws, name)
    if found is None:
        where = f"account {aws.identity().account}, region {aws.region}"
        raise problems.NotFound(
            "eks.not_found",
            f"There is no EKS cluster {name} in {where}.",
            evidence={"account": aws.identity().account, "region": aws.region},
        )
    return found


def check_ours(cluster: dict[str, Any], tag: str) -> None:
    """Raise Conflict when the cluster does not carry our tag."""
    if cluster.get("tags", {}).get(names.CLUSTER_TAG) != tag:
        raise problems.Conflict(
            "eks.not_ours",
            f"An EKS cluster named {cluster['name']} exists and was not made for {tag}.",
            hint="Choose another tag, or import that cluster.",
            evidence={"cluster_arn": cluster["arn"]},
        )


def misfit(cluster: dict[str, Any], versions: Sequence[str]) -> tuple[str, str] | None:
    """Why HyperPod would refuse an EKS cluster, and the way to mend it; None when it fits (HyperPod EKS prerequisites, case 12)."""
    mode = cluster.get("accessConfig", {}).get("authenticationMode", "CONFIG_MAP")
    name = cluster["name"]
    if cluster["status"] == "FAILED":
        issues = "; ".join(str(i.get("message")) for i in cluster.get("health", {}).get("issues", ())) or "EKS tells no reason"
        return f"The EKS cluster {name} is FAILED: {issues}.", "Delete the cluster and create it again."
    if mode == "CONFIG_MAP":
        mend = f"aws eks update-cluster-config --name {name} --access-config authenticationMode=API_AND_CONFIG_MAP"
        return f"The EKS cluster {name} has the authentication mode CONFIG_MAP; HyperPod takes API or API_AND_CONFIG_MAP.", f"Run: {mend}"
    if versions and cluster["version"] not in versions:
        told = f"The EKS cluster {name} has Kubernetes {cluster['version']}; HyperPod takes {', '.join(versions)}."
        return told, "Upgrade it one minor version at a time: aws eks update-cluster-version."
    return None


def ref(cluster: dict[str, Any], region: str) -> ClusterRef:
    """How to reach the API server of a cluster. Raises Unreachable while it has none: EKS tells no endpoint of one it is still making."""
    if not cluster.get("endpoint") or not cluster.get("certificateAuthority", {}).get("data"):
        raise problems.Unreachable(
            "eks.no_endpoint",
            f"The EKS cluster {cluster['name']} is {cluster['status']} and has no API server yet.",
            hint="Wait until it is ACTIVE.",
            evidence={"cluster": cluster["arn"], "status": cluster["status"]},
        )
    return ClusterRef(
        arn=cluster["arn"],
        name=cluster["name"],
        region=region,
        endpoint=cluster["endpoint"],
        ca_pem=base64.b64decode(cluster["certificateAuthority"]["data"]).decode(),
    )
