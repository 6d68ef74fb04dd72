"""FSx for Lustre: made in minutes, in one subnet, with interfaces that hold it; billed until deleted.

Believed from the service model, aws-facts A7 and the FSx user guide (capacities, ports, lifecycle). What is simple: throughput and
metadata settings are kept and not acted on; no backups, no data repository associations; other kinds of file system are unsupported.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from instantstart_sandbox.gateway.errors import AwsError
from instantstart_sandbox.services import interfaces, lookups
from instantstart_sandbox.services.paging import page

if TYPE_CHECKING:
    from instantstart_sandbox.gateway.registry import Context
    from instantstart_sandbox.world.state import World

_PORTS = ((988, 988), (1018, 1023))
_BAD = "BadRequest"


def install(world: World) -> None:
    """Own the whole service."""
    world.registry.close("fsx")
    op = world.registry.op
    op("fsx", "CreateFileSystem")(create_file_system)
    op("fsx", "DescribeFileSystems")(describe_file_systems)
    op("fsx", "DeleteFileSystem")(delete_file_system)
    op("fsx", "TagResource")(tag_resource)
    op("fsx", "ListTagsForResource")(list_tags)
    world.clock.on("fsx.available", lambda arn: _available(world, arn))
    world.clock.on("fsx.gone", lambda arn: _gone(world, arn))


def create_file_system(ctx: Context, **params: Any) -> dict[str, Any]:
    """CreateFileSystem. The same client token answers the same file system; another request under it is refused."""
    token, digest = params.get("ClientRequestToken"), hashlib.sha256(repr(sorted(params.items())).encode()).hexdigest()
    for record in _records(ctx.world).values():
        if token and record["token"] == token:
            if record["request"] != digest:
                raise AwsError("IncompatibleParameterError", "Client request token has been used with different parameters.")
            return {"FileSystem": _view(record)}
    _check(params)
    subnet = _subnet(ctx, params["SubnetIds"][0])
    _check_groups(ctx, subnet, params.get("SecurityGroupIds") or [])
    record = _record(ctx, params, subnet) | {"token": token, "request": digest}
    try:
        made = interfaces.create(ctx.world, record["arn"], subnet["SubnetId"], record["groups"], ["FSx Lustre"] * 2)
    except interfaces.NoInterface as error:
        raise AwsError("InvalidNetworkSettings", str(error)) from error
    record["interfaces"] = [each["id"] for each in made]
    _records(ctx.world)[record["arn"]] = record
    ctx.clock.after(ctx.world.settings.fsx_create_seconds, "fsx.available", arn=record["arn"])
    return {"FileSystem": _view(record)}


def describe_file_systems(
    ctx: Context, FileSystemIds: list[str] | None = None, MaxResults: int | None = None, NextToken: str | None = None
) -> dict[str, Any]:
    """DescribeFileSystems: those named, or every one of the region."""
    here = [r for r in _records(ctx.world).values() if r["region"] == ctx.region]
    if FileSystemIds:
        return {"FileSystems": [_view(_find(ctx, file_system_id)) for file_system_id in FileSystemIds]}
    shown, more = page(sorted(here, key=lambda r: str(r["id"])), NextToken, MaxResults, _BAD)
    return {"FileSystems": [_view(r) for r in shown]} | ({"NextToken": more} if more else {})


def delete_file_system(ctx: Context, FileSystemId: str, **_: Any) -> dict[str, Any]:
    """DeleteFileSystem: with all that is in it."""
    record = _find(ctx, FileSystemId)
    if record["status"] != "DELETING":
        record["status"] = "DELETING"
        ctx.clock.after(ctx.world.settings.fsx_delete_seconds, "fsx.gone", arn=record["arn"])
        ctx.world.changed()
    return {"FileSystemId": FileSystemId, "Lifecycle": "DELETING"}


def tag_resource(ctx: Context, ResourceARN: str, Tags: list[dict[str, str]]) -> dict[str, Any]:
    """TagResource."""
    record = _by_arn(ctx, ResourceARN)
    record["tags"].update({t["Key"]: t["Value"] for t in Tags})
    ctx.world.changed()
    return {}


def list_tags(ctx: Context, ResourceARN: str, NextToken: str | None = None, MaxResults: int | None = None) -> dict[str, Any]:
    """ListTagsForResource."""
    tags = [{"Key": k, "Value": v} for k, v in _by_arn(ctx, ResourceARN)["tags"].items()]
    shown, more = page(tags, NextToken, MaxResults, _BAD)
    return {"Tags": shown} | ({"NextToken": more} if more else {})


def ready(world: World, dns_name: str) -> bool:
    """Whether a file system of that name can be mounted now (the FSx CSI driver's view)."""
    return any(r["dns"] == dns_name and r["status"] == "AVAILABLE" for r in _records(world).values())


def _records(world: World) -> dict[str, dict[str, Any]]:
    return world.section("file_systems")


def _find(ctx: Context, file_system_id: str) -> dict[str, Any]:
    for record in _records(ctx.world).values():
        if record["id"] == file_system_id and record["region"] == ctx.region:
            return record
    raise AwsError("FileSystemNotFound", f"File system '{file_system_id}' does not exist.")


def _by_arn(ctx: Context, arn: str) -> dict[str, Any]:
    record = _records(ctx.world).get(arn)
    if record is None:
        raise AwsError("ResourceNotFound", f"Resource {arn} does not exist.")
    return record


def _check(params: dict[str, Any]) -> None:
    if params["FileSystemType"] != "LUSTRE":
        raise AwsError(_BAD, f"The sandbox makes FSx for Lustre only, not {params['FileSystemType']}.")
    lustre, capacity = params.get("LustreConfiguration") or {}, params.get("StorageCapacity", 0)
    if len(params["SubnetIds"]) != 1:
        raise AwsError(_BAD, "Exactly one subnet must be given for a Lustre file system.")
    if capacity != 1200 and (capacity <= 0 or capacity % 2400):
        raise AwsError(_BAD, f"Storage capacity {capacity} is not valid: 1200 GiB, 2400 GiB, or increments of 2400 GiB.")
    if lustre.get("DeploymentType", "SCRATCH_1").startswith("PERSISTENT") and not lustre.get("PerUnitStorageThroughput"):
        raise AwsError(_BAD, "PerUnitStorageThroughput is required for persistent file systems.")


def _subnet(ctx: Context, subnet_id: str) -> dict[str, Any]:
    found = lookups.subnets(ctx.world, ctx.region, [subnet_id]).get(subnet_id)
    if found is None:
        raise AwsError("InvalidNetworkSettings", f"The subnet ID '{subnet_id}' does not exist.")
    return found


def _check_groups(ctx: Context, subnet: dict[str, Any], group_ids: list[str]) -> None:
    """FSx refuses security groups that do not let Lustre through between its own servers (user guide, troubleshooting)."""
    found = lookups.security_groups(ctx.world, ctx.region, group_ids)
    for group_id in group_ids:
        group = found.get(group_id)
        if group is None or group["VpcId"] != subnet["VpcId"]:
            raise AwsError("InvalidNetworkSettings", f"The security group ID '{group_id}' does not exist in {subnet['VpcId']}.")
    if group_ids and not any(_lets_lustre_in(group) for group in found.values()):
        text = "The security groups do not permit Lustre LNET network traffic on port 988."
        raise AwsError("InvalidNetworkSettings", f"The file system cannot be created because {text}")


def _lets_lustre_in(group: dict[str, Any]) -> bool:
    def opens(rule: dict[str, Any], low: int, high: int) -> bool:
        if rule["IpProtocol"] == "-1":
            return True
        return bool(rule["IpProtocol"] == "tcp" and rule.get("FromPort", 0) <= low and high <= rule.get("ToPort", 65535))

    return all(any(opens(rule, low, high) for rule in group.get("IpPermissions", ())) for low, high in _PORTS[:1])


def _record(ctx: Context, params: dict[str, Any], subnet: dict[str, Any]) -> dict[str, Any]:
    count = len(_records(ctx.world))
    number = hashlib.sha256(f"{ctx.account}/{ctx.region}/{count}/{params.get('ClientRequestToken')}".encode()).hexdigest()
    file_system_id = f"fs-{number[:17]}"
    lustre = dict(params.get("LustreConfiguration") or {})
    lustre.setdefault("DeploymentType", "SCRATCH_1")
    default = [] if params.get("SecurityGroupIds") else _default_group(ctx, subnet["VpcId"])
    return {
        "id": file_system_id,
        "arn": ctx.arn("fsx", f"file-system/{file_system_id}"),
        "region": ctx.region,
        "account": ctx.account,
        "status": "CREATING",
        "dns": f"{file_system_id}.fsx.{ctx.region}.amazonaws.com",
        "mount": "fsx" if lustre["DeploymentType"] == "SCRATCH_1" else number[17:25],
        "capacity": params["StorageCapacity"],
        "storage": params.get("StorageType", "SSD"),
        "version": params.get("FileSystemTypeVersion", "2.15"),
        "lustre": lustre,
        "subnet": subnet["SubnetId"],
        "vpc": subnet["VpcId"],
        "groups": list(params.get("SecurityGroupIds") or default),
        "interfaces": [],
        "tags": {t["Key"]: t["Value"] for t in params.get("Tags") or []},
        "at": ctx.clock.now(),
    }


def _default_group(ctx: Context, vpc_id: str) -> list[str]:
    told = ctx.world.client("ec2", ctx.region).describe_security_groups(
        Filters=[{"Name": "vpc-id", "Values": [vpc_id]}, {"Name": "group-name", "Values": ["default"]}]
    )
    return [group["GroupId"] for group in told["SecurityGroups"]]


def _available(world: World, arn: str) -> None:
    record = _records(world).get(arn)
    if record and record["status"] == "CREATING":
        record["status"] = "AVAILABLE"
        world.changed()


def _gone(world: World, arn: str) -> None:
    record = _records(world).pop(arn, None)
    if record:
        interfaces.delete(world, arn, record["interfaces"])
        world.changed()


def _view(record: dict[str, Any]) -> dict[str, Any]:
    return {
        "OwnerId": record["account"],
        "CreationTime": record["at"],
        "FileSystemId": record["id"],
        "FileSystemType": "LUSTRE",
        "Lifecycle": record["status"],
        "StorageCapacity": record["capacity"],
        "StorageType": record["storage"],
        "VpcId": record["vpc"],
        "SubnetIds": [record["subnet"]],
        "NetworkInterfaceIds": record["interfaces"],
        "DNSName": record["dns"],
        "ResourceARN": record["arn"],
        "LustreConfiguration": record["lustre"] | {"MountName": record["mount"]},
        "FileSystemTypeVersion": record["version"],
    } | ({"Tags": [{"Key": k, "Value": v} for k, v in record["tags"].items()]} if record["tags"] else {})
