"""A pod's volumes as folders, and the reasons why a volume cannot be mounted."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from ..loops.objects import Object, controller_of, key_of, labels_of, name_of, namespace_of, pod_ready, short_hash, spec_of, status_of
from .buckets import BucketFolder
from .environment import ConfigError, Reader, contents, field_value

#: CSI driver -> the DaemonSet whose pod must run on the node.
NODE_PLUGINS = {
    "s3.csi.aws.com": "s3-csi-node",
    "fsx.csi.aws.com": "fsx-csi-node",
    "ebs.csi.aws.com": "ebs-csi-node",
}


class MountError(Exception):
    """A volume that cannot be mounted now; ``volume`` is its name in the pod, the message the kubelet's."""

    def __init__(self, volume: str, message: str) -> None:
        super().__init__(message)
        self.volume = volume


def claim_name(pod: Object, volume: Object) -> str | None:
    """The claim a volume of the pod uses."""
    if "persistentVolumeClaim" in volume:
        return str(volume["persistentVolumeClaim"]["claimName"])
    return f"{name_of(pod)}-{volume['name']}" if "ephemeral" in volume else None


def persistent_volume(read: Reader, pod: Object, volume: Object) -> Object | None:
    """The bound PersistentVolume of one of the pod's volumes; None for other kinds. MountError while it is not bound."""
    name = claim_name(pod, volume)
    if name is None:
        return None
    claim = read("persistentvolumeclaims", name, namespace_of(pod))
    if claim is None:
        raise MountError(volume["name"], f'persistentvolumeclaim "{name}" not found')
    bound = spec_of(claim).get("volumeName") if status_of(claim).get("phase") == "Bound" else None
    found = read("persistentvolumes", bound, "") if bound else None
    if found is None:
        raise MountError(volume["name"], f'Unable to attach or mount volumes: PVC "{key_of(claim)}" is not bound')
    return found


def check_driver(read: Reader, volume: Object, neighbours: list[Object]) -> None:
    """MountError unless the CSI driver of the PersistentVolume is installed and its pod runs on the node."""
    driver = (spec_of(volume).get("csi") or {}).get("driver")
    if driver is None:
        return
    plugin = NODE_PLUGINS.get(driver)
    running = any((controller_of(p) or {}).get("name") == plugin and pod_ready(p) for p in neighbours)
    if read("csidrivers.storage.k8s.io", driver, "") is None or not running:
        name = name_of(volume)
        unknown = f"driver name {driver} not found in the list of registered CSI drivers"
        text = f"kubernetes.io/csi: mounter.SetUpAt failed to get CSI client: {unknown}"
        raise MountError(name, f'MountVolume.SetUp failed for volume "{name}" : {text}')


def bucket_of(volume: Object) -> str | None:
    """The S3 bucket of a PersistentVolume of the S3 driver."""
    csi = spec_of(volume).get("csi") or {}
    return (csi.get("volumeAttributes") or {}).get("bucketName") if csi.get("driver") == "s3.csi.aws.com" else None


def file_system_of(volume: Object) -> str | None:
    """The DNS name of the FSx file system of a PersistentVolume of the FSx driver."""
    csi = spec_of(volume).get("csi") or {}
    return (csi.get("volumeAttributes") or {}).get("dnsname") if csi.get("driver") == "fsx.csi.aws.com" else None


def prefix_of(volume: Object) -> str:
    """The mount option ``prefix x/`` of an S3 volume; empty for the whole bucket."""
    given = [o.split(None, 1)[1] for o in spec_of(volume).get("mountOptions") or [] if o.startswith("prefix ")]
    return given[0] if given else ""


def bucket_folders(read: Reader, pod: Object, data: Path) -> list[BucketFolder]:
    """The S3 volumes of a pod."""
    found = []
    for volume in spec_of(pod).get("volumes") or []:
        kept = persistent_volume(read, pod, volume)
        bucket = bucket_of(kept) if kept else None
        if kept is not None and bucket is not None:
            prefix = prefix_of(kept)
            index = data.parent / "buckets" / ".index" / f"{_safe(bucket)}.{short_hash(prefix)}.json"
            found.append(BucketFolder(bucket, prefix, shared_folder(data, kept), index))
    return found


def no_bucket(volume: Object, bucket: str) -> MountError:
    """What the S3 driver says about a bucket that does not exist."""
    name = name_of(volume)
    text = f'Could not mount "{bucket}": Mount failed: Failed to create S3 client: initial ListObjectsV2 failed: The bucket does not exist'
    return MountError(name, f'MountVolume.SetUp failed for volume "{name}" : rpc error: code = Internal desc = {text}')


def no_file_system(volume: Object, dns_name: str) -> MountError:
    """What the FSx driver says about a file system that does not answer: the mount command's own words."""
    name = name_of(volume)
    text = f'Could not mount "{dns_name}": mount failed: exit status 5: mount.lustre: mount {dns_name} failed: Input/output error'
    return MountError(name, f'MountVolume.SetUp failed for volume "{name}" : rpc error: code = Internal desc = {text}')


def shared_folder(data: Path, volume: Object) -> Path:
    """The folder that stands for a PersistentVolume: one for each bucket and prefix, file system or volume handle."""
    csi = spec_of(volume).get("csi") or {}
    bucket = bucket_of(volume)
    if bucket is None:
        return data / "volumes" / _safe(file_system_of(volume) or csi.get("volumeHandle") or name_of(volume))
    folder = data.parent / "buckets" / _safe(bucket)
    for part in prefix_of(volume).split("/"):
        if part not in ("", ".", ".."):
            folder = folder / _safe(part)
    return folder


def _safe(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "_", text) or "_"


def _write(folder: Path, files: dict[str, bytes], items: list[Object] | None) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    chosen = {i["path"]: files[i["key"]] for i in items if i["key"] in files} if items else files
    for path, data in chosen.items():
        target = (folder / path).resolve()
        if target.is_relative_to(folder.resolve()):
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)


def _keyed(read: Reader, pod: Object, volume: str, kind: tuple[str, str], source: Object) -> dict[str, bytes]:
    resource, name = kind
    obj = read(resource, name, namespace_of(pod))
    if obj is None:
        if source.get("optional"):
            return {}
        raise MountError(volume, f'MountVolume.SetUp failed for volume "{volume}" : {resource.removesuffix("s")} "{name}" not found')
    return contents(obj, resource == "secrets")


def _downward(pod: Object, items: list[Object]) -> dict[str, bytes]:
    found = {}
    for item in items:
        path = (item.get("fieldRef") or {}).get("fieldPath", "")
        if path == "metadata.labels":
            text = "\n".join(f'{k}="{v}"' for k, v in sorted(labels_of(pod).items()))
        else:
            try:
                text = field_value(pod, path)
            except ConfigError:
                text = ""
        found[item["path"]] = text.encode()
    return found


def files_of(read: Reader, pod: Object, volume: Object) -> tuple[dict[str, bytes], list[Object] | None] | None:
    """The files of a configMap, secret, downwardAPI or projected volume; None for other kinds. MountError when a source is missing."""
    name = volume["name"]
    if "configMap" in volume:
        source = volume["configMap"]
        return _keyed(read, pod, name, ("configmaps", source["name"]), source), source.get("items")
    if "secret" in volume:
        source = volume["secret"]
        return _keyed(read, pod, name, ("secrets", source["secretName"]), source), source.get("items")
    if "downwardAPI" in volume:
        return _downward(pod, volume["downwardAPI"].get("items") or []), None
    if "projected" not in volume:
        return None
    merged: dict[str, bytes] = {}
    for part in volume["projected"].get("sources") or []:
        for kind, resource in (("configMap", "configmaps"), ("secret", "secrets")):
            if kind in part:
                values = _keyed(read, pod, name, (resource, part[kind]["name"]), part[kind])
                items = part[kind].get("items")
                merged.update({i["path"]: values[i["key"]] for i in items if i["key"] in values} if items else values)
        if "downwardAPI" in part:
            merged.update(_downward(pod, part["downwardAPI"].get("items") or []))
    return merged, None


def folders(read: Reader, pod: Object, home: Path, data: Path) -> dict[str, Path]:
    """Make the folder of each of the pod's volumes, filled, and answer them by volume name."""
    found = {}
    for volume in spec_of(pod).get("volumes") or []:
        kept = persistent_volume(read, pod, volume)
        folder = shared_folder(data, kept) if kept else home / "volumes" / _safe(volume["name"])
        folder.mkdir(parents=True, exist_ok=True)
        listed = files_of(read, pod, volume)
        if listed is not None:
            _write(folder, *listed)
        found[volume["name"]] = folder
    return found


#: variable of a container's process: real folder -> where the container has it mounted, so that a program can name it as it is there
MOUNTED = "INSTANTSTART_SANDBOX_MOUNTS"


def moves(container: Object, places: dict[str, Path]) -> list[tuple[str, str]]:
    """Where a container mounts something, and the real folder that stands for it; the longest path first."""
    found = []
    for mount in container.get("volumeMounts") or []:
        folder = places.get(mount["name"])
        if folder is None:
            continue
        target = folder
        for part in str(mount.get("subPath") or "").split("/"):
            if part not in ("", ".", ".."):
                target = target / _safe(part)
        target.mkdir(parents=True, exist_ok=True)
        found.append((mount["mountPath"].rstrip("/"), str(target)))
    return sorted(found, key=lambda m: -len(m[0]))


def relocation(moves: list[tuple[str, str]]) -> Callable[[str], str]:
    """Rewrites mount paths in arguments and environment to the folders that stand for them.

    A process of the sandbox has no file system of its own, so ``/data`` of a mount has to be named by its real place.
    """

    def moved(text: str) -> str:
        for path, target in moves:
            if path:
                text = re.sub(rf"(?<![\w/.-]){re.escape(path)}(?=$|[/\s:\"',;)])", lambda _, t=target: t, text)  # type: ignore[misc]
        return text

    return moved
