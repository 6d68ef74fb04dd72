"""The subresources that change one thing: ``scale`` and ``binding``."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from instantstart_sandbox.kubernetes.decoding import Options
from instantstart_sandbox.kubernetes.errors import (
    ApiError,
    bad_request,
    bad_value,
    conflict,
    invalid,
    modified,
    nameless_invalid,
    no_such_path,
)
from instantstart_sandbox.kubernetes.pipeline import Pipeline
from instantstart_sandbox.kubernetes.resources import Resource, Scale
from instantstart_sandbox.kubernetes.store import MODIFIED

Object = dict[str, Any]
Place = tuple[str | None, str]


def _at(obj: Object, path: str) -> Any:
    value: Any = obj
    for step in path.strip(".").split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return value


def _put(obj: Object, path: str, value: int) -> None:
    *steps, last = path.strip(".").split(".")
    for step in steps:
        obj = obj.setdefault(step, {})
    obj[last] = value


def _selector_text(selector: Any) -> str:
    if not isinstance(selector, dict):
        return str(selector or "")
    terms = [f"{k}={v}" for k, v in sorted((selector.get("matchLabels") or {}).items())]
    words = {"In": "in", "NotIn": "notin"}
    for e in selector.get("matchExpressions") or ():
        if e["operator"] in words:
            terms.append(f"{e['key']} {words[e['operator']]} ({','.join(sorted(e.get('values') or ()))})")
        else:
            terms.append(e["key"] if e["operator"] == "Exists" else f"!{e['key']}")
    return ",".join(terms)


def show(resource: Resource, obj: Object) -> Object:
    """The Scale of an object."""
    paths = resource.scale or Scale()
    metadata = {k: obj["metadata"][k] for k in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp") if k in obj["metadata"]}
    status: Object = {"replicas": _at(obj, paths.status) or 0}
    text = _selector_text(_at(obj, paths.selector)) if paths.selector else ""
    if text:
        status["selector"] = text
    if resource.custom and _at(obj, paths.spec) is None:
        text = f'the spec replicas field "{paths.spec}" does not exist'
        raise ApiError(500, "InternalError", f"Internal error occurred: {text}", {"causes": [{"message": text}]})
    spec = {} if not _at(obj, paths.spec) else {"replicas": _at(obj, paths.spec)}
    return {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status}


def change(pipeline: Pipeline, resource: Resource, place: Place, edit: Callable[[Object], Any], options: Options) -> Object:
    """Write the Scale that ``edit`` makes of the present one; answers it."""
    if resource.scale is None:
        raise no_such_path()
    namespace, name = place
    old = pipeline.entry(resource, namespace, name).object()
    wanted = edit(show(resource, old))
    if not isinstance(wanted, dict) or not isinstance(wanted.get("spec", {}), dict):
        raise bad_request("the body is no Scale")
    named = (wanted.get("metadata") or {}).get("name", name)
    if named != name:
        raise bad_request(f"the name of the object ({named}) does not match the name on the URL ({name})")
    replicas = (wanted.get("spec") or {}).get("replicas", 0)
    if not isinstance(replicas, int) or isinstance(replicas, bool):
        why = "json: cannot unmarshal string into Go struct field ScaleSpec.spec.replicas of type int32"
        raise nameless_invalid(bad_value("patch", json.dumps(json.dumps(wanted, separators=(",", ":"))), why))
    if replicas < 0:
        scale = replace(resource, group="autoscaling", kind="Scale")
        raise invalid(scale, name, [bad_value("spec.replicas", str(replicas), "must be greater than or equal to 0")])
    version = (wanted.get("metadata") or {}).get("resourceVersion")
    if version and version != old["metadata"]["resourceVersion"]:
        raise modified(resource, name)
    body = copy.deepcopy(old)
    body["apiVersion"] = resource.api_version
    _put(body, resource.scale.spec, replicas)
    field: Object = {}
    for step in reversed(resource.scale.spec.strip(".").split(".")):
        field = {f"f:{step}": field}
    options = replace(options, releases=not replicas, scales=field)
    return show(resource, pipeline.update(resource, namespace, name, body, options))


def bind(pipeline: Pipeline, namespace: str, pod: str, node: str, options: Options) -> None:
    """Set a Pod's node and its condition PodScheduled. 409 when it has one already."""
    resource = pipeline.catalog.find("pods")
    obj = pipeline.entry(resource, namespace, pod).object()
    assigned = obj["spec"].get("nodeName")
    if assigned or obj["metadata"].get("deletionTimestamp"):
        state = f'is already assigned to node "{assigned}"' if assigned else "is being deleted, cannot be assigned to a host"
        raise conflict(replace(resource, plural="pods/binding"), pod, f"pod {pod} {state}")
    obj["spec"]["nodeName"] = node
    conditions = [c for c in (obj.setdefault("status", {}).get("conditions") or ()) if c["type"] != "PodScheduled"]
    conditions.append({"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": pipeline.timestamp()})
    obj["status"]["conditions"] = conditions
    if not options.dry_run:
        pipeline.commit(resource, MODIFIED, obj)
