"""FSx for Lustre: what there is, whether nodes can reach it, and one made, once, by one token.

Facts: aws-facts A7 (FSx), A19; case 73. A file system lives in one zone and speaks on TCP 988 and 1018 to 1023 (FSx user guide,
"File system access control with Amazon VPC"). Ours are made here and mounted statically: a driver that provisions by itself
retries without a memory of what it made, and fills the subnet with file systems that are billed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from instantstart.aws.session import Aws
from instantstart.base import names, problems
from instantstart.base.outcome import Done, Outcome, Wait

#: on a file system of ours: the claim it was made for
CLAIM_TAG = "instantstart.dev/claim"
#: TCP ports of Lustre between clients and servers
PORTS = ((988, 988), (1018, 1023))
TYPICAL_SECONDS = 600.0
_LOOK_SECONDS = 15.0


@dataclass(frozen=True)
class FileSystem:
    """A file system as DescribeFileSystems tells it. ``size_gib`` is its capacity; ``security_groups`` are those of its interfaces."""

    id: str
    status: str
    dns_name: str
    mount_name: str
    size_gib: int
    vpc_id: str
    subnet_id: str
    deployment: str
    interfaces: tuple[str, ...]
    tags: dict[str, str]
    failure: str | None

    @property
    def ready(self) -> bool:
        """Whether it can be mounted."""
        return self.status in ("AVAILABLE", "UPDATING")


@dataclass(frozen=True)
class Wanted:
    """A new file system: PERSISTENT_2 on SSD, ``throughput`` in MB/s for each TiB."""

    claim: str
    size_gib: int
    throughput: int
    subnet_id: str
    security_group_ids: tuple[str, ...]


def check_size(size_gib: int) -> str | None:
    """Why FSx refuses a capacity for PERSISTENT_2 on SSD; None when it does not."""
    if size_gib == 1200 or (size_gib > 0 and size_gib % 2400 == 0):
        return None
    lower = max(1200, size_gib // 2400 * 2400)
    return f"FSx for Lustre takes 1200 GiB or a multiple of 2400, not {size_gib}; near are {lower} and {(size_gib // 2400 + 1) * 2400}."


def list_all(aws: Aws) -> list[FileSystem]:
    """Every Lustre file system of the region."""
    found = aws.pages("fsx", "describe_file_systems", "FileSystems")
    return [_read(told) for told in found if told.get("FileSystemType") == "LUSTRE"]


def find(aws: Aws, file_system_id: str) -> FileSystem | None:
    """One Lustre file system, or None. Raises Invalid ``fsx.not_lustre`` for one of another kind."""
    try:
        told = aws.read("fsx", "describe_file_systems", FileSystemIds=[file_system_id])["FileSystems"][0]
    except problems.NotFound:
        return None
    if told.get("FileSystemType") != "LUSTRE":
        raise problems.Invalid(
            "fsx.not_lustre",
            f"{file_system_id} is a file system of type {told.get('FileSystemType')}; pods mount FSx for Lustre here.",
            fields=[problems.Violation("/file_system_id", "not a Lustre file system")],
        )
    return _read(told)


def find_made(aws: Aws, claim: str, tag: str) -> FileSystem | None:
    """The one that was made for ``claim`` (namespace/name) of a cluster, whatever its state, unless it is being deleted."""
    ours = [f for f in list_all(aws) if (f.tags.get(CLAIM_TAG), f.tags.get(names.CLUSTER_TAG)) == (claim, tag)]
    return next((f for f in ours if f.status not in ("DELETING", "FAILED")), None) or next(iter(ours), None)


def list_made(aws: Aws, tag: str) -> list[FileSystem]:
    """Every file system that was made for a claim of a cluster, unless it is going already."""
    return [f for f in _of_claims(aws, tag) if f.status != "DELETING"]


def _of_claims(aws: Aws, tag: str) -> list[FileSystem]:
    try:
        return [f for f in list_all(aws) if f.tags.get(names.CLUSTER_TAG) == tag and CLAIM_TAG in f.tags]
    except problems.Denied:
        return []  # whoever may not look at file systems has made none


def remove_made_step(aws: Aws, tag: str, token: str) -> Wait | None:
    """Delete one file system that was made for a claim of a cluster, with its data; None when none is left, and none is going."""
    for each in _of_claims(aws, tag):
        outcome = delete(aws, each, f"{each.id[-16:]}{token}")
        if isinstance(outcome, Wait):
            return outcome
    return None


def ensure(aws: Aws, wanted: Wanted, tags: dict[str, str], token: str) -> Outcome:
    """Move one step towards the file system of a claim being available. Done learns its id, names and size.

    Exactly one for each claim: found by its tag before one is asked for, and asked for with a client token.
    Raises Conflict ``fsx.failed`` with FSx's own reason.
    """
    have = find_made(aws, wanted.claim, tags[names.CLUSTER_TAG])
    if have is None:
        return _create(aws, wanted, tags, token)
    if have.status == "FAILED":
        raise problems.Conflict(
            "fsx.failed",
            f"FSx could not make {have.id}: {have.failure or 'no reason told'}.",
            hint=f"Mend the cause, delete {have.id}, and retry.",
            evidence={"service": "fsx", "file_system_id": have.id, "message": have.failure},
        )
    return Done(learned(have)) if have.ready else wait(have)


def wait(found: FileSystem) -> Wait:
    """What to say of one that is not available yet."""
    return Wait(_LOOK_SECONDS, f"FSx: {found.id} is {found.status}")


def learned(found: FileSystem) -> dict[str, Any]:
    """What later stages need of a file system."""
    return {"file_system_id": found.id, "dns_name": found.dns_name, "mount_name": found.mount_name, "size_gib": found.size_gib}


def _create(aws: Aws, wanted: Wanted, tags: dict[str, str], token: str) -> Outcome:
    named = {**tags, CLAIM_TAG: wanted.claim, "Name": wanted.claim.replace("/", "-")}
    made = aws.create(
        "fsx",
        "create_file_system",
        FileSystemType="LUSTRE",
        StorageType="SSD",
        StorageCapacity=wanted.size_gib,
        SubnetIds=[wanted.subnet_id],
        SecurityGroupIds=list(wanted.security_group_ids),
        LustreConfiguration={"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": wanted.throughput, "DataCompressionType": "LZ4"},
        FileSystemTypeVersion="2.15",
        Tags=[{"Key": key, "Value": value} for key, value in named.items()],
        ClientRequestToken=token[:63],
    )
    return Wait(_LOOK_SECONDS, f"Asked FSx for {wanted.size_gib} GiB" if made else "The file system appeared a moment ago")


def delete(aws: Aws, found: FileSystem, token: str) -> Outcome:
    """Move one step towards a file system of ours being gone, with its data."""
    now = find(aws, found.id)
    if now is None:
        return Done({"deleted": found.id})
    if now.status != "DELETING":
        aws.remove("fsx", "delete_file_system", FileSystemId=found.id, ClientRequestToken=token[:63])
    return Wait(_LOOK_SECONDS, f"FSx is deleting {found.id}")


def groups_of(aws: Aws, found: FileSystem) -> tuple[str, ...]:
    """The security groups of its interfaces; empty when they cannot be seen yet."""
    if not found.interfaces:
        return ()
    told = aws.pages("ec2", "describe_network_interfaces", "NetworkInterfaces", Filters=_by_id(found.interfaces))
    return tuple(sorted({group["GroupId"] for interface in told for group in interface.get("Groups", ())}))


def closed_ports(aws: Aws, file_system_groups: Sequence[str], node_groups: Sequence[str]) -> list[str]:
    """The TCP ports of Lustre that no rule opens from the nodes' security groups to the file system's."""
    if not file_system_groups:
        return []
    filters = [{"Name": "group-id", "Values": list(file_system_groups)}]
    rules = aws.pages("ec2", "describe_security_group_rules", "SecurityGroupRules", Filters=filters)
    inward = [rule for rule in rules if not rule["IsEgress"]]
    return [
        f"{low}-{high}" if high > low else str(low) for low, high in PORTS if not any(_opens(r, low, high, node_groups) for r in inward)
    ]


def _opens(rule: dict[str, Any], low: int, high: int, sources: Sequence[str]) -> bool:
    """Whether a rule lets these ports in from one of the groups; a rule for address ranges is taken to mean the nodes."""
    if rule["IpProtocol"] not in ("-1", "tcp"):
        return False
    if rule["IpProtocol"] == "tcp" and not rule.get("FromPort", 0) <= low <= high <= rule.get("ToPort", 65535):
        return False
    named = (rule.get("ReferencedGroupInfo") or {}).get("GroupId")
    return bool(named in sources if named else rule.get("CidrIpv4") or rule.get("CidrIpv6") or rule.get("PrefixListId"))


def _by_id(interfaces: Iterable[str]) -> list[dict[str, Any]]:
    return [{"Name": "network-interface-id", "Values": list(interfaces)}]


def _read(told: dict[str, Any]) -> FileSystem:
    lustre = told.get("LustreConfiguration") or {}
    return FileSystem(
        id=told["FileSystemId"],
        status=told["Lifecycle"],
        dns_name=told.get("DNSName", ""),
        mount_name=lustre.get("MountName", ""),
        size_gib=int(told.get("StorageCapacity", 0)),
        vpc_id=told.get("VpcId", ""),
        subnet_id=next(iter(told.get("SubnetIds", ())), ""),
        deployment=lustre.get("DeploymentType", "unknown"),
        interfaces=tuple(told.get("NetworkInterfaceIds", ())),
        tags={t["Key"]: t["Value"] for t in told.get("Tags", ())},
        failure=(told.get("FailureDetails") or {}).get("Message"),
    )
