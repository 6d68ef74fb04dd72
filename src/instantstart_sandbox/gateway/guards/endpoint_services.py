"""The services that a VPC endpoint can be made for. (moto's own list imports every service of moto, and some cannot be.)"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from instantstart_sandbox.gateway import wire
from instantstart_sandbox.gateway.errors import AwsError
from instantstart_sandbox.gateway.registry import Context
from instantstart_sandbox.services.paging import page

if TYPE_CHECKING:
    from instantstart_sandbox.world.state import World

_GATEWAY = ("s3", "dynamodb")
_INTERFACE = (
    "aps",
    "aps-workspaces",
    "autoscaling",
    "cloudformation",
    "ec2",
    "ec2messages",
    "ecr.api",
    "ecr.dkr",
    "eks",
    "eks-auth",
    "elasticloadbalancing",
    "fsx",
    "grafana",
    "kms",
    "logs",
    "monitoring",
    "s3",
    "sagemaker.api",
    "sagemaker.runtime",
    "secretsmanager",
    "servicequotas",
    "ssm",
    "ssmmessages",
    "sts",
)


def install(world: World) -> None:
    """Own DescribeVpcEndpointServices."""
    world.registry.op("ec2", "DescribeVpcEndpointServices")(describe)


def services(region: str) -> dict[str, list[str]]:
    """Service name -> endpoint types, in a region. China writes most names with a leading ``cn.`` (not S3's and DynamoDB's)."""
    front = "cn." if wire.partition_of(region) == "aws-cn" else ""
    found: dict[str, list[str]] = {f"com.amazonaws.{region}.{name}": ["Gateway"] for name in _GATEWAY}
    for name in _INTERFACE:
        if name in _GATEWAY:
            found[f"com.amazonaws.{region}.{name}"].append("Interface")
        else:
            found[f"{front}com.amazonaws.{region}.{name}"] = ["Interface"]
    return found


def describe(
    ctx: Context,
    ServiceNames: list[str] | None = None,
    Filters: list[dict[str, Any]] | None = None,
    MaxResults: int | None = None,
    NextToken: str | None = None,
    **other: Any,
) -> dict[str, Any]:
    """The list, by name and by the filters service-name and service-type."""
    if other.get("DryRun"):
        raise AwsError("DryRunOperation", "Request would have succeeded, but DryRun flag is set.", 412)
    known = services(ctx.region)
    for name in ServiceNames or []:
        if name not in known:
            raise AwsError("InvalidServiceName", f"The Vpc Endpoint Service '{name}' does not exist")
    wanted = {f["Name"]: set(f.get("Values", [])) for f in Filters or []}
    zones = [z["ZoneName"] for z in ctx.world.client("ec2", ctx.region).describe_availability_zones()["AvailabilityZones"]]
    details = [
        _detail(name, kind, zones)
        for name, kinds in sorted(known.items())
        for kind in kinds
        if (not ServiceNames or name in ServiceNames)
        and ("service-name" not in wanted or name in wanted["service-name"])
        and ("service-type" not in wanted or kind in wanted["service-type"])
    ]
    found, following = page(details, NextToken, MaxResults or 1000, "InvalidNextToken")
    names = list(dict.fromkeys(d["ServiceName"] for d in found))
    return {"ServiceNames": names, "ServiceDetails": found, **({"NextToken": following} if following else {})}


def _detail(name: str, kind: str, zones: list[str]) -> dict[str, Any]:
    return {
        "ServiceName": name,
        "ServiceType": [{"ServiceType": kind}],
        "AvailabilityZones": zones,
        "Owner": "amazon",
        "BaseEndpointDnsNames": [".".join(reversed(name.split(".")))],
        "VpcEndpointPolicySupported": True,
        "AcceptanceRequired": False,
        "ManagesVpcEndpoints": False,
    }
