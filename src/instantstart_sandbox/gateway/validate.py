"""Checks a value against a shape of the service model: requests on the way in, our own answers on the way out."""

from __future__ import annotations

import datetime as dt
import functools
import re
from collections.abc import Callable, Iterator
from typing import Any

from instantstart_sandbox.gateway.errors import AwsError

_CLASSES = {"\\p{L}": "a-zA-Z\u00c0-\uffff", "\\p{Z}": r"\s", "\\p{N}": "0-9", "\\p{S}": "$+<=>^`|~", "\\p{P}": "!-/:-@\\[-`{-~"}
_TYPES: dict[str, Any] = {
    "structure": (dict,),
    "list": (list, tuple),
    "map": (dict,),
    "string": (str,),
    "integer": (int,),
    "long": (int,),
    "float": (int, float),
    "double": (int, float),
    "boolean": (bool,),
    "timestamp": (dt.datetime, str, int, float),
    "blob": (bytes, str),
}


def check_request(params: dict[str, Any], model: Any) -> None:
    """ValidationException with the first violations, as the services word it; EC2 and the query services by their own codes."""
    if model.input_shape is None:
        return
    found = list(_violations(params, model.input_shape, ""))
    if not found:
        return
    service = model.service_model.service_name
    if service == "ec2":
        _refuse_ec2(found[0])
    plural = "s" if len(found) > 1 else ""
    text = "; ".join(why for _, why in found)
    code = {"eks": "InvalidParameterException", "iam": "ValidationError", "cloudformation": "ValidationError", "sts": "ValidationError"}
    raise AwsError(code.get(service, "ValidationException"), f"{len(found)} validation error{plural} detected: {text}")


def _refuse_ec2(violation: tuple[str, str]) -> None:
    path, why = violation
    if why.endswith("Member must not be null"):
        raise AwsError("MissingParameter", f"The request must contain the parameter {path}")
    raise AwsError("InvalidParameterValue", why)


def check_answer(result: dict[str, Any], model: Any) -> list[str]:
    """What is wrong with an answer of ours: a missing required member, one the model does not have, a wrong type."""
    if model.output_shape is None:
        return [f"the model has no answer, but the handler gave {sorted(result)}"] if result else []
    return [why for _, why in _violations(result, model.output_shape, "", strict=True)]


def _violations(value: Any, shape: Any, path: str, strict: bool = False) -> Iterator[tuple[str, str]]:
    if value is None:
        return
    kind = shape.type_name
    if not isinstance(value, _TYPES[kind]) or (kind in ("integer", "long") and isinstance(value, bool)):
        yield path, f"Value at '{path}' must be of type {kind}, not {type(value).__name__}"
    elif kind == "structure":
        yield from _structure(value, shape, path, strict)
    elif kind == "list":
        yield from _length(value, shape, path)
        for i, item in enumerate(value, 1):
            yield from _violations(item, shape.member, f"{path}.{i}.member", strict)
    elif kind == "map":
        yield from _length(value, shape, path)
        for key, item in value.items():
            yield from _violations(key, shape.key, f"{path}.key", strict)
            yield from _violations(item, shape.value, f"{path}.{key}.value", strict)
    elif kind == "string":
        yield from _string(value, shape, path)
    elif kind in ("integer", "long", "float", "double"):
        yield from _range(value, shape, path)


def _structure(value: dict[str, Any], shape: Any, path: str, strict: bool) -> Iterator[tuple[str, str]]:
    if getattr(shape, "is_document_type", False):
        return
    prefix = f"{path}." if path else ""
    for name in shape.required_members:
        if value.get(name) is None:
            yield prefix + name, f"Value null at '{prefix}{name}' failed to satisfy constraint: Member must not be null"
    for name, item in value.items():
        member = shape.members.get(name)
        if member is not None:
            yield from _violations(item, member, prefix + name, strict)
        elif strict:
            yield prefix + name, f"'{prefix}{name}' is not a member of {shape.name}"
    if strict is False and getattr(shape, "is_tagged_union", False) and len([v for v in value.values() if v is not None]) > 1:
        yield path, f"Value at '{path}' failed to satisfy constraint: exactly one member may be set"


def _failed(value: Any, path: str, why: str) -> tuple[str, str]:
    return path, f"Value '{value!s:.80}' at '{path}' failed to satisfy constraint: {why}"


def _length(value: Any, shape: Any, path: str) -> Iterator[tuple[str, str]]:
    low, high = shape.metadata.get("min"), shape.metadata.get("max")
    if low is not None and len(value) < low:
        yield _failed(value, path, f"Member must have length greater than or equal to {low}")
    if high is not None and len(value) > high:
        yield _failed(value, path, f"Member must have length less than or equal to {high}")


def _string(value: str, shape: Any, path: str) -> Iterator[tuple[str, str]]:
    allowed = getattr(shape, "enum", None)
    if allowed and value not in allowed:
        yield _failed(value, path, f"Member must satisfy enum value set: [{', '.join(allowed)}]")
    yield from _length(value, shape, path)
    pattern = shape.metadata.get("pattern")
    if pattern and not _matcher(pattern)(value):
        yield _failed(value, path, f"Member must satisfy regular expression pattern: {pattern}")


def _range(value: float, shape: Any, path: str) -> Iterator[tuple[str, str]]:
    low, high = shape.metadata.get("min"), shape.metadata.get("max")
    if low is not None and value < low:
        yield _failed(value, path, f"Member must have value greater than or equal to {low}")
    if high is not None and value > high:
        yield _failed(value, path, f"Member must have value less than or equal to {high}")


@functools.cache
def _matcher(pattern: str) -> Callable[[str], Any]:
    """The model's (Java) regular expression; one that Python cannot read constrains nothing."""
    text = pattern
    for java, python in _CLASSES.items():
        text = text.replace(java, python)
    try:
        return re.compile(text).fullmatch
    except re.error:
        return lambda value: True
