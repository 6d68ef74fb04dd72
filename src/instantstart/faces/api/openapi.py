"""The app's own description: errors as problem documents, long work as 202 with a Location, the role of every route."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute, iter_route_contexts

from instantstart.base import problems

_METHODS = ("get", "put", "post", "patch", "delete")
_CONTENT = {problems.MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
#: what any route may answer besides its success
PROBLEM_RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"description": description, "content": _CONTENT}
    for status, description in {
        400: "The request could not be understood",
        401: "No identity",
        403: "Not allowed",
        404: "Not there",
        405: "Another method",
        409: "Something stands in the way",
        413: "The body is too large",
        415: "The body is not JSON",
        421: "Another host",
        422: "What was asked is not valid",
        429: "Too many attempts",
        500: "Our fault",
        502: "AWS, Kubernetes or the database could not be read",
        503: "Come back later",
    }.items()
}
_TEXT = {"type": "string"}
_PROBLEM_SCHEMA: dict[str, Any] = {
    "title": "Problem",
    "description": "What went wrong, why, and what to do next (RFC 9457). The same object through every door.",
    "type": "object",
    "required": ["type", "title", "status", "kind", "code", "detail", "retryable"],
    "properties": {
        "type": _TEXT,
        "title": _TEXT,
        "status": {"type": "integer"},
        "kind": {"type": "string", "enum": sorted(problems.KINDS)},
        "code": {"type": "string", "description": "noun.fact"},
        "detail": _TEXT,
        "retryable": {"type": "boolean"},
        "hint": _TEXT,
        "fields": {
            "type": "array",
            "items": {"type": "object", "required": ["pointer", "message"], "properties": {"pointer": _TEXT, "message": _TEXT}},
        },
        "evidence": {"type": "object", "additionalProperties": True},
        "request_id": {"type": "string", "description": "Find it in the server's log, and in X-Request-Id of the answer."},
    },
}
_LOCATION = {"Location": {"description": "Address of the operation", "schema": {"type": "string"}}}


def role_of(route: APIRoute) -> str | None:
    """The least role a route asks for, found in its dependencies; None when it asks for none."""
    for call in _calls(route.dependant):
        role = getattr(call, "required_role", None)
        if role is not None:
            return str(role)
    return None


def _calls(dependant: Any) -> Iterator[Any]:
    for each in dependant.dependencies:
        yield each.call
        yield from _calls(each)


def install(app: FastAPI) -> None:
    """Let ``app.openapi()`` tell what FastAPI does not know by itself."""

    def describe() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
            _amend(document, {r.operation_id: r for r in api_routes(app) if r.operation_id})
            app.openapi_schema = document
        return app.openapi_schema

    app.openapi = describe  # type: ignore[method-assign]


def api_routes(app: FastAPI) -> list[APIRoute]:
    """Every route of the app that is described, with its dependencies."""
    found = (context.original_route for context in iter_route_contexts(app.routes))
    return [each for each in found if isinstance(each, APIRoute) and each.include_in_schema]


def _amend(document: dict[str, Any], routes: Mapping[str, APIRoute]) -> None:
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    schemas["Problem"] = _PROBLEM_SCHEMA
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    document["components"]["securitySchemes"] = {
        "token": {"type": "http", "scheme": "bearer", "description": "A token (ist_...)"},
        "session": {"type": "apiKey", "in": "cookie", "name": "instantstart_session"},
    }
    for described in document["paths"].values():
        for operation in (described[m] for m in _METHODS if m in described):
            _amend_operation(operation, routes)


def _amend_operation(operation: dict[str, Any], routes: Mapping[str, APIRoute]) -> None:
    answers = operation["responses"]
    for status in [s for s, answer in answers.items() if s.isdigit() and int(s) >= 400]:
        answers[status]["content"] = _CONTENT
    if "202" in answers:
        if any(each["name"] == "dry_run" for each in operation.get("parameters", ())):
            answers["200"] = {"description": "The plan: what would change", "content": answers["202"]["content"]}
        answers["202"] = {**answers["202"], "headers": _LOCATION}
    route = routes.get(operation.get("operationId", ""))
    role = role_of(route) if route else None
    if role:
        operation["x-role"] = role
        operation["security"] = [{"token": []}, {"session": []}]
    else:
        operation["security"] = []
