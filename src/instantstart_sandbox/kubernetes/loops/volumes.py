"""Claims and volumes: static binding by class, size, modes and name; dynamic provisioning by the FSx and EBS drivers."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from .engine import Controller
from .objects import (
    Object,
    annotations_of,
    deleting,
    key_of,
    labels_of,
    meta,
    name_of,
    namespace_of,
    selects,
    short_hash,
    spec_of,
    status_of,
    uid_of,
)
from .quantity import amount
from .scheduler import SELECTED_NODE

CLAIMS, VOLUMES, CLASSES = "persistentvolumeclaims", "persistentvolumes", "storageclasses.storage.k8s.io"
PVC_PROTECTION, PV_PROTECTION = "kubernetes.io/pvc-protection", "kubernetes.io/pv-protection"
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_PROVISIONER = "volume.kubernetes.io/storage-provisioner"
_BOUND_BY = "pv.kubernetes.io/bound-by-controller"
_BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
#: Virtual seconds until a driver has made a volume, by provisioner; others have no controller here and never answer.
PROVISION_SECONDS = {"fsx.csi.aws.com": 400.0, "ebs.csi.aws.com": 8.0}


def asked_bytes(claim: Object) -> Decimal:
    """The size a claim asks for."""
    return amount(((spec_of(claim).get("resources") or {}).get("requests") or {}).get("storage", 0))


def volume_bytes(volume: Object) -> Decimal:
    """A volume's size."""
    return amount((spec_of(volume).get("capacity") or {}).get("storage", 0))


def reserved_for(volume: Object, claim: Object) -> bool:
    """Whether the volume's claimRef names this claim (or this very one, once it has a uid)."""
    ref = spec_of(volume).get("claimRef") or {}
    if ref.get("namespace") != namespace_of(claim) or ref.get("name") != name_of(claim):
        return False
    return ref.get("uid") in (None, "", uid_of(claim))


def matches(volume: Object, claim: Object) -> bool:
    """Whether the volume could serve the claim."""
    want, have = spec_of(claim), spec_of(volume)
    if (want.get("storageClassName") or "") != (have.get("storageClassName") or ""):
        return False
    if want.get("volumeMode", "Filesystem") != have.get("volumeMode", "Filesystem"):
        return False
    if not set(want.get("accessModes") or []) <= set(have.get("accessModes") or []):
        return False
    if want.get("selector") is not None and not selects(want["selector"], labels_of(volume)):
        return False
    return volume_bytes(volume) >= asked_bytes(claim)


class VolumeBinder(Controller):
    """Binds claims. Keys are claims (``namespace/name``) and volumes (``name``)."""

    name = "persistentvolume-controller"
    watched = (CLAIMS, VOLUMES, CLASSES)

    def keys(self, resource: str, obj: Object) -> Iterable[str]:
        """The object; the claims that wait, when a volume or class changed; the volume of a claim."""
        if resource == CLAIMS:
            bound = spec_of(obj).get("volumeName")
            return [key_of(obj), bound] if bound else [key_of(obj)]
        waiting = [key_of(c) for c in self.cache.all(CLAIMS) if status_of(c).get("phase") != "Bound"]
        if resource == CLASSES:
            return waiting
        ref = spec_of(obj).get("claimRef")
        return [key_of(obj), *waiting, *([f"{ref['namespace']}/{ref['name']}"] if ref else [])]

    async def reconcile(self, key: str) -> None:
        """One claim or one volume."""
        if "/" in key:
            claim = self.cache.get(CLAIMS, key)
            if claim is not None:
                await self._claim(key, claim)
        elif (volume := self.cache.get(VOLUMES, key)) is not None:
            await self._volume(volume)

    # ------------------------------------------------------------------ volumes

    async def _volume(self, volume: Object) -> None:
        ref = spec_of(volume).get("claimRef")
        if not ref:
            await self._phase(volume, "Available")
            return
        claim = self.cache.get(CLAIMS, f"{ref['namespace']}/{ref['name']}")
        if claim is None and not ref.get("uid"):
            await self._phase(volume, "Available")
        elif claim is None or (ref.get("uid") and ref["uid"] != uid_of(claim)):
            await self._released(volume)
        elif spec_of(claim).get("volumeName") == name_of(volume):
            await self._phase(volume, "Bound")

    async def _released(self, volume: Object) -> None:
        await self._phase(volume, "Released")
        made = annotations_of(volume).get("pv.kubernetes.io/provisioned-by")
        if spec_of(volume).get("persistentVolumeReclaimPolicy") == "Delete" and made and not deleting(volume):
            await self.client.delete(VOLUMES, name_of(volume))

    async def _phase(self, volume: Object, phase: str) -> None:
        if status_of(volume).get("phase") != phase:
            await self.client.status(VOLUMES, name_of(volume), {"phase": phase})

    # ------------------------------------------------------------------ claims

    async def _claim(self, key: str, claim: Object) -> None:
        name = spec_of(claim).get("volumeName")
        if name:
            await self._named(claim, name)
            return
        if deleting(claim):
            return
        claim = await self._default_class(claim)
        volume = self._find(claim)
        if volume is not None:
            await self._bind(claim, volume)
        else:
            await self._unmatched(key, claim)

    async def _named(self, claim: Object, name: str) -> None:
        volume = self.cache.get(VOLUMES, name)
        if volume is None:
            if status_of(claim).get("phase") == "Bound":
                message = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
                await self.client.status(CLAIMS, name_of(claim), {"phase": "Lost"}, namespace_of(claim))
                await self.event(claim, "ClaimLost", message, warning=True)
            else:
                await self._pending(claim)
            return
        if status_of(claim).get("phase") == "Bound":
            return
        taken = spec_of(volume).get("claimRef")
        if taken and not reserved_for(volume, claim):
            await self._pending(claim)
            await self.event(claim, "FailedBinding", f'volume "{name}" already bound to a different claim.', warning=True)
        elif (why := self._mismatch(volume, claim)) is not None:
            await self._pending(claim)
            await self.event(claim, "VolumeMismatch", f'Cannot bind to requested volume "{name}": {why}', warning=True)
        else:
            await self._bind(claim, volume)

    def _mismatch(self, volume: Object, claim: Object) -> str | None:
        want, have = spec_of(claim), spec_of(volume)
        if volume_bytes(volume) < asked_bytes(claim):
            return "requested PV is too small"
        if (want.get("storageClassName") or "") != (have.get("storageClassName") or ""):
            return "storageClassName does not match"
        if want.get("volumeMode", "Filesystem") != have.get("volumeMode", "Filesystem"):
            return "incompatible volumeMode"
        if not set(want.get("accessModes") or []) <= set(have.get("accessModes") or []):
            return "incompatible accessMode"
        return None

    def _find(self, claim: Object) -> Object | None:
        volumes = [v for v in self.cache.all(VOLUMES) if not deleting(v)]
        held = next((v for v in volumes if spec_of(v).get("claimRef") and reserved_for(v, claim)), None)
        if held is not None:
            return held if self._mismatch(held, claim) is None else None
        free = [v for v in volumes if not spec_of(v).get("claimRef") and matches(v, claim)]
        return min(free, key=lambda v: (volume_bytes(v), name_of(v)), default=None)

    async def _bind(self, claim: Object, volume: Object) -> None:
        ref = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": namespace_of(claim),
            "name": name_of(claim),
            "uid": uid_of(claim),
            "resourceVersion": meta(claim).get("resourceVersion"),
        }
        if (spec_of(volume).get("claimRef") or {}).get("uid") != uid_of(claim):
            mark = {} if spec_of(volume).get("claimRef") else {"metadata": {"annotations": {_BOUND_BY: "yes"}}}
            await self.client.patch(VOLUMES, name_of(volume), {**mark, "spec": {"claimRef": ref}})
        notes = {_BIND_COMPLETED: "yes"}
        change: Object = {"metadata": {"annotations": notes}}
        if not spec_of(claim).get("volumeName"):
            notes[_BOUND_BY] = "yes"
            change["spec"] = {"volumeName": name_of(volume)}
        await self.client.patch(CLAIMS, name_of(claim), change, namespace_of(claim))
        status = {
            "phase": "Bound",
            "accessModes": spec_of(volume).get("accessModes"),
            "capacity": spec_of(volume).get("capacity"),
        }
        await self.client.status(CLAIMS, name_of(claim), status, namespace_of(claim))
        await self._phase(volume, "Bound")

    async def _pending(self, claim: Object) -> None:
        if status_of(claim).get("phase") != "Pending":
            await self.client.status(CLAIMS, name_of(claim), {"phase": "Pending"}, namespace_of(claim))

    async def _default_class(self, claim: Object) -> Object:
        if spec_of(claim).get("storageClassName") is not None:
            return claim
        default = next((c for c in self.cache.all(CLASSES) if annotations_of(c).get(_DEFAULT_CLASS) == "true"), None)
        if default is None:
            return claim
        change = {"spec": {"storageClassName": name_of(default)}}
        return await self.client.patch(CLAIMS, name_of(claim), change, namespace_of(claim))

    async def _unmatched(self, key: str, claim: Object) -> None:
        await self._pending(claim)
        name = spec_of(claim).get("storageClassName")
        if not name:
            await self.event(claim, "FailedBinding", "no persistent volumes available for this claim and no storage class is set")
            return
        found = self.cache.get(CLASSES, name)
        if found is None:
            await self.event(claim, "ProvisioningFailed", f'storageclass.storage.k8s.io "{name}" not found', warning=True)
            return
        late = found.get("volumeBindingMode") == "WaitForFirstConsumer"
        if late and SELECTED_NODE not in annotations_of(claim):
            await self.event(claim, "WaitForFirstConsumer", "waiting for first consumer to be created before binding")
            return
        await self._provision(key, claim, found)

    async def _provision(self, key: str, claim: Object, storage_class: Object) -> None:
        provisioner = storage_class["provisioner"]
        started = annotations_of(claim).get(_PROVISIONER)
        if started != provisioner:
            note = {"metadata": {"annotations": {_PROVISIONER: provisioner, "volume.beta.kubernetes.io/storage-provisioner": provisioner}}}
            await self.client.patch(CLAIMS, name_of(claim), note, namespace_of(claim))
            waiting = (
                f"Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by the system "
                "administrator. If volume creation is delayed, please verify that the provisioner is running and correctly registered."
            )
            await self.event(claim, "ExternalProvisioning", waiting)
        if provisioner not in PROVISION_SECONDS or self.cluster.read("csidrivers.storage.k8s.io", provisioner) is None:
            return
        due = self.engine.first_seen(("provision", uid_of(claim))) + PROVISION_SECONDS[provisioner]
        if due > self.now():
            self.later(due - self.now(), key)
            return
        await self.client.create(VOLUMES, self._made(claim, storage_class))
        await self.event(claim, "ProvisioningSucceeded", f"Successfully provisioned volume pvc-{uid_of(claim)}")

    def _made(self, claim: Object, storage_class: Object) -> Object:
        provisioner = storage_class["provisioner"]
        handle = ("fs-0" if provisioner.startswith("fsx") else "vol-0") + short_hash(uid_of(claim), 16)
        ref = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": namespace_of(claim),
            "name": name_of(claim),
            "uid": uid_of(claim),
        }
        return {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": f"pvc-{uid_of(claim)}", "annotations": {"pv.kubernetes.io/provisioned-by": provisioner}},
            "spec": {
                "accessModes": spec_of(claim).get("accessModes"),
                "capacity": {"storage": spec_of(claim)["resources"]["requests"]["storage"]},
                "claimRef": ref,
                "csi": {"driver": provisioner, "volumeHandle": handle, "volumeAttributes": dict(storage_class.get("parameters") or {})},
                "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy", "Delete"),
                "storageClassName": name_of(storage_class),
                "mountOptions": storage_class.get("mountOptions") or [],
                "volumeMode": spec_of(claim).get("volumeMode", "Filesystem"),
            },
        }


class VolumeProtection(Controller):
    """The finalizers that keep a claim while a pod uses it, and a volume while a claim does."""

    name = "pvc-protection-controller"
    watched = (CLAIMS, VOLUMES, "pods")

    def keys(self, resource: str, obj: Object) -> Iterable[str]:
        """Claims, volumes, and the claims of a pod."""
        if resource != "pods":
            return [key_of(obj)] if resource == CLAIMS or "/" not in key_of(obj) else []
        names = [(v.get("persistentVolumeClaim") or {}).get("claimName") for v in spec_of(obj).get("volumes") or []]
        return [f"{namespace_of(obj)}/{n}" for n in names if n]

    async def reconcile(self, key: str) -> None:
        """Put the finalizer on; take it off once the object is under deletion and nobody uses it."""
        resource, mark = (CLAIMS, PVC_PROTECTION) if "/" in key else (VOLUMES, PV_PROTECTION)
        obj = self.cache.get(resource, key)
        if obj is None:
            return
        finalizers = meta(obj).get("finalizers") or []
        if not deleting(obj) and mark not in finalizers:
            await self._write(resource, obj, [*finalizers, mark])
        elif deleting(obj) and mark in finalizers and not self._in_use(resource, obj):
            await self._write(resource, obj, [f for f in finalizers if f != mark])

    def _in_use(self, resource: str, obj: Object) -> bool:
        if resource == VOLUMES:
            return status_of(obj).get("phase") == "Bound"
        for pod in self.cache.all("pods", namespace_of(obj)):
            names = [(v.get("persistentVolumeClaim") or {}).get("claimName") for v in spec_of(pod).get("volumes") or []]
            if name_of(obj) in names and spec_of(pod).get("nodeName") and status_of(pod).get("phase") not in ("Succeeded", "Failed"):
                return True
        return False

    async def _write(self, resource: str, obj: Object, finalizers: list[str]) -> None:
        await self.client.patch(resource, name_of(obj), {"metadata": {"finalizers": finalizers}}, namespace_of(obj) or None)
