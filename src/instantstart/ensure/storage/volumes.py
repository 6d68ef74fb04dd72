"""An S3 bucket or an FSx for Lustre file system as a volume: a PersistentVolume and the claim that pods name (aws-facts A19).

No driver makes volumes for us, so the pair is static. Two volumes with one handle mount as one (case 71): ours derives from the
claim, and an equal one of somebody else is refused. A volume's source cannot be changed, only removed and made anew.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from instantstart.base import problems
from instantstart.base.outcome import Done, Outcome, Wait
from instantstart.ensure.installs import manifests
from instantstart.ensure.installs.releases import Release, Resource, identity, sentence
from instantstart.kube.client import KubeCluster

DRIVER = "s3.csi.aws.com"
LUSTRE_DRIVER = "fsx.csi.aws.com"
#: Required by the API and ignored by the driver: a bucket has no size.
_NOMINAL_SIZE = "1200Gi"
_LOOK_SECONDS = 3.0


@dataclass(frozen=True)
class Volume(ABC):
    """A claim in a namespace, and the volume behind it. What the volume shows, the classes below say."""

    claim: str
    namespace: str

    driver: ClassVar[str]
    kind: ClassVar[str]

    @property
    def volume(self) -> str:
        """The PersistentVolume's name, unique in the cluster: it lives in no namespace, so it carries the claim's."""
        plain = f"{self.namespace}-{self.claim}-{self.kind}"
        return f"{plain[:54].rstrip('-')}-{self.digest}"

    @property
    def digest(self) -> str:
        """Two pairs may join to one text (a-b + c, a + b-c): the digest keeps them apart."""
        return hashlib.sha256(f"{self.namespace}/{self.claim}".encode()).hexdigest()[:8]

    @property
    def handle(self) -> str:
        """What the driver and the kubelet tell volumes apart by."""
        return self.volume

    def release(self) -> Release:
        """The pair of manifests."""
        digest = hashlib.sha256(repr(self).encode()).hexdigest()
        return Release(name=self.volume, version="1", digest=f"sha256:{digest}", resources=(self._persistent_volume(), self._claim()))

    @abstractmethod
    def _source(self) -> dict[str, Any]:
        """The fields of the volume's spec that say what it shows."""

    def _modes(self) -> list[str]:
        return ["ReadWriteMany"]

    def _size(self) -> str:
        return _NOMINAL_SIZE

    def _persistent_volume(self) -> Resource:
        return {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": self.volume},
            "spec": {
                "capacity": {"storage": self._size()},
                "accessModes": self._modes(),
                "persistentVolumeReclaimPolicy": "Retain",
                "storageClassName": "",
                "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": self.namespace, "name": self.claim},
                **self._source(),
            },
        }

    def _claim(self) -> Resource:
        return {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": self.claim, "namespace": self.namespace},
            "spec": {
                "accessModes": self._modes(),
                "storageClassName": "",
                "volumeName": self.volume,
                "resources": {"requests": {"storage": self._size()}},
            },
        }


@dataclass(frozen=True)
class S3Volume(Volume):
    """The claim shows ``bucket`` (of ``region``), below ``prefix``: no slash at its start, one at its end.

    ``cache_gib``: objects read are kept on the node, up to so many GiB for each pod's mount.
    """

    bucket: str
    region: str
    prefix: str = ""
    read_only: bool = False
    uid: int | None = None
    gid: int | None = None
    allow_delete: bool = True
    allow_overwrite: bool = True
    cache_gib: int | None = None

    driver: ClassVar[str] = DRIVER
    kind: ClassVar[str] = "s3"

    @property
    def mount_options(self) -> list[str]:
        """What Mountpoint is told; without allow-delete and allow-overwrite a file can be written once and never again."""
        rights = ["allow-delete"] * self.allow_delete + ["allow-overwrite"] * self.allow_overwrite
        options = [*(["read-only"] if self.read_only else rights), f"region {self.region}", "allow-other"]
        options += [f"prefix {self.prefix}"] if self.prefix else []
        options += [f"uid={self.uid}"] if self.uid is not None else []
        return options + ([f"gid={self.gid}"] if self.gid is not None else [])

    def _modes(self) -> list[str]:
        return ["ReadOnlyMany" if self.read_only else "ReadWriteMany"]

    def _source(self) -> dict[str, Any]:
        cache = {"cache": "emptyDir", "cacheEmptyDirSizeLimit": f"{self.cache_gib}Gi"} if self.cache_gib else {}
        attributes = {"bucketName": self.bucket, **cache}
        return {
            "mountOptions": self.mount_options,
            "csi": {"driver": DRIVER, "volumeHandle": self.handle, "volumeAttributes": attributes},
        }


@dataclass(frozen=True)
class LustreVolume(Volume):
    """The claim shows a whole FSx for Lustre file system of ``size_gib``."""

    file_system_id: str
    dns_name: str
    mount_name: str
    size_gib: int

    driver: ClassVar[str] = LUSTRE_DRIVER
    kind: ClassVar[str] = "fsx"

    @property
    def handle(self) -> str:
        """The file system's id, and the claim's digest: the kubelet mounts two volumes of one handle on a node but once."""
        return f"{self.file_system_id}-{self.digest}"

    def _size(self) -> str:
        return f"{self.size_gib}Gi"

    def _source(self) -> dict[str, Any]:
        attributes = {"dnsname": self.dns_name, "mountname": self.mount_name}
        return {
            "mountOptions": ["flock"],
            "csi": {"driver": LUSTRE_DRIVER, "volumeHandle": self.handle, "volumeAttributes": attributes},
        }


@dataclass(frozen=True)
class VolumeState:
    """``phase``: ``absent`` or the claim's (Pending, Bound, Lost); ``why`` it is not bound; ``users`` are pods that name the claim."""

    phase: str
    why: str | None
    users: tuple[str, ...]

    @property
    def bound(self) -> bool:
        """Whether pods can use it."""
        return self.phase == "Bound"


def ensure(cluster: KubeCluster, volume: Volume) -> Outcome:
    """Make the pair be there and bound.

    Raises Conflict ``volume.source_differs`` when the volume shows another place, ``volume.handle_taken`` when somebody else's
    volume has this handle, Blocked ``volume.claim_lost`` when the claim can never bind.
    """
    _refuse_other_source(cluster, volume)
    _refuse_taken_handle(cluster, volume)
    made = manifests.ensure(cluster, volume.release())
    seen = observe(cluster, volume)
    if seen.bound:
        return Done({"claim": volume.claim, "volume": volume.volume}, already=isinstance(made, Done) and made.already)
    if seen.phase == "Lost":
        hint = "Remove the volume and make it anew; what it shows stays as it is."
        raise problems.Blocked("volume.claim_lost", seen.why or "The claim lost its volume.", hint=hint)
    return Wait(_LOOK_SECONDS, seen.why or "The claim is not bound yet.")


def observe(cluster: KubeCluster, volume: Volume) -> VolumeState:
    """How the pair is."""
    claim = cluster.find("PersistentVolumeClaim", volume.claim, volume.namespace)
    users = tuple(_users(cluster, volume))
    if claim is None:
        return VolumeState("absent", "There is no such claim.", users)
    phase = claim.get("status", {}).get("phase", "Pending")
    if phase == "Bound":
        return VolumeState(phase, None, users)
    held = cluster.find("PersistentVolume", volume.volume)
    if held is None:
        return VolumeState(phase, f"Its volume {volume.volume} is not there.", users)
    reference = held["spec"].get("claimRef") or {}
    if reference.get("uid") not in (None, claim["metadata"]["uid"]):
        return VolumeState("Lost", "The volume still belongs to an earlier claim of this name.", users)
    return VolumeState(phase, f"The claim is {phase}; the volume is {held.get('status', {}).get('phase', 'new')}.", users)


def remove(cluster: KubeCluster, volume: Volume) -> Outcome:
    """Take the pair out; the bucket or file system stays, with all in it. Raises Conflict ``volume.in_use`` naming the pods."""
    users = tuple(_users(cluster, volume))
    if users:
        raise in_use(volume, users)
    release = volume.release()
    # Claim first: a volume that is still bound is protected, and its claim would be Lost.
    claim = Release(release.name, release.version, release.digest, release.resources[1:])
    gone = manifests.remove(cluster, claim)
    return gone if isinstance(gone, Wait) else manifests.remove(cluster, release)


def in_use(volume: Volume, users: Sequence[str]) -> problems.Conflict:
    """The refusal to remove a volume that pods use."""
    return problems.Conflict(
        "volume.in_use",
        f"The volume {volume.claim} is used by {sentence(users)}.",
        hint="End those pods first; Kubernetes keeps a claim while a pod uses it.",
        evidence={"pods": list(users[:50])},
    )


def _users(cluster: KubeCluster, volume: Volume) -> list[str]:
    found = []
    for pod in cluster.list("Pod", volume.namespace):
        claims = [(v.get("persistentVolumeClaim") or {}).get("claimName") for v in pod["spec"].get("volumes") or ()]
        if volume.claim in claims and pod.get("status", {}).get("phase") not in ("Succeeded", "Failed"):
            found.append(pod["metadata"]["name"])
    return found


def _refuse_other_source(cluster: KubeCluster, volume: Volume) -> None:
    """A volume's source and options are fixed once made."""
    live = cluster.find("PersistentVolume", volume.volume)
    if live is None:
        return
    wanted = volume.release().resources[0]["spec"]
    differing = [key for key in ("csi", "mountOptions", "accessModes") if not _holds(live["spec"].get(key), wanted[key])]
    if differing:
        raise problems.Conflict(
            "volume.source_differs",
            f"{identity(live)} is there and shows another place: {', '.join(differing)} differ.",
            hint="A volume cannot be pointed elsewhere: remove it, then make it anew.",
            evidence={"live": {key: live["spec"].get(key) for key in differing}, "wanted": {key: wanted[key] for key in differing}},
        )


def _holds(live: Any, wanted: Any) -> bool:
    """Whether the live value has all that is wanted (the server adds fields of its own)."""
    if isinstance(wanted, Mapping):
        return isinstance(live, Mapping) and all(_holds(live.get(key), value) for key, value in wanted.items())
    return bool(live == wanted)


def _refuse_taken_handle(cluster: KubeCluster, volume: Volume) -> None:
    for other in cluster.list("PersistentVolume"):
        csi = other["spec"].get("csi") or {}
        if (csi.get("driver"), csi.get("volumeHandle")) == (volume.driver, volume.handle) and other["metadata"]["name"] != volume.volume:
            detail = f"{identity(other)} already has the handle {volume.handle}; the driver would mount one for the other."
            raise problems.Conflict("volume.handle_taken", detail, evidence={"volume": other["metadata"]["name"]})


def s3_place(spec: Mapping[str, Any]) -> str:
    """What an S3 volume shows, from its PersistentVolume's spec: ``s3://bucket/prefix``."""
    attributes = (spec.get("csi") or {}).get("volumeAttributes") or {}
    prefix = next((o.removeprefix("prefix ") for o in spec.get("mountOptions") or () if o.startswith("prefix ")), "")
    return f"s3://{attributes.get('bucketName', '?')}/{prefix}"
