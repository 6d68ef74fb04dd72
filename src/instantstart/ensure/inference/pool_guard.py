"""The API server itself keeps a ReplicaSet from taking a worker that works for somebody: an admission policy, so that no race is left.

The deletion cost only orders pods that are equally ready, and an autoscaler asks nobody: this refuses the deletion, whoever lowered the
replicas. People, drains and the garbage collector may still delete. Facts: Kubernetes, "Validating Admission Policy" (stable from 1.30);
controllers of EKS act as ``system:serviceaccount:kube-system:<controller>``.
"""

from __future__ import annotations

from typing import Any

from instantstart.ensure.inference import serving
from instantstart.ensure.inference.serving import BUSINESS, PART, RETIRING, UNASSIGNED
from instantstart.ensure.installs.releases import MANAGED_BY, MANAGER
from instantstart.kube.client import KubeCluster

NAME = "instantstart-bound-workers"
_GROUP = "admissionregistration.k8s.io/v1"
POLICY, BINDING = f"{_GROUP}/ValidatingAdmissionPolicy", f"{_GROUP}/ValidatingAdmissionPolicyBinding"
_WHO = "system:serviceaccount:kube-system:replicaset-controller"


def resources() -> tuple[dict[str, Any], ...]:
    """The policy and its binding."""
    metadata = {"name": NAME, "labels": {MANAGED_BY: MANAGER, "app.kubernetes.io/name": "model-pool"}}
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["pods"]}
    free = f"['{UNASSIGNED}', '{RETIRING}']"
    label = f"oldObject.metadata.labels['{BUSINESS}']"
    expression = f"!('{BUSINESS}' in oldObject.metadata.labels) || {label} in {free}"
    policy = {
        "apiVersion": _GROUP,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": metadata,
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "resourceRules": [rule],
                "objectSelector": {"matchLabels": {MANAGED_BY: MANAGER, PART: "model-pool"}},
            },
            "matchConditions": [{"name": "by-a-replica-set", "expression": f"request.userInfo.username == '{_WHO}'"}],
            "validations": [
                {"expression": expression, "message": "The worker works for a business: release it first.", "reason": "Forbidden"}
            ],
        },
    }
    binding = {
        "apiVersion": _GROUP,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": metadata,
        "spec": {"policyName": NAME, "validationActions": ["Deny"]},
    }
    return policy, binding


def ensure(kube: KubeCluster) -> bool:
    """Make it be there. False where the cluster has no admission policies: then only order and cost protect."""
    if not kube.serves(POLICY):
        return False
    for resource in resources():
        kube.apply(resource, force=True)
    return True


def stands(kube: KubeCluster) -> bool:
    """Whether it is there."""
    return all(kube.find(kind, NAME) is not None for kind in (POLICY, BINDING))


def remove_if_last(kube: KubeCluster) -> None:
    """Take it away when no pool is left."""
    if not kube.list("Deployment", labels=serving.selector("model-pool")) and kube.serves(POLICY):
        for kind in (BINDING, POLICY):
            kube.delete(kind, NAME)
