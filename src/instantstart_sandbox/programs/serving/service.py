"""What all answers share: the engine, the names it serves, the keys it wants, its mistakes on request, and errors in the server's shape."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import spoiling
from .engine import Engine, Usage, Wish
from .spoiling import OOM_MARK, Spoiling
from .web import Request, Response, answer_json, answer_text

_KINDS = {400: "BadRequestError", 401: "AuthenticationError", 404: "NotFoundError", 422: "BadRequestError", 503: "ServiceUnavailableError"}


class RefusedError(Exception):
    """A request that is answered with an error."""

    def __init__(self, status: int, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status, self.param = status, param


@dataclass
class Facts:
    """What the server was started with. ``kind`` is vllm, sglang or lmi."""

    kind: str
    names: list[str]
    keys: list[str] = field(default_factory=list)
    metrics: bool = True
    cache_report: bool = False
    version: str = ""
    began: int = field(default_factory=lambda: int(time.time()))


class Service:
    """The state behind the routes."""

    def __init__(self, engine: Engine, facts: Facts) -> None:
        self.engine, self.facts = engine, facts
        self.spoilt = spoiling.read(os.environ.get(spoiling.SERVING, ""))
        self._turns = 0

    # ------------------------------------------------------------------ errors

    def error(self, failure: RefusedError) -> Response:
        """An error as the server words it."""
        kind = _KINDS.get(failure.status, "InternalServerError")
        if self.facts.kind == "sglang":
            body = {"object": "error", "message": str(failure), "type": kind, "param": failure.param, "code": failure.status}
            return answer_json(body, failure.status)
        return answer_json(
            {"error": {"message": str(failure), "type": kind, "param": failure.param, "code": failure.status}}, failure.status
        )

    def check_key(self, request: Request) -> Response | None:
        """401 unless one of the keys is given; the paths below /v1 want one."""
        if not self.facts.keys or not request.path.startswith("/v1"):
            return None
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        return None if given in self.facts.keys else answer_json({"error": "Unauthorized"}, 401)

    def body(self, request: Request) -> dict[str, Any]:
        """The request's document."""
        try:
            found = request.json()
        except ValueError as error:
            raise RefusedError(
                400, f"[{{'type': 'json_invalid', 'loc': ('body', 0), 'msg': 'JSON decode error', 'ctx': '{error}'}}]"
            ) from error
        if not isinstance(found, dict):
            raise RefusedError(400, "[{'type': 'model_attributes_type', 'loc': ('body',), 'msg': 'Input should be a valid dictionary'}]")
        return found

    def check_model(self, body: dict[str, Any]) -> str:
        """The served name that is asked for."""
        asked = body.get("model") or self.facts.names[0]
        if asked not in self.facts.names and self.facts.kind != "sglang":
            raise RefusedError(404, f"The model `{asked}` does not exist.", "model")
        return str(asked)

    # ------------------------------------------------------------------ generation

    def wishes(self, request: Request) -> Spoiling:
        """How this request is spoilt; one that is to fail does so here."""
        found = spoiling.read(request.headers[spoiling.HEADER]) if spoiling.HEADER in request.headers else self.spoilt
        turn, self._turns = self._turns, self._turns + 1
        if code := found.code(turn):
            raise RefusedError(code, "Internal server error" if code == 500 else "asked for by the sandbox")
        if found.oom and turn + 1 >= found.oom:
            self._run_out_of_memory()
        return found

    def _run_out_of_memory(self) -> None:
        sys.stdout.write("ERROR [core.py] EngineCore encountered a fatal error.\ntorch.OutOfMemoryError: CUDA out of memory.\n")
        sys.stdout.flush()
        Path(os.environ.get("HOME", "."), OOM_MARK).touch()
        os.kill(os.getpid(), signal.SIGKILL)

    def admit(self, wish: Wish, limit: int | None) -> Usage:
        """The counts of a prompt that fits; 400 for one that does not, in vLLM's words."""
        usage, most = self.engine.count(wish), self.engine.model.context
        if limit is not None and limit < 1:
            raise RefusedError(400, f"max_tokens must be at least 1, got {limit}.", "max_tokens")
        if usage.prompt + (limit or 1) > most:
            whole = f"you requested {usage.prompt + (limit or 1)} tokens ({usage.prompt} in the messages, {limit or 1} in the completion)"
            advice = "Please reduce the length of the messages or completion."
            raise RefusedError(400, f"This model's maximum context length is {most} tokens. However, {whole}. {advice}")
        wish.limit = limit
        return usage

    def usage(self, counted: list[Usage]) -> dict[str, Any]:
        """The ``usage`` of an answer."""
        prompt, completion = sum(u.prompt for u in counted), sum(u.completion for u in counted)
        found: dict[str, Any] = {"prompt_tokens": prompt, "total_tokens": prompt + completion, "completion_tokens": completion}
        found["prompt_tokens_details"] = {"cached_tokens": sum(u.cached for u in counted)} if self.facts.cache_report else None
        return found


Route = Callable[[Service, Request], Awaitable[Response]]


def new_id(prefix: str) -> str:
    """An id such as ``chatcmpl-...``."""
    return f"{prefix}-{uuid.uuid4().hex}"


def event(value: Any) -> bytes:
    """One server-sent event."""
    return b"data: " + (value.encode() if isinstance(value, str) else json.dumps(value).encode()) + b"\n\n"


def event_stream(events: AsyncIterator[bytes]) -> Response:
    """An answer of server-sent events."""
    headers = [("content-type", "text/event-stream; charset=utf-8"), ("cache-control", "no-cache")]
    return Response(200, headers=headers, stream=events)


class App:
    """Routes by (method, path)."""

    def __init__(self, service: Service, routes: dict[tuple[str, str], Route]) -> None:
        self.service, self.routes = service, routes

    async def __call__(self, request: Request) -> Response:
        """One request: its route, or the refusal."""
        route = self.routes.get((request.method, request.path.rstrip("/") or "/"))
        if route is None:
            known = any(path == request.path for _, path in self.routes)
            return answer_json({"detail": "Method Not Allowed" if known else "Not Found"}, 405 if known else 404)
        refused = self.service.check_key(request)
        if refused is not None:
            return refused
        try:
            return await route(self.service, request)
        except RefusedError as failure:
            return self.service.error(failure)
        except ValueError as failure:
            return self.service.error(RefusedError(400, str(failure)))


async def spoil(service: Service, request: Request) -> Response:
    """``POST /_sandbox/serving``: how requests are spoilt from now on."""
    service.spoilt = spoiling.read(request.body.decode(errors="replace"))
    return answer_text("ok\n")


async def health(service: Service, _: Request) -> Response:
    """Whether the engine lives."""
    return Response(503 if service.spoilt.unhealthy else 200)


async def gone(stream: AsyncIterator[Any]) -> None:
    """End a stream that nobody reads any more."""
    with contextlib.suppress(Exception, asyncio.CancelledError):
        await stream.aclose()  # type: ignore[attr-defined]
