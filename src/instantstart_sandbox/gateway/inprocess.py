"""boto3 clients whose calls enter the gateway directly: for the sandbox's own use (CloudFormation's handlers)."""

from __future__ import annotations

import functools
import io
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import botocore.session
from botocore.awsrequest import AWSResponse
from botocore.config import Config

if TYPE_CHECKING:
    from instantstart_sandbox.gateway.app import Gateway

#: the WSGI key that marks a call of the sandbox to itself; a socket's environ never has it
INTERNAL = "instantstart.internal"


@functools.cache
def _session() -> Any:
    return botocore.session.Session()


class _Raw(io.BytesIO):
    """What botocore's AWSResponse reads a body from."""

    def stream(self, amt: int = 65536, decode_content: bool | None = None) -> Any:
        """urllib3's way of reading in pieces."""
        while chunk := self.read(amt):
            yield chunk


def client(gateway: Gateway, service: str, region: str, principal_arn: str | None) -> Any:
    """A client of ``service`` in ``region``; ``principal_arn`` None: the account's root."""
    made = _session().create_client(
        service,
        region_name=region,
        endpoint_url="http://sandbox.invalid",
        aws_access_key_id="INTERNAL",
        aws_secret_access_key="internal",  # noqa: S106 - never leaves the process
        config=Config(retries={"max_attempts": 0}, s3={"addressing_style": "path"}, parameter_validation=True, inject_host_prefix=False),
    )
    made.meta.events.register("before-send", functools.partial(_send, gateway, principal_arn))
    return made


def _send(gateway: Gateway, principal_arn: str | None, request: Any, **_: Any) -> AWSResponse:
    url = urlsplit(request.url)
    body = request.body or b""
    if hasattr(body, "read"):
        body = body.read()
    body = body.encode() if isinstance(body, str) else bytes(body)
    environ: dict[str, Any] = {
        "REQUEST_METHOD": request.method,
        "PATH_INFO": unquote(url.path).encode().decode("latin-1"),
        "RAW_URI": request.url.split(url.netloc, 1)[1],
        "REQUEST_URI": request.url.split(url.netloc, 1)[1],
        "SCRIPT_NAME": "",
        "QUERY_STRING": url.query,
        "SERVER_NAME": "localhost",
        "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "HTTP_HOST": "localhost",
        "wsgi.url_scheme": "http",
        "wsgi.version": (1, 0),
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
        "wsgi.errors": io.StringIO(),
        "wsgi.input": io.BytesIO(body),
        INTERNAL: principal_arn or "",
    }
    for name, value in request.headers.items():
        key = name.upper().replace("-", "_")
        text = value.decode() if isinstance(value, bytes) else str(value)
        environ[key if key in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{key}"] = text
    environ["CONTENT_LENGTH"] = str(len(body))
    environ["HTTP_HOST"] = "localhost"
    answer = gateway.answer(environ)
    return AWSResponse(request.url, answer.status, dict(answer.headers), _Raw(answer.body))
