"""The one web application: API, streams, console and whatever the composition root mounts beside them (MCP)."""

from __future__ import annotations

import contextlib
import datetime as dt
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from fastapi import APIRouter, Depends, FastAPI
from starlette.middleware.gzip import GZipMiddleware
from starlette.routing import Route
from starlette.types import ASGIApp

import instantstart
from instantstart.faces.api import (
    admission,
    audit,
    audit_log,
    bodies,
    health,
    identities,
    limits,
    log_stream,
    metrics,
    model_streams,
    openapi,
    operations,
    problems,
    queries,
    sessions,
    sign_in,
    static,
    streams,
    support,
)
from instantstart.faces.api.auth import Attempts, Authentication
from instantstart.faces.api.following import Following
from instantstart.faces.api.gate import Gate
from instantstart.store.records import AuditRow

if TYPE_CHECKING:
    from instantstart.capabilities.room import Room

API = "/api/v1"
#: how often the audit log is looked through for lines that are too old
_PRUNE_SECONDS = 3600.0
#: who may enter, and what they did
_ENTRANCE = (sessions.router, sign_in.router, audit_log.router)
Lifespan = Callable[[], AbstractAsyncContextManager[None]]


def build(
    room: Room,
    routers: Sequence[APIRouter],
    *,
    mounts: Mapping[str, ASGIApp] | None = None,
    lifespans: Sequence[Lifespan] = (),
    web: Path | None = None,
) -> FastAPI:
    """The application around ``room``. ``routers`` are the slices'; ``mounts`` are whole ASGI apps by path, behind the same gate.

    ``web`` is the folder of the built console; left out: the one that the package carries.
    """
    app = FastAPI(
        title="InstantStart",
        version=instantstart.__version__,
        description="A control plane for Amazon SageMaker HyperPod clusters orchestrated by Amazon EKS.",
        lifespan=_lifespan(lifespans),
        docs_url=None,
        redoc_url=None,
        responses=openapi.PROBLEM_RESPONSES,
        dependencies=[Depends(metrics.note_route), Depends(queries.only_described), Depends(bodies.names_once)],
        strict_content_type=False,  # the gate judges the media type, and says so in a problem
    )
    app.state.room = room
    app.state.stopping = False
    app.state.sign_in_attempts = Attempts()
    app.state.provider = sign_in.provider_of(room.settings)
    problems.install(app)
    for router in (
        operations.router,
        streams.router,
        log_stream.router,
        identities.router,
        *_ENTRANCE,
        support.router,
        *routers,
        model_streams.router,
    ):
        app.include_router(router, prefix=API)
    app.include_router(health.router)
    app.include_router(metrics.router)
    for path, mounted in (mounts or {}).items():
        app.router.routes.append(Route(path, endpoint=bodies.Whole(mounted), include_in_schema=False))
    static.install(app, web or static.web_folder())
    openapi.install(app)
    _wrap(app, room)
    return app


def _wrap(app: FastAPI, room: Room) -> None:
    """Layers, innermost first: admission, requests at once, limits, authentication, limits, audit, timing, compression, gate, following."""
    auditor, finder = audit.Auditor(_audit_writer(room)), room.store.identities
    app.add_middleware(admission.Admission, finder=finder)
    app.add_middleware(limits.AtOnce, most=room.settings.max_open_per_identity)
    app.add_middleware(limits.Limiter, buckets=limits.of_identities(room.settings), key=limits.identity_key)
    app.add_middleware(Authentication, finder=finder)
    app.add_middleware(limits.Limiter, buckets=limits.of_addresses(room.settings), key=limits.address_key)
    app.add_middleware(audit.Audit, auditor=auditor)
    app.add_middleware(metrics.Timing)
    app.add_middleware(GZipMiddleware, minimum_size=1024)
    app.add_middleware(Gate, settings=room.settings, refused=auditor.refused)
    app.add_middleware(Following)


def _audit_writer(room: Room) -> audit.Writer:
    pruned = 0.0

    def write(entry: audit.Entry) -> None:
        nonlocal pruned
        now, days = room.clock.now(), room.settings.audit_retention_days
        room.store.audit.append(AuditRow(number=0, at=now, **vars(entry)))
        if days and time.monotonic() - pruned > _PRUNE_SECONDS:
            pruned = time.monotonic()
            room.store.audit.prune(now - dt.timedelta(days=days))

    return write


def _lifespan(lifespans: Sequence[Lifespan]) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    @contextlib.asynccontextmanager
    async def run(_app: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for each in lifespans:
                await stack.enter_async_context(each())
            yield

    return run
