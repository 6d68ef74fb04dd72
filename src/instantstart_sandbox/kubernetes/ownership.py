"""Who owns which field: metadata.managedFields, server-side apply with conflicts, and the tracking of plain updates."""

from __future__ import annotations

import copy
import dataclasses
import functools
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

from instantstart_sandbox.kubernetes import fields
from instantstart_sandbox.kubernetes.errors import ApiError
from instantstart_sandbox.kubernetes.fields import FieldSet
from instantstart_sandbox.kubernetes.schema import Node

Object = dict[str, Any]

_NEVER_OWNED: Final[FieldSet] = {
    "f:apiVersion": {},
    "f:kind": {},
    "f:metadata": {
        ".": {},
        **{
            f"f:{name}": {}
            for name in (
                "name",
                "namespace",
                "creationTimestamp",
                "selfLink",
                "uid",
                "generation",
                "managedFields",
                "resourceVersion",
                "deletionTimestamp",
                "deletionGracePeriodSeconds",
            )
        },
    },
}
#: Fields that Go writes even when they are empty, so that they count as present before the first write.
_ALWAYS_PRESENT: Final = frozenset({"metadata", "spec", "status", "template", "strategy", "updateStrategy", "resources", "jobTemplate"})
_MOST_UPDATERS: Final = 10


@dataclass(frozen=True)
class Writer:
    """Who writes: the field manager, the version it speaks, the subresource it goes through, and when."""

    manager: str
    api_version: str
    subresource: str
    time: str
    #: takes what it changes from its owners, and owns none of it
    releases: bool = False
    #: the replicas' place when this is a write of a Scale
    scales: FieldSet = dataclasses.field(default_factory=dict)


@dataclass(frozen=True)
class Manager:
    """One entry of managedFields."""

    name: str
    operation: str
    api_version: str
    subresource: str
    time: str
    fields: FieldSet

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """Entries with the same identity are one; an applier is the same in all versions."""
        return (self.name, self.operation, "" if self.operation == "Apply" else self.api_version, self.subresource)

    @property
    def printed(self) -> str:
        """The manager in a conflict's message."""
        text = f'"{self.name}"' + (f' with subresource "{self.subresource}"' if self.subresource else "")
        return f"{text} using {self.api_version}" if self.operation == "Update" else text


def decode(obj: Object) -> list[Manager]:
    """The managers of an object; of two entries that are one, the later counts."""
    found = [
        Manager(
            e.get("manager", ""),
            e.get("operation", "Update"),
            e.get("apiVersion", ""),
            e.get("subresource", ""),
            e.get("time", ""),
            e.get("fieldsV1") or {},
        )
        for e in obj["metadata"].get("managedFields") or ()
        if e
    ]
    return list({m.identity: m for m in found}.values())


def encode(obj: Object, managers: list[Manager]) -> None:
    """Write the managers that own anything into the object, in the API server's order."""
    entries: list[Object] = []
    for m in sorted(managers, key=lambda m: (m.operation, m.time, m.name, m.api_version, m.subresource)):
        if m.fields:
            entry: Object = {
                "manager": m.name,
                "operation": m.operation,
                "apiVersion": m.api_version,
                **({"time": m.time} if m.time else {}),
                "fieldsType": "FieldsV1",
            }
            entry["fieldsV1"] = _sorted(m.fields)
            entries.append({**entry, "subresource": m.subresource} if m.subresource else entry)
    if entries:
        obj["metadata"]["managedFields"] = entries
    else:
        obj["metadata"].pop("managedFields", None)


def _sorted(tree: FieldSet) -> FieldSet:
    return {k: _sorted(tree[k]) for k in sorted(tree)} if tree else tree


@functools.lru_cache(maxsize=256)
def _skeleton(node: Node) -> Object:
    """What an object of a built-in kind already has when it is empty."""
    out: Object = {}
    for field in node.fields:
        child = node.child(field)
        if child is not None and (field in _ALWAYS_PRESENT or field in node.required):
            out[field] = _skeleton(child) if child.structure and not child.atomic else None
    return out


def _without_managers(obj: Object) -> Object:
    return {**obj, "metadata": {k: v for k, v in obj["metadata"].items() if k != "managedFields"}}


def _managers_before(old: Object | None, new: Object, subresource: str) -> list[Manager]:
    """The managers the write starts from: the request's own, if it sends any that can be read, else the live object's.

    ``[{}]`` resets them.
    """
    sent = new["metadata"].get("managedFields")
    if subresource == "" and sent == [{}]:
        return []
    live = (old or {"metadata": {}})["metadata"].get("managedFields")
    if subresource == "" and sent and sent != live and all(fields.is_sound(e.get("fieldsV1") or {}) for e in sent):
        return decode(new)
    return decode(old) if old else []


def track_update(old: Object | None, new: Object, node: Node, writer: Writer, custom: bool) -> None:
    """Note in ``new`` what this update changed; other managers lose what it took or removed."""
    managers = _managers_before(old, new, writer.subresource)
    if old is not None and not managers and not decode(old):
        new["metadata"].pop("managedFields", None)
        return
    before = _without_managers(old) if old is not None else ({"metadata": {}} if custom else _skeleton(node))
    comparison = fields.compare(before, _without_managers(new), node)
    changed = fields.difference(comparison.changed, _NEVER_OWNED)
    lost = fields.union(changed, comparison.removed)
    if writer.releases:
        changed = {}
    if writer.scales and not lost:
        managers = _set_aside(managers, writer.scales)
    mine = Manager(writer.manager, "Update", writer.api_version, writer.subresource, writer.time, changed)
    out = []
    for manager in managers:
        left = fields.difference(manager.fields, lost) if lost else manager.fields
        if manager.identity == mine.identity and not (writer.scales and not lost):
            mine = replace(mine, fields=fields.union(left, changed), time=writer.time if changed else manager.time)
        else:
            out.append(replace(manager, fields=left))
    encode(new, _fold_oldest([*out, mine]))


def _set_aside(managers: list[Manager], place: FieldSet) -> list[Manager]:
    """A Scale that changes nothing still moves the replicas of an updater to an entry of their own without a time.

    The API server looks an updater up under the version of the Scale and does not find it; the next write drops that entry as a double.
    """
    out = []
    for manager in managers:
        if manager.operation == "Update" and fields.intersection(manager.fields, place):
            out.append(replace(manager, fields=fields.difference(manager.fields, place)))
            out.append(replace(manager, fields=place, time=""))
        else:
            out.append(manager)
    return out


def _fold_oldest(managers: list[Manager]) -> list[Manager]:
    """More than ten updaters: the oldest become one, ``ancient-changes``."""
    updaters = sorted((m for m in managers if m.operation == "Update"), key=lambda m: m.time)
    if len(updaters) <= _MOST_UPDATERS:
        return managers
    folded = updaters[: len(updaters) - _MOST_UPDATERS + 1]
    whole: FieldSet = {}
    for manager in folded:
        whole = fields.union(whole, manager.fields)
    ancient = Manager("ancient-changes", "Update", folded[-1].api_version, "", folded[-1].time, whole)
    return [m for m in managers if m not in folded] + [ancient]


def apply(live: Object | None, applied: Object, node: Node, writer: Writer, force: bool, sent: FieldSet | None = None) -> Object:
    """The object after a server-side apply, with managedFields. Raises the 409 that names each conflicting field.

    ``sent`` is what the configuration holds as it came, empty maps and lists included: they are owned, too, though nothing stores them.
    Answers an object equal to ``live`` (managedFields included) when nothing changes.
    """
    managers = _managers_of_live(live, node)
    base = _without_managers(live) if live else {"apiVersion": applied["apiVersion"], "kind": applied["kind"], "metadata": {}}
    config = copy.deepcopy(applied)
    owned = fields.difference(fields.applied_set(config, node) if sent is None else sent, _NEVER_OWNED)
    # an apply that changes nothing but who owns what bears no time
    mine = Manager(writer.manager, "Apply", writer.api_version, writer.subresource, writer.time, owned)
    previous = next((m for m in managers if m.identity == mine.identity), None)
    others = [m for m in managers if m.identity != mine.identity]
    out = fields.merge(base, config, node)
    if previous:
        out = _drop_unapplied(out, node, previous.fields, [*others, mine])
    comparison = fields.compare(base, out, node)
    changed = fields.difference(comparison.changed, _NEVER_OWNED)
    conflicts = [(m, both) for m in others if (both := fields.intersection(m.fields, changed))]
    if conflicts and not force:
        allowed = _last_applied(base, node) if writer.manager == "kubectl" else {}
        conflicts = [(m, left) for m, both in conflicts if (left := fields.difference(both, allowed))]
        if conflicts:
            raise _conflict(conflicts)
    lost = fields.union(changed, comparison.removed)
    kept = [replace(m, fields=fields.difference(m.fields, lost)) if lost else m for m in others]
    if live is not None and not lost and out == base:
        mine = replace(mine, time=previous.time if previous else "")
    encode(out, [*kept, mine])
    return out  # type: ignore[no-any-return]


def _last_applied(live: Object, node: Node) -> FieldSet:
    """What client-side apply wrote and nobody has changed since: kubectl's server-side apply takes that over without a conflict."""
    text = (live["metadata"].get("annotations") or {}).get("kubectl.kubernetes.io/last-applied-configuration")
    try:
        applied = orjson.loads(text or "")
    except orjson.JSONDecodeError:
        return {}
    if not isinstance(applied, dict):
        return {}
    whole = fields.applied_set(applied, node)
    return fields.difference(whole, fields.compare(fields.merge(live, applied, node), live, node).changed)


def _same_set(a: FieldSet, b: FieldSet) -> bool:
    return orjson.dumps(a, option=orjson.OPT_SORT_KEYS) == orjson.dumps(b, option=orjson.OPT_SORT_KEYS)


def _managers_of_live(live: Object | None, node: Node) -> list[Manager]:
    if live is None:
        return []
    managers = decode(live)
    if managers:
        return managers
    bare = _without_managers(live)
    whole = fields.difference(fields.applied_set({k: v for k, v in bare.items() if k != "status"}, node), _NEVER_OWNED)
    return [Manager("before-first-apply", "Update", live["apiVersion"], "", live["metadata"].get("creationTimestamp", ""), whole)]


def _drop_unapplied(obj: Object, node: Node, last: FieldSet, holders: list[Manager]) -> Object:
    keep: FieldSet = {}
    for manager in holders:
        keep = fields.union(keep, manager.fields)
    out: Object = fields.remove(obj, node, last, keep)
    return out


def _conflict(conflicts: list[tuple[Manager, FieldSet]]) -> ApiError:
    listed = [(m, path) for m, tree in conflicts for path in fields.paths(tree)]
    causes = [{"reason": "FieldManagerConflict", "message": f"conflict with {m.printed}", "field": path} for m, path in listed]
    if len(listed) == 1:
        manager, path = listed[0]
        return ApiError(409, "Conflict", f"Apply failed with 1 conflict: conflict with {manager.printed}: {path}", {"causes": causes})
    parts = []
    for name in sorted({m.printed for m, _ in listed}):
        lines = "\n".join(f"- {path}" for m, path in listed if m.printed == name)
        parts.append(f"conflicts with {name}:\n{lines}")
    return ApiError(409, "Conflict", f"Apply failed with {len(listed)} conflicts: " + "\n".join(parts), {"causes": causes})
