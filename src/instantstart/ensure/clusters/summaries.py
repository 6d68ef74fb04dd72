"""What a cluster is at this moment, read anew: the summary that a verification answers."""

from __future__ import annotations

from typing import Any

from instantstart.ensure import eks
from instantstart.ensure.capacity import hyperpod, nodes
from instantstart.ensure.sites import Site
from instantstart.ensure.storage import outside
from instantstart.kube.client import KubeCluster

_SHOWN = ("name", "instance_type", "zone", "ready", "schedulable", "health", "because")


def read(where: Site, kube: KubeCluster) -> dict[str, Any]:
    """EKS, HyperPod, nodes and S3 claims; ``verified`` when all wanted nodes are usable and every claim is bound."""
    cluster = eks.get_cluster(where.aws, where.eks_cluster)
    have = hyperpod.find_cluster(where.aws, where.hyperpod_cluster)
    groups = have["InstanceGroups"] if have else []
    seen, wanted = nodes.read(kube), sum(g["TargetCount"] for g in groups)
    kinds = {g["InstanceGroupName"]: hyperpod.capacity_type(g) for g in groups}
    ready = sum(n.usable for n in seen)
    claims = outside.list_s3_claims(kube)
    return {
        "tag": where.tag,
        "account": where.names.account,
        "region": where.aws.region,
        "eks": {"name": cluster["name"], "arn": cluster["arn"], "status": cluster["status"], "version": cluster["version"]},
        "hyperpod": {"name": have["ClusterName"], "arn": have["ClusterArn"], "status": have["ClusterStatus"]} if have else None,
        "nodes": {"wanted": wanted, "ready": ready, "items": [_told(n, kinds) for n in seen]},
        "storage": claims,
        "verified": cluster["status"] == "ACTIVE" and have is not None and ready >= wanted and bool(claims) and _bound(claims),
    }


def sentence(summary: dict[str, Any]) -> str:
    """``1/2 nodes Ready, storage Bound``."""
    told, claims = summary["nodes"], summary["storage"]
    return f"{told['ready']}/{told['wanted']} nodes Ready, storage {'Bound' if claims and _bound(claims) else 'not bound'}"


def _bound(claims: list[dict[str, Any]]) -> bool:
    return all(claim["bound"] for claim in claims)


def _told(node: nodes.NodeView, kinds: dict[str, str]) -> dict[str, Any]:
    return {**{key: getattr(node, key) for key in _SHOWN}, "capacity_type": node.capacity_type or kinds.get(node.group or "")}
