"""The few AWS managed policies that HyperPod on EKS needs. moto carries the texts of all 1,582; loading them costs 25 MB of state."""

from __future__ import annotations

import functools
import json
from typing import Any

from moto.iam.aws_managed_policies import aws_managed_policies_data
from moto.iam.models import AWSManagedPolicy, IAMBackend

NAMES = (
    "AdministratorAccess",
    "AmazonEKSClusterPolicy",
    "AmazonEKSWorkerNodePolicy",
    "AmazonEKS_CNI_Policy",
    "AmazonEKSVPCResourceController",
    "AmazonEKSServicePolicy",
    "AmazonEC2ContainerRegistryReadOnly",
    "AmazonEC2ContainerRegistryPullOnly",
    "AmazonEBSCSIDriverPolicy",
    "AmazonFSxFullAccess",
    "AmazonS3FullAccess",
    "AmazonS3ReadOnlyAccess",
    "AmazonSSMManagedInstanceCore",
    "AmazonSageMakerFullAccess",
    "AmazonSageMakerClusterInstanceRolePolicy",
    "AmazonSageMakerHyperPodTrainingOperatorAccess",
    "AmazonSageMakerHyperPodInferenceAccess",
    "AmazonSageMakerHyperPodGatedModelAccess",
    "AmazonSageMakerHyperPodObservabilityAdminAccess",
    "AmazonPrometheusRemoteWriteAccess",
    "CloudWatchAgentServerPolicy",
)
#: AWS has it and moto does not; what it allows is from AWS's managed policy reference
_SERVICE_ROLE = {
    "Version": "2012-10-17",
    "Statement": [
        {"Effect": "Allow", "Action": ["eks:DescribeCluster"], "Resource": "*"},
        {"Effect": "Allow", "Action": ["logs:CreateLogGroup", "logs:CreateLogStream", "logs:PutLogEvents"], "Resource": "*"},
    ],
}
_MADE = "2024-09-06T00:00:00+00:00"


@functools.cache
def _texts() -> dict[str, dict[str, Any]]:
    every: dict[str, dict[str, Any]] = json.loads(aws_managed_policies_data)
    found = {name: every[name] for name in NAMES if name in every}
    found["AmazonSageMakerHyperPodServiceRolePolicy"] = {
        "DefaultVersionId": "v1",
        "Path": "/aws-service-role/",
        "Document": _SERVICE_ROLE,
        "CreateDate": _MADE,
        "UpdateDate": _MADE,
    }
    return found


def seed(backend: IAMBackend, partition: str) -> None:
    """Add the policies to an IAM backend that has none of them."""
    if backend.aws_managed_policies:
        return
    for name, data in _texts().items():
        document = json.loads(json.dumps(data["Document"]).replace("arn:aws:", f"arn:{partition}:"))
        policy = AWSManagedPolicy.from_data(name, backend.account_id, backend.region_name, {**data, "Document": document})
        backend.aws_managed_policies.append(policy)
        backend.managed_policies[policy.arn] = policy
