"""What can be read of volumes: every claim of a cluster with what it shows, and the file systems a form can offer."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any, Literal

from instantstart.base import problems
from instantstart.capabilities.paging import Page, page
from instantstart.capabilities.room import Room
from instantstart.capabilities.storage.volumes import rules
from instantstart.ensure import sites
from instantstart.ensure.installs.releases import is_ours
from instantstart.ensure.storage import filesystems, volumes
from instantstart.ensure.storage.volumes import DRIVER, LUSTRE_DRIVER

Kind = Literal["s3", "fsx", "other"]
_KINDS: dict[str, Kind] = {DRIVER: "s3", LUSTRE_DRIVER: "fsx"}


@dataclass(frozen=True)
class VolumeItem:
    """A claim and what it shows: a bucket and folder, or a file system. ``ours``: InstantStart made it, and may remove it."""

    namespace: str
    claim: str
    kind: Kind
    shows: str
    phase: str
    bound: bool
    read_only: bool
    size: str | None
    ours: bool
    volume: str | None
    pods: tuple[str, ...]


@dataclass(frozen=True)
class VolumePage:
    """One page of volumes, and how many there are."""

    items: tuple[VolumeItem, ...]
    cursor: str | None
    total: int


@dataclass(frozen=True)
class VolumeDetail:
    """One volume, with the options it is mounted with, and why it is not bound."""

    volume: VolumeItem
    mount_options: tuple[str, ...]
    attributes: dict[str, str]
    because: str | None
    note: str


@dataclass(frozen=True)
class FileSystemItem:
    """An FSx for Lustre file system. ``fits``: it is in the cluster's VPC and can be mounted now; else ``because``."""

    id: str
    status: str
    size_gib: int
    deployment: str
    vpc_id: str
    claim: str | None
    fits: bool
    because: str | None


@dataclass(frozen=True)
class FileSystemList:
    """The file systems of the cluster's region."""

    items: tuple[FileSystemItem, ...]


_FIXED = "What a volume shows cannot be changed: remove it and make it anew; its bucket or file system keeps its data."


@dataclass(frozen=True)
class Filter:
    """Which volumes: empty parts mean all."""

    namespace: str = ""
    kind: Kind | None = None
    contains: str = ""

    def takes(self, item: VolumeItem) -> bool:
        """Whether the volume is wanted."""
        text = f"{item.namespace}/{item.claim} {item.shows}".lower()
        return self.namespace in ("", item.namespace) and self.kind in (None, item.kind) and self.contains.lower() in text


def list_volumes(room: Room, tag: str, wanted: Filter, limit: int, cursor: str | None) -> VolumePage:
    """Claims by namespace and name, with the pods that use them."""
    found = [item for item in _read(sites.find(room, tag).kube(room)) if wanted.takes(item)]
    part: Page[VolumeItem] = page(found, lambda item: f"{item.namespace}/{item.claim}", limit, cursor)
    return VolumePage(part.items, part.cursor, part.total)


def get_volume(room: Room, tag: str, namespace: str, claim: str) -> VolumeDetail:
    """One claim. Raises NotFound."""
    kube = sites.find(room, tag).kube(room)
    item = next((i for i in _read(kube, namespace) if i.claim == claim), None)
    if item is None:
        raise problems.NotFound("volume.unknown", f"There is no claim {namespace}/{claim}.", hint="List the volumes.")
    held: Any = (kube.find("PersistentVolume", item.volume) if item.volume else None) or {}
    because = None if item.bound else f"The claim is {item.phase}; its volume is {held.get('status', {}).get('phase', 'not there')}."
    attributes = (held.get("spec", {}).get("csi") or {}).get("volumeAttributes") or {}
    return VolumeDetail(item, tuple(held.get("spec", {}).get("mountOptions") or ()), attributes, because, _FIXED)


def list_file_systems(room: Room, tag: str) -> FileSystemList:
    """Every FSx for Lustre file system of the region, those that fit first."""
    where = sites.find(room, tag)
    place = rules.find_place(room, where)
    found = [_file_system(f, place.vpc_id) for f in filesystems.list_all(where.aws)]
    return FileSystemList(tuple(sorted(found, key=lambda f: (not f.fits, f.id))))


def _file_system(found: filesystems.FileSystem, vpc_id: str) -> FileSystemItem:
    because = None
    if vpc_id and found.vpc_id != vpc_id:
        because = f"It is in {found.vpc_id}; the nodes are in {vpc_id}."
    elif not found.ready:
        because = f"It is {found.status}."
    claim = found.tags.get(filesystems.CLAIM_TAG)
    return FileSystemItem(found.id, found.status, found.size_gib, found.deployment, found.vpc_id, claim, because is None, because)


def _read(kube: Any, namespace: str | None = None) -> list[VolumeItem]:
    held = {v["metadata"]["name"]: v for v in kube.list("PersistentVolume")}
    users: dict[tuple[str, str], list[str]] = defaultdict(list)
    for pod in kube.list("Pod", namespace):
        for volume in pod["spec"].get("volumes") or ():
            claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
            if claim and pod.get("status", {}).get("phase") not in ("Succeeded", "Failed"):
                users[pod["metadata"]["namespace"], claim].append(pod["metadata"]["name"])
    found = [_item(c, held.get(c["spec"].get("volumeName", "")), users) for c in kube.list("PersistentVolumeClaim", namespace)]
    return sorted(found, key=lambda i: (i.namespace, i.claim))


def _item(claim: dict[str, Any], held: dict[str, Any] | None, users: dict[tuple[str, str], list[str]]) -> VolumeItem:
    metadata, phase = claim["metadata"], claim.get("status", {}).get("phase", "Pending")
    csi = ((held or {}).get("spec", {}).get("csi")) or {}
    kind = _KINDS.get(csi.get("driver", ""), "other")
    modes = claim["spec"].get("accessModes") or []
    size = claim.get("status", {}).get("capacity", {}).get("storage") or claim["spec"]["resources"].get("requests", {}).get("storage")
    return VolumeItem(
        namespace=metadata["namespace"],
        claim=metadata["name"],
        kind=kind,
        shows=_shows(kind, (held or {}).get("spec", {})),
        phase=phase,
        bound=phase == "Bound",
        read_only=modes == ["ReadOnlyMany"],
        size=None if kind == "s3" else size,  # a bucket has none
        ours=held is not None and is_ours(held),
        volume=held["metadata"]["name"] if held else None,
        pods=tuple(sorted(users.get((metadata["namespace"], metadata["name"]), ()))),
    )


def _shows(kind: Kind, spec: dict[str, Any]) -> str:
    csi = spec.get("csi") or {}
    attributes = csi.get("volumeAttributes") or {}
    if kind == "s3":
        return volumes.s3_place(spec)
    if kind == "fsx":
        return str(attributes.get("dnsname") or csi.get("volumeHandle", "?"))
    return str(csi.get("driver") or "another kind of volume")
