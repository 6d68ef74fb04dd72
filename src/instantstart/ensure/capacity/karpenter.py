"""Managed Karpenter in Kubernetes: its kinds, and which instance group belongs to which node class.

Facts: aws-facts A12. A group that a HyperpodNodeClass names is scaled by Karpenter: a count set by hand is undone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from instantstart.aws.session import Aws
from instantstart.base import names, problems
from instantstart.ensure.iam import identity, principals
from instantstart.kube.client import KubeCluster

NODE_CLASS = "karpenter.sagemaker.amazonaws.com/v1/HyperpodNodeClass"
NODE_CLASS_GROUP, _, _ = NODE_CLASS.split("/")
NODE_POOL = "karpenter.sh/v1/NodePool"
NODE_CLAIM = "karpenter.sh/v1/NodeClaim"
#: the label of a node, and of a claim, that names its pool
POOL_LABEL = "karpenter.sh/nodepool"


def list_served(kube: KubeCluster, kind: str) -> list[dict[str, Any]]:
    """Every object of a kind; none when the cluster does not serve it (Karpenter was never switched on)."""
    try:
        return kube.list(kind)
    except problems.NotFound:
        return []


def groups_of(node_class: dict[str, Any]) -> tuple[str, ...]:
    """The instance groups that a HyperpodNodeClass names."""
    return tuple(node_class.get("spec", {}).get("instanceGroups") or ())


def karpenter_owners(kube: KubeCluster) -> dict[str, str]:
    """Instance group -> the node class that owns it. One read; empty where Karpenter is not served."""
    return {group: name for name, groups in _classes(kube) for group in groups}


def karpenter_owner(kube: KubeCluster, group_name: str) -> str | None:
    """The node class that owns an instance group, or None: nobody but a person scales it.

    Raises Unreachable or Denied when the cluster cannot be asked: "cannot read" is not "nobody".
    """
    return next((name for name, groups in _classes(kube) if group_name in groups), None)


def _classes(kube: KubeCluster) -> Iterator[tuple[str, tuple[str, ...]]]:
    for each in list_served(kube, NODE_CLASS):
        yield each["metadata"]["name"], groups_of(each)


#: what HyperPod does with the cluster role (aws-facts A8.3)
ROLE_ACTIONS = ("sagemaker:BatchAddClusterNodes", "sagemaker:BatchDeleteClusterNodes")
#: whom the cluster role trusts
ROLE_SERVICE = "hyperpod.sagemaker"
_GRANTED = ("CreateGrant", "Decrypt", "DescribeKey", "GenerateDataKeyWithoutPlaintext", "ReEncryptTo", "ReEncryptFrom", "RetireGrant")


def cluster_role(aws: Aws, derived: names.Names, boundary: str | None = None) -> identity.Role:
    """The role by which HyperPod adds and removes nodes for Karpenter, and grants their volumes' keys (aws-facts A8.3)."""
    scale = principals.allow(list(ROLE_ACTIONS), aws.arn("sagemaker", "cluster/*"))
    keys = principals.allow(["kms:CreateGrant", "kms:DescribeKey"], aws.arn("kms", "key/*"))
    keys["Condition"] = {
        "StringLike": {"kms:ViaService": f"sagemaker.*.{aws.dns_suffix}"},
        "Bool": {"kms:GrantIsForAWSResource": "true"},
        "ForAllValues:StringEquals": {"kms:GrantOperations": list(_GRANTED)},
    }
    documents = {"hyperpod-karpenter": principals.policy(scale, keys)}
    return identity.Role(derived.karpenter_role, principals.service_trust(ROLE_SERVICE), (), documents, boundary)


def autoscaling_status(cluster: dict[str, Any]) -> str:
    """Where AutoScaling of DescribeCluster stands: ``InService``, ``Creating``, ``Deleting``, ``Failed`` or ``Disabled``."""
    told = cluster.get("AutoScaling") or {}
    if told.get("Mode") != "Enable" and told.get("Status") != "Deleting":
        return "Disabled"
    return str(told.get("Status"))
