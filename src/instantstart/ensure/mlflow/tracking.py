"""Managed MLflow on SageMaker: tracking servers and apps as they are, whose they are, whether they can be used.

Facts: aws-facts A3. A tracking server is known by its name, an app by its ARN; both are addressed by the ARN (MLFLOW_TRACKING_URI).
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from instantstart.aws.session import Aws
from instantstart.base import names, problems

#: the service account of the chain ``mlflow`` (ensure/identity_chains/chains.py): pods that log to a tracking server run under it
SERVICE_ACCOUNT = "sagemaker-mlflow-sa"
_ARN = re.compile(r"arn:[a-z-]+:sagemaker:([a-z0-9-]+):(\d{12}):mlflow-(tracking-server|app)/(.+)\Z")
_READERS = 8


class TrackingKind(StrEnum):
    """Which of the two: a server of a size that is paid by the hour, or an app that scales by itself."""

    tracking_server = "tracking_server"
    app = "app"


#: statuses in which a server answers, given that it is active; and an app
USABLE_SERVER = frozenset({"Created", "Updated", "Started", "MaintenanceComplete"})
USABLE_APP = frozenset({"Created", "Updated"})
#: statuses that end by themselves
PASSING = frozenset({"Creating", "Updating", "Starting", "Stopping", "Deleting", "MaintenanceInProgress"})


@dataclass(frozen=True)
class Server:
    """A tracking server or an app. ``why`` is one sentence on whether it can be used. ``cluster``: our tag of it, if any."""

    kind: TrackingKind
    name: str
    arn: str
    status: str
    is_usable: bool
    why: str
    version: str | None = None
    size: str | None = None
    artifact_store: str | None = None
    role_arn: str | None = None
    created_at: dt.datetime | None = None
    cluster: str | None = None
    operation: str | None = None


@dataclass(frozen=True)
class Place:
    """What an ARN of MLflow says."""

    arn: str
    kind: TrackingKind
    region: str
    account: str
    id: str


def place_of(arn: str) -> Place:
    """The parts of an ARN. Raises Invalid ``mlflow.arn_invalid``."""
    found = _ARN.match(arn)
    if found is None:
        raise problems.Invalid("mlflow.arn_invalid", f"{arn} is no ARN of a tracking server or app of MLflow on SageMaker.")
    region, account, kind, name = found.groups()
    return Place(arn, TrackingKind.app if kind == "app" else TrackingKind.tracking_server, region, account, name)


def list_all(aws: Aws) -> list[Server]:
    """Every tracking server and app of the account in this region, by name, with our tags."""
    servers = [
        _full(TrackingKind.tracking_server, s) for s in aws.pages("sagemaker", "list_mlflow_tracking_servers", "TrackingServerSummaries")
    ]
    apps = [_full(TrackingKind.app, s) for s in aws.pages("sagemaker", "list_mlflow_apps", "Summaries")]
    found = sorted((*servers, *apps), key=lambda s: (s.name, s.kind))
    with ThreadPoolExecutor(_READERS) as pool:
        tags = list(pool.map(lambda s: _tags(aws, s.arn), found))
    return [_tagged(server, told) for server, told in zip(found, tags, strict=True) if told is not None]


def find(aws: Aws, kind: TrackingKind, name: str) -> Server | None:
    """One of them in full, or None. Of apps with the same name the newest that is not being deleted."""
    told = _find_app(aws, name) if kind is TrackingKind.app else _find_server(aws, name)
    if told is None:
        return None
    server = _full(kind, told)
    tags = _tags(aws, server.arn)
    return None if tags is None else _tagged(server, tags)


def get(aws: Aws, kind: TrackingKind, name: str) -> Server:
    """The same. Raises NotFound ``mlflow.unknown``."""
    found = find(aws, kind, name)
    if found is None:
        noun, other = ("app", "a tracking server") if kind is TrackingKind.app else ("tracking server", "an app")
        told = f"There is no {noun} {name} in {aws.region}."
        if find(aws, next(each for each in TrackingKind if each is not kind), name):
            raise problems.NotFound(
                "mlflow.unknown", f"{told} There is {other} of that name.", hint="Say which kind: app (--app) or tracking_server."
            )
        raise problems.NotFound("mlflow.unknown", told, hint="List the tracking servers and apps.")
    return found


def _find_server(aws: Aws, name: str) -> Mapping[str, Any] | None:
    try:
        return aws.read("sagemaker", "describe_mlflow_tracking_server", TrackingServerName=name)
    except problems.NotFound:
        return None


def _find_app(aws: Aws, name: str) -> Mapping[str, Any] | None:
    listed = [s for s in aws.pages("sagemaker", "list_mlflow_apps", "Summaries") if s["Name"] == name and s["Status"] != "Deleted"]
    if not listed:
        return None
    newest = max(listed, key=lambda s: (s["Status"] != "Deleting", s["CreationTime"]))
    try:
        return aws.read("sagemaker", "describe_mlflow_app", Arn=newest["Arn"])
    except problems.NotFound:
        return None


def _full(kind: TrackingKind, told: Mapping[str, Any]) -> Server:
    is_app = kind is TrackingKind.app
    status = str(told["Status" if is_app else "TrackingServerStatus"])
    active = True if is_app else told.get("IsActive") == "Active"
    usable = (status in USABLE_APP) if is_app else (active and status in USABLE_SERVER)
    name = str(told["Name" if is_app else "TrackingServerName"])
    return Server(
        kind=kind,
        name=name,
        arn=str(told["Arn" if is_app else "TrackingServerArn"]),
        status=status,
        is_usable=usable,
        why=_why(kind, name, status, usable=usable, active=active),
        version=told.get("MlflowVersion"),
        size=told.get("TrackingServerSize"),
        artifact_store=told.get("ArtifactStoreUri"),
        role_arn=told.get("RoleArn"),
        created_at=told.get("CreationTime"),
    )


def _why(kind: TrackingKind, name: str, status: str, *, usable: bool, active: bool) -> str:
    if usable:
        return f"{name} answers."
    if status == "Creating":
        return f"SageMaker is making {name}; that takes {'some minutes' if kind is TrackingKind.app else 'up to 25 minutes'}."
    if status in PASSING:
        return f"{name} is {status}."
    if status == "Stopped":
        return f"{name} is stopped: start it to use it."
    if status in USABLE_SERVER and not active:
        return f"{name} is {status}, and not active yet."
    return f"{name} is {status}."


def _tags(aws: Aws, arn: str) -> dict[str, str] | None:
    """None: it has gone between two reads, which is not to be taken for one that bears no tags of ours."""
    try:
        return {t["Key"]: t["Value"] for t in aws.pages("sagemaker", "list_tags", "Tags", ResourceArn=arn)}
    except problems.NotFound:
        return None


def _tagged(server: Server, tags: Mapping[str, str]) -> Server:
    return replace(server, cluster=tags.get(names.CLUSTER_TAG), operation=tags.get(names.OPERATION_TAG))
