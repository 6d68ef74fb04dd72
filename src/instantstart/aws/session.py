"""Sessions and clients: the ambient credentials, one client for each service and region, reads apart from writes.

Reads are retried by botocore. Writes are sent once: botocore would repeat a CreateSubnet whose answer was lost, and
make two. A stage that is not sure looks again instead.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar, cast

import boto3
from botocore import exceptions
from botocore.config import Config

from instantstart.aws import errors, models
from instantstart.base import metrics, problems, tracing

T = TypeVar("T")
_READ = Config(
    retries={"mode": "standard", "total_max_attempts": 3},
    connect_timeout=5,
    read_timeout=30,
    user_agent_extra="instantstart",
    max_pool_connections=32,
)
_WRITE = Config(
    retries={"mode": "standard", "total_max_attempts": 1},
    connect_timeout=5,
    read_timeout=60,
    user_agent_extra="instantstart",
    max_pool_connections=32,
)
#: what listing and making clusters speak to, in the order in which they do
_WARMED = ("sts", "eks", "sagemaker", "ec2", "service-quotas", "cloudformation", "iam", "s3")


@dataclass(frozen=True)
class Identity:
    """Who the program is on AWS. ``principal_arn`` is what an EKS access entry names: the role, not its session."""

    account: str
    arn: str
    principal_arn: str


class Aws:
    """AWS in one region. Thread-safe; clients are made on first use and kept."""

    def __init__(self, session: boto3.Session, region: str) -> None:
        self.region = region
        self._session = session
        self._clients: dict[tuple[str, bool], Any] = {}
        self._lock = threading.Lock()
        self._kept: dict[str, tuple[float, Any]] = {}
        self._identity: Identity | None = None
        self._ahead = dt.timedelta()

    @property
    def partition(self) -> str:
        """``aws``, ``aws-cn``, ``aws-us-gov`` ...: by the region, from the SDK's endpoint data."""
        try:
            return str(self._session.get_partition_for_region(self.region))
        except exceptions.UnknownRegionError as error:
            raise problems.Invalid(
                "region.unknown", f"There is no AWS region {self.region!r}.", evidence={"region": self.region}
            ) from error

    def is_in_partition(self, service: str) -> bool:
        """Whether the SDK's own list has a service anywhere in this partition (China has no Prometheus); of a region AWS speaks itself."""
        return bool(self._session.get_available_regions(service, partition_name=self.partition))

    @property
    def dns_suffix(self) -> str:
        """The suffix of the partition's host names and service principals' hosts."""
        resolver = self._session._session.get_component("endpoint_resolver")
        return str(resolver.get_partition_dns_suffix(self.partition))

    def client(self, service: str, write: bool = False) -> Any:
        """The boto3 client of a service; ``write`` picks the one that never repeats a request by itself."""
        key = (service, write)
        with self._lock:
            if key not in self._clients:
                self._clients[key] = self._session.client(service, region_name=self.region, config=_WRITE if write else _READ)
            return self._clients[key]

    def read(self, service: str, operation: str, **params: Any) -> dict[str, Any]:
        """One reading call, retried on throttling and lost answers. ``operation`` in snake case. Raises a Problem."""
        return self._call(service, operation, False, params)

    def write(self, service: str, operation: str, **params: Any) -> dict[str, Any]:
        """One changing call, sent exactly once. Raises a Problem; Busy and Unreachable mean "look before you repeat"."""
        return self._call(service, operation, True, params)

    def create(self, service: str, operation: str, **params: Any) -> dict[str, Any] | None:
        """A write that makes something; None when AWS says that it is there already.

        So answers a create whose first answer was lost, or that lists do not show yet. Whose it is, the next look tells.
        """
        try:
            return self.write(service, operation, **params)
        except problems.Conflict as problem:
            if problem.code != "aws.already_exists":
                raise
            return None

    def remove(self, service: str, operation: str, **params: Any) -> str | None:
        """A write that removes something. None when it is gone (or was already); else AWS's sentence on what still holds it."""
        try:
            self.write(service, operation, **params)
        except problems.NotFound:
            return None
        except problems.Conflict as problem:
            return problem.detail
        return None

    def pages(self, service: str, operation: str, key: str, **params: Any) -> list[Any]:
        """Every item under ``key`` of every page. Raises a Problem."""
        return list(self.each(service, operation, key, **params))

    def each(self, service: str, operation: str, key: str, **params: Any) -> Iterator[Any]:
        """The items under ``key``, page by page. Raises a Problem."""
        try:
            paginator = self.client(service).get_paginator(operation)
            call = paginator._method  # each page is a call of its own, and only in here can it be told from the end of the pages
            paginator._method = lambda **page: self._told(service, operation, lambda: call(**page))
            for page in paginator.paginate(**params):
                yield from page.get(key, ())
        except (exceptions.ClientError, exceptions.BotoCoreError) as error:
            raise errors.translate(error, service, operation) from error

    def cached(self, key: str, seconds: float, read: Callable[[], T]) -> T:
        """The answer of ``read``, kept for ``seconds``: for what changes rarely and costs many pages (quotas, offers)."""
        with self._lock:
            kept = self._kept.get(key)
        if kept is not None and kept[0] > time.monotonic():
            return cast("T", kept[1])
        found = read()
        with self._lock:
            self._kept[key] = (time.monotonic() + seconds, found)
        return found

    def link(self, operation: str, seconds: int, **params: Any) -> str:
        """A presigned S3 address: good for ``seconds``, for whoever has it."""
        signed = self.client("s3").generate_presigned_url(operation, Params=params, ExpiresIn=seconds)
        return str(signed)

    def identity(self) -> Identity:
        """Who we are (STS GetCallerIdentity), asked once for each process and region."""
        if self._identity is None:
            told = self.read("sts", "get_caller_identity")
            self._identity = Identity(told["Account"], told["Arn"], principal_of(told["Arn"]))
        return self._identity

    def arn(self, service: str, resource: str, regional: bool = True) -> str:
        """An ARN of this account: ``arn("iam", "role/x", regional=False)``."""
        return f"arn:{self.partition}:{service}:{self.region if regional else ''}:{self.identity().account}:{resource}"

    def _call(self, service: str, operation: str, write: bool, params: dict[str, Any]) -> dict[str, Any]:
        try:
            call = getattr(self.client(service, write), operation)
            return dict(self._told(service, operation, lambda: call(**params)))
        except (exceptions.ClientError, exceptions.BotoCoreError) as error:
            raise errors.translate(error, service, operation) from error

    def _told(self, service: str, operation: str, call: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
        """One call, timed and traced; its answer tells AWS's time."""
        about = {"rpc__system": "aws-api", "rpc__service": service, "rpc__method": operation, "cloud__region": self.region}
        with metrics.timed(metrics.AWS, service, operation), tracing.calling(f"{service}.{operation}", **about) as span:
            try:
                answer = call()
            except exceptions.ClientError as error:
                span.note(**_figures(error.response.get("ResponseMetadata", {})))
                span.failed(str(error.response.get("Error", {}).get("Code", "")) or type(error).__name__)
                raise
            span.note(**_figures(answer.get("ResponseMetadata", {})))
            self._read_clock(answer)
            return answer

    def now(self) -> dt.datetime:
        """The present by AWS's own clock (the Date header of its last answer): what its times are to be compared with."""
        return dt.datetime.now(dt.UTC) + self._ahead

    def _read_clock(self, answer: Mapping[str, Any]) -> None:
        told = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date")
        if told:
            with contextlib.suppress(ValueError):  # a proxy's own idea of a date says nothing
                self._ahead = parsedate_to_datetime(told).astimezone(dt.UTC) - dt.datetime.now(dt.UTC)


def _figures(told: Mapping[str, Any]) -> dict[str, tracing.Value | None]:
    """What the SDK says of an exchange."""
    return {
        "aws__request_id": told.get("RequestId"),
        "http__response__status_code": told.get("HTTPStatusCode"),
        "http__request__resend_count": told.get("RetryAttempts"),
    }


class AwsGateway:
    """Every region of the ambient account."""

    def __init__(self, default_region: str | None = None) -> None:
        self._session = models.lean(boto3.Session())
        self.default_region = default_region or self._session.region_name or ""
        self._regions: dict[str, Aws] = {}
        self._lock = threading.Lock()

    def region(self, name: str | None = None) -> Aws:
        """AWS in ``name``, or in the default region. Raises Invalid when neither is known, or when the SDK has no such region.

        The default region is whatever a person configured, and taken as it is where its partition is known.
        """
        name = name or self.default_region
        if not name:
            raise problems.Invalid(
                "region.missing", "No region was given and none is configured.", hint="Set AWS_REGION or INSTANTSTART_REGION."
            )
        with self._lock:
            if name not in self._regions:
                made = Aws(self._session, name)
                if name != self.default_region and name not in self._session.get_available_regions("ec2", partition_name=made.partition):
                    raise problems.Invalid(
                        "region.unknown",
                        f"The AWS SDK knows no region {name!r}.",
                        hint="If it is newer than this installation, make it the default region: set INSTANTSTART_REGION.",
                        evidence={"region": name},
                    )
                self._regions[name] = made
            return self._regions[name]

    def warm(self) -> None:
        """Make the clients of the default region before somebody waits for them: reading their models takes a second."""
        if self.default_region:
            here = self.region()
            with contextlib.suppress(exceptions.BotoCoreError, ValueError):  # whoever calls first is told
                for service in _WARMED:
                    here.client(service)
                    here.client(service, write=True)


def principal_of(arn: str) -> str:
    """The IAM principal behind a caller's ARN: an assumed-role session becomes its role (path-less, as STS shows it)."""
    head, _, resource = arn.rpartition(":")
    if not resource.startswith("assumed-role/"):
        return arn
    return f"{head.replace(':sts:', ':iam:')}:role/{resource.split('/')[1]}"
