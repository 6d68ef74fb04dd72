"""The errors of the API server: a Kubernetes ``Status`` that can be raised.

Codes, reasons and texts are those of a real API server (measured against 1.36.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from instantstart_sandbox.kubernetes.resources import Resource

Details = dict[str, Any]


class ApiError(Exception):
    """A refusal with the HTTP code, the machine-readable reason and the sentence for a person."""

    def __init__(self, code: int, reason: str, message: str, details: Details | None = None) -> None:
        super().__init__(message)
        self.code, self.reason, self.message, self.details = code, reason, message, details

    def status(self) -> dict[str, Any]:
        """The body of the answer."""
        body: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": self.message}
        if self.reason:
            body["reason"] = self.reason
        if self.details is not None:
            body["details"] = self.details
        return {**body, "code": self.code}


@dataclass(frozen=True)
class Cause:
    """One violation of one field. ``value`` is what stands between the field and the sentence, if anything."""

    field: str
    reason: str
    message: str


def required(field: str, tail: str = "") -> Cause:
    """The field must be there."""
    return Cause(field, "FieldValueRequired", "Required value" + (f": {tail}" if tail else ""))


def bad_value(field: str, shown: str, tail: str) -> Cause:
    """The field's value (as Go would print it) is not allowed."""
    return Cause(field, "FieldValueInvalid", f"Invalid value: {shown}: {tail}")


def forbidden_field(field: str, tail: str) -> Cause:
    """The field must not be set or changed."""
    return Cause(field, "FieldValueForbidden", f"Forbidden: {tail}")


def _about(resource: Resource, name: str, kind: str) -> Details:
    about: Details = {"name": name, "kind": kind}
    if resource.group:
        about = {"name": name, "group": resource.group, "kind": kind}
    if not name:
        about.pop("name")
    return about


def not_found(resource: Resource, name: str) -> ApiError:
    """404 for an object."""
    return ApiError(404, "NotFound", f'{resource.qualified} "{name}" not found', _about(resource, name, resource.plural))


def bad_option(kind: str, *causes: Cause) -> ApiError:
    """422 for query parameters; ``kind`` is CreateOptions, PatchOptions, ..."""
    return option_invalid("meta.k8s.io", kind, *causes)


def option_invalid(group: str, kind: str, *causes: Cause) -> ApiError:
    """422 for what is no object of the store: options, reviews, token requests."""
    texts = [f"{c.field}: {c.message}" for c in causes]
    listed = texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
    told = [{"reason": c.reason, "message": c.message, "field": c.field} for c in causes]
    return ApiError(422, "Invalid", f'{kind}.{group} "" is invalid: {listed}', {"group": group, "kind": kind, "causes": told})


def unsupported(field: str, shown: str, allowed: Sequence[str]) -> Cause:
    """The value is not among those allowed."""
    listed = ", ".join(f'"{a}"' for a in allowed)
    return Cause(field, "FieldValueNotSupported", f'Unsupported value: "{shown}": supported values: {listed}')


class NoPageError(ApiError):
    """404 in plain text: what the API server answers under a group that nobody serves (a definition that is not installed)."""

    def __init__(self) -> None:
        super().__init__(404, "NotFound", "404 page not found")


def no_such_path() -> ApiError:
    """404 for a path that no resource serves."""
    return ApiError(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(resource: Resource, name: str, *, ending: bool = False) -> ApiError:
    """409 on create; ``ending`` when the one that is there is being deleted."""
    message = ("object is being deleted: " if ending else "") + f'{resource.qualified} "{name}" already exists'
    return ApiError(409, "AlreadyExists", message, _about(resource, name, resource.plural))


def conflict(resource: Resource, name: str, why: str) -> ApiError:
    """409 on a write whose precondition does not hold."""
    message = f'Operation cannot be fulfilled on {resource.qualified} "{name}": {why}'
    return ApiError(409, "Conflict", message, _about(resource, name, resource.plural))


def modified(resource: Resource, name: str) -> ApiError:
    """409 for a stale resourceVersion."""
    return conflict(resource, name, "the object has been modified; please apply your changes to the latest version and try again")


def invalid(resource: Resource, name: str, causes: Sequence[Cause]) -> ApiError:
    """422 with every violation."""
    texts = [f"{c.field}: {c.message}" for c in causes]
    kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    listed = texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
    details = _about(resource, name, resource.kind)
    details["causes"] = [{"reason": c.reason, "message": c.message, "field": c.field} for c in causes]
    return ApiError(422, "Invalid", f'{kind} "{name}" is invalid: {listed}', details)


def nameless_invalid(cause: Cause) -> ApiError:
    """422 that names no kind."""
    causes = [{"reason": cause.reason, "message": cause.message, "field": cause.field}]
    return ApiError(422, "Invalid", f' "" is invalid: {cause.field}: {cause.message}', {"causes": causes})


def forbidden(resource: Resource, name: str, why: str) -> ApiError:
    """403 by admission or authorization."""
    subject = f'{resource.qualified} "{name}"' if name else resource.qualified
    return ApiError(403, "Forbidden", f"{subject} is forbidden: {why}", _about(resource, name, resource.plural))


def bad_request(message: str) -> ApiError:
    """400."""
    return ApiError(400, "BadRequest", message)


def method_not_allowed() -> ApiError:
    """405."""
    return ApiError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {})


def expired(message: str) -> ApiError:
    """410: the revision asked for is no longer kept."""
    return ApiError(410, "Expired", message)


def unauthorized() -> ApiError:
    """401."""
    return ApiError(401, "Unauthorized", "Unauthorized")
