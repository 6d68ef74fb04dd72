"""HyperPod's access entries in EKS, made with the caller's own permissions (facts A5, A8.1)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from instantstart_sandbox.gateway.errors import AwsError
from instantstart_sandbox.services.arns import Arn, dns_suffix
from instantstart_sandbox.services.eks.access import policy_arn

if TYPE_CHECKING:
    from instantstart_sandbox.gateway.registry import Context

_LINKED_ROLE, _LINKED_USER = "AWSServiceRoleForSageMakerHyperPod", "hyperpod-service-linked-role"
_CLUSTER_SCOPE = {"type": "cluster"}
_SYSTEM_SCOPE = {"type": "namespace", "namespaces": ["kube-system", "aws-hyperpod"]}
#: what the service-linked role may do in the cluster
_LINKED_POLICIES = (
    ("AmazonSagemakerHyperpodClusterPolicy", _CLUSTER_SCOPE),
    ("AmazonSagemakerHyperpodControllerPolicy", _CLUSTER_SCOPE),
    ("AmazonSagemakerHyperpodSystemNamespacePolicy", _SYSTEM_SCOPE),
)


def make(ctx: Context, eks_cluster: str, roles: list[str]) -> dict[str, Any]:
    """Entries for the node roles and the service-linked role; those that are there stay.

    Answers what DescribeClusterEvent shows of them. Raises the AwsError that the caller's call to EKS would get.
    """
    name = Arn.parse(eks_cluster).name
    client = ctx.world.client("eks", ctx.region, ctx.principal_arn)
    try:
        node_entries = [_entry(client, name, role, type="HYPERPOD_LINUX") for role in roles]
        linked_role = _service_linked_role(ctx)
        linked_entry = _entry(client, name, linked_role, type="STANDARD", username=_LINKED_USER)
        for policy, scope in _LINKED_POLICIES:
            arn = policy_arn(ctx.partition, policy)
            client.associate_access_policy(clusterName=name, principalArn=linked_role, policyArn=arn, accessScope=scope)
    except ClientError as error:
        answer = error.response
        raise AwsError(answer["Error"]["Code"], answer["Error"]["Message"], answer["ResponseMetadata"]["HTTPStatusCode"]) from error
    return {"EksRoleAccessEntries": node_entries, "SlrAccessEntry": linked_entry}


def _entry(client: Any, cluster: str, principal: str, **more: str) -> str:
    try:
        made = client.create_access_entry(clusterName=cluster, principalArn=principal, **more)
    except client.exceptions.ResourceInUseException:
        made = client.describe_access_entry(clusterName=cluster, principalArn=principal)
    return str(made["accessEntry"]["accessEntryArn"])


def _service_linked_role(ctx: Context) -> str:
    iam = ctx.world.client("iam", ctx.region)
    service = f"hyperpod.sagemaker.{dns_suffix('aws')}"
    statement = {"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"}
    trust = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    try:
        return str(iam.get_role(RoleName=_LINKED_ROLE)["Role"]["Arn"])
    except ClientError:
        path = f"/aws-service-role/{service}/"
        return str(iam.create_role(RoleName=_LINKED_ROLE, Path=path, AssumeRolePolicyDocument=trust)["Role"]["Arn"])
