"""What a CustomResourceDefinition must be, in the order and the words of the API server.

Source: apiextensions-apiserver 0.34, pkg/apis/apiextensions/validation. What all versions have alike (the schema, the columns, the
subresources) is told of ``spec`` and not of ``spec.versions[0]``, as the API server keeps it.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from instantstart_sandbox.kubernetes.errors import Cause, bad_value, required, unsupported
from instantstart_sandbox.kubernetes.names import LABEL_1035, LABEL_1035_TEXT, SUBDOMAIN, SUBDOMAIN_TEXT
from instantstart_sandbox.kubernetes.schema_rules import schema_causes

Object = dict[str, Any]

_COLUMN_TYPES: Final = "boolean,date,integer,number,string"
_COLUMN_FORMATS: Final = "byte,date,date-time,double,float,int32,int64,password"
_SCALE_PATHS: Final = {"specReplicasPath": (".spec",), "statusReplicasPath": (".status",), "labelSelectorPath": (".status", ".spec")}
_SHARED: Final = {"schema": "Schema", "subresources": "Subresources", "additionalPrinterColumns": "AdditionalPrinterColumns"}


def check(obj: Object) -> list[Cause]:
    """Violations of a definition."""
    spec = obj.get("spec") or {}
    names, versions = spec.get("names") or {}, spec.get("versions") or []
    causes, name = [], obj["metadata"].get("name") or ""
    if name != f"{names.get('plural', '')}.{spec.get('group', '')}":
        causes.append(bad_value("metadata.name", json.dumps(name), 'must be spec.names.plural+"."+spec.group'))
    causes += _group_causes(spec.get("group") or "")
    if not spec.get("scope"):
        causes.append(required("spec.scope"))
    elif spec["scope"] not in ("Cluster", "Namespaced"):
        causes.append(unsupported("spec.scope", str(spec["scope"]), ("Cluster", "Namespaced")))
    causes += _versions_causes(versions)
    causes += _names_causes(names)
    causes += _parts_causes(versions)
    if not ((obj.get("status") or {}).get("storedVersions") or [v for v in versions if v.get("storage")]):
        causes.append(bad_value("status.storedVersions", "null", "must have at least one stored version"))
    return causes


def _group_causes(group: str) -> list[Cause]:
    if not group:
        return [required("spec.group")]
    if not re.fullmatch(SUBDOMAIN, group):
        return [bad_value("spec.group", json.dumps(group), SUBDOMAIN_TEXT)]
    return [] if "." in group else [bad_value("spec.group", json.dumps(group), "should be a domain with at least one dot")]


def _label_causes(value: str, field: str, before: str = "") -> list[Cause]:
    shown = value.lower() if before else value
    if re.fullmatch(LABEL_1035, shown) and len(shown) <= 63:
        return []
    text = LABEL_1035_TEXT if not re.fullmatch(LABEL_1035, shown) else "must be no more than 63 bytes"
    return [bad_value(field, json.dumps(value), before + text)]


def _versions_causes(versions: list[Object]) -> list[Cause]:
    causes = []
    if not _alike(versions, "schema") or not _schema_of(versions[0] if versions else {}):
        for index, version in enumerate(versions):
            if not _schema_of(version):
                causes.append(required(f"spec.versions[{index}].schema.openAPIV3Schema"))
    for index, version in enumerate(versions):
        causes += _label_causes(version.get("name") or "", f"spec.versions[{index}].name")
    known = [v.get("name") or "" for v in versions]
    if len(set(known)) < len(known):
        causes.append(bad_value("spec.versions", _go_versions(versions), "must contain unique version names"))
    if sum(bool(v.get("storage")) for v in versions) != 1:
        causes.append(bad_value("spec.versions", _go_versions(versions), "must have exactly one version marked as storage version"))
    if known and known[0]:
        causes += _label_causes(known[0], "spec.version")
    return causes


def _schema_of(version: Object) -> Any:
    return (version.get("schema") or {}).get("openAPIV3Schema")


def _alike(versions: list[Object], part: str) -> bool:
    return all(v.get(part) == versions[0].get(part) for v in versions)


def _go_versions(versions: list[Object]) -> str:
    """The versions as Go prints its structs, without the parts that all have alike (they have been moved out)."""
    shown = []
    for version in versions:
        out = {
            "Name": version.get("name") or "", "Served": bool(version.get("served")), "Storage": bool(version.get("storage")),
            "Deprecated": bool(version.get("deprecated")), "DeprecationWarning": version.get("deprecationWarning"),
        }  # fmt: skip
        out |= {word: None if _alike(versions, part) else version.get(part) for part, word in _SHARED.items()}
        shown.append({**out, "SelectableFields": None})
    return json.dumps(shown, separators=(",", ":"))


def _names_causes(names: Object) -> list[Cause]:
    causes = [required(f"spec.names.{f}") for f in ("plural", "singular", "kind", "listKind") if not names.get(f)]
    cased = "may have mixed case, but should otherwise match: "
    for field, before in (("plural", ""), ("singular", ""), ("kind", cased), ("listKind", cased)):
        if names.get(field):
            causes += _label_causes(names[field], f"spec.names.{field}", before)
    for index, short in enumerate(names.get("shortNames") or ()):
        causes += _label_causes(short, f"spec.names.shortNames[{index}]")
    if names.get("kind") and names["kind"] == names.get("listKind"):
        causes.append(bad_value("spec.names.listKind", json.dumps(names["kind"]), "kind and listKind may not be the same"))
    for index, category in enumerate(names.get("categories") or ()):
        causes += _label_causes(category, f"spec.names.categories[{index}]")
    return causes


def _parts_causes(versions: list[Object]) -> list[Cause]:
    causes: list[Cause] = []
    for index, version in enumerate(versions):
        at = {part: "spec" if _alike(versions, part) else f"spec.versions[{index}]" for part in _SHARED}
        if index and set(at.values()) == {"spec"}:
            break
        if not index or at["additionalPrinterColumns"] != "spec":
            for number, column in enumerate(version.get("additionalPrinterColumns") or ()):
                causes += _column_causes(column, f"{at['additionalPrinterColumns']}.additionalPrinterColumns[{number}]")
        schema = _schema_of(version)
        if schema and (not index or at["schema"] != "spec"):
            root = "spec.validation" if at["schema"] == "spec" else f"{at['schema']}.schema"
            causes += schema_causes(schema, f"{root}.openAPIV3Schema")
        scale = (version.get("subresources") or {}).get("scale")
        if scale is not None and (not index or at["subresources"] != "spec"):
            causes += _scale_causes(scale, f"{at['subresources']}.subresources.scale")
    return causes


def _column_causes(column: Object, field: str) -> list[Cause]:
    causes = []
    if not column.get("name"):
        causes.append(required(f"{field}.name"))
    kind, form = column.get("type"), column.get("format")
    if not kind:
        causes.append(required(f"{field}.type", f"must be one of {_COLUMN_TYPES}"))
    elif kind not in _COLUMN_TYPES.split(","):
        causes.append(bad_value(f"{field}.type", json.dumps(kind), f"must be one of {_COLUMN_TYPES}"))
    if form and form not in _COLUMN_FORMATS.split(","):
        causes.append(bad_value(f"{field}.format", json.dumps(form), f"must be one of {_COLUMN_FORMATS}"))
    path = column.get("jsonPath")
    if not path:
        causes.append(required(f"{field}.JSONPath"))
    elif not path.startswith("."):
        causes.append(bad_value(f"{field}.JSONPath", json.dumps(path), "must be a simple json path starting with ."))
    return causes


def _scale_causes(scale: Object, field: str) -> list[Cause]:
    causes = []
    for name, roots in _SCALE_PATHS.items():
        path, where = scale.get(name), f"{field}.{name}"
        if not path:
            causes += [required(where)] if name != "labelSelectorPath" else []
        elif not path.startswith("."):
            causes.append(bad_value(where, json.dumps(path), "must be a simple json path starting with ."))
        elif not path.startswith(tuple(f"{root}." for root in roots)):
            tail = f"under {roots[0]}" if len(roots) == 1 else "under either .status or .spec"
            causes.append(bad_value(where, json.dumps(path), f"should be a json path {tail}"))
    return causes
