"""``/metrics`` in Prometheus' text format, for whoever may look; and the layer that times every request by its route's pattern."""

from __future__ import annotations

import time
from collections.abc import Iterator

from fastapi import APIRouter, Response
from prometheus_client import PlatformCollector, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector, CollectorRegistry
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from instantstart.base import metrics, trail
from instantstart.capabilities.doors import RoomDep, Viewer
from instantstart.store import Store

router = APIRouter(tags=["health"])
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_PREFIX = "/api/v1/"
_PROCESS = CollectorRegistry()
ProcessCollector(registry=_PROCESS)
PlatformCollector(registry=_PROCESS)


@router.get(
    "/metrics",
    operation_id="metrics_get",
    summary="Figures for Prometheus",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "Prometheus' text format, 0.0.4."}},
)
def get_metrics(room: RoomDep, _caller: Viewer) -> Response:
    """Requests, AWS calls, Kubernetes calls, stages, active operations by status, and the process itself."""
    now = CollectorRegistry()
    now.register(_Operations(room.store))
    return Response(b"".join(map(generate_latest, (metrics.REGISTRY, now, _PROCESS))), media_type=CONTENT_TYPE)


async def note_route(request: HTTPConnection) -> None:
    """A dependency of every route: its pattern, for the layer outside, which does not see how the request was routed.

    In the loop, so that it waits for no thread.
    """
    pattern = str(getattr(request.scope.get("route"), "path", "other"))
    prefixed = request.scope["path"].startswith(_PREFIX) and not pattern.startswith(_PREFIX)  # a router's routes do not know theirs
    caller = getattr(request.state, "caller", None)
    if caller is not None:
        trail.note(identity_kind=str(caller.kind))
    request.state.route_pattern = _PREFIX.rstrip("/") + pattern if prefixed else pattern


class _Operations(Collector):
    """Operations that have not ended, by status; read when asked, so that several replicas tell the same."""

    LABELS = ("workflow", "status")

    def __init__(self, store: Store) -> None:
        self._store = store

    def collect(self) -> Iterator[Metric]:
        """One gauge."""
        found: dict[tuple[str, str], int] = {}
        for row in self._store.operations.list_active():
            key = (row.workflow, str(row.status))
            found[key] = found.get(key, 0) + 1
        family = GaugeMetricFamily("instantstart_operations_active", "Operations that have not ended.", labels=self.LABELS)
        for labels, count in sorted(found.items()):
            family.add_metric(labels, count)
        yield family


class Timing:
    """ASGI layer: how long every answer took to begin, by the pattern of its route; what has no route is counted as one."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()

        async def sender(message: Message) -> None:
            if message["type"] == "http.response.start":
                route = scope.get("state", {}).get("route_pattern") or "other"
                labels = (scope["method"], route, str(message["status"]))
                metrics.HTTP.labels(*labels).observe(time.perf_counter() - began)
            await send(message)

        await self._app(scope, receive, sender)
