"""Which IAM action a call is, and on which resources: the part of AWS's service authorization reference that is needed here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from moto.ec2.models import ec2_backends

from instantstart_sandbox.gateway.registry import Context

#: botocore's service name -> IAM's prefix, where they differ
_PREFIX = {
    "cloudwatch": "cloudwatch",
    "amp": "aps",
    "service-quotas": "servicequotas",
    "elbv2": "elasticloadbalancing",
    "elb": "elasticloadbalancing",
    "resourcegroupstaggingapi": "tag",
    "efs": "elasticfilesystem",
    "s3control": "s3",
}
#: S3's actions are not named after its operations
_S3 = {
    "ListBuckets": "ListAllMyBuckets",
    "HeadBucket": "ListBucket",
    "ListObjects": "ListBucket",
    "ListObjectsV2": "ListBucket",
    "ListObjectVersions": "ListBucketVersions",
    "HeadObject": "GetObject",
    "DeleteObjects": "DeleteObject",
    "CopyObject": "PutObject",
    "CreateMultipartUpload": "PutObject",
    "UploadPart": "PutObject",
    "CompleteMultipartUpload": "PutObject",
    "ListMultipartUploads": "ListBucketMultipartUploads",
    "ListParts": "ListMultipartUploadParts",
    "GetBucketEncryption": "GetEncryptionConfiguration",
    "PutBucketEncryption": "PutEncryptionConfiguration",
    "DeleteBucketEncryption": "PutEncryptionConfiguration",
    "GetPublicAccessBlock": "GetBucketPublicAccessBlock",
    "PutPublicAccessBlock": "PutBucketPublicAccessBlock",
    "DeletePublicAccessBlock": "PutBucketPublicAccessBlock",
    "GetBucketLifecycleConfiguration": "GetLifecycleConfiguration",
    "PutBucketLifecycleConfiguration": "PutLifecycleConfiguration",
    "DeleteBucketTagging": "PutBucketTagging",
    "DeleteBucketCors": "PutBucketCORS",
}
_EC2_KINDS = {
    "vpc": "vpc",
    "subnet": "subnet",
    "sg": "security-group",
    "sgr": "security-group-rule",
    "rtb": "route-table",
    "igw": "internet-gateway",
    "nat": "natgateway",
    "eipalloc": "elastic-ip",
    "eni": "network-interface",
    "vpce": "vpc-endpoint",
    "i": "instance",
    "vol": "volume",
    "pl": "prefix-list",
    "cr": "capacity-reservation",
    "lt": "launch-template",
}
_EC2_ID = re.compile(r"(?P<kind>[a-z]+)-[0-9a-f]{8,17}")
#: (service, parameter) -> the resource part of the ARN
_NAMED = {
    ("eks", "name"): "cluster/{}",
    ("eks", "clusterName"): "cluster/{}",
    ("sagemaker", "ClusterName"): "cluster/{}",
    ("sagemaker", "TrackingServerName"): "mlflow-tracking-server/{}",
    ("cloudformation", "StackName"): "stack/{}/*",
    ("logs", "logGroupName"): "log-group:{}",
    ("ecr", "repositoryName"): "repository/{}",
    ("ssm", "Name"): "parameter/{}",
    ("fsx", "FileSystemId"): "file-system/{}",
}
_IAM_NAMED = {
    "RoleName": "role/{}",
    "UserName": "user/{}",
    "GroupName": "group/{}",
    "InstanceProfileName": "instance-profile/{}",
    "PolicyName": "policy/{}",
}
_ROLE_PARAMETERS = re.compile(r"(?:^|\.)(roleArn|RoleArn|RoleARN|ExecutionRole|ExecutionRoleArn|serviceAccountRoleArn|ClusterRole)$")
_PASSING = {"eks", "sagemaker", "cloudformation", "amp", "grafana", "fsx", "ec2"}
_READS = ("Describe", "List", "Get")
_IAM_KEYS = (
    ("PolicyArn", "iam:policyarn"),
    ("PermissionsBoundary", "iam:permissionsboundary"),
    ("AWSServiceName", "iam:awsservicename"),
)


def action_of(service: str, operation: str) -> str:
    """``eks:CreateCluster``; S3's own names for S3."""
    if service in ("s3", "s3control"):
        return f"s3:{_S3.get(operation, operation)}"
    if service == "iam" and operation == "GetOpenIDConnectProvider":
        return "iam:GetOpenIDConnectProvider"
    return f"{_PREFIX.get(service, service)}:{operation}"


def resources_of(context: Context, service: str, operation: str, params: dict[str, Any]) -> list[str]:
    """The ARNs that a call touches; ``["*"]`` when AWS knows no resource for it or we cannot tell."""
    if service == "s3":
        return _s3(context, params)
    if service == "iam":
        return list(_iam(context, operation, params)) or ["*"]
    if service == "ec2":
        return ["*"] if operation.startswith("Describe") else list(dict.fromkeys(_ec2(context, params))) or ["*"]
    if operation.startswith(("List", "Search")) and service != "logs":
        given = [value for value in params.values() if isinstance(value, str) and value.startswith("arn:")]
        named = [context.arn("eks", f"cluster/{params['clusterName']}")] if service == "eks" and "clusterName" in params else []
        return [*given, *named] or ["*"]
    if service == "sts" and operation == "AssumeRole":
        return [str(params.get("RoleArn"))]
    if operation == "CreateMlflowApp":
        return [context.arn("sagemaker", f"mlflow-app/{params.get('Name')}")]
    return list(_arns(context, service, params)) or ["*"]


def _s3(context: Context, params: dict[str, Any]) -> list[str]:
    bucket, key = params.get("Bucket"), params.get("Key")
    if not bucket:
        return ["*"]
    return [f"arn:{context.partition}:s3:::{bucket}/{key}" if key else f"arn:{context.partition}:s3:::{bucket}"]


def _iam(context: Context, operation: str, params: dict[str, Any]) -> Iterator[str]:
    root = f"arn:{context.partition}:iam::{context.account}:"
    if operation in ("CreateOpenIDConnectProvider",) and isinstance(params.get("Url"), str):
        yield f"{root}oidc-provider/{params['Url'].removeprefix('https://')}"
        return
    if "PolicyName" in params and len({"RoleName", "UserName", "GroupName"} & set(params)) > 0:
        params = {name: value for name, value in params.items() if name != "PolicyName"}
    for name, form in _IAM_NAMED.items():
        if isinstance(params.get(name), str):
            path = str(params.get("Path") or "/").strip("/")
            kind, _, blank = form.partition("/")
            yield f"{root}{kind}/{path + '/' if path else ''}{blank.format(params[name])}"
            return
    for name in ("PolicyArn", "OpenIDConnectProviderArn", "PolicySourceArn"):
        if isinstance(params.get(name), str):
            yield params[name]
            return


def _ec2(context: Context, value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for item in value.values():
            yield from _ec2(context, item)
    elif isinstance(value, list):
        for item in value:
            yield from _ec2(context, item)
    elif isinstance(value, str) and (found := _EC2_ID.fullmatch(value)) and found["kind"] in _EC2_KINDS:
        yield context.arn("ec2", f"{_EC2_KINDS[found['kind']]}/{value}")
    elif isinstance(value, str) and value.startswith("rtbassoc-"):  # not a resource of its own: its table is
        tables = ec2_backends[context.account][context.region].route_tables.values()
        yield from (context.arn("ec2", f"route-table/{table.id}") for table in tables if value in table.all_associations_ids)


def _arns(context: Context, service: str, params: dict[str, Any]) -> Iterator[str]:
    for name, value in params.items():
        if not isinstance(value, str):
            continue
        form = _NAMED.get((service, name))
        if value.startswith(f"arn:{context.partition}:{_PREFIX.get(service, service)}:"):
            yield value
        elif form is not None:
            yield (service == "sagemaker" and _hyperpod(context, value)) or context.arn(_PREFIX.get(service, service), form.format(value))


def _hyperpod(context: Context, name: str) -> str | None:
    """A HyperPod cluster's ARN ends with its id, not with its name."""
    for arn, cluster in context.world.section("hyperpod").get("clusters", {}).items():
        if cluster["name"] == name and arn.split(":")[3] == context.region:
            return str(arn)
    return None


def passed_roles(service: str, operation: str, params: Any, path: str = "") -> Iterator[str]:
    """The role ARNs that a call hands to a service, for which the caller needs ``iam:PassRole``."""
    if service not in _PASSING or operation.startswith(_READS):
        return
    if isinstance(params, dict):
        for name, value in params.items():
            yield from passed_roles(service, operation, value, f"{path}.{name}")
    elif isinstance(params, list):
        for value in params:
            yield from passed_roles(service, operation, value, path)
    elif isinstance(params, str) and ":role/" in params and _ROLE_PARAMETERS.search(path):
        yield params


def context_of(context: Context, service: str, params: dict[str, Any]) -> dict[str, list[str]]:
    """The condition keys that a request has, in lower case."""
    keys = {
        "aws:requestedregion": [context.region],
        "aws:principalarn": [context.principal_arn],
        "aws:principalaccount": [context.account],
        "aws:sourceaccount": [context.account],
        "aws:securetransport": ["true"],
    }
    if ":user/" in context.principal_arn:
        keys["aws:username"] = [context.principal_arn.rsplit("/", 1)[-1]]
    tags = _tags(params)
    for name, value in tags.items():
        keys[f"aws:requesttag/{name.lower()}"] = [value]
    if tags:
        keys["aws:tagkeys"] = list(tags)
    if service == "iam":
        for parameter, key in _IAM_KEYS:
            if isinstance(params.get(parameter), str):
                keys[key] = [params[parameter]]
    if service == "s3" and "prefix" in params:
        keys["s3:prefix"] = [str(params["prefix"])]
    return keys


def _tags(params: dict[str, Any]) -> dict[str, str]:
    found: dict[str, str] = {}
    lists = [params.get("Tags"), params.get("tags"), *(s.get("Tags") for s in params.get("TagSpecifications") or [] if isinstance(s, dict))]
    for tags in lists:
        if isinstance(tags, dict):
            found |= {str(k): str(v) for k, v in tags.items()}
        elif isinstance(tags, list):
            found |= {str(t.get("Key", t.get("key"))): str(t.get("Value", t.get("value", ""))) for t in tags if isinstance(t, dict)}
    return found
