"""What must hold before a volume is made. Reads first, then pure checks: all violations at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from instantstart.base import problems
from instantstart.capabilities.room import Room
from instantstart.capabilities.storage.volumes import specs
from instantstart.ensure.capacity import hyperpod, nodes
from instantstart.ensure.findings import Finding
from instantstart.ensure.networking import network
from instantstart.ensure.sites import Site
from instantstart.ensure.storage import buckets, filesystems
from instantstart.ensure.storage.filesystems import FileSystem
from instantstart.ensure.storage.volumes import DRIVER, LUSTRE_DRIVER, LustreVolume, S3Volume, Volume

#: all file systems that we make in a region together may have this much: a wrong number in a form is not paid for
MOST_GIB = 96_000


@dataclass(frozen=True)
class Place:
    """Where the nodes are. Empty parts: there are none, or they could not be read."""

    vpc_id: str
    group_ids: tuple[str, ...]
    zones: tuple[str, ...]


@dataclass(frozen=True)
class S3Facts:
    """What was read of a bucket. ``region`` None: there is no such bucket; ``denied``: it is another account's, or closed to us."""

    driver: bool
    bucket: str
    region: str | None
    denied: bool
    taken: str | None
    home: str


@dataclass(frozen=True)
class FsxFacts:
    """What was read of a file system and of the nodes' place."""

    driver: bool
    found: FileSystem | None
    zone: str | None
    closed: tuple[str, ...]
    place: Place
    ours_gib: int
    taken: str | None
    subnet_id: str | None


def observe_s3(room: Room, where: Site, ask: specs.AddS3Volume) -> S3Facts:
    """Read what the checks of a bucket need."""
    bucket = ask.bucket or where.names.data_bucket
    region, denied = None, False
    try:
        region = buckets.find_region(where.aws, bucket)
    except problems.Denied:
        denied = True
    kube = where.kube(room)
    wanted = S3Volume(ask.claim_name, ask.namespace, bucket, region or where.aws.region)
    driver = kube.find("CSIDriver", DRIVER) is not None
    return S3Facts(driver, bucket, region, denied, _taken(kube, wanted), where.aws.region)


def observe_fsx(room: Room, where: Site, ask: specs.AddFsxVolume) -> FsxFacts:
    """Read what the checks of a file system need."""
    aws, kube, place = where.aws, where.kube(room), find_place(room, where)
    found = filesystems.find(aws, ask.file_system_id) if ask.file_system_id else None
    zone: str | None = None
    closed: tuple[str, ...] = ()
    if found:
        zone = network.get_subnet(aws, found.subnet_id).zone if found.subnet_id else None
        closed = tuple(filesystems.closed_ports(aws, filesystems.groups_of(aws, found), place.group_ids))
    ours = sum(f.size_gib for f in filesystems.list_all(aws) if f.tags.get(filesystems.CLAIM_TAG)) if ask.size_gib else 0
    wanted = LustreVolume(ask.claim_name, ask.namespace, ask.file_system_id or "", "", "", 0)
    driver = kube.find("CSIDriver", LUSTRE_DRIVER) is not None
    subnet_id = find_subnet(where, place, ask.zone)
    return FsxFacts(driver, found, zone, closed, place, ours, _taken(kube, wanted), subnet_id)


def find_place(room: Room, where: Site) -> Place:
    """The VPC, the security groups and the zones of the cluster's nodes."""
    have = hyperpod.find_cluster(where.aws, where.hyperpod_cluster)
    if have is None or not have.get("VpcConfig"):
        return Place("", (), ())
    config = have["VpcConfig"]
    vpc_id = network.get_subnet(where.aws, config["Subnets"][0]).vpc_id
    zones = {n.zone for n in nodes.read(where.kube(room), where.hyperpod_cluster) if n.zone}
    return Place(vpc_id, tuple(config["SecurityGroupIds"]), tuple(sorted(zones)))


def find_subnet(where: Site, place: Place, zone: str | None) -> str | None:
    """The compute subnet that a new file system goes in: that of the asked zone, else that of the nodes' first zone."""
    if not place.vpc_id:
        return None
    ours = [s for s in network.list_subnets(where.aws, place.vpc_id) if s.tags.get("instantstart.dev/role") == "compute-subnet"]
    wanted = (zone,) if zone else place.zones
    return next((s.subnet_id for s in ours if not wanted or s.zone in wanted or s.zone_id in wanted), None)


def find_volume(kube: Any, namespace: str, claim: str) -> Volume | None:
    """The volume of ours behind a claim, by its derived name; None when there is none. Its source is not read back."""
    for made in (S3Volume(claim, namespace, "", ""), LustreVolume(claim, namespace, "", "", "", 0)):
        if kube.find("PersistentVolume", made.volume) is not None:
            return made
    return None


def _taken(kube: Any, wanted: Volume) -> str | None:
    """What stands under the claim's name already and is not this volume; None when the name is free or the claim is this volume's."""
    claim = kube.find("PersistentVolumeClaim", wanted.claim, wanted.namespace)
    if claim is None or claim["spec"].get("volumeName") == wanted.volume:
        return None
    return str(claim["spec"].get("volumeName") or "a volume that is still to be made")


def _driver(facts: S3Facts | FsxFacts, name: str, addon: str) -> Finding:
    if facts.driver:
        return Finding("driver", "ok", f"The driver {name} is installed.")
    return Finding("driver", "fail", f"The driver {name} is not installed in the cluster.", f"Install it first: {addon}.")


def check_s3_driver(_: Any, facts: S3Facts) -> Finding:
    """The driver that mounts buckets."""
    return _driver(facts, DRIVER, "the dependencies step brings it")


def check_bucket(ask: specs.AddS3Volume, facts: S3Facts) -> Finding:
    """The bucket exists, is ours to read, and where it is."""
    if facts.denied:
        told = f"The bucket {facts.bucket} is in another account, or this identity may not see it."
        return Finding("bucket", "fail", told, "Choose a bucket of this account, or let its owner give access.")
    if facts.region is None:
        if ask.bucket is None:
            return Finding("bucket", "ok", f"The bucket {facts.bucket} will be made.")
        return Finding("bucket", "fail", f"There is no bucket {facts.bucket}.", "Check its name, or leave it out: one is made.")
    if facts.region != facts.home:
        told = (
            f"The bucket {facts.bucket} is in {facts.region}, the cluster in {facts.home}: reads are slower, and their traffic is paid for."
        )
        return Finding("bucket", "warn", told, "Choose a bucket of the cluster's region for data that is read often.")
    return Finding("bucket", "ok", f"The bucket {facts.bucket} is in {facts.region}.")


def check_rights(ask: specs.AddS3Volume, _: S3Facts) -> Finding | None:
    """Options that contradict one another."""
    said = [name for name in ("allow_delete", "allow_overwrite") if getattr(ask, name)]
    if not (ask.read_only and said):
        return None
    return Finding(said[0], "fail", f"read_only and {' and '.join(said)} contradict one another.", "Leave one of them out.")


def check_free(ask: specs.VolumeAsk, facts: S3Facts | FsxFacts) -> Finding | None:
    """Nobody else's claim bears the name."""
    if facts.taken is None:
        return None
    told = f"The claim {ask.namespace}/{ask.claim_name} is there and shows {facts.taken}."
    return Finding("claim_name", "fail", told, "Choose another name, or remove that claim.")


def check_fsx_driver(_: Any, facts: FsxFacts) -> Finding:
    """The driver that mounts Lustre."""
    return _driver(facts, LUSTRE_DRIVER, "switch the feature fsx_csi on")


def check_choice(ask: specs.AddFsxVolume, facts: FsxFacts) -> Finding | None:
    """One of the two: a file system that is there, or the size of a new one; and the size is one that FSx takes."""
    if (ask.file_system_id is None) == (ask.size_gib is None):
        return Finding("file_system_id", "fail", "Give file_system_id or size_gib, one of the two.")
    if ask.size_gib is None:
        return None
    wrong = filesystems.check_size(ask.size_gib)
    if wrong:
        return Finding("size_gib", "fail", wrong)
    if facts.ours_gib + ask.size_gib > MOST_GIB:
        told = f"File systems made here may have {MOST_GIB} GiB together; {facts.ours_gib} are there and {ask.size_gib} more are asked."
        return Finding("size_gib", "fail", told, "Delete one that is not needed, or make it in FSx itself and give its id.")
    if facts.subnet_id is None:
        told = f"There is no compute subnet in {ask.zone}." if ask.zone else "The cluster has no compute subnet yet."
        return Finding("zone", "fail", told, "Choose the zone of an instance group.")
    return Finding("size_gib", "warn", f"FSx makes {ask.size_gib} GiB and bills for them until the file system is deleted.")


def check_file_system(ask: specs.AddFsxVolume, facts: FsxFacts) -> Finding | None:
    """It is there, in the cluster's VPC, and can be mounted."""
    if ask.file_system_id is None:
        return None
    if facts.found is None:
        told = f"There is no file system {ask.file_system_id} in this account and region."
        return Finding("file_system_id", "fail", told, "List the file systems, or give size_gib to make one.")
    if facts.place.vpc_id and facts.found.vpc_id != facts.place.vpc_id:
        told = f"{facts.found.id} is in {facts.found.vpc_id}, the nodes are in {facts.place.vpc_id}: they cannot reach it."
        return Finding("file_system_id", "fail", told, "Choose one in the cluster's VPC.")
    if not facts.found.ready:
        level, told = ("warn" if facts.found.status == "CREATING" else "fail"), f"{facts.found.id} is {facts.found.status}."
        return Finding("file_system_id", level, told, facts.found.failure or "Wait until it is AVAILABLE.")  # type: ignore[arg-type]
    return Finding("file_system_id", "ok", f"{facts.found.id}: {facts.found.size_gib} GiB, {facts.found.status}.")


def check_ports(_: Any, facts: FsxFacts) -> Finding | None:
    """The security groups let Lustre through; without, a mount hangs and says nothing."""
    if facts.found is None or not facts.closed:
        return None
    told = f"No rule lets TCP {', '.join(facts.closed)} in from {', '.join(facts.place.group_ids) or 'the nodes'} to {facts.found.id}."
    return Finding("ports", "fail", told, "Add that rule to the file system's security group.")


def check_zone(_: Any, facts: FsxFacts) -> Finding | None:
    """Across zones it works, slower, and the traffic is paid for."""
    if facts.found is None or facts.zone is None or not facts.place.zones:
        return None
    if facts.zone not in facts.place.zones:
        told = f"{facts.found.id} is in {facts.zone}; the nodes are in {', '.join(facts.place.zones)}."
        return Finding("zone", "warn", told, "Between zones reads take longer and their traffic is paid for.")
    return None


Check = Callable[[Any, Any], Finding | None]
S3_RULES: tuple[Check, ...] = (check_s3_driver, check_bucket, check_rights, check_free)
FSX_RULES: tuple[Check, ...] = (check_fsx_driver, check_choice, check_file_system, check_ports, check_zone, check_free)


def findings(ask: Any, facts: Any, rules: tuple[Check, ...]) -> list[Finding]:
    """What the rules found."""
    return [found for check in rules if (found := check(ask, facts)) is not None]
