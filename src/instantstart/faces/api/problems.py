"""Every error that leaves the API is one RFC 9457 document; here the framework's own errors are turned into it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.encoders import jsonable_encoder
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from instantstart.base import log, problems, sentences, trail
from instantstart.capabilities.doors import RepeatedError

logger = log.get("instantstart.api")
#: after too many attempts; the window in which they are counted
RETRY_AFTER_SECONDS = 60

#: HTTP's own refusals, each told as the nearest kind; the status stays HTTP's
_HTTP: Mapping[int, problems.Problem] = {
    400: problems.Invalid("request.malformed", "The request could not be understood."),
    404: problems.NotFound("route.unknown", "There is no such address here."),
    405: problems.Invalid("route.method_not_allowed", "This address does not take that method."),
    413: problems.Invalid("request.too_large", "The request body is too large."),
    415: problems.Invalid("request.media_type", "Send the body as application/json."),
    421: problems.Denied("request.host_unknown", "The Host header names another server."),
    429: problems.Busy("request.too_many", "Too many attempts; wait a little."),
}
_OTHER = problems.Invalid("request.refused", "The request was refused.")


class HttpProblem(problems.Problem):
    """A refusal with an HTTP status of its own (400, 404, 405, 413, 415, 421, 429)."""

    retry_after_seconds = RETRY_AFTER_SECONDS

    def __init__(self, status: int, detail: str | None = None, *, hint: str | None = None, told: problems.Problem | None = None) -> None:
        told = told or _HTTP.get(status, _OTHER)
        super().__init__(told.code, detail or told.detail, hint=hint or told.hint, fields=told.fields)
        self.http_status = status
        self.http_kind = told.kind
        self.http_retryable = told.retryable

    def document(self) -> dict[str, Any]:
        """As Problem.document, with the HTTP status in place of a kind's."""
        return {**super().document(), "status": self.http_status, "kind": self.http_kind, "retryable": self.http_retryable}


def response(problem: problems.Problem, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """The answer that tells ``problem``: redacted, with its media type and Retry-After where it helps."""
    document = problem.document()
    if "request_id" in trail.facts():
        document["request_id"] = trail.facts()["request_id"]
    told = dict(headers or {})
    if document["kind"] == problems.Busy.kind:
        told["Retry-After"] = str(getattr(problem, "retry_after_seconds", RETRY_AFTER_SECONDS))
    if document["status"] == 401:
        told["WWW-Authenticate"] = 'Bearer realm="instantstart"'
    return JSONResponse(log.redact(document), status_code=document["status"], headers=told, media_type=problems.MEDIA_TYPE)


def crashed(error: BaseException, request_id: str) -> problems.Problem:
    """The Problem for an exception nobody expected: its text goes to the log only."""
    logger.error("unexpected exception", exc_info=error, extra={"facts": {"request_id": request_id}})
    return problems.Broken(
        "request.crashed",
        "Something went wrong inside InstantStart; the request may have had no effect.",
        hint=f"Look for request {request_id} in the server's log.",
        evidence={"request_id": request_id},
    )


def invalid(errors: Sequence[Mapping[str, Any]], body: Any = None) -> problems.Problem:
    """All violations of one request at once, at their places in ``body``. A body that is no JSON at all is a 400 of its own."""
    broken_json = next((e for e in errors if e["type"] == "json_invalid"), None)
    if broken_json is not None:
        why = str(broken_json.get("ctx", {}).get("error", "not JSON"))
        return HttpProblem(400, f"The body is not JSON: {why} at character {broken_json['loc'][-1]}.")
    fields = sentences.violations(errors, body)
    told = " ".join(f.message for f in fields[:5]) + (f" And {len(fields) - 5} more." if len(fields) > 5 else "")
    return problems.Invalid("request.invalid", told, title="The request is not valid", fields=fields)


def _other_method(request: Request) -> JSONResponse:
    """405 with every method that the address takes: the framework names those of one route only."""
    described = request.app.openapi()["paths"]
    matching = [path for path in described if re.fullmatch(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(path)), request.url.path)]
    allowed = ", ".join(sorted({method.upper() for path in matching for method in described[path]})) or "GET"
    detail = f"This address does not take {request.method}; it takes {allowed}."
    return response(HttpProblem(405, detail, hint=f"Use {allowed.replace(', ', ' or ')}."), headers={"Allow": allowed})


def install(app: FastAPI) -> None:
    """Put the handlers on ``app``. Unexpected exceptions are caught further out, by the gate."""

    def on_problem(_request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, problems.Problem)
        if isinstance(error, problems.Broken):
            logger.error("broken: %s", error.detail, exc_info=error)
        return response(error)

    def on_invalid(_request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        return response(invalid(error.errors(), error.body))

    def on_http(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        if error.status_code == 405:
            return _other_method(request)
        hint = f"There is nothing at {request.url.path[:200]}; every address is in /openapi.json." if error.status_code == 404 else None
        return response(HttpProblem(error.status_code, hint=hint), headers=error.headers)

    def on_repeated(_request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RepeatedError)
        where = {"Location": f"/api/v1/operations/{error.operation.id}"}
        return JSONResponse(jsonable_encoder(error.operation), status_code=202, headers=where)

    app.add_exception_handler(problems.Problem, on_problem)
    app.add_exception_handler(RepeatedError, on_repeated)
    app.add_exception_handler(RequestValidationError, on_invalid)
    app.add_exception_handler(HTTPException, on_http)
