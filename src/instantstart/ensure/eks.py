"""The EKS cluster: found by its name, ours by its tag, reached by what DescribeCluster tells."""

from __future__ import annotations

import base64
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


def ref(cluster: dict[str, Any], region: str) -> ClusterRef:
    """How to reach the API server of an ACTIVE cluster."""
    return ClusterRef(
        arn=cluster["arn"],
        name=cluster["name"],
        region=region,
        endpoint=cluster["endpoint"],
        ca_pem=base64.b64decode(cluster["certificateAuthority"]["data"]).decode(),
    )
