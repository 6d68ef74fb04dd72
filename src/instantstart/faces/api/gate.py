"""The gate: the first layer of the whole app that may refuse, REST, MCP, console and WebSockets alike.

In order: a request id, security headers, the Host and Origin checks (DNS rebinding, cross-site requests), the media type
and size of the body. It is also the boundary where an unexpected exception becomes a Problem.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Awaitable, Callable, Iterable
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from instantstart.base import problems, trail
from instantstart.base.settings import Settings
from instantstart.faces.api.problems import HttpProblem, crashed, response

MAX_BODY_BYTES = 1024 * 1024
MUTATING = frozenset({"POST", "PUT", "PATCH", "DELETE"})
#: told of what is refused here, before the answer leaves
Refused = Callable[[Scope, problems.Problem], Awaitable[None]]
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{8,64}")
_DEFAULT_PORTS = {"http": 80, "https": 443}
#: nothing inline, styles neither: the console's components set theirs through the DOM, which a policy does not forbid (tests/e2e)
_SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self' data:; "
    "connect-src 'self'; object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Names:
    """The host names by which this server may be called. ``name`` takes any port, ``name:port`` only that one."""

    def __init__(self, settings: Settings) -> None:
        extra = [each.strip().lower() for each in settings.allowed_hosts.split(",") if each.strip()]
        bound = [] if settings.host in ("0.0.0.0", "::") else [settings.host.lower()]
        self._names = frozenset((*LOOPBACK, *bound, *extra))

    def host_is_ours(self, host: str) -> bool:
        """Whether a Host header names this server."""
        host = host.lower()
        return host in self._names or _without_port(host) in self._names

    def origin_is_ours(self, origin: str, host: str) -> bool:
        """Whether an Origin header is this server's own: the same host and port as asked, or one that the settings name."""
        parts = urlsplit(origin.lower())
        if parts.scheme not in _DEFAULT_PORTS or not parts.netloc or "@" in parts.netloc:
            return False
        default = f":{_DEFAULT_PORTS[parts.scheme]}"
        ours = {host.lower(), host.lower().removesuffix(default), *(self._names - frozenset(LOOPBACK))}
        return parts.netloc in ours or parts.netloc.removesuffix(default) in ours


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdigit() and name else host


class Gate:
    """ASGI layer; see the module. Refusals of a WebSocket are answered as an HTTP refusal of the handshake."""

    def __init__(self, app: ASGIApp, settings: Settings, refused: Refused | None = None) -> None:
        self._app = app
        self._names = Names(settings)
        self._refused = refused

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        given = headers.get("x-request-id", "")
        request_id = given if _REQUEST_ID.fullmatch(given) else secrets.token_hex(8)
        scope.setdefault("state", {})["request_id"] = request_id
        trail.note(request_id=request_id)
        sender = _Sender(send, request_id, secure=scope.get("scheme") in ("https", "wss"))
        refusal = self._refusal(scope, headers)
        if refusal is not None:
            if self._refused is not None:
                await self._refused(scope, refusal)
            await refuse(refusal, scope, receive, sender)
            return
        await self._pass(scope, receive, sender, request_id)

    async def _pass(self, scope: Scope, receive: Receive, sender: _Sender, request_id: str) -> None:
        try:
            await self._app(scope, _Body(receive), sender)
        except Exception as error:  # noqa: BLE001 - the API's boundary: nothing leaves it but a Problem
            problem = crashed(error, request_id)
            if not sender.started:
                await refuse(problem, scope, receive, sender)

    def _refusal(self, scope: Scope, headers: Headers) -> problems.Problem | None:
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        if len(hosts) != 1 or not self._names.host_is_ours(hosts[0]):
            return HttpProblem(421, hint="Add the name to INSTANTSTART_ALLOWED_HOSTS if this server should answer to it.")
        from_elsewhere = headers.get("sec-fetch-site") == "cross-site" and headers.get("sec-fetch-mode") != "navigate"
        if from_elsewhere or any(not self._names.origin_is_ours(each, hosts[0]) for each in origins):
            return problems.Denied(
                "request.origin_unknown",
                "The request comes from a page of another site.",
                hint="Add its host (and port) to INSTANTSTART_ALLOWED_HOSTS if that page is yours.",
            )
        return _body_refusal(scope, headers) if scope["type"] == "http" else None


def _body_refusal(scope: Scope, headers: Headers) -> problems.Problem | None:
    length = headers.get("content-length", "0")
    if not length.isdigit():
        return HttpProblem(400, "The Content-Length header is not a number.")
    if int(length) > MAX_BODY_BYTES:
        return HttpProblem(413, f"The body is larger than {MAX_BODY_BYTES} bytes.")
    has_body = int(length) > 0 or "transfer-encoding" in headers
    if scope["method"] in MUTATING and has_body and not _is_json(headers.get("content-type", "")):
        return HttpProblem(415)
    return None


def _is_json(content_type: str) -> bool:
    media = content_type.partition(";")[0].strip().lower()
    return media == "application/json" or (media.startswith("application/") and media.endswith("+json"))


async def refuse(problem: problems.Problem, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer ``problem``; a WebSocket handshake is refused with its status where the server can, else closed."""
    answer = response(problem)
    if scope["type"] == "http":
        await answer(scope, receive, send)
        return
    if "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": 1008, "reason": problem.title})
        return
    await send({"type": "websocket.http.response.start", "status": answer.status_code, "headers": answer.raw_headers})
    await send({"type": "websocket.http.response.body", "body": answer.body})


class _Sender:
    """Adds the request id and the security headers to the answer, and knows whether it has begun."""

    def __init__(self, send: Send, request_id: str, *, secure: bool) -> None:
        self._send = send
        self._added: Iterable[tuple[str, str]] = (
            *_SECURITY_HEADERS.items(),
            ("X-Request-Id", request_id),
            *((("Strict-Transport-Security", "max-age=31536000"),) if secure else ()),
        )
        self.started = False

    async def __call__(self, message: Message) -> None:
        if message["type"] in ("http.response.start", "websocket.http.response.start"):
            self.started = True
            headers = MutableHeaders(raw=list(message.get("headers", [])))
            for name, value in self._added:
                headers.setdefault(name, value)
            message = {**message, "headers": headers.raw}
        await self._send(message)


class _Body:
    """Counts what arrives, for bodies that come without a length."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._bytes = 0

    async def __call__(self) -> Message:
        message = await self._receive()
        self._bytes += len(message.get("body", b"") or b"") if message["type"] == "http.request" else 0
        if self._bytes > MAX_BODY_BYTES:
            raise HTTPException(413)  # this very class: FastAPI turns any other into a 400
        return message
