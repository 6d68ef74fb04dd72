"""A small house for the faces: the real store, a toy engine whose operations are moved by the test, and a toy slice."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, Literal

import uvicorn
from fastapi import APIRouter, FastAPI, Response
from pydantic import BaseModel, ConfigDict, Field

from instantstart import store
from instantstart.base import problems
from instantstart.base.clock import Clock
from instantstart.base.settings import Settings
from instantstart.capabilities.doors import DryRun, IdempotencyKey, Operator, RoomDep, Viewer
from instantstart.faces.api import wire
from instantstart.faces.api.app import build
from instantstart.faces.api.crowd import Crowd
from instantstart.faces.mcp.mount import Mount
from instantstart.operations.record import Operation, OperationStatus, StageStatus, StageView
from instantstart.store.records import EventRow, OperationFilter, Page

HOST = "http://127.0.0.1:3099"


class ToyEngine:
    """Keeps operations in memory; ``move`` is what a worker would do."""

    holds_its_name = True

    def __init__(self) -> None:
        self._operations: dict[str, Operation] = {}
        self._events: dict[str, list[EventRow]] = {}
        self._lock = threading.Lock()

    def start(self, workflow: str, spec: Any, *, caller: str, cluster: str | None = None, **_: Any) -> tuple[Operation, bool]:
        for each in self._operations.values():
            if each.cluster == cluster and each.status in ("queued", "running"):
                return each, False
        stages = tuple(
            StageView(name, says, StageStatus.pending, None, None, 0.0, 60.0, False, None, 1, None, {})
            for name, says in (("network", "Make the network"), ("nodes", "Wait for the nodes"))
        )
        operation = Operation(
            id=f"op_{len(self._operations) + 1:04}", workflow=workflow, title="Create a toy", subject=f"cluster/{cluster}",
            cluster=cluster, status=OperationStatus.queued, caller=caller, spec=dict(spec), created_at=dt.datetime.now(dt.UTC),
            started_at=None, ended_at=None,
            elapsed_seconds=0.0, typical_seconds=120.0, slow=False, problem=None, next_step=None, stages=stages, result=None,
            next_check_in_seconds=2, seq=0,
        )  # fmt: skip
        self._operations[operation.id] = operation
        self._events[operation.id] = []
        return operation, True

    def move(self, op: str, status: str, message: str, **changes: Any) -> None:
        """Give the operation a status and an event."""
        with self._lock:
            events = self._events[op]
            events.append(EventRow(op, len(events) + 1, dt.datetime.now(dt.UTC), "info", None, message))
            self._operations[op] = dataclasses.replace(self.get(op), status=OperationStatus(status), seq=len(events), **changes)

    def get(self, op: str) -> Operation:
        if op not in self._operations:
            raise problems.NotFound("operation.unknown", f"There is no operation {op}.")
        return self._operations[op]

    def events(self, op: str, after: int = 0, limit: int = 500) -> list[EventRow]:
        return [e for e in self._events[op] if e.seq > after][:limit]

    def repeated(self, key: str, caller: str, request_hash: str) -> Operation | None:
        return None

    def retry(self, op: str, caller: str) -> Operation:
        if self.get(op).status not in ("failed", "blocked"):
            raise problems.Conflict("operation.not_retryable", "The operation has not stopped.")
        self.move(op, "running", f"retried by {caller}")
        return self.get(op)

    def cancel(self, op: str, caller: str) -> Operation:
        self.move(op, "cancelled", f"cancelled by {caller}")
        return self.get(op)

    def list(self, wanted: OperationFilter, *, limit: int = 50, cursor: str | None = None) -> Page[Operation]:
        found = [
            o
            for o in self._operations.values()
            if (not wanted.statuses or o.status in wanted.statuses) and wanted.cluster in (None, o.cluster)
        ]
        return Page(tuple(found[:limit]))

    approve = retry
    reject = cancel


class CreateToy(BaseModel):
    """Ask for a toy cluster."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    tag: Annotated[str | None, Field(default=None, max_length=20, pattern=r"^[a-z][a-z0-9-]*$", description="Short name.")]
    zone: Annotated[str, Field(min_length=4, description="Availability zone.")]
    count: Annotated[int, Field(default=1, ge=0, le=100, description="Number of nodes.")]
    capacity: Annotated[Literal["on_demand", "spot"], Field(default="on_demand", description="How it is paid for.")]


toys = APIRouter(prefix="/clusters", tags=["clusters"])


@toys.get("", operation_id="cluster_list", summary="List clusters")
def list_toys(_caller: Viewer) -> dict[str, Any]:
    """Every cluster."""
    return {"items": [], "cursor": None}


@toys.post("", operation_id="cluster_create", summary="Create a cluster", status_code=202)
def create_toy(
    room: RoomDep, caller: Operator, ask: CreateToy, response: Response, key: IdempotencyKey = None, dry_run: DryRun = False
) -> Operation:
    """The whole pipeline."""
    operation, _ = room.engine.start("cluster.create", ask.model_dump(), caller=caller.id, cluster=ask.tag, key=key)
    response.headers["Location"] = f"/api/v1/operations/{operation.id}"
    return operation  # type: ignore[no-any-return]


@toys.get("/{cluster}/crash", operation_id="toy_crash")
def crash(cluster: str, _caller: Viewer) -> None:
    """Raises what nobody expected."""
    raise RuntimeError("secret inner detail")


def house(folder: Path, routers: tuple[APIRouter, ...] = (toys,), **more: Any) -> tuple[FastAPI, Any]:
    """An app and its room."""
    open_at_once = more.pop("max_open_per_identity", 100)
    room = SimpleNamespace(
        settings=Settings(data_dir=folder, allowed_hosts="console.example:8443, behind.example", max_open_per_identity=open_at_once),
        clock=Clock(),
        store=store.open(None, folder),
        engine=ToyEngine(),
    )
    more.setdefault("web", folder / "web")  # not the console that a build may have left in the package
    return build(room, routers, **more), room  # type: ignore[arg-type]


@dataclasses.dataclass
class Running:
    """A toy house that listens."""

    url: str
    room: Any
    app: FastAPI

    def token(self, role: str, kind: str = "person") -> str:
        """A new token."""
        return str(self.room.store.identities.create_token(f"{role} {kind}", role, kind)[1])


@contextlib.contextmanager
def listening(folder: Path, crowd: Crowd | None = None) -> Iterator[Running]:
    """A toy house behind a real socket, with MCP mounted as the composition root mounts it. ``crowd``: of its connections."""
    mount = Mount()
    app, room = house(folder, mounts={"/mcp": mount}, lifespans=[mount.lifespan])
    mount.connect(app, app.openapi)
    with behind_a_socket(app, room, crowd) as running:
        yield running


@contextlib.contextmanager
def behind_a_socket(app: FastAPI, room: Any, crowd: Crowd | None = None) -> Iterator[Running]:
    """``app`` on a free port of the loopback; the store is closed at the end."""
    http = wire.within(Crowd() if crowd is None else crowd)
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=2, http=http))
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [made]}, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        yield Running(f"http://127.0.0.1:{made.getsockname()[1]}", room, app)
        server.should_exit = True
        thread.join(timeout=10)
    room.store.close()
