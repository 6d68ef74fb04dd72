"""The generic verbs: create, update, patch, apply and delete of any kind, from decoded body to stored revision.

Every write takes the same way: decode, default, admit, validate, note the owners of fields, store. Everything here is synchronous and
runs in the loop that owns the store, so that one request is one transaction.
"""

from __future__ import annotations

import copy
import functools
import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import orjson

from instantstart_sandbox.kubernetes import (
    admission,
    cel_rules,
    crd,
    defaults,
    definition_rules,
    fields,
    immutable,
    lifecycle,
    ownership,
    patch,
    policies,
    rules,
    schema_rules,
    typed,
    webhooks,
)
from instantstart_sandbox.kubernetes.decoding import Options, decode, prune_object
from instantstart_sandbox.kubernetes.errors import (
    ApiError,
    Cause,
    already_exists,
    bad_request,
    bad_value,
    conflict,
    forbidden_field,
    invalid,
    modified,
    nameless_invalid,
    not_found,
)  # fmt: skip
from instantstart_sandbox.kubernetes.ownership import Writer
from instantstart_sandbox.kubernetes.resources import Catalog, Resource
from instantstart_sandbox.kubernetes.schema import definition
from instantstart_sandbox.kubernetes.selectors import extractor
from instantstart_sandbox.kubernetes.store import ADDED, DELETED, MODIFIED, Collection, Entry, Store
from instantstart_sandbox.kubernetes.validation import default, validate

Object = dict[str, Any]

METADATA: Final = functools.partial(definition, "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")
DEFINITIONS: Final = "customresourcedefinitions.apiextensions.k8s.io"
_MERGE: Final = "application/merge-patch+json"
_JSON: Final = "application/json-patch+json"
_STRATEGIC: Final = "application/strategic-merge-patch+json"
#: kinds whose PUT makes what is not there
_CREATED_BY_UPDATE: Final = frozenset(
    {"endpoints", "events", "leases.coordination.k8s.io", "limitranges", "podtemplates"}
    | {f"{kind}.rbac.authorization.k8s.io" for kind in ("roles", "rolebindings", "clusterroles", "clusterrolebindings")}
)
_GO_KINDS: Final = {"number": "int64", "bool": "bool", "string": "string", "object": "map[string]interface {}", "array": "[]interface {}"}
PATCHES: Final = {"merge": _MERGE, "json": _JSON, "strategic": _STRATEGIC}


class Pipeline:
    """Reads and writes of one cluster. ``timestamp`` gives the virtual now as RFC 3339 with whole seconds."""

    def __init__(self, store: Store, catalog: Catalog, timestamp: Callable[[], str]) -> None:
        self.store, self.catalog, self.timestamp = store, catalog, timestamp
        #: who has a pod identity association in force, by (namespace, service account); the view of AWS sets it
        self.associated: Callable[[str, str], bool] = lambda namespace, account: False
        #: called before a new or changed object is stored, with (resource, object, CREATE or UPDATE); may refuse
        self.before: list[Callable[[Resource, Object, str], None]] = []
        #: called after each stored write with (resource, change type, object)
        self.after: list[Callable[[Resource, str, Object], None]] = []

    # ------------------------------------------------------------------ reading

    def collection(self, resource: Resource) -> Collection:
        """The stored collection of a resource."""
        found = self.store.collections.get(resource.qualified)
        return found or self.store.collection(resource.qualified, extractor(resource))

    def entry(self, resource: Resource, namespace: str | None, name: str) -> Entry:
        """The present entry; 404."""
        found = self.collection(resource).get(resource.key(namespace, name))
        if found is None:
            raise not_found(resource, name)
        return found

    def read(self, qualified: str, name: str, namespace: str | None = None) -> Object | None:
        """The present object, or None (also when the resource is not served)."""
        if qualified not in self.catalog:
            return None
        resource = self.catalog.find(qualified)
        found = self.collection(resource).get(resource.key(namespace, name))
        return found.object() if found else None

    def read_all(self, qualified: str, namespace: str | None = None) -> list[Object]:
        """All present objects of a resource, in a namespace if one is given."""
        if qualified not in self.catalog:
            return []
        prefix = f"{namespace}/" if namespace else ""
        return [e.object() for _, e in self.collection(self.catalog.find(qualified)).scan(prefix)]

    def is_associated(self, namespace: str, account: str) -> bool:
        """Whether a service account has a pod identity association in force."""
        return self.associated(namespace, account)

    # ------------------------------------------------------------------ create

    def create(self, resource: Resource, namespace: str | None, body: Any, options: Options) -> Object:
        """Store a new object; answers it as stored."""
        obj = decode(resource, body, options)
        self._place(resource, namespace, obj)
        return self._insert(resource, obj, options, tracked=False)

    def _place(self, resource: Resource, namespace: str | None, obj: Object) -> None:
        metadata = obj["metadata"]
        if resource.namespaced:
            if metadata.get("namespace", namespace) != namespace:
                raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
            metadata["namespace"] = namespace
        else:
            metadata.pop("namespace", None)
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = lifecycle.generated_name(metadata["generateName"])
        if resource.namespaced:
            admission.check_namespace(self, resource, str(namespace), metadata.get("name", ""))

    def _insert(self, resource: Resource, obj: Object, options: Options, *, tracked: bool) -> Object:
        metadata = obj["metadata"]
        if metadata.get("resourceVersion"):
            if not tracked:
                raise ApiError(500, "", "resourceVersion should not be set on objects to be created")
            metadata.pop("resourceVersion")
        collection, key = self.collection(resource), resource.key(metadata.get("namespace"), metadata.get("name", ""))
        self._fill(resource, obj)
        if not tracked:
            sent = {k: v for k, v in obj.items() if k != "status" or not resource.has_status}
            ownership.track_update(None, sent, resource.node, self._writer(resource, options), resource.custom)
        lifecycle.begin(resource, obj, self.timestamp())
        admission.admit(self, resource, obj, None)
        self._validate(resource, obj, None, options)
        policies.check(self, policies.Write(resource, "CREATE", obj, None, options.user, options.dry_run))
        self._ask(resource, obj, "CREATE")
        if (present := collection.get(key)) is not None:
            raise already_exists(resource, metadata["name"], ending="deletionTimestamp" in present.object()["metadata"])
        if options.dry_run:
            return self._shown(resource, obj)
        return self._commit(resource, ADDED, key, obj)

    def _ask(self, resource: Resource, obj: Object, operation: str) -> None:
        webhooks.check(self, resource, obj, operation)
        for check in self.before:
            check(resource, obj, operation)

    def _fill(self, resource: Resource, obj: Object) -> None:
        if resource.custom:
            default(obj, resource.node)
            return
        defaults.fill(resource.qualified, obj)
        if resource.qualified == DEFINITIONS:
            crd.prepare(obj)

    def _validate(self, resource: Resource, obj: Object, old: Object | None, options: Options) -> None:
        causes: list[Cause] = rules.metadata_causes(obj, resource)
        if resource.custom:
            causes += self._schema_causes(resource, obj, old, options)
        else:
            causes += rules.causes_of(resource.qualified, obj)
            absent: list[Cause] = []
            if resource.qualified != DEFINITIONS:
                rules.missing(obj, resource.node, "", absent)
            known = {c.field for c in causes}
            causes += [c for c in absent if c.field not in known]
        if resource.qualified == DEFINITIONS:
            causes += definition_rules.check(obj)
            for version in (obj.get("spec") or {}).get("versions") or () if not causes else ():
                options.warnings.extend(schema_rules.unevaluated(version["schema"]["openAPIV3Schema"]))
        if old is not None and options.subresource == "":
            causes += self._immutables(resource, obj, old)
        if causes:
            raise invalid(resource, obj["metadata"].get("name", ""), causes)

    @staticmethod
    def _schema_causes(resource: Resource, obj: Object, old: Object | None, options: Options) -> list[Cause]:
        """Violations of a custom resource's schema and rules. What was wrong before and is left as it was is only told."""
        causes: list[Cause] = []
        node = replace_required(resource)
        validate({k: v for k, v in obj.items() if k != "metadata"}, node, "", causes)
        if old is not None:
            causes, told = cel_rules.forgive(causes, obj, old, node)
            options.warnings.extend(told)
        found = cel_rules.check(obj, old, node, causes)
        options.warnings.extend(found.warnings)
        return causes + found.causes

    @staticmethod
    def _immutables(resource: Resource, obj: Object, old: Object) -> list[Cause]:
        causes = [] if resource.custom else immutable.causes_of(resource.qualified, old, obj)
        if old["metadata"].get("deletionTimestamp"):
            fresh = [f for f in obj["metadata"].get("finalizers") or () if f not in (old["metadata"].get("finalizers") or ())]
            if fresh:
                listed = ", ".join(f'"{f}"' for f in fresh)
                text = f"no new finalizers can be added if the object is being deleted, found new finalizers []string{{{listed}}}"
                causes.append(forbidden_field("metadata.finalizers", text))
        return causes

    def _writer(self, resource: Resource, options: Options) -> Writer:
        return Writer(options.manager, resource.api_version, options.subresource, self.timestamp(), options.releases, options.scales)

    # ------------------------------------------------------------------ update

    def update(self, resource: Resource, namespace: str | None, name: str, body: Any, options: Options) -> Object:
        """Replace an object (or its status). 409 when resourceVersion or uid are given and differ."""
        obj = decode(resource, body, options)
        metadata = obj["metadata"]
        if metadata.get("name", "") != name:
            raise bad_request(f"the name of the object ({metadata.get('name', '')}) does not match the name on the URL ({name})")
        if resource.namespaced and metadata.get("namespace", namespace) != namespace:
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        if self.created_by_update(resource, namespace, name) and not metadata.get("resourceVersion") and not options.subresource:
            self._place(resource, namespace, obj)
            return self._insert(resource, obj, options, tracked=False)
        old = self.entry(resource, namespace, name).object()
        if resource.custom and not metadata.get("resourceVersion"):
            raise invalid(resource, name, [bad_value("metadata.resourceVersion", "0x0", "must be specified for an update")])
        return self._replace(resource, old, obj, options, tracked=False)

    def created_by_update(self, resource: Resource, namespace: str | None, name: str) -> bool:
        """Whether a PUT would make the object: it is not there, and its kind allows that."""
        return resource.qualified in _CREATED_BY_UPDATE and self.collection(resource).get(resource.key(namespace, name)) is None

    def _replace(self, resource: Resource, old: Object, obj: Object, options: Options, *, tracked: bool) -> Object:
        metadata, before, name = obj["metadata"], old["metadata"], old["metadata"]["name"]
        if metadata.get("resourceVersion") and metadata["resourceVersion"] != before["resourceVersion"]:
            raise modified(resource, name)
        if metadata.get("uid") and metadata["uid"] != before["uid"]:
            raise _other_object(resource, before, metadata["uid"], patched=options.patched or tracked)
        old = {**old, "apiVersion": resource.api_version}
        lifecycle.keep_identity(obj, old)
        obj = lifecycle.isolate(resource, obj, old, options.subresource)
        if options.subresource == "":
            self._fill(resource, obj)
        elif options.subresource == "status" and not resource.custom:
            defaults.fill_status(resource.qualified, obj)
        if not tracked:
            ownership.track_update(old, obj, resource.node, self._writer(resource, options), resource.custom)
        if options.subresource == "":
            admission.admit(self, resource, obj, old)
        if resource.qualified == "namespaces" and options.subresource != "finalize":
            obj["spec"] = old.get("spec", {})
        if options.subresource != "status" or resource.custom:
            self._validate(resource, obj, old, options)
        if options.subresource == "":
            policies.check(self, policies.Write(resource, "UPDATE", obj, old, options.user, options.dry_run))
            self._ask(resource, obj, "UPDATE")
        lifecycle.advance(resource, obj, old, options.subresource)
        return self._store_update(resource, old, obj, options)

    def _store_update(self, resource: Resource, old: Object, obj: Object, options: Options) -> Object:
        metadata = obj["metadata"]
        if _timeless(obj) == _timeless(old) and not options.restless:
            return self._shown(resource, old)
        if options.dry_run:
            return self._shown(resource, obj)
        key = resource.key(metadata.get("namespace"), metadata["name"])
        ended = metadata.get("deletionTimestamp") and not metadata.get("finalizers") and not metadata.get("deletionGracePeriodSeconds")
        if ended and (obj.get("spec") or {}).get("finalizers") != ["kubernetes"]:
            gone = self._commit(resource, DELETED, key, obj)
            # the answer shows the revision that was replaced; watchers see the one of the deletion
            return {**gone, "metadata": {**gone["metadata"], "resourceVersion": old["metadata"]["resourceVersion"]}}
        return self._commit(resource, MODIFIED, key, obj)

    # ------------------------------------------------------------------ patch

    def patch(self, resource: Resource, namespace: str | None, name: str, request: tuple[str, Any], options: Options) -> Object:
        """Patch an object; ``request`` is (media type, body). 415 for a media type that this resource does not take."""
        media, body = request
        if media not in (_MERGE, _JSON) and (media != _STRATEGIC or resource.custom):
            raise unsupported_patch(resource, media)
        entry = self.entry(resource, namespace, name)
        old, base = self._shown(resource, entry.object()), self._shown(resource, entry.object())
        if media != _JSON and not isinstance(body, dict):
            raise bad_request("json: cannot unmarshal array into Go value of type map[string]interface {}")
        if media == _MERGE:
            changed = patch.merge_patch(base, body)
        elif media == _JSON:
            changed = patch.json_patch(base, body)
        else:
            changed = patch.strategic_merge(base, body, resource.node)
        if not isinstance(changed, dict):
            raise bad_request("the patch does not leave an object")
        try:
            obj = decode(resource, changed, options)
        except ApiError as refusal:
            raise _unfit(changed, refusal) if media != _STRATEGIC else _unfit_patch(body, refusal) from refusal
        if not obj["metadata"].get("name"):
            raise bad_request(f"the name of the object ({name} based on URL) was undeterminable: name must be provided")
        if obj["metadata"]["name"] != name:
            raise bad_request(f"the name of the object ({obj['metadata']['name']}) does not match the name on the URL ({name})")
        return self._replace(resource, old, obj, replace(options, patched=True), tracked=False)

    def apply(self, resource: Resource, namespace: str | None, name: str, body: Any, options: Options) -> tuple[Object, bool]:
        """Server-side apply; answers (object, whether it was created)."""
        found = self.collection(resource).get(resource.key(namespace, name))
        if found is None and options.subresource:
            raise not_found(resource, name)
        sent = copy.deepcopy(body)
        config = self._applied(resource, namespace, name, body, options)
        _restore_empty(config, sent)
        owned = fields.applied_set({k: v for k, v in sent.items() if k in config}, resource.node)
        writer = self._writer(resource, options)
        if found is None:
            if resource.namespaced:
                admission.check_namespace(self, resource, str(namespace), name)
            obj = ownership.apply(None, config, resource.node, writer, options.force, owned)
            prune_object(resource, obj)
            return self._insert(resource, obj, options, tracked=True), True
        live = self._shown(resource, found.object())
        obj = ownership.apply(self._shown(resource, found.object()), config, resource.node, writer, options.force, owned)
        # an empty map or list that is applied where there is none counts as a change each time, though a custom resource keeps none
        counted = resource.custom and not options.subresource
        empty = {k: v for k, v in obj["metadata"].items() if counted and v in ({}, [])}
        prune_object(resource, obj)
        done = self._replace(resource, live, obj, replace(options, restless=bool(empty)), tracked=True)
        if empty and self.collection(resource).get(resource.key(namespace, name)) is None:
            # the apply took the last finalizer: the answer was never stored, and shows what storing drops
            done = {**done, "metadata": {**done["metadata"], **empty}}
        return done, False

    def _applied(self, resource: Resource, namespace: str | None, name: str, body: Any, options: Options) -> Object:
        if not isinstance(body, dict):
            raise bad_request("error decoding YAML: not an object")
        exists = self.collection(resource).get(resource.key(namespace, name)) is not None
        _check_applied(resource, name, body, exists=exists)
        config = decode(resource, body, options)
        metadata = config["metadata"]
        if metadata.get("name", name) != name:
            raise bad_request(f"the name of the object ({metadata['name']}) does not match the name on the URL ({name})")
        metadata["name"] = name
        if resource.namespaced:
            if metadata.get("namespace", namespace) != namespace:
                raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
            metadata["namespace"] = namespace
        if options.subresource == "status":
            return {k: v for k, v in config.items() if k in ("apiVersion", "kind", "metadata", "status")}
        return {k: v for k, v in config.items() if k != "status" or not resource.has_status}

    # ------------------------------------------------------------------ storing

    def _shown(self, resource: Resource, obj: Object) -> Object:
        return {**obj, "apiVersion": resource.api_version}

    def commit(self, resource: Resource, kind: str, obj: Object) -> Object:
        """Store a change that has already been decided (deletion marks and the like)."""
        return self._commit(resource, kind, resource.key(obj["metadata"].get("namespace"), obj["metadata"]["name"]), obj)

    def _commit(self, resource: Resource, kind: str, key: str, obj: Object) -> Object:
        stored = {**obj, "apiVersion": resource.storage_api_version, "kind": resource.kind}
        done = self.store.commit(self.collection(resource), kind, key, stored)
        for hook in self.after:
            hook(resource, kind, done)
        return self._shown(resource, done)


def replace_required(resource: Resource) -> Any:
    """A custom resource's schema without ``metadata`` among the required fields (the server guarantees it)."""
    node = resource.node
    if "metadata" in node.required:
        node.required = tuple(f for f in node.required if f != "metadata")
    return node


def unsupported_patch(resource: Resource, media: str) -> ApiError:
    """415 with the media types that would do; of built-in kinds the router refuses before anybody knows them."""
    if not resource.custom:
        return ApiError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
    accepted = [_JSON, _MERGE, "application/apply-patch+yaml"]
    text = "the body of the request was in an unknown format - accepted media types include: " + ", ".join(accepted)
    return ApiError(415, "UnsupportedMediaType", text, None if media == _STRATEGIC else {})


def _timeless(obj: Object) -> Object:
    """An object without the times of its managers: a write that would change nothing else is none."""
    entries = obj["metadata"].get("managedFields")
    if not entries:
        return obj
    bare = [{k: v for k, v in e.items() if k != "time"} for e in entries]
    return {**obj, "metadata": {**obj["metadata"], "managedFields": bare}}


def _restore_empty(config: Any, sent: Any) -> None:
    """Put the empty maps and lists back that decoding dropped: merged in, they empty what is there."""
    if isinstance(config, dict) and isinstance(sent, dict):
        for key, value in sent.items():
            if key in config:
                _restore_empty(config[key], value)
            elif value in ({}, []):
                config[key] = copy.deepcopy(value)
    elif isinstance(config, list) and isinstance(sent, list):
        for mine, theirs in zip(config, sent, strict=False):
            _restore_empty(mine, theirs)


def _check_applied(resource: Resource, name: str, body: Object, *, exists: bool) -> None:
    """400 for a configuration that does not say what it is, 500 for one that the schema does not have.

    The merge library speaks before anything is decoded.
    """
    version, kind, metadata = str(body.get("apiVersion") or "/"), body.get("kind") or "", body.get("metadata") or {}
    if (version, kind) != (resource.api_version, resource.kind):
        raise bad_request(f"invalid object type: {version if '/' in version else '/' + version}, Kind={kind}")
    if not isinstance(metadata, dict) or not (metadata.get("name") or exists):
        raise bad_request(f"the name of the object ({name} based on URL) was undeterminable: name must be provided")
    if metadata.get("managedFields") is not None:
        raise bad_request("metadata.managedFields must be nil")
    found = list(typed.faults(metadata, METADATA(), ".metadata"))
    found += typed.faults({k: v for k, v in body.items() if k not in ("metadata", "apiVersion", "kind")}, resource.node, "")
    if found:
        about = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}; {resource.group}/{resource.version}, Kind={resource.kind}"
        raise ApiError(500, "", f"failed to create typed patch object ({about}): {typed.sentence(found)}")


def _other_object(resource: Resource, before: Object, uid: str, *, patched: bool) -> ApiError:
    """What a write with another uid is told: a patch breaks a rule, an update finds another object."""
    if patched:
        return invalid(resource, before["name"], [bad_value("metadata.uid", f'"{uid}"', "field is immutable")])
    group = f"{resource.group}/" if resource.custom else ""
    place = "/".join(filter(None, [before.get("namespace"), before["name"]]))
    text = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {before['uid']}"
    where = f"Key: /registry/{group}{resource.plural}/{place}, ResourceVersion: 0"
    return conflict(resource, before["name"], f"StorageError: invalid object, Code: 4, {where}, AdditionalErrorMsg: {text}")


def _unfit_patch(body: Any, refusal: ApiError) -> ApiError:
    """422 for a strategic merge patch of wrong types or unknown fields; it shows the patch as Go prints it."""
    why = refusal.message.split(": ", 1)[-1]
    kinds = re.search(r"cannot unmarshal (\w+) into Go struct field \S+ of type (\S+)", why)
    if kinds:
        into_map = kinds[1] == "array" and kinds[2].startswith("map[")
        why = "cannot restore map from slice" if into_map else f"cannot convert {_GO_KINDS.get(kinds[1], kinds[1])} to {kinds[2]}"
    return nameless_invalid(bad_value("patch", json.dumps(patch.go_print(body)), why))


def _unfit(changed: Object, refusal: ApiError) -> ApiError:
    """422 for a patch after which the object cannot be decoded; it shows the whole object."""
    why = refusal.message.split(": ", 1)[-1] if " cannot be handled as a " in refusal.message else refusal.message
    text = orjson.dumps(changed).decode()
    return nameless_invalid(bad_value("patch", json.dumps(text), why))
