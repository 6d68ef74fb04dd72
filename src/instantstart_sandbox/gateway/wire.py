"""The wire of AWS: which service and operation a request is for, its parameters, and the answer's bytes.

This is the one module that touches ``moto.core`` (not a public API; moto and botocore are pinned together).
"""

from __future__ import annotations

import datetime as dt
import functools
import io
import json
import os
import re
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs
from xml.sax.saxutils import escape

# moto reads these when it is imported: names of hosts are not bucket names; no cross-origin headers; no default AMIs
os.environ["S3_IGNORE_SUBDOMAIN_BUCKETNAME"] = "1"
os.environ["MOTO_DISABLE_GLOBAL_CORS"] = "1"
os.environ["MOTO_EC2_LOAD_DEFAULT_AMIS"] = "false"
os.environ["MOTO_IAM_LOAD_MANAGED_POLICIES"] = "false"

import moto.core.utils as moto_utils
from botocore import parsers as botocore_parsers
from moto import backend_index as moto_index
from moto import backends as moto_backends
from moto.core import parse, serialize
from moto.core.base_backend import BackendDict
from moto.core.exceptions import ServiceException, _RESTError
from moto.core.request import Request, determine_request_protocol
from moto.core.routing import get_service_router
from moto.core.utils import get_service_model
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.exceptions import HTTPException, MethodNotAllowed, NotFound

from instantstart_sandbox.gateway.errors import AwsError
from instantstart_sandbox.world.clock import Clock

# Every signed request asks for this list, and making it costs 175 stat() calls (measured: 2 ms of a call's 3)
_MODULES = tuple(moto_backends.list_of_moto_modules())
moto_backends.list_of_moto_modules = lambda: iter(_MODULES)

#: signing name -> botocore's service name, where they differ
_SERVICE = {
    "monitoring": "cloudwatch",
    "aps": "amp",
    "servicequotas": "service-quotas",
    "tagging": "resourcegroupstaggingapi",
    "elasticfilesystem": "efs",
}
_SIGNING = {service: signing for signing, service in _SERVICE.items()} | {
    "elb": "elasticloadbalancing",
    "elbv2": "elasticloadbalancing",
    "s3control": "s3",
    "sagemaker-runtime": "sagemaker",
}
_INVOKED = re.compile(r"^/endpoints/[^/]+/(invocations|async-invocations|invocations-response-stream)$")
_CREDENTIAL = re.compile(r"Credential=([^/,\s]+)/\d+/([^/]+)/([^/]+)/aws4_request")
_UNSIGNED = re.compile(rb"(?:^|&)Action=(AssumeRoleWith(?:WebIdentity|SAML))(?:&|$)")
UTC = dt.UTC
Headers = list[tuple[str, str]]
Environ = dict[str, Any]


@dataclass(frozen=True)
class Scope:
    """What the signature says: who, where, which service (botocore's name)."""

    access_key: str
    region: str
    service: str
    presigned: bool = False


@dataclass(frozen=True)
class Call:
    """A matched request. ``model`` is the operation's model; ``params`` are named and typed as in it."""

    service: str
    operation: str
    model: Any
    protocol: str
    params: dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """What goes back: HTTP status, headers, body."""

    status: int
    headers: Headers
    body: bytes


def service_model(service: str) -> Any:
    """The service's model (botocore's, as moto loads it)."""
    return get_service_model(service)


def scope_of(environ: Environ, body: bytes, default_region: str) -> Scope | None:
    """The credential scope of a signed or presigned request; None for an anonymous one."""
    header = environ.get("HTTP_AUTHORIZATION", "")
    found = _CREDENTIAL.search(header)
    presigned = False
    if found is None:
        query = parse_qs(environ.get("QUERY_STRING", ""))
        found = _CREDENTIAL.search("Credential=" + query.get("X-Amz-Credential", [""])[0])
        presigned = found is not None
    if found is None:
        if "AWSAccessKeyId=" in environ.get("QUERY_STRING", "") or header.startswith("AWS "):
            # Signature Version 2: S3 refuses it for every bucket made after June 2020
            raise AwsError("InvalidRequest", "The authorization mechanism you have provided is not supported. Please use AWS4-HMAC-SHA256.")
        return Scope("", default_region, "sts") if _UNSIGNED.search(body) else None
    key, region, signing = found.groups()
    return Scope(key, region, _service_of(signing, environ, body), presigned)


def _service_of(signing: str, environ: Environ, body: bytes) -> str:
    if signing == "s3" and environ.get("PATH_INFO", "").startswith("/v20180820/"):
        return "s3control"
    if signing == "sagemaker" and _INVOKED.match(environ.get("PATH_INFO", "")):
        return "sagemaker-runtime"
    if signing == "elasticloadbalancing":
        return "elbv2" if b"Version=2015-12-01" in body else "elb"
    return _SERVICE.get(signing, signing)


def match(scope: Scope, environ: Environ, body: bytes) -> Call:
    """Find the operation and parse its parameters; AwsError when there is no such operation or it cannot be read."""
    try:
        model = get_service_model(scope.service)
    except Exception as error:
        raise AwsError("UnrecognizedClientException", f"The sandbox knows no service {scope.service!r}.", 403) from error
    request = Request({**environ, "wsgi.input": io.BytesIO(body)})
    try:
        operation, uri = get_service_router(scope.service).match(request)
        protocol = determine_request_protocol(model, request.content_type)
    except (NotFound, MethodNotAllowed, NotImplementedError) as error:
        action = request.values.get("Action", request.headers.get("X-Amz-Target", f"{request.method} {request.path}"))
        raise AwsError("UnknownOperationException", f"{scope.service} has no operation {action!r}.", 404) from error
    return Call(scope.service, operation.name, operation, protocol, _params(operation, protocol, request, uri, body))


def _params(operation: Any, protocol: str, request: Request, uri: dict[str, Any], body: bytes) -> dict[str, Any]:
    if operation.service_model.service_name == "s3":
        # S3's bodies are objects, not documents: moto parses those that matter itself
        return {**{k: v for k, v in request.args.items() if k[:6].lower() != "x-amz-"}, **uri}
    parser = parse.PROTOCOL_PARSERS[protocol](operation, map_type=dict)
    try:
        parsed: dict[str, Any] = parser.parse(
            {
                "method": request.method,
                "values": request.values,
                "headers": request.headers,
                "body": body,
                "url_path": request.path,
                "url_params": uri,
            }
        )
    except Exception as error:
        raise AwsError("SerializationException", f"The request could not be read: {error}") from error
    return parsed


def reply(call: Call, result: dict[str, Any] | AwsError, request_id: str) -> Answer:
    """The bytes of an answer or an error, in the caller's protocol."""
    serializer = serialize.get_serializer_class(call.service, call.protocol)(
        operation_model=call.model,
        context=serialize.SerializationContext(request_id),
        value_picker=serialize.DefaultAttributePicker(),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # moto warns of codes that the model does not list; AWS sends many such
        made = serializer.serialize(_serializable(result) if isinstance(result, AwsError) else result)
    status = made["status_code"]
    if isinstance(result, AwsError) and result.status != 400:
        status = result.status
    body = made["body"].encode() if isinstance(made["body"], str) else made["body"]
    headers = [(name, str(value)) for name, value in made["headers"].items()]
    return Answer(status, [*headers, ("x-amzn-RequestId", request_id), ("x-amz-request-id", request_id)], body)


class _WireError(ServiceException):
    """What moto's serialisers take for an error; lives outside the moto package, as they ask for."""


def _serializable(error: AwsError) -> _WireError:
    wire = _WireError(error.code, error.message)
    for name, value in error.members.items():
        setattr(wire, name, value)
    return wire


def from_moto(error: Exception) -> AwsError | None:
    """An exception of moto's (raised when a guard asks a backend itself) as an AwsError; None: not one."""
    if isinstance(error, ServiceException):
        return AwsError(error.code, error.message)
    if isinstance(error, _RESTError):
        return AwsError(error.error_type, error.message, error.code or 400)
    return None


def parsed(call: Call, answer: Answer) -> dict[str, Any]:
    """An answer's members, by the model; AwsError when the answer is an error."""
    parser = botocore_parsers.create_parser(call.protocol)
    raw = {"status_code": answer.status, "headers": _LowerHeaders(answer.headers), "body": answer.body}
    found: dict[str, Any] = parser.parse(raw, call.model.output_shape)
    metadata = found.pop("ResponseMetadata", {})
    if answer.status >= 300:
        error = found.get("Error", {})
        raise AwsError(error.get("Code", str(answer.status)), error.get("Message", ""), metadata.get("HTTPStatusCode", answer.status))
    return found


class _LowerHeaders(dict[str, str]):
    """Header names without regard to case, as botocore's parsers look them up."""

    def __init__(self, headers: Headers) -> None:
        super().__init__({name.lower(): value for name, value in headers})

    def __getitem__(self, name: str) -> str:
        return super().__getitem__(name.lower())

    def get(self, name: str, default: Any = None) -> Any:
        return super().get(name.lower(), default)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and super().__contains__(name.lower())


class NotOffered(Exception):  # noqa: N818 - a fact about the call, turned into an AwsError by the gateway
    """moto has no such operation."""


class Moto:
    """moto as a function from a request to an answer, in this process."""

    def __init__(self) -> None:
        self._app = DomainDispatcherApplication(create_backend_app)
        self._known: dict[str, bool] = {}

    def ask(self, scope: Scope, account: str, environ: Environ, body: bytes) -> Answer:
        """moto's own answer; NotOffered when it has none; any other exception is a crash of moto's."""
        signing = _SIGNING.get(scope.service, scope.service)
        env = {**environ, "wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body)), "HTTP_X_MOTO_ACCOUNT_ID": account}
        env.pop("HTTP_TRANSFER_ENCODING", None)
        env.setdefault("RAW_URI", env.get("REQUEST_URI", env.get("PATH_INFO", "/")))
        if scope.access_key and (scope.presigned is False or scope.service != "s3"):
            credential = f"{scope.access_key}/20260101/{scope.region}/{signing}/aws4_request"
            env["HTTP_AUTHORIZATION"] = f"AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders=host, Signature=0"
        if scope.service == "s3" and env.get("CONTENT_TYPE", "").startswith("application/x-www-form-urlencoded"):
            env["CONTENT_TYPE"] = "binary/octet-stream"  # else an object that curl uploads is read as a form, and lost
        if not self._knows(scope.service, env):
            raise NotOffered
        started: list[tuple[str, Headers]] = []

        def start(status: str, headers: Headers, exc_info: Any = None) -> Callable[[bytes], object]:
            started.append((status, headers))
            return lambda data: None

        try:
            chunks: Iterable[bytes] = self._app(env, start)
            data = b"".join(chunks)
        except NotImplementedError as error:
            raise NotOffered from error
        except HTTPException as error:
            return _of_http_exception(error)
        status, headers = started[-1]
        if data[:15].lower() == b"<!doctype html>":  # Flask's own page of 404 or 405: moto has no such route
            raise NotOffered
        return Answer(int(status.split()[0]), headers, data)

    def _knows(self, service: str, env: Environ) -> bool:
        """Whether moto has the service at all (asked otherwise, it prints a complaint and fails)."""
        if service not in self._known:
            host = self._app.infer_service_region_host(env, env.get("PATH_INFO", "/"))
            patterns = moto_index.backend_url_patterns
            self._known[service] = host in _MODULES or any(pattern.match(f"http://{host}") for _, pattern in patterns)
        return self._known[service]


def _of_http_exception(error: HTTPException) -> Answer:
    response = error.get_response()
    return Answer(response.status_code, list(response.headers.items()), response.get_data())


def plain_error(scope: Scope | None, environ: Environ, error: AwsError, request_id: str) -> Answer:
    """An error about a request whose operation is not known: the form is guessed from the request's own."""
    status = error.status
    headers = [("x-amzn-RequestId", request_id)]
    if environ.get("HTTP_X_AMZ_TARGET") or environ.get("CONTENT_TYPE", "").startswith(("application/json", "application/x-amz-json")):
        body = json.dumps({"__type": error.code, "message": error.message}).encode()
        return Answer(status, [*headers, ("Content-Type", "application/json"), ("X-Amzn-Errortype", error.code)], body)
    inner = f"<Code>{escape(error.code)}</Code><Message>{escape(error.message)}</Message>"
    service = scope.service if scope else "s3"
    if service == "ec2":
        text = f"<Response><Errors><Error>{inner}</Error></Errors><RequestID>{request_id}</RequestID></Response>"
    elif service in ("s3", "s3control"):
        text = f"<Error>{inner}<RequestId>{request_id}</RequestId></Error>"
    else:
        text = f"<ErrorResponse><Error><Type>Sender</Type>{inner}</Error><RequestId>{request_id}</RequestId></ErrorResponse>"
    return Answer(status, [*headers, ("Content-Type", "text/xml"), ("X-Amzn-Errortype", error.code)], text.encode())


def live_backends() -> list[Any]:
    """moto's backends by service, account and region, as far as they have been used."""
    found: list[Any] = BackendDict.__dict__["_instances"]
    return found


def reset_backends() -> None:
    """Empty every backend of moto."""
    BackendDict.reset()


_seen_backends = 0


def new_backends() -> bool:
    """Whether moto has made a backend since the last call: that too is state (a region's default VPC)."""
    global _seen_backends
    count = sum(len(regions) for backends in live_backends() for regions in backends.values())
    before, _seen_backends = _seen_backends, count
    return count > before


def follow(clock: Clock) -> None:
    """Let moto's own timestamps follow the virtual clock. Modules bind ``utcnow`` when imported: call this first."""
    moto_utils.utcnow.__code__ = _utcnow_of.__code__
    moto_utils.__dict__["_instantstart_clock"] = clock


def _utcnow_of() -> Any:
    return _instantstart_clock.utc().replace(tzinfo=None)  # type: ignore[name-defined]  # noqa: F821


@functools.cache
def partition_of(region: str) -> str:
    """The partition of a region, as botocore's endpoint data says; ``aws`` when it does not know the region."""
    import botocore.session

    try:
        return str(botocore.session.get_session().get_partition_for_region(region))
    except Exception:  # noqa: BLE001 - botocore raises UnknownRegionError; a made-up region belongs to the standard partition
        return "aws"


@functools.cache
def dns_suffix_of(partition: str) -> str:
    """The DNS suffix of a partition, from botocore's endpoint data."""
    import botocore.session

    return str(botocore.session.get_session().get_component("endpoint_resolver").get_partition_dns_suffix(partition))
