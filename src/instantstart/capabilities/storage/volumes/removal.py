"""The way back: the claim and its volume, and on request the file system that was made for it. Buckets keep their objects."""

from __future__ import annotations

from dataclasses import dataclass

from instantstart.base import problems
from instantstart.base.outcome import Done, Outcome
from instantstart.capabilities.room import Room
from instantstart.capabilities.storage.volumes import rules, specs
from instantstart.ensure.sites import Site, site
from instantstart.ensure.storage import filesystems, volumes
from instantstart.operations.declare import Run


@dataclass(frozen=True)
class Ours:
    """What there is of ours behind a claim: the volume, the file system made for it, and what the volume shows."""

    volume: volumes.Volume | None
    file_system: filesystems.FileSystem | None
    shows: str | None


def find_ours(room: Room, where: Site, spec: specs.RemoveTarget) -> Ours:
    """Read it. Raises NotFound ``volume.not_ours`` when there is nothing."""
    made = rules.find_volume(where.kube(room), spec.namespace, spec.claim_name)
    ours = filesystems.find_made(where.aws, f"{spec.namespace}/{spec.claim_name}", where.tag)
    if made is None and ours is None:
        raise problems.NotFound(
            "volume.not_ours",
            f"There is no volume of InstantStart behind the claim {spec.namespace}/{spec.claim_name}.",
            hint="List the volumes; one that others made is theirs to remove.",
        )
    held = where.kube(room).find("PersistentVolume", made.volume) if made else None
    shown = (held or {}).get("spec", {})
    attributes = (shown.get("csi") or {}).get("volumeAttributes") or {}
    return Ours(made, ours, volumes.s3_place(shown) if attributes.get("bucketName") else attributes.get("dnsname"))


def survey(room: Room, run: Run) -> Outcome:
    """Write down what there is, before it goes: whose volume it is, and whose file system."""
    found = find_ours(room, site(room, run.spec), run.spec)
    return Done({"file_system_id": found.file_system.id if found.file_system else None}, already=True)


def remove_claim(room: Room, run: Run) -> Outcome:
    """Take the claim and its volume out. Refused while pods use it, naming them."""
    where, spec = site(room, run.spec), run.spec
    made = rules.find_volume(where.kube(room), spec.namespace, spec.claim_name)
    return volumes.remove(where.kube(room), made) if made else Done(already=True)


def remove_file_system(room: Room, run: Run) -> Outcome:
    """The file system that was made for this claim: gone with its data where that was asked, else named as kept."""
    where, spec, seen = site(room, run.spec), run.spec, run.learned["survey"]["file_system_id"]
    kept = {"claim": f"{spec.namespace}/{spec.claim_name}", "kept_file_system": seen}
    if seen is None or not spec.delete_file_system:
        return Done(kept, already=True, note=f"The file system {seen} is kept, and is billed for." if seen else None)
    found = filesystems.find(where.aws, seen)
    if found is None:
        return Done({**kept, "kept_file_system": None}, already=True)
    return filesystems.delete(where.aws, found, run.token("delete"))
