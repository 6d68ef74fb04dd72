"""Deleting: preconditions, grace, finalizers by propagation policy, collections, and what follows a deletion of a definition."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, replace
from typing import Any, Final

from instantstart_sandbox.kubernetes import crd, policies
from instantstart_sandbox.kubernetes.errors import bad_option, bad_value, conflict, forbidden, unsupported
from instantstart_sandbox.kubernetes.pipeline import DEFINITIONS, Pipeline
from instantstart_sandbox.kubernetes.resources import Resource
from instantstart_sandbox.kubernetes.selectors import Match
from instantstart_sandbox.kubernetes.store import DELETED, MODIFIED

Object = dict[str, Any]

_FOREGROUND: Final = "foregroundDeletion"
_ORPHAN: Final = "orphan"
_DEFAULT_GRACE: Final = 30
#: kinds whose deletion answers the object instead of a Status
_ANSWERS_OBJECT: Final = frozenset(
    {"pods", "services", "persistentvolumes", "persistentvolumeclaims", "podtemplates", "resourcequotas", "serviceaccounts",
     "storageclasses.storage.k8s.io", "csidrivers.storage.k8s.io", "csinodes.storage.k8s.io", "volumeattachments.storage.k8s.io"}
)  # fmt: skip
_PROTECTED: Final = frozenset({"default", "kube-system", "kube-public", "kube-node-lease"})


@dataclass(frozen=True)
class DeleteOptions:
    """What a deletion asks for. ``grace`` in seconds, None: the object's own; ``policy`` Background, Foreground or Orphan."""

    grace: int | None = None
    policy: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    dry_run: bool = False
    #: who deletes: admission policies ask for it
    user: str = "system:admin"

    @classmethod
    def read(cls, body: Object, query: dict[str, str]) -> DeleteOptions:
        """From the DeleteOptions in the body, or else the query. 400 when they contradict each other."""
        preconditions = body.get("preconditions") or {}
        policy = body.get("propagationPolicy") or query.get("propagationPolicy")
        orphan = body.get("orphanDependents", {"true": True, "false": False}.get(query.get("orphanDependents", "")))
        if orphan is not None and policy:
            text = "orphanDependents and deletionPropagation cannot be both set"
            raise bad_option("DeleteOptions", bad_value("propagationPolicy", f'"{policy}"', text))
        if policy not in (None, "Background", "Foreground", "Orphan"):
            raise bad_option("DeleteOptions", unsupported("propagationPolicy", policy, ("Foreground", "Background", "Orphan", "nil")))
        if orphan is not None:
            policy = "Orphan" if orphan else "Background"
        grace = body.get("gracePeriodSeconds", query.get("gracePeriodSeconds"))
        dry = "All" in (body.get("dryRun") or ()) or query.get("dryRun") == "All"
        return cls(int(grace) if grace is not None else None, policy, preconditions.get("uid"), preconditions.get("resourceVersion"), dry)


class Deletion:
    """Deletes through a pipeline."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        #: definition -> the generation that is being served
        self._served: dict[str, int] = {}
        pipeline.after.append(self._after)

    def delete(self, resource: Resource, namespace: str | None, name: str, options: DeleteOptions) -> Object:
        """Delete or begin to delete; answers the body of the response."""
        obj = self.pipeline.entry(resource, namespace, name).object()
        self._check(resource, obj, options)
        self._admit(resource, obj, options)
        if options.dry_run:
            return self._answer(resource, obj, gone=True)
        obj, gone = self._mark(resource, obj, options)
        return self._answer(resource, {**obj, "apiVersion": resource.api_version}, gone=gone)

    def delete_collection(self, resource: Resource, namespace: str | None, match: Match | None, options: DeleteOptions) -> list[Object]:
        """Delete everything that matches; answers the objects as they were."""
        prefix = f"{namespace}/" if namespace else ""
        chosen = [e for _, e in self.pipeline.collection(resource).scan(prefix) if match is None or match(e)]
        out = []
        for entry in chosen:
            obj = entry.object()
            head = {"kind": resource.kind, "apiVersion": resource.api_version} if resource.custom else {}
            out.append({**head, **{k: v for k, v in obj.items() if k not in ("kind", "apiVersion")}})
            self._admit(resource, obj, options)
            if not options.dry_run and self.pipeline.collection(resource).get(_key(resource, obj)) is not None:
                self._mark(resource, obj, options)
        return out

    def _admit(self, resource: Resource, obj: Object, options: DeleteOptions) -> None:
        policies.check(self.pipeline, policies.Write(resource, "DELETE", None, obj, options.user, options.dry_run))

    @staticmethod
    def _check(resource: Resource, obj: Object, options: DeleteOptions) -> None:
        metadata = obj["metadata"]
        name, version = metadata["name"], metadata["resourceVersion"]
        named = replace(resource, plural=resource.kind)
        if options.uid and options.uid != metadata["uid"]:
            raise conflict(
                named, name,
                f"the UID in the precondition ({options.uid}) does not match the UID in record ({metadata['uid']}). "
                "The object might have been deleted and then recreated",
            )  # fmt: skip
        if options.resource_version and options.resource_version != version:
            raise conflict(
                named, name,
                f"the ResourceVersion in the precondition ({options.resource_version}) does not match the ResourceVersion in record "
                f"({version}). The object might have been modified",
            )  # fmt: skip
        if resource.qualified == "namespaces" and name in _PROTECTED:
            raise forbidden(resource, name, "this namespace may not be deleted")

    def _mark(self, resource: Resource, obj: Object, options: DeleteOptions) -> tuple[Object, bool]:
        """Delete at once (True), or mark as being deleted (False)."""
        metadata = obj["metadata"]
        finalizers = self._finalizers(resource, metadata, options)
        grace = _grace(resource, obj, options)
        waits = grace > 0 or bool(finalizers) or resource.qualified == "namespaces"
        if not waits:
            before = metadata["resourceVersion"]
            if resource.qualified == "pods":
                self._stamp(metadata, 0)
            gone = self.pipeline.commit(resource, DELETED, obj)
            return {**gone, "metadata": {**gone["metadata"], "resourceVersion": before}}, True
        first = "deletionTimestamp" not in metadata
        before = dict(metadata)
        if finalizers:
            metadata["finalizers"] = finalizers
        else:
            metadata.pop("finalizers", None)
        if first or grace < metadata.get("deletionGracePeriodSeconds", 0):
            self._stamp(metadata, grace)
            if resource.qualified == DEFINITIONS:
                del metadata["deletionGracePeriodSeconds"]  # that server sets the time alone
                metadata["generation"] -= first
        if resource.qualified == "namespaces":
            obj["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}
        if metadata == before:
            return obj, False
        obj = self.pipeline.commit(resource, MODIFIED, obj)
        if resource.qualified == DEFINITIONS and first:
            self._empty(obj)
        return obj, False

    def _stamp(self, metadata: Object, grace: int) -> None:
        """Mark as being deleted; a new generation begins with the first mark."""
        if "deletionTimestamp" not in metadata and "generation" in metadata:
            metadata["generation"] += 1
        moment = dt.datetime.fromisoformat(self.pipeline.timestamp()) + dt.timedelta(seconds=grace)
        metadata["deletionTimestamp"] = moment.strftime("%Y-%m-%dT%H:%M:%SZ")
        metadata["deletionGracePeriodSeconds"] = grace

    @staticmethod
    def _finalizers(resource: Resource, metadata: Object, options: DeleteOptions) -> list[str]:
        kept = list(metadata.get("finalizers") or ())
        if options.policy:
            kept = [f for f in kept if f not in (_FOREGROUND, _ORPHAN)]
        wanted = {"Foreground": _FOREGROUND, "Orphan": _ORPHAN}.get(options.policy or "")
        if wanted and wanted not in kept:
            kept.append(wanted)
        if resource.qualified == DEFINITIONS and "deletionTimestamp" not in metadata and crd.CLEANUP not in kept:
            kept.append(crd.CLEANUP)
        return kept

    @staticmethod
    def _answer(resource: Resource, obj: Object, *, gone: bool) -> Object:
        if not gone or resource.qualified in _ANSWERS_OBJECT:
            return obj
        details = {"name": obj["metadata"]["name"], "group": resource.group, "kind": resource.plural, "uid": obj["metadata"]["uid"]}
        if not resource.group:
            del details["group"]
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}

    # ------------------------------------------------------------------ definitions

    def _after(self, resource: Resource, kind: str, obj: Object) -> None:
        if resource.qualified == DEFINITIONS:
            self._after_definition(kind, obj)
        elif resource.custom and kind == DELETED:
            definition = self.pipeline.read(DEFINITIONS, resource.qualified)
            if definition is not None and definition["metadata"].get("deletionTimestamp"):
                self._finish(definition)

    def _after_definition(self, kind: str, obj: Object) -> None:
        catalog = self.pipeline.catalog
        if kind == DELETED:
            catalog.remove(obj["spec"]["group"], obj["spec"]["names"]["plural"])
            self._served.pop(obj["metadata"]["name"], None)
            self.pipeline.store.collection(obj["metadata"]["name"]).end_watches()
            return
        name, generation = obj["metadata"]["name"], obj["metadata"].get("generation", 0)
        if self._served.get(name) != generation or name not in catalog:
            crd.serve(catalog, obj)
            self._served[name] = generation
        if obj["metadata"].get("deletionTimestamp"):
            return
        status = crd.established_status(obj, self.pipeline.timestamp())
        if obj.get("status") != status:
            self.pipeline.commit(catalog.find(DEFINITIONS), MODIFIED, {**obj, "status": status})

    def _empty(self, definition: Object) -> None:
        name = definition["metadata"]["name"]
        if name in self.pipeline.catalog:
            self.delete_collection(self.pipeline.catalog.find(name), None, None, DeleteOptions())
        latest = self.pipeline.read(DEFINITIONS, name)
        if latest is not None:
            self._finish(latest)

    def _finish(self, definition: Object) -> None:
        """Let a definition go when nothing of its kind is left."""
        name, metadata = definition["metadata"]["name"], definition["metadata"]
        if name in self.pipeline.catalog and self.pipeline.collection(self.pipeline.catalog.find(name)).keys:
            return
        resource = self.pipeline.catalog.find(DEFINITIONS)
        metadata["finalizers"] = [f for f in metadata.get("finalizers") or () if f != crd.CLEANUP]
        if not metadata["finalizers"]:
            del metadata["finalizers"]
        self.pipeline.commit(resource, MODIFIED if metadata.get("finalizers") else DELETED, definition)


def _key(resource: Resource, obj: Object) -> str:
    return resource.key(obj["metadata"].get("namespace"), obj["metadata"]["name"])


def _grace(resource: Resource, obj: Object, options: DeleteOptions) -> int:
    """Seconds that a Pod has to end; everything else goes at once."""
    if resource.qualified != "pods":
        return 0
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    if not spec.get("nodeName") or status.get("phase") in ("Succeeded", "Failed"):
        return 0
    wanted = options.grace if options.grace is not None else spec.get("terminationGracePeriodSeconds", _DEFAULT_GRACE)
    already = obj["metadata"].get("deletionGracePeriodSeconds")
    return int(wanted) if already is None else min(int(wanted), int(already))
