"""Who is calling: bearer tokens for programs, a session cookie for the console. One check over REST, MCP and WebSockets."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from http.cookies import CookieError, SimpleCookie
from typing import Protocol

from anyio import to_thread
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from instantstart.base import problems
from instantstart.capabilities.doors import Caller, Kind, Role
from instantstart.faces.api.audit import FACES
from instantstart.faces.api.gate import MUTATING, refuse
from instantstart.faces.api.origin import address_of, network_of
from instantstart.faces.api.problems import HttpProblem
from instantstart.store.records import IdentityRow, SessionRow

COOKIE = "instantstart_session"
TOKEN_PREFIX = "ist_"  # noqa: S105 - the public prefix of our tokens, not one of them
SESSION_PREFIX = "iss_"  # of the secret of a session, which a command line sends as a bearer
CALLBACK = "/api/v1/sign-in/oidc/callback"
#: answered without an identity, besides the console's own files (everything outside these guarded places)
ANONYMOUS = frozenset(
    {("GET", "/healthz"), ("GET", "/readyz"), ("POST", "/api/v1/session"), ("GET", "/api/v1/sign-in"), ("GET", "/api/v1/sign-in/oidc")}
)
#: where an identity provider sends browsers back to: no route of the document, because the provider chooses the parameters
RETURNS = frozenset({("GET", CALLBACK)})
_GUARDED = ("/api", "/mcp", "/openapi.json", "/metrics")


class Finder(Protocol):
    """What authentication asks of the store."""

    def find_token(self, secret: str) -> IdentityRow | None: ...

    def find_session(self, secret: str) -> SessionRow | None: ...


class Attempts:
    """Counts failed sign-ins for each address in a sliding window; kept in memory, bounded."""

    def __init__(self, limit: int = 10, window_seconds: float = 60.0, addresses: int = 4096) -> None:
        self._limit, self._window, self._addresses = limit, window_seconds, addresses
        self._failures: OrderedDict[str, list[float]] = OrderedDict()
        self._lock = threading.Lock()  # sign-ins run in the pool of threads
        self.now: Callable[[], float] = time.monotonic

    def exhausted(self, address: str) -> bool:
        """Whether ``address`` has used up its failures."""
        oldest = self.now() - self._window
        with self._lock:
            recent = [at for at in self._failures.get(address, ()) if at > oldest]
            if not recent:
                self._failures.pop(address, None)
        return len(recent) >= self._limit

    def failed(self, address: str) -> None:
        """Note one failure."""
        with self._lock:
            times = self._failures.setdefault(address, [])
            times.append(self.now())
            del times[: -self._limit]
            self._failures.move_to_end(address)
            while len(self._failures) > self._addresses:
                self._failures.popitem(last=False)

    def succeeded(self, address: str) -> None:
        """Forget the failures of an address that has signed in."""
        with self._lock:
            self._failures.pop(address, None)


class Authentication:
    """ASGI layer: finds the caller and puts it on ``request.state.caller``; refuses guarded addresses without one."""

    def __init__(self, app: ASGIApp, finder: Finder) -> None:
        self._app = app
        self._finder = finder
        self._attempts = Attempts()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        try:
            caller = await self._caller(scope, Headers(scope=scope))
        except problems.Problem as refusal:
            await refuse(refusal, scope, receive, send)
            return
        if caller is not None:
            scope.setdefault("state", {})["caller"] = caller
        await self._app(scope, receive, send)

    async def _caller(self, scope: Scope, headers: Headers) -> Caller | None:
        if not _guarded(scope):
            return None
        bearer = headers.get("authorization")
        if bearer is not None:
            return await self._by_token(bearer, scope, headers)
        cookie = cookie_of(headers)
        if cookie is not None and not scope["path"].startswith("/mcp"):
            _same_site(scope, headers)
            session = await to_thread.run_sync(session_behind, self._finder, cookie, False)
            if session is not None:
                scope.setdefault("state", {})["session_id"] = session.id
                return _as_caller(session.identity, headers, usual="console")
        if (scope.get("method"), scope["path"]) in ANONYMOUS | RETURNS:
            return None
        raise problems.Unauthenticated("identity.missing", "Sign in, or send a token: Authorization: Bearer ist_...")

    async def _by_token(self, bearer: str, scope: Scope, headers: Headers) -> Caller:
        secret = secret_of(bearer)
        if secret is not None and secret.startswith(SESSION_PREFIX):
            session = await to_thread.run_sync(session_behind, self._finder, secret, True)
            identity = session.identity if session else None
            scope.setdefault("state", {})["session_id"] = session.id if session else None
        else:
            identity = await to_thread.run_sync(self._finder.find_token, secret) if secret else None
        if identity is not None:
            return _as_caller(identity, headers, usual="mcp" if scope["path"].startswith("/mcp") else "api")
        address = network_of(address_of(scope))
        self._attempts.failed(address)
        if self._attempts.exhausted(address):  # a right token is never held up by somebody's wrong ones
            raise HttpProblem(429, hint="Check the token; the next attempt is taken in a minute.")
        raise problems.Unauthenticated(
            "identity.token_unknown", "The token is not known here, has expired or was revoked.", hint="Ask for a new one."
        )


def secret_of(bearer: str) -> str | None:
    """The token or session secret of an Authorization header that could be one of ours."""
    scheme, _, secret = bearer.partition(" ")
    secret = secret.strip()
    ours = secret.startswith((TOKEN_PREFIX, SESSION_PREFIX)) and len(secret) <= 256
    return secret if ours and scheme.lower() == "bearer" else None


def session_behind(finder: Finder, secret: str, bearer: bool) -> SessionRow | None:
    """The living session of ``secret``. A cookie opens no program's session, and a program no cookie's."""
    session = finder.find_session(secret)
    return session if session is not None and (session.client == "cli") is bearer else None


def identity_behind(finder: Finder, headers: Headers) -> IdentityRow | None:
    """Who would be let in by these headers now."""
    bearer, cookie = headers.get("authorization"), cookie_of(headers)
    if bearer is None:
        session = session_behind(finder, cookie, False) if cookie is not None else None
        return session.identity if session else None
    secret = secret_of(bearer)
    if secret is None or not secret.startswith(SESSION_PREFIX):
        return finder.find_token(secret) if secret else None
    session = session_behind(finder, secret, True)
    return session.identity if session else None


def _guarded(scope: Scope) -> bool:
    path: str = scope["path"]
    return scope["type"] == "websocket" or any(path == each or path.startswith(each + "/") for each in _GUARDED)


def _same_site(scope: Scope, headers: Headers) -> None:
    """A cookie alone moves nothing: the browser must also say that the request comes from our own page.

    The gate has already refused a foreign Origin; here a missing one is refused too, because a cookie is
    shared by all ports of a host and old browsers leave Origin out of some form posts.
    """
    mutating = scope["type"] == "websocket" or scope["method"] in MUTATING
    if mutating and "origin" not in headers and headers.get("sec-fetch-site") != "same-origin":
        raise problems.Denied(
            "request.origin_missing", "A request with a session cookie must say its Origin.", hint="Programs: use a token."
        )


def _as_caller(identity: IdentityRow, headers: Mapping[str, str], usual: str) -> Caller:
    said = headers.get("x-instantstart-face", "").lower()
    return Caller(identity.id, identity.name, Role(identity.role), Kind(identity.kind), said if said in FACES else usual)


def cookie_of(headers: Headers) -> str | None:
    """The session secret that the browser sent."""
    jar: SimpleCookie = SimpleCookie()
    try:
        jar.load(headers.get("cookie", ""))
    except CookieError:
        return None
    return jar[COOKIE].value if COOKIE in jar else None
