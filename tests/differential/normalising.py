"""Two answers made comparable: what must differ between two servers gets the same name on both, in the order in which it is first seen."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

_UID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
_TIME = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_TOKEN_VOLUME = re.compile(r"\bkube-api-access-[a-z0-9]{5}\b")
_AGE = re.compile(r"^(\d+[ydhms]){1,2}$|(?<=\()(\d+[ydhms]){1,2}(?= ago\))")
_ADDRESS = re.compile(r"\b(10|172|192)\.\d+\.\d+\.\d+\b")
#: kinds that controllers write at any moment: their status and their revisions are compared where controllers are (test_controllers)
BUSY = frozenset(
    {"Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob", "Namespace", "PersistentVolumeClaim", "PersistentVolume"}
)
_CONTROLLER_NOTES = ("deployment.kubernetes.io/revision",)


class Names:
    """The names that one side's run gives to what is random. One for each scenario and side."""

    def __init__(self, variables: dict[str, str]) -> None:
        #: unique words of this run (its namespace and the like) and what stands for them
        self.variables = variables
        self._seen: dict[str, dict[str, str]] = {}

    def name(self, kind: str, value: str) -> str:
        """The stand-in of a value: ``<kind 1>`` for the first of its kind, and so on."""
        known = self._seen.setdefault(kind, {})
        return known.setdefault(value, f"<{kind} {len(known) + 1}>")

    def text(self, text: str) -> str:
        """A text with everything random replaced."""
        for value, word in self.variables.items():
            text = text.replace(value, word)
        for full, stand_in in self._seen.get("name", {}).items():
            text = text.replace(full, stand_in)
        text = _UID.sub(lambda found: self.name("uid", found[0]), text)
        text = _TIME.sub("<time>", text)
        text = _AGE.sub("<age>", text)
        text = _TOKEN_VOLUME.sub("kube-api-access-<suffix>", text)
        return _ADDRESS.sub(lambda found: self.name("address", found[0]), text)

    def generated(self, obj: Any) -> None:
        """Remember the random end of a name made from generateName."""
        metadata = obj.get("metadata") if isinstance(obj, dict) else None
        if not isinstance(metadata, dict):
            return
        prefix, full = metadata.get("generateName"), metadata.get("name", "")
        if prefix and full.startswith(prefix) and full != prefix:
            known = self._seen.setdefault("name", {})
            known.setdefault(full, f"{prefix}<suffix {len(known) + 1}>")


def normal(value: Any, names: Names) -> Any:
    """A comparable copy of an answer."""
    if isinstance(value, dict):
        names.generated(value)
        fresh = {names.text(k): normal(v, names) for k, v in value.items() if k not in ("resourceVersion", "managedFields", "continue")}
        _revisions(value, fresh, names)
        _sort_conflicts(fresh)
        if "managedFields" in value:
            entries = [e for e in value["managedFields"] if e.get("manager") != "kube-controller-manager"]
            fresh["managedFields"] = sorted((normal(e, names) for e in entries), key=_writer)
        if isinstance(kind := value.get("kind"), str) and kind in BUSY and "spec" in value:
            _quieten(fresh)
        return fresh
    if isinstance(value, list):
        return [normal(v, names) for v in value]
    return names.text(value) if isinstance(value, str) else value


def _sort_conflicts(status: dict[str, Any]) -> None:
    """Go names the managers that an apply conflicts with in a random order."""
    details = status.get("details")
    causes = details.get("causes") if isinstance(details, dict) else None
    if causes and all(isinstance(c, dict) and c.get("reason") == "FieldManagerConflict" for c in causes):
        causes.sort(key=lambda c: str(c["message"]))


def _revisions(value: dict[str, Any], fresh: dict[str, Any], names: Names) -> None:
    """Revisions of objects in the order of their first sight; those of lists and cursors only by being there."""
    if value.get("resourceVersion"):
        fresh["resourceVersion"] = names.name("revision", value["resourceVersion"]) if "uid" in value else "<revision>"
    elif "resourceVersion" in value:
        fresh["resourceVersion"] = value["resourceVersion"]
    if "continue" in value:
        fresh["continue"] = "<continue>" if value["continue"] else value["continue"]


def _quieten(obj: dict[str, Any]) -> None:
    obj.pop("status", None)
    metadata = obj.get("metadata", {})
    if "resourceVersion" in metadata:
        metadata["resourceVersion"] = "<revision>"
    for note in _CONTROLLER_NOTES:
        metadata.get("annotations", {}).pop(note, None)
    if metadata.get("annotations") == {}:
        del metadata["annotations"]


def _writer(entry: dict[str, Any]) -> tuple[str, ...]:
    return tuple(str(entry.get(key, "")) for key in ("manager", "operation", "subresource", "apiVersion"))


def differences(real: Any, ours: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """(path, real, ours) of every place that differs; what is missing is ``...`` (Ellipsis)."""
    if isinstance(real, dict) and isinstance(ours, dict):
        for key in sorted({*real, *ours}):
            yield from differences(real.get(key, ...), ours.get(key, ...), f"{path}.{key}" if path else key)
    elif isinstance(real, list) and isinstance(ours, list):
        for index in range(max(len(real), len(ours))):
            one, other = (side[index] if index < len(side) else ... for side in (real, ours))
            yield from differences(one, other, f"{path}[{index}]")
    elif real != ours or isinstance(real, bool) != isinstance(ours, bool):
        yield path, real, ours
