"""From a request's body to an object of the kind that the path names: types, unknown fields, metadata."""

from __future__ import annotations

import datetime as dt
import string
from dataclasses import dataclass, field, replace
from typing import Any, Final

from instantstart_sandbox.kubernetes import quantities
from instantstart_sandbox.kubernetes.errors import ApiError, bad_request, bad_value, invalid
from instantstart_sandbox.kubernetes.resources import Resource
from instantstart_sandbox.kubernetes.schema import Node, definition
from instantstart_sandbox.kubernetes.validation import decode_failure, has_type, prune

Object = dict[str, Any]

_BASE64: Final = frozenset(string.ascii_letters + string.digits + "+/")
_QUANTITY_TEXT: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


@dataclass(frozen=True)
class Options:
    """How a write is to be done, from the query of its request.

    ``validation`` is Strict (unknown fields are refused), Warn (told in ``warnings``) or Ignore. ``manager`` owns the written fields.
    """

    manager: str = "unknown"
    user: str = "system:admin"
    subresource: str = ""
    dry_run: bool = False
    validation: str = "Ignore"
    force: bool = False
    #: the write takes fields from their owners and owns none: a scale to nought, since Go prints no zero in a Scale
    releases: bool = False
    #: the place of the replicas when the write is one of a Scale, as a set of fields
    scales: dict[str, Any] = field(default_factory=dict)
    #: the write is stored even when it changes nothing
    restless: bool = False
    #: the write is a patch
    patched: bool = False
    #: paths of the fields that the body held twice
    duplicates: tuple[str, ...] = ()
    warnings: list[str] = field(default_factory=list)


def decode(resource: Resource, body: Any, options: Options) -> Object:
    """The object of a body, pruned in place. 400 when it is not of the resource's kind or has values of wrong types."""
    if not isinstance(body, dict):
        raise bad_request(
            f"couldn't get version/kind; json parse error: json: cannot unmarshal {_json_kind(body)} into Go value of type struct"
        )
    _check_kind(resource, body)
    obj = {"kind": resource.kind, "apiVersion": resource.api_version, **body}
    obj["kind"], obj["apiVersion"] = resource.kind, resource.api_version
    if not isinstance(obj.get("metadata"), dict):
        if obj.get("metadata") is not None:
            raise _unreadable(
                resource,
                f"json: cannot unmarshal {_json_kind(obj['metadata'])} into Go struct field {resource.kind}.metadata of type v1.ObjectMeta",
            )
        obj["metadata"] = {}
    failure = _type_failure(resource, obj)
    if failure:
        raise _unreadable(resource, failure)
    told = [f'duplicate field "{path}"' for path in options.duplicates]
    _report(resource, told + [f'unknown field "{path}"' for path in prune_object(resource, obj)], options)
    return obj


def prune_object(resource: Resource, obj: Object) -> list[str]:
    """Drop what the kind does not declare, and what Go does not print, in place; answers the paths of the undeclared."""
    node = resource.node
    unknown = prune(obj["metadata"], definition("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"), custom=False, path="metadata")
    return unknown + prune(obj, node, custom=resource.custom)


def _type_failure(resource: Resource, obj: Object) -> str | None:
    metadata = definition("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")
    if resource.custom:
        return decode_failure(obj["metadata"], metadata, "metadata", "ObjectMeta")
    failure = decode_failure(obj, resource.node, "", resource.kind)
    return failure or _normalise(obj, resource.node)


def _normalise(value: Any, node: Node) -> str | None:
    """Bring quantities and times below a value into the form that Go prints, in place; or the sentence about the first bad one."""
    if isinstance(value, dict):
        children = [(key, item, node.child(key)) for key, item in value.items()]
    elif isinstance(value, list):
        children = [(index, item, node.items) for index, item in enumerate(value)]
    else:
        return None
    for place, item, child in children:
        if child is None or item is None:
            continue
        fresh, failure = _leaf(item, child)
        if failure is None:
            value[place] = fresh
            failure = _normalise(fresh, child)
        if failure:
            return failure
    return None


def _leaf(item: Any, node: Node) -> tuple[Any, str | None]:
    """A quantity, time or base64 text as Go prints it, or the sentence about it; anything else as it is."""
    if node.type == "quantity":
        return quantities.canonical(item), None if quantities.parse(item) is not None else _QUANTITY_TEXT
    if node.raw.get("format") == "byte":
        fault = _base64_fault(item)
        return item, None if fault is None else f"illegal base64 data at input byte {fault}"
    if node.name in _TIMES:
        try:
            return _TIMES[node.name](dt.datetime.fromisoformat(item)), None
        except ValueError:
            return item, f'parsing time "{item}" as "2006-01-02T15:04:05Z07:00": cannot parse "{item}" as "2006"'
    return item, None


def _base64_fault(text: str) -> int | None:
    """Where Go's decoder stops at a text that is not padded base64; None when it is."""
    plain = [(index, char) for index, char in enumerate(text) if char not in "\r\n"]
    for number, (index, char) in enumerate(plain):
        if char == "=":
            rest = [c for _, c in plain[number:]]
            padding = {2: 2, 3: 1}.get(number % 4, 0)
            if not padding:
                return index
            if len(rest) < padding:
                return len(text)
            return None if rest == ["="] * padding else plain[number + 1][0] if padding == 2 and rest[1] != "=" else index + padding
        if char not in _BASE64:
            return index
    return plain[len(plain) - len(plain) % 4][0] if len(plain) % 4 else None


def _seconds(moment: dt.datetime) -> str:
    return _utc(moment).strftime("%Y-%m-%dT%H:%M:%SZ")


def _microseconds(moment: dt.datetime) -> str:
    return _utc(moment).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _utc(moment: dt.datetime) -> dt.datetime:
    if moment.tzinfo is None:
        raise ValueError
    return moment.astimezone(dt.UTC)


_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
_TIMES: Final = {f"{_META}Time": _seconds, f"{_META}MicroTime": _microseconds}


def _json_kind(value: Any) -> str:
    return next((k for k in ("object", "array", "string", "boolean", "number") if has_type(value, k)), "null")


def _unreadable(resource: Resource, why: str) -> ApiError:
    return bad_request(f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: {why}')


def _check_kind(resource: Resource, body: Object) -> None:
    version, kind = body.get("apiVersion"), body.get("kind")
    if resource.custom and kind not in (None, "", resource.kind) and version == resource.api_version:
        cause = bad_value("kind", f'"{kind}"', f"must be {resource.kind}")
        raise invalid(replace(resource, kind=kind), _name_in(body), [cause])
    if resource.custom and version not in (None, "", resource.api_version):
        raise bad_request(f"the API version in the data ({version}) does not match the expected API version ({resource.api_version})")
    if version not in (None, "", resource.api_version):
        what = f'no kind "{kind or resource.kind}" is registered for version "{version}" in scheme "pkg/runtime/scheme.go:110"'
        raise bad_request(f'{kind or resource.kind} in version "{version}" cannot be handled as a {resource.kind}: {what}')
    if kind not in (None, "", resource.kind):
        what = f"converting ({resource.version}.{kind}) to ({resource.group.split('.')[0] or 'core'}.{resource.kind}): unknown conversion"
        raise bad_request(f'{kind} in version "{resource.version}" cannot be handled as a {resource.kind}: {what}')
    if resource.custom and (not version or not kind):
        missing = "apiVersion" if not version else "kind"
        raise bad_request(f"Object '{missing.capitalize() if missing == 'kind' else missing}' is missing in the request body")


def _report(resource: Resource, found: list[str], options: Options) -> None:
    if not found or options.validation == "Ignore":
        return
    if options.validation == "Strict":
        raise _unreadable(resource, "strict decoding error: " + ", ".join(found))
    options.warnings.extend(found)


def _name_in(body: Object) -> str:
    """The name that a body says, whatever else it holds."""
    metadata = body.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) else ""
