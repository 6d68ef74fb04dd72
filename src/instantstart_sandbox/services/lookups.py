"""What the owned services ask of EC2, IAM and S3, through the sandbox's own in-process client."""

from __future__ import annotations

import json
import urllib.parse
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from instantstart_sandbox.services.arns import Arn, service_principals

if TYPE_CHECKING:
    from instantstart_sandbox.world.state import World

_ABSENT = {"404", "NoSuchBucket", "NoSuchKey", "NoSuchEntity", "NotFound"}


def subnets(world: World, region: str, ids: list[str]) -> dict[str, dict[str, Any]]:
    """The subnets that exist among ``ids``, by id."""
    found = world.client("ec2", region).describe_subnets(Filters=[{"Name": "subnet-id", "Values": ids}])["Subnets"]
    return {s["SubnetId"]: s for s in found}


def security_groups(world: World, region: str, ids: list[str]) -> dict[str, dict[str, Any]]:
    """The security groups that exist among ``ids``, by id."""
    found = world.client("ec2", region).describe_security_groups(Filters=[{"Name": "group-id", "Values": ids}])["SecurityGroups"]
    return {g["GroupId"]: g for g in found}


def zones(world: World, region: str) -> dict[str, str]:
    """Zone name to zone id of the region's availability zones (no Local Zones)."""
    found = world.client("ec2", region).describe_availability_zones()["AvailabilityZones"]
    return {z["ZoneName"]: z["ZoneId"] for z in found if z.get("ZoneType", "availability-zone") == "availability-zone"}


def is_public(world: World, region: str, subnet: dict[str, Any]) -> bool:
    """Whether the subnet's route table (its own, else the VPC's main one) leads to an internet gateway."""
    ec2 = world.client("ec2", region)
    own = [{"Name": "association.subnet-id", "Values": [subnet["SubnetId"]]}]
    main = [{"Name": "vpc-id", "Values": [subnet["VpcId"]]}, {"Name": "association.main", "Values": ["true"]}]
    tables = ec2.describe_route_tables(Filters=own)["RouteTables"] or ec2.describe_route_tables(Filters=main)["RouteTables"]
    return any(str(route.get("GatewayId", "")).startswith("igw-") for table in tables for route in table["Routes"])


#: offers do not change while the process lives
_OFFERED: dict[tuple[str, str], frozenset[str]] = {}


def offered_zones(world: World, region: str, instance_type: str) -> frozenset[str]:
    """The zones where EC2 offers a type; ``instance_type`` with or without ``ml.``. Empty also for a type EC2 does not know."""
    if (region, instance_type) not in _OFFERED:
        _OFFERED[region, instance_type] = _ask_offers(world, region, instance_type)
    return _OFFERED[region, instance_type]


def _ask_offers(world: World, region: str, instance_type: str) -> frozenset[str]:
    ec2 = world.client("ec2", region)
    filters = [{"Name": "instance-type", "Values": [instance_type.removeprefix("ml.")]}]
    answer = ec2.describe_instance_type_offerings(LocationType="availability-zone", Filters=filters)
    return frozenset(offer["Location"] for offer in answer["InstanceTypeOfferings"])


def role(world: World, arn: str, region: str) -> dict[str, Any] | None:
    """The IAM role of an ARN, or None when it does not exist or is too young to be seen by another service."""
    try:
        found: dict[str, Any] = world.client("iam", region).get_role(RoleName=Arn.parse(arn).name)["Role"]
    except ClientError as error:
        if error.response["Error"]["Code"] in _ABSENT:
            return None
        raise
    return found if found["Arn"] == arn and world.iam_visible(arn) else None


def role_trusts(world: World, arn: str, region: str, service: str, action: str = "sts:AssumeRole") -> bool:
    """Whether a role exists, is visible, and lets ``service`` (``sagemaker``, ``eks``) do ``action``."""
    found = role(world, arn, region)
    if found is None:
        return False
    document = found["AssumeRolePolicyDocument"]
    if isinstance(document, str):
        document = json.loads(urllib.parse.unquote(document))
    names = service_principals(service, Arn.parse(arn).partition)
    return any(_allows(s, names, action) for s in _as_list(document.get("Statement", [])))


def _allows(statement: dict[str, Any], names: frozenset[str], action: str) -> bool:
    principal = statement.get("Principal", {})
    services = _as_list(principal.get("Service", [])) if isinstance(principal, dict) else [principal]
    actions = {str(a).lower() for a in _as_list(statement.get("Action", []))}
    wanted = {action.lower(), f"{action.split(':')[0].lower()}:*", "*"}
    return statement.get("Effect") == "Allow" and bool(actions & wanted) and bool(names & set(services))


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def bucket_exists(world: World, region: str, bucket: str) -> bool:
    """Whether S3 has the bucket."""
    return _present(lambda s3: s3.head_bucket(Bucket=bucket), world, region)


def object_exists(world: World, region: str, bucket: str, key: str) -> bool:
    """Whether S3 has the object."""
    return _present(lambda s3: s3.head_object(Bucket=bucket, Key=key), world, region)


def _present(ask: Any, world: World, region: str) -> bool:
    try:
        ask(world.client("s3", region))
    except ClientError as error:
        if error.response["Error"]["Code"] in _ABSENT:
            return False
        raise
    return True
