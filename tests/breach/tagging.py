"""What stands in an account without our tag: whatever the product makes bears it, so that a lost database loses nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from botocore.exceptions import ClientError
from tests.clusters.worlds import REGION, SandboxProcess

from instantstart.base import names


def untagged(sandbox: SandboxProcess, region: str = REGION) -> tuple[int, list[str]]:
    """How many things were looked at, and those without the tag. What AWS makes by itself is left out."""
    found = [*_network(sandbox.client("ec2", region)), *_compute(sandbox, region), *_identity(sandbox.client("iam", region))]
    found += _buckets(sandbox.client("s3", region))
    return len(found), [name for name, tags in found if not _is_ours(tags)]


def _is_ours(tags: Any) -> bool:
    if isinstance(tags, dict):
        return names.CLUSTER_TAG in tags
    return any(tag["Key"] == names.CLUSTER_TAG for tag in tags or ())


def _network(ec2: Any) -> Iterator[tuple[str, Any]]:
    vpcs = [vpc for vpc in ec2.describe_vpcs()["Vpcs"] if not vpc.get("IsDefault")]
    inside = [{"Name": "vpc-id", "Values": [vpc["VpcId"] for vpc in vpcs] or ["vpc-none"]}]
    yield from ((vpc["VpcId"], vpc.get("Tags")) for vpc in vpcs)
    yield from ((each["SubnetId"], each.get("Tags")) for each in ec2.describe_subnets(Filters=inside)["Subnets"])
    for table in ec2.describe_route_tables(Filters=inside)["RouteTables"]:
        if not any(tie.get("Main") for tie in table["Associations"]):  # a VPC brings one
            yield table["RouteTableId"], table.get("Tags")
    for group in ec2.describe_security_groups(Filters=inside)["SecurityGroups"]:
        if group["GroupName"] != "default" and not group["GroupName"].startswith("eks-cluster-sg-"):  # a VPC, and EKS, bring one
            yield f"{group['GroupId']} {group['GroupName']}", group.get("Tags")
    yield from ((each["InternetGatewayId"], each.get("Tags")) for each in ec2.describe_internet_gateways()["InternetGateways"])
    yield from ((each["NatGatewayId"], each.get("Tags")) for each in ec2.describe_nat_gateways()["NatGateways"])
    yield from ((each["AllocationId"], each.get("Tags")) for each in ec2.describe_addresses()["Addresses"])
    yield from ((each["VpcEndpointId"], each.get("Tags")) for each in ec2.describe_vpc_endpoints()["VpcEndpoints"])


def _compute(sandbox: SandboxProcess, region: str) -> Iterator[tuple[str, Any]]:
    stacks, eks, sagemaker = (sandbox.client(service, region) for service in ("cloudformation", "eks", "sagemaker"))
    yield from ((stack["StackName"], stack.get("Tags")) for stack in stacks.describe_stacks()["Stacks"])
    for name in eks.list_clusters()["clusters"]:
        yield f"eks {name}", eks.describe_cluster(name=name)["cluster"].get("tags")
        for addon in eks.list_addons(clusterName=name)["addons"]:
            yield f"addon {addon}", eks.describe_addon(clusterName=name, addonName=addon)["addon"].get("tags")
        for tie in eks.list_pod_identity_associations(clusterName=name)["associations"]:
            told = eks.describe_pod_identity_association(clusterName=name, associationId=tie["associationId"])
            yield f"association {tie['serviceAccount']}", told["association"].get("tags")
    for cluster in sagemaker.list_clusters()["ClusterSummaries"]:
        yield f"hyperpod {cluster['ClusterName']}", sagemaker.list_tags(ResourceArn=cluster["ClusterArn"])["Tags"]


def _identity(iam: Any) -> Iterator[tuple[str, Any]]:
    for role in iam.list_roles()["Roles"]:
        if not role["Path"].startswith("/aws-service-role/"):
            yield f"role {role['RoleName']}", iam.list_role_tags(RoleName=role["RoleName"])["Tags"]
    for provider in iam.list_open_id_connect_providers()["OpenIDConnectProviderList"]:
        yield provider["Arn"], iam.list_open_id_connect_provider_tags(OpenIDConnectProviderArn=provider["Arn"])["Tags"]


def _buckets(s3: Any) -> Iterator[tuple[str, Any]]:
    for bucket in s3.list_buckets()["Buckets"]:
        try:
            yield f"bucket {bucket['Name']}", s3.get_bucket_tagging(Bucket=bucket["Name"])["TagSet"]
        except ClientError as error:
            if error.response["Error"]["Code"] != "NoSuchTagSet":
                raise
            yield f"bucket {bucket['Name']}", ()
