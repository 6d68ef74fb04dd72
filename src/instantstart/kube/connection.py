"""One wire per cluster: TLS from the cluster's own CA, an EKS bearer token renewed in time, short timeouts, errors as Problems.

An EKS token is accepted for 15 minutes from its signature (aws-facts A5); ours is thrown away at 13, measured in seconds of the world,
and once more when the server answers 401 (the instance role's credentials may have rotated meanwhile).
"""

from __future__ import annotations

import asyncio
import datetime as dt
import ssl
import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx2
import msgspec

from instantstart.base import metrics, problems, tracing
from instantstart.base.clock import Clock
from instantstart.kube import errors
from instantstart.kube.cluster_ref import ClusterRef
from instantstart.kube.resolving import Names

TokenSource = Callable[[ClusterRef], str]
PrincipalSource = Callable[[], str | None]

TOKEN_LIFE_SECONDS = 13 * 60
CONNECT_SECONDS = 5.0
READ_SECONDS = 30.0
#: After a refused or timed-out connection, further calls fail at once for so long (real seconds): a page with
#: ten reads of a dead cluster takes five seconds, not fifty.
DOWN_SECONDS = 2.0
#: How often one request is sent when the server asks to come back (429, or 5xx with Retry-After), as every client of Kubernetes does:
#: a pass over thirty objects would else begin anew whenever one of them meets a busy server.
TRIES = 4
#: The longest pause between two of them (seconds of the world).
LONGEST_PAUSE_SECONDS = 2.0
#: A lost keep-alive connection is no news about these: doing them twice is the same as once.
_REPEATABLE = frozenset({"GET", "HEAD", "PUT", "PATCH", "DELETE"})


class BearerToken:
    """The cached token of one cluster; safe from any thread."""

    def __init__(self, ref: ClusterRef, source: TokenSource, clock: Clock) -> None:
        self._ref, self._source, self._clock = ref, source, clock
        self._lock = threading.Lock()
        self._value = ""
        self._made_at: dt.datetime | None = None

    def current(self, rejected: str | None = None) -> str:
        """The token to send. ``rejected`` is one that the server refused: it is never given again."""
        with self._lock:
            old = self._made_at is None or self._clock.elapsed_seconds(self._made_at) >= TOKEN_LIFE_SECONDS
            if old or self._value == rejected:
                self._value = self._source(self._ref)
                self._made_at = self._clock.now()
            return self._value


class TokenAuth(httpx2.Auth):
    """Sets the bearer token; asks for a new one and repeats once after a 401."""

    def __init__(self, token: BearerToken) -> None:
        self.token = token

    def sync_auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
        """The flow of the synchronous client."""
        sent = self.token.current()
        request.headers["Authorization"] = f"Bearer {sent}"
        response = yield request
        if response.status_code == httpx2.codes.UNAUTHORIZED:
            request.headers["Authorization"] = f"Bearer {self.token.current(rejected=sent)}"
            yield request

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """The flow of the asynchronous client: making a token may call AWS, so it is done in a thread."""
        sent = await asyncio.to_thread(self.token.current)
        request.headers["Authorization"] = f"Bearer {sent}"
        response = yield request
        if response.status_code == httpx2.codes.UNAUTHORIZED:
            fresh = await asyncio.to_thread(self.token.current, sent)
            request.headers["Authorization"] = f"Bearer {fresh}"
            yield request


@dataclass(frozen=True)
class Ask:
    """One request. ``body`` is sent as JSON under ``content_type``; ``read_seconds`` replaces the usual patience (real seconds)."""

    method: str
    path: str
    params: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    content_type: str = "application/json"
    read_seconds: float = READ_SECONDS


class Connection:
    """The wire to one cluster: one pool for all threads, one kind of error."""

    def __init__(self, ref: ClusterRef, token_source: TokenSource, clock: Clock, principal_source: PrincipalSource = lambda: None) -> None:
        self.ref = ref
        self._clock = clock
        self._principal = principal_source
        self._auth = TokenAuth(BearerToken(ref, token_source, clock))
        self._tls = _trust(ref)
        self._http = httpx2.Client(
            limits=httpx2.Limits(max_connections=64, max_keepalive_connections=16, keepalive_expiry=60), **self._options()
        )
        self._names = Names()
        self._down_until = 0.0

    def _options(self) -> dict[str, Any]:
        timeout = httpx2.Timeout(CONNECT_SECONDS, read=READ_SECONDS)
        return {"base_url": self.ref.endpoint, "auth": self._auth, "verify": self._tls, "timeout": timeout}

    def open_async(self) -> httpx2.AsyncClient:
        """A client for the running event loop, with the same trust and token. Whoever opens it closes it."""
        return httpx2.AsyncClient(**self._options())

    @property
    def tls(self) -> ssl.SSLContext:
        """The trust in this cluster's own authority, for whoever opens a socket."""
        return self._tls

    @property
    def base_path(self) -> str:
        """What stands before every path: usually nothing."""
        return self._http.base_url.path.rstrip("/")

    def token(self, rejected: str | None = None) -> str:
        """The bearer token to send; ``rejected`` is one that the server refused. May call AWS."""
        return self._auth.token.current(rejected)

    def check_name(self) -> None:
        """Return when the endpoint's name has an address. Raises httpx2's ConnectTimeout or ConnectError."""
        self._names.check(self._http.base_url, CONNECT_SECONDS)

    def open(self) -> httpx2.Client:
        """A client of its own with the same trust and token, for an answer that takes long. Whoever opens it closes it."""
        return httpx2.Client(**self._options())

    def call(self, method: str, path: str) -> errors.Call:
        """What is being asked, for the words of a Problem."""
        return errors.Call(self.ref, method, path, self._principal)

    def send(self, ask: Ask) -> bytes:
        """The body of a good answer. Raises the Problem of a bad one, or Unreachable."""
        response = self.exchange(ask)
        if response.status_code >= 400:
            raise errors.from_response(response.status_code, response.content, response.headers, self.call(ask.method, ask.path))
        return response.content

    def stream(self, ask: Ask) -> Iterator[bytes]:
        """The body of a good answer, piece by piece. Raises the Problem of a bad one, or Unreachable."""
        call = self.call(ask.method, ask.path)
        timeout = httpx2.Timeout(CONNECT_SECONDS, read=ask.read_seconds)
        try:
            self._names.check(self._http.base_url, CONNECT_SECONDS)
            with self._http.stream(ask.method, ask.path, params=dict(ask.params), timeout=timeout) as response:
                if response.status_code >= 400:
                    raise errors.from_response(response.status_code, response.read(), response.headers, call)
                yield from response.iter_bytes()
        except httpx2.RequestError as error:
            raise errors.from_transport(error, call) from error

    def exchange(self, ask: Ask) -> httpx2.Response:
        """The answer, whatever its status. Raises Unreachable when there is none."""
        call = self.call(ask.method, ask.path)
        if time.monotonic() < self._down_until:
            raise errors.from_transport(httpx2.ConnectError("not tried again so soon after the last failure"), call)
        try:
            self._names.check(self._http.base_url, CONNECT_SECONDS)
            return self._patiently(ask)
        except httpx2.RequestError as error:
            if isinstance(error, (httpx2.ConnectError, httpx2.ConnectTimeout)):
                self._down_until = time.monotonic() + DOWN_SECONDS
            raise errors.from_transport(error, call) from error

    def _patiently(self, ask: Ask) -> httpx2.Response:
        """Send; come back when the server asks for it. A 429 was refused before anything was done, so any request may be repeated."""
        for _ in range(TRIES - 1):
            response = self._once_or_twice(ask)
            pause = _asked_pause(response, ask)
            if pause is None:
                return response
            self._clock.sleep(min(pause, LONGEST_PAUSE_SECONDS))
        return self._once_or_twice(ask)

    def _once_or_twice(self, ask: Ask) -> httpx2.Response:
        """Send; repeat once when a pooled connection turns out to be closed and the request may be repeated."""
        try:
            return self._once(ask)
        except (httpx2.RemoteProtocolError, httpx2.ReadError, httpx2.WriteError):
            if ask.method not in _REPEATABLE:
                raise
            return self._once(ask)

    def _once(self, ask: Ask) -> httpx2.Response:
        headers = {"Accept": "application/json"}
        content = None
        if ask.body is not None:
            headers["Content-Type"] = ask.content_type
            content = ask.body if isinstance(ask.body, bytes) else encode(ask.body)
        timeout = httpx2.Timeout(CONNECT_SECONDS, read=ask.read_seconds)
        about = {"http__request__method": ask.method, "url__path": ask.path, "k8s__cluster__name": self.ref.name}
        with metrics.timed(metrics.KUBERNETES, ask.method), tracing.calling(f"kubernetes {ask.method}", **about) as span:
            answer = self._http.request(ask.method, ask.path, params=dict(ask.params), content=content, headers=headers, timeout=timeout)
            span.note(http__response__status_code=answer.status_code)
            if answer.status_code >= httpx2.codes.BAD_REQUEST:
                span.failed(str(answer.status_code))
            return answer

    def close(self) -> None:
        """Give the sockets back."""
        self._http.close()


def _asked_pause(response: httpx2.Response, ask: Ask) -> float | None:
    """Seconds after which the server wants to be asked again; None: the answer stands (a 429 to an eviction is a budget's no)."""
    busy = response.status_code == httpx2.codes.TOO_MANY_REQUESTS and not ask.path.endswith("/eviction")
    if not busy and not (response.status_code >= 500 and ask.method in _REPEATABLE):
        return None
    told = response.headers.get("Retry-After", "")
    return float(told) if told.isdigit() else None


def encode(body: Any) -> bytes:
    """JSON bytes; apply-patch takes JSON too, as every JSON text is YAML."""
    return msgspec.json.encode(body)


def _trust(ref: ClusterRef) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cadata=ref.ca_pem)
    except (ssl.SSLError, ValueError) as error:
        detail = f"The certificate authority of {ref.name} cannot be read: {error}"
        raise problems.Broken("kubernetes.bad_ca", detail, evidence={"cluster": ref.arn}) from error
