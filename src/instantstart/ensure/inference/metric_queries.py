"""Where metrics are asked for, and one query asked to see whether it answers: a Prometheus of the cluster, or the cluster's AMP workspace.

Nothing here takes an address: a Service of the cluster, or a workspace by its ARN. Facts: Prometheus HTTP API (``/api/v1/query``); AMP
serves it under the workspace's endpoint, signed for ``aps`` (aws-facts A18).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

from instantstart.aws import signed
from instantstart.aws.signed import Call, Refusal
from instantstart.base import problems
from instantstart.ensure.managed import metrics_workspace
from instantstart.ensure.sites import Site
from instantstart.kube.client import Door, KubeCluster
from instantstart.kube.connection import Ask

_PATH = "api/v1/query"
_READ_SECONDS = 20.0


@dataclass(frozen=True)
class Source:
    """One place of metrics. ``address`` is what KEDA is told."""

    kind: Literal["amp", "prometheus"]
    address: str
    door: Door | None = None


@dataclass(frozen=True)
class Sample:
    """What a query answered: how many series, and the first value."""

    series: int
    value: float | None


def workspace(where: Site, arn: str | None) -> Source | None:
    """The workspace of that ARN, or the one that observability made for the cluster; None when there is none."""
    if arn is not None:
        return Source("amp", metrics_workspace.describe(where, metrics_workspace.id_of(arn))["endpoint"])
    ours = metrics_workspace.find(where) if where.aws.is_in_partition("amp") else None
    if ours is None or ours["status"]["statusCode"] != "ACTIVE":
        return None
    return Source("amp", metrics_workspace.describe(where, str(ours["workspaceId"]))["endpoint"])


def service(place: str) -> Source:
    """A Prometheus behind a Service of the cluster, told as ``namespace/name:port``."""
    namespace, _, rest = place.partition("/")
    name, _, told = rest.partition(":")
    port = int(told)
    return Source("prometheus", f"http://{name}.{namespace}.svc:{port}", Door(namespace, name, port))


def ask(where: Site, kube: KubeCluster, source: Source, query: str) -> Sample:
    """Ask once. Raises Invalid ``metrics.query_refused`` with the server's own words; Unreachable or Busy when nothing answers."""
    told = _from_amp(where, source, query) if source.door is None else _from_service(kube, source.door, query)
    if told.get("status") != "success":
        raise _refused(str(told.get("error") or told.get("message") or "no reason told"))
    data = told.get("data") or {}
    result = data.get("result") or []
    if data.get("resultType") == "scalar":
        return Sample(1, _number(result[1]))
    return Sample(len(result), _number(result[0]["value"][1]) if result and "value" in result[0] else None)


def _from_amp(where: Site, source: Source, query: str) -> dict[str, Any]:
    host, slash, path = source.address.removeprefix("https://").partition("/")
    endpoint = signed.configured_endpoint(where.aws, "amp") or f"https://{host}"
    call = Call("aps", endpoint, "GET", f"{slash}{path}/{_PATH}", {"query": query})
    try:
        return _json(signed.send(where.aws, call, repeat=True))
    except Refusal as refusal:
        said = refusal.told()
        if refusal.status in (401, 403):
            told = f"Amazon Managed Prometheus does not let us query: {said.get('message') or refusal.status}."
            raise problems.Denied("metrics.query_denied", told, hint="Allow aps:QueryMetrics to our role.") from refusal
        raise _refused(str(said.get("error") or said.get("message") or refusal.status)) from refusal


def _from_service(kube: KubeCluster, door: Door, query: str) -> dict[str, Any]:
    response = kube.connection.exchange(Ask("GET", door.path(_PATH), {"query": query}, read_seconds=_READ_SECONDS))
    told = _json(response.content)
    if told.get("kind") == "Status" or not told:
        said = told.get("message") or f"status {response.status_code}"
        raise problems.Unreachable("metrics.no_answer", f"No Prometheus answers behind Service {door.namespace}/{door.name}: {said}")
    return told


def _json(content: bytes) -> dict[str, Any]:
    try:
        told = json.loads(content)
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


def _refused(said: str) -> problems.Invalid:
    return problems.Invalid("metrics.query_refused", f"Prometheus refuses the query: {said}", hint="Mend the query.")


def _number(text: Any) -> float | None:
    try:
        return float(text)
    except (TypeError, ValueError):
        return None
