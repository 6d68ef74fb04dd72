"""Table answers: what ``kubectl get`` prints, for built-in kinds and for custom ones by their printer columns."""

from __future__ import annotations

import re
from typing import Any, Final

from instantstart_sandbox.kubernetes.columns import AGE, BY_RESOURCE, NAME, Cells, age, created, name_of
from instantstart_sandbox.kubernetes.resources import Column, Resource

Object = dict[str, Any]


def _json_path(obj: Object, path: str) -> Any:
    """The value of the simple JSON paths that printer columns use: fields, ``[0]``, ``[?(@.type=="Ready")]``."""
    values: list[Any] = [obj]
    for step in re.findall(
        r"\[\?\(@\.([\w.]+)\s*==\s*[\"']([^\"']*)[\"']\)\]|\[(\d+|\*)\]|\[[\"']([^\"']+)[\"']\]|((?:[^.\[\\]|\\.)+)", path
    ):
        field, wanted, index, quoted, name = step
        out: list[Any] = []
        for value in values:
            if field and isinstance(value, list):
                out += [v for v in value if isinstance(v, dict) and str(v.get(field)) == wanted]
            elif index and isinstance(value, list):
                out += value if index == "*" else value[int(index) : int(index) + 1]
            elif (quoted or name) and isinstance(value, dict) and (key := quoted or name.replace("\\.", ".")) in value:
                out.append(value[key])
        values = out
    return values[0] if values else None


def _custom_cell(column: Column, obj: Object, now: float) -> Any:
    value = _json_path(obj, column.path)
    if column.type == "date":
        return age(value, now)
    if column.type in ("integer", "number") or value is None:
        return value
    return str(value).lower() if isinstance(value, bool) else str(value)


def _shape(resource: Resource) -> tuple[tuple[Column, ...], Cells]:
    known = None if resource.custom else BY_RESOURCE.get(resource.qualified)
    if known is not None:
        return known
    if resource.columns:
        return (NAME, *resource.columns), lambda obj, now: [name_of(obj), *(_custom_cell(c, obj, now) for c in resource.columns)]
    return (NAME, AGE), lambda obj, now: [name_of(obj), created(obj, now)]


_DEFINITIONS: Final = "customresourcedefinitions.apiextensions.k8s.io"


def table(resource: Resource, objects: list[Object], metadata: Object, now: float, include: str = "Metadata") -> Object:
    """The Table of some objects. ``include`` is None, Metadata or Object; ``now`` in virtual seconds."""
    columns, cells = _shape(resource)
    definitions = [
        {"name": c.name, "type": c.type, "format": c.format, "description": c.description, "priority": c.priority} for c in columns
    ]
    rows = []
    for obj in objects:
        row: Object = {"cells": cells(obj, now), "object": None}
        if include == "Object":
            row["object"] = obj
        elif include == "Metadata":
            row["object"] = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}
        rows.append(row)
    listed = rows or ([] if resource.qualified != _DEFINITIONS else None)  # Go's default table of no rows has a nil, a printer's has none
    return {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "columnDefinitions": definitions, "rows": listed}
