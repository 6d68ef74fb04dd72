"""One signed HTTP request to a service that boto3 has no client for: MLflow's REST API on SageMaker.

SigV4 with the credentials of an :class:`Aws`, over botocore's own HTTP session. Every refusal leaves here as a Problem.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

from botocore import exceptions
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.configprovider import ConfiguredEndpointProvider
from botocore.httpsession import URLLib3Session

from instantstart.aws.session import Aws
from instantstart.base import problems

_CONNECT_SECONDS, _READ_SECONDS = 5, 60
#: a read is tried so often; a write once
_TRIES = 3
_PAUSE_SECONDS = 0.5
_POOL = 32
_THROTTLED = frozenset({429, 503})


@dataclass(frozen=True)
class Call:
    """What is asked. ``service`` is the name that the signature is for; ``endpoint`` has no slash at its end."""

    service: str
    endpoint: str
    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """The whole address; blanks as %20, which is what the signature is made over."""
        asked = urlencode(self.query, quote_via=quote) if self.query else ""
        return f"{self.endpoint}{self.path}{'?' if asked else ''}{asked}"


class Refusal(Exception):  # noqa: N818 - what the service answered, for its caller to translate
    """An answer that is none of AWS's: status and body as they came."""

    def __init__(self, status: int, body: bytes) -> None:
        super().__init__(f"HTTP {status}")
        self.status, self.body = status, body

    def told(self) -> dict[str, Any]:
        """The body as JSON, or empty."""
        with contextlib.suppress(ValueError):
            found = json.loads(self.body)
            return found if isinstance(found, dict) else {}
        return {}


_sessions: dict[int, URLLib3Session] = {}
_lock = threading.Lock()


def _session() -> URLLib3Session:
    """One pool of connections for the process."""
    with _lock:
        if 0 not in _sessions:
            _sessions[0] = URLLib3Session(timeout=(_CONNECT_SECONDS, _READ_SECONDS), max_pool_connections=_POOL)
        return _sessions[0]


def configured_endpoint(aws: Aws, service: str) -> str | None:
    """The endpoint that the environment or the AWS configuration gives for a service (AWS_ENDPOINT_URL and its kind), or None."""
    session = aws._session._session
    with contextlib.suppress(exceptions.ProfileNotFound):
        provider = ConfiguredEndpointProvider(
            full_config=session.full_config, scoped_config=session.get_scoped_config(), client_name=service
        )
        found = provider.provide()
        return str(found).rstrip("/") if found else None
    return None


def send(aws: Aws, call: Call, *, repeat: bool) -> bytes:
    """The body of a good answer. ``repeat``: a read, tried again on lost answers and busy servers.

    Raises Refusal for what the service said, Denied without credentials, Busy when it is throttled or broken, Unreachable without answer.
    """
    last: problems.Problem | None = None
    for number in range(_TRIES if repeat else 1):
        if number:
            time.sleep(_PAUSE_SECONDS * 2 ** (number - 1))
        try:
            return _once(aws, call)
        except (problems.Busy, problems.Unreachable) as problem:
            last = problem
    assert last is not None
    raise last


def _once(aws: Aws, call: Call) -> bytes:
    body = b"" if call.body is None else json.dumps(call.body).encode()
    headers = {**call.headers, "X-Amz-Content-SHA256": hashlib.sha256(body).hexdigest()}
    if body:
        headers["Content-Type"] = "application/json"
    request = AWSRequest(method=call.method, url=call.url, data=body, headers=headers)
    evidence = {"service": call.service, "operation": f"{call.method} {call.path}"}
    credentials = aws._session.get_credentials()
    if credentials is None:
        raise problems.Denied(
            "aws.no_credentials", "No usable AWS credentials.", hint="Give the process a role or a profile.", evidence=evidence
        )
    try:
        SigV4Auth(credentials, call.service, aws.region).add_auth(request)
        answer = _session().send(request.prepare())
    except (exceptions.HTTPClientError, exceptions.BotoCoreError) as error:
        raise problems.Unreachable("aws.no_answer", f"No answer from {call.endpoint}: {error}", evidence=evidence) from error
    status, content = int(answer.status_code), bytes(answer.content)
    if status < 300:
        return content
    if status in _THROTTLED or status >= 500:
        raise problems.Busy("aws.unavailable", f"{call.endpoint} answered {status}: {_text(content)}", evidence=evidence)
    raise Refusal(status, content)


def _text(content: bytes) -> str:
    """What a service says in words: the message of its JSON, where it has one."""
    with contextlib.suppress(ValueError):
        found = json.loads(content)
        told = found.get("message") or found.get("Message") if isinstance(found, dict) else None
        if isinstance(told, str) and told.strip():
            return told.strip()[:300]
    return content[:300].decode(errors="replace").strip()
