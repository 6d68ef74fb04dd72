"""What services beside network, compute and identity hold of an account, one line each: the rest of ``worlds.inventory``.

A kind that is not listed here cannot be left over, twice or missing in any run of tests/weather without being overlooked.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable
from typing import Any

from botocore.exceptions import ClientError

#: CloudWatch's log groups are not here: SageMaker makes them, and they outlive the cluster that they tell of.
#: of a service, by its client: (service, what is listed, under which key, what a line says of each)
_KINDS: tuple[tuple[str, str, str, Callable[[dict[str, Any]], str]], ...] = (
    ("sagemaker", "list_mlflow_tracking_servers", "TrackingServerSummaries", lambda s: f"{s['TrackingServerName']} {s['IsActive']}"),
    ("sagemaker", "list_mlflow_apps", "Summaries", lambda s: f"{s['Name']} {s['Status']}"),
    ("sagemaker", "list_endpoints", "Endpoints", lambda s: f"{s['EndpointName']} {s['EndpointStatus']}"),
    ("sagemaker", "list_endpoint_configs", "EndpointConfigs", lambda s: str(s["EndpointConfigName"])),
    ("sagemaker", "list_models", "Models", lambda s: str(s["ModelName"])),
    ("amp", "list_workspaces", "workspaces", lambda s: f"{s.get('alias')} {s['status']['statusCode']} {s.get('tags')}"),
    ("elbv2", "describe_load_balancers", "LoadBalancers", lambda s: f"{s['Type']} {s['Scheme']}"),
    ("elbv2", "describe_target_groups", "TargetGroups", lambda s: f"{s.get('Protocol')} {s.get('Port')}"),
    ("secretsmanager", "list_secrets", "SecretList", lambda s: str(s["Name"])),
    ("ecr", "describe_repositories", "repositories", lambda s: str(s["repositoryName"])),
    ("ec2", "describe_volumes", "Volumes", lambda s: f"{s['State']} {s['Size']}"),
    ("ec2", "describe_launch_templates", "LaunchTemplates", lambda s: str(s["LaunchTemplateName"])),
    ("iam", "list_instance_profiles", "InstanceProfiles", lambda s: str(s["InstanceProfileName"])),
)

#: how the lines begin of what outlives a cluster, as its deletion's plan says: MLflow's servers and apps hold what was recorded
OUTLIVES = ("sagemaker TrackingServerSummaries ", "sagemaker Summaries ")


def listed(client: Any, operation: str, key: str, **given: Any) -> list[Any]:
    """Every page of a listing: the sandbox answers short ones, as AWS may."""
    if not client.can_paginate(operation):
        return list(getattr(client, operation)(**given).get(key, ()))
    return [each for page in client.get_paginator(operation).paginate(**given) for each in page.get(key, ())]


def held(client: Callable[[str], Any]) -> Iterable[str]:
    """One line for each thing of a service. ``client`` gives the client of a service."""
    for service, operation, key, line in _KINDS:
        yield from (f"{service} {key} {line(each)}" for each in listed(client(service), operation, key))
    for policy in listed(client("iam"), "list_policies", "Policies", Scope="Local"):
        yield f"policy {policy['PolicyName']}"


def of_eks(eks: Any, cluster: str) -> Iterable[str]:
    """What an EKS cluster lets in and lends: policies of its access entries, identities of pods, node groups."""
    for entry in listed(eks, "list_access_entries", "accessEntries", clusterName=cluster):
        told = listed(eks, "list_associated_access_policies", "associatedAccessPolicies", clusterName=cluster, principalArn=entry)
        yield f"access-policies {cluster}/{entry} {sorted(each['policyArn'].rpartition('/')[2] for each in told)}"
    for tie in listed(eks, "list_pod_identity_associations", "associations", clusterName=cluster):
        role = eks.describe_pod_identity_association(clusterName=cluster, associationId=tie["associationId"])["association"]["roleArn"]
        yield f"pod-identity {cluster} {tie['namespace']}/{tie['serviceAccount']} {role}"
    yield from (f"node-group {cluster}/{name}" for name in listed(eks, "list_nodegroups", "nodegroups", clusterName=cluster))


def of_role(role: dict[str, Any]) -> str:
    """Whom a role trusts."""
    return json.dumps(role["AssumeRolePolicyDocument"], sort_keys=True)


def of_bucket(s3: Any, bucket: str) -> str:
    """How a bucket is guarded: what is closed, what is encrypted, what its policy says, its tags."""
    found: dict[str, Any] = {}
    for operation, key in (
        ("get_public_access_block", "PublicAccessBlockConfiguration"),
        ("get_bucket_encryption", "ServerSideEncryptionConfiguration"),
        ("get_bucket_policy", "Policy"),
        ("get_bucket_tagging", "TagSet"),
    ):
        with contextlib.suppress(ClientError):  # none is an answer
            found[key] = getattr(s3, operation)(Bucket=bucket)[key]
    return json.dumps(found, sort_keys=True)
