"""What a request would do before it does it."""

from __future__ import annotations

from instantstart.capabilities.planning import Plan
from instantstart.capabilities.room import Room
from instantstart.capabilities.storage.volumes import removal, rules, specs
from instantstart.ensure.findings import refusal
from instantstart.ensure.sites import Site
from instantstart.ensure.storage import volumes


def plan_s3(room: Room, where: Site, ask: specs.AddS3Volume) -> Plan:
    """What s3_volume.add would make."""
    facts = rules.observe_s3(room, where, ask)
    made = () if facts.region or ask.bucket else (f"bucket {facts.bucket}",)
    found = tuple(rules.findings(ask, facts, rules.S3_RULES))
    return Plan(make=(*made, f"claim {ask.namespace}/{ask.claim_name} on s3://{facts.bucket}/{ask.prefix}"), findings=found)


def plan_fsx(room: Room, where: Site, ask: specs.AddFsxVolume) -> Plan:
    """What fsx_volume.add would make."""
    found = tuple(rules.findings(ask, rules.observe_fsx(room, where, ask), rules.FSX_RULES))
    made = (f"FSx for Lustre file system of {ask.size_gib} GiB, {ask.throughput} MB/s for each TiB",) if ask.size_gib else ()
    shown = ask.file_system_id or "the new file system"
    return Plan(make=(*made, f"claim {ask.namespace}/{ask.claim_name} on {shown}"), findings=found)


def plan_remove(room: Room, where: Site, target: specs.RemoveTarget) -> Plan:
    """What volume.remove would remove and keep. Raises NotFound for what is not ours, Conflict while pods use the claim."""
    claim, kube = f"{target.namespace}/{target.claim_name}", where.kube(room)
    made = removal.find_ours(room, where, target)
    users = volumes.observe(kube, made.volume).users if made.volume else ()
    if made.volume and users:
        raise volumes.in_use(made.volume, users)
    size = f"{made.file_system.size_gib} GiB" if made.file_system else ""
    gone = (f"file system {made.file_system.id} WITH ITS DATA ({size})",) if made.file_system and target.delete_file_system else ()
    kept = (f"file system {made.file_system.id} ({size}), which is billed for",) if made.file_system and not gone else ()
    shown = (f"what the volume shows: {made.shows}",) if made.shows and not made.file_system else ()
    removed = (f"claim {claim} and its volume {made.volume.volume}",) if made.volume else ()
    return Plan(remove=(*removed, *gone), keep=(*shown, *kept))


def checked_s3(room: Room, where: Site, ask: specs.AddS3Volume) -> specs.AddS3Volume:
    """The same request, when nothing that can be known stands in its way. Raises its refusal, all violations at once."""
    refused = refusal(rules.findings(ask, rules.observe_s3(room, where, ask), rules.S3_RULES))
    if refused:
        raise refused
    return ask


def checked_fsx(room: Room, where: Site, ask: specs.AddFsxVolume) -> specs.AddFsxVolume:
    """The same for a file system."""
    refused = refusal(rules.findings(ask, rules.observe_fsx(room, where, ask), rules.FSX_RULES))
    if refused:
        raise refused
    return ask
