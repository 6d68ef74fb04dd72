"""KEDA's triggers that are evaluated: prometheus, aws-cloudwatch, cpu and memory (by the HPA), cron. Others are known by name only."""

from __future__ import annotations

import datetime as dt
import re
import zoneinfo
from dataclasses import dataclass
from urllib.parse import urlsplit

from ...world.seams import InferenceWorld
from ..cluster import Cluster
from ..kubelet.programs import PROMETHEUS_IMAGE
from ..loops.objects import Object, labels_of, pod_ready, selects, spec_of
from . import promql

RESOURCE = ("cpu", "memory")
_WORKSPACE = re.compile(r"^https?://[^/]*/?.*workspaces/(?P<id>ws-[a-zA-Z0-9-]+)")
_MOST_MINUTES = 8 * 24 * 60
_COLLECTION_SECONDS = 300.0
_UNEVALUATED = (
    "aws-sqs-queue",
    "kafka",
    "kubernetes-workload",
    "redis",
    "rabbitmq",
    "metrics-api",
    "external",
    "datadog",
)


class TriggerError(Exception):
    """A trigger that has no value now, in KEDA's words."""


@dataclass(frozen=True)
class Reading:
    """A trigger's value. ``active``: it is above its activation threshold."""

    name: str
    value: float
    active: bool
    target: str
    kind: str


def metric_name(number: int, trigger: Object) -> str:
    """The external metric's name, as ``s0-prometheus``."""
    kind = trigger["type"]
    told = trigger["metadata"]
    if kind == "cron":
        words = f"{told.get('timezone', '')}-{told.get('start', '')}-{told.get('end', '')}"
        return f"s{number}-cron-" + re.sub(
            r"[^a-zA-Z0-9]", lambda m: "x" if m[0] == "*" else "-" if m[0] == "/" else "", words.replace(" ", "")
        )
    return f"s{number}-{kind}"


def faults(trigger: Object) -> str:
    """Why a trigger's metadata cannot be used; empty when it can."""
    told, kind = trigger["metadata"], trigger["type"]
    needed = {"prometheus": ("serverAddress", "query", "threshold"), "cron": ("timezone", "start", "end", "desiredReplicas")}
    missing = [n for n in needed.get(kind, ()) if not told.get(n)]
    if missing:
        return f"error parsing {kind} metadata: missing required parameter {' '.join(repr(m) for m in missing)}"
    for name in ("threshold", "activationThreshold", "value", "desiredReplicas"):
        if name in told and not re.fullmatch(r"-?\d+(\.\d+)?", told[name]) and kind in (*RESOURCE, "prometheus", "cron"):
            return f"error parsing {kind} metadata: unable to set param {name!r} value {told[name]!r}"
    if kind not in (*needed, *RESOURCE, "aws-cloudwatch", *_UNEVALUATED):
        return f"no scaler found for type: {kind}"
    return ""


async def read(cluster: Cluster, number: int, trigger: Object, moment: float) -> Reading:
    """The value of a trigger that is no resource. TriggerError."""
    told, kind = trigger["metadata"], trigger["type"]
    name = metric_name(number, trigger)
    if kind == "prometheus":
        value = _prometheus(cluster, told, moment)
        return Reading(name, value, value > float(told.get("activationThreshold") or 0), told["threshold"], kind)
    if kind == "cron":
        on = _within(told, moment)
        return Reading(name, float(told["desiredReplicas"]) if on else 1.0, on, "1", kind)
    if kind == "aws-cloudwatch":
        value = await _cloudwatch(cluster, told, moment)
        return Reading(name, value, value > float(told.get("activationTargetMetricValue") or 0), told.get("targetMetricValue") or "1", kind)
    value = 0.0
    return Reading(name, value, False, told.get("targetMetricValue") or told.get("targetValue") or "1", kind)


async def _cloudwatch(cluster: Cluster, told: Object, moment: float) -> float:
    """The metric over its collection time; its least value where CloudWatch has none."""
    least = float(told.get("minMetricValue") or 0)
    if not isinstance(cluster.aws, InferenceWorld):
        return least
    since = moment - float(told.get("metricCollectionTime") or _COLLECTION_SECONDS)
    try:
        found = await cluster.ask_aws(cluster.aws.metric, cluster.arn, told, since)
    except Exception as error:
        raise TriggerError(f"error getting metric from cloudwatch: {error}") from error
    return least if found is None else found


def _prometheus(cluster: Cluster, told: Object, moment: float) -> float:
    where = told["serverAddress"]
    if not _WORKSPACE.match(where):
        _check_service(cluster, where)
    try:
        found = promql.query(told["query"], cluster.measures.samples, moment)
    except promql.QueryError as error:
        raise TriggerError(f"prometheus query api returned error. status: 400 response: {error}") from error
    if isinstance(found, float):
        return found
    if not found:
        if told.get("ignoreNullValues", "true") == "true":
            return 0.0
        raise TriggerError("prometheus metrics 'prometheus' target may be lost, the result is empty")
    if len(found) > 1:
        raise TriggerError(f"prometheus query {told['query']} returned multiple elements")
    return found[0].value


def _check_service(cluster: Cluster, where: str) -> None:
    """A Prometheus in the cluster: its Service is there and leads to a ready pod that is one."""
    host = urlsplit(where).hostname or ""
    parts = host.split(".")
    name, space = parts[0], parts[1] if len(parts) > 1 else "default"
    service = cluster.read("services", name, space)
    lookup = f'error requesting metrics endpoint: Get "{where}/api/v1/query": dial tcp: lookup {host}: no such host'
    if service is None:
        raise TriggerError(lookup)
    selector = {"matchLabels": spec_of(service).get("selector") or {"": "nothing"}}
    pods = [p for p in cluster.read_all("pods", space) if selects(selector, labels_of(p)) and pod_ready(p)]
    if not any(re.search(PROMETHEUS_IMAGE, c["image"]) for p in pods for c in spec_of(p)["containers"]):
        raise TriggerError(f'error requesting metrics endpoint: Get "{where}/api/v1/query": dial tcp {host}: connect: connection refused')


# ---------------------------------------------------------------------- cron


def _within(told: Object, moment: float) -> bool:
    """Whether the last start is later than the last end."""
    try:
        zone = zoneinfo.ZoneInfo(told["timezone"])
    except (zoneinfo.ZoneInfoNotFoundError, ValueError) as error:
        raise TriggerError(f"unable to load timezone. Error: unknown time zone {told['timezone']}") from error
    now = dt.datetime.fromtimestamp(moment, zone).replace(second=0, microsecond=0)
    start, end = _fields(told["start"]), _fields(told["end"])
    for minutes in range(_MOST_MINUTES):
        then = now - dt.timedelta(minutes=minutes)
        if _fits(end, then):
            return False
        if _fits(start, then):
            return True
    return False


def _fields(text: str) -> list[set[int]]:
    parts = text.split()
    bounds = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
    if len(parts) != len(bounds):
        raise TriggerError(f"error parsing cron metadata: expected exactly 5 fields, found {len(parts)}: [{text}]")
    return [_numbers(part, *bound) for part, bound in zip(parts, bounds, strict=True)]


def _numbers(text: str, low: int, high: int) -> set[int]:
    found: set[int] = set()
    for piece in text.split(","):
        span, _, step = piece.partition("/")
        first, mark, last = span.partition("-")
        try:
            begin, end = (low, high) if span == "*" else (int(first), int(last) if mark else int(first))
            found.update(range(begin, end + 1, int(step or 1)))
        except ValueError as error:
            raise TriggerError(f"error parsing cron metadata: failed to parse int from {piece}") from error
    return found


def _fits(fields: list[set[int]], then: dt.datetime) -> bool:
    minute, hour, day, month, weekday = fields
    days = {d % 7 for d in weekday}
    return then.minute in minute and then.hour in hour and then.day in day and then.month in month and then.isoweekday() % 7 in days
