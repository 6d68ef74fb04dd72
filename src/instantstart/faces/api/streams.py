"""What an operation does, as it happens: a WebSocket of snapshots and events, and a request that waits for a change.

The only asynchronous routes: they hold a connection, never a thread.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Query, WebSocket, WebSocketDisconnect
from pydantic import TypeAdapter

from instantstart.base import log, problems
from instantstart.capabilities.doors import RoomDep, Viewer
from instantstart.faces.api import admission, auth
from instantstart.faces.api.operations import OperationId
from instantstart.operations.record import TERMINAL, Operation, OperationStatus
from instantstart.store.records import EventRow

router = APIRouter(prefix="/operations", tags=["operations"])
logger = log.get("instantstart.streams")

LOOK_SECONDS = 0.25
#: a snapshot goes out at least this often, so that elapsed times and a dead connection show
PULSE_SECONDS = 5.0
MAX_WAIT_SECONDS = 50
#: the socket closes with this code after the last snapshot of an ended operation
CLOSE_ENDED = 4000
CLOSE_PROBLEM = 4404
#: and with this one when its token was revoked or its session ended meanwhile
CLOSE_UNAUTHENTICATED = 4401
_AT_REST = TERMINAL | {OperationStatus.blocked, OperationStatus.awaiting_approval}
_OPERATION: TypeAdapter[Operation] = TypeAdapter(Operation)
_EVENTS: TypeAdapter[Sequence[EventRow]] = TypeAdapter(Sequence[EventRow])


@router.get("/{operation_id}/wait", operation_id="operation_wait", summary="Wait for an operation")
async def wait_operation(
    room: RoomDep,
    _caller: Viewer,
    operation_id: OperationId,
    seconds: Annotated[int, Query(ge=0, le=MAX_WAIT_SECONDS, description="Longest time to wait, in real seconds.")] = 30,
    after: Annotated[
        int | None, Query(ge=0, le=2**53, description="Answer at the first event above this sequence; left out: wait for the end.")
    ] = None,
) -> Operation:
    """The operation as soon as it has ended, is blocked or awaits approval (or has a new event, with ``after``), else after ``seconds``."""
    deadline = asyncio.get_running_loop().time() + seconds
    while True:
        operation: Operation = await to_thread.run_sync(room.engine.get, operation_id)
        changed = after is not None and operation.seq > after
        left = deadline - asyncio.get_running_loop().time()
        if changed or operation.status in _AT_REST or left <= 0:
            return operation
        await asyncio.sleep(min(LOOK_SECONDS, left))


@router.websocket("/{operation_id}/stream")
async def stream_operation(socket: WebSocket, operation_id: str, after: int = 0) -> None:
    """Messages ``{"type": "operation", ...}`` and ``{"type": "event", ...}``; ``after`` resumes behind a sequence.

    Authentication, Origin and Host were checked before this runs; every identity may look, for as long as it is one.
    """
    room = socket.app.state.room
    await socket.accept()
    try:
        async with asyncio.TaskGroup() as tasks:
            beside = [tasks.create_task(until_gone(socket)), tasks.create_task(until_refused(socket, room.store.identities))]
            async for message in _follow(room.engine, operation_id, max(after, 0)):
                await socket.send_json(message)
            for task in beside:
                task.cancel()
        await socket.close(CLOSE_ENDED)
    except* WebSocketDisconnect:
        pass
    except* problems.Problem as group:
        problem = group.exceptions[0]
        assert isinstance(problem, problems.Problem)
        with suppress(WebSocketDisconnect, RuntimeError):
            await socket.send_json({"type": "problem", "problem": log.redact(problem.document())})
            await socket.close(CLOSE_UNAUTHENTICATED if isinstance(problem, problems.Unauthenticated) else CLOSE_PROBLEM)


async def until_refused(socket: WebSocket, identities: auth.Finder) -> None:
    """Raises Unauthenticated once what opened the socket would not open it any more, or only in a lower role."""
    caller = socket.scope.get("state", {}).get("caller")
    while True:
        if not await admission.still_admitted(identities, socket.headers, caller):
            raise admission.ended()
        await asyncio.sleep(admission.LOOK_SECONDS)


async def until_gone(socket: WebSocket) -> None:
    """Reads (and drops) what the client says; raises WebSocketDisconnect when it leaves."""
    while True:
        await socket.receive_text()


async def _follow(engine: Any, operation_id: str, after: int) -> AsyncIterator[dict[str, Any]]:
    """Snapshots and events until the operation has ended and all its events are told."""
    told: Operation | None = None
    quiet = 0.0
    while True:
        operation = await to_thread.run_sync(engine.get, operation_id)
        events = await to_thread.run_sync(engine.events, operation_id, after) if operation.seq > after else ()
        if told is None or quiet >= PULSE_SECONDS or _shown(operation) != _shown(told):
            yield {"type": "operation", "operation": log.redact(_OPERATION.dump_python(operation, mode="json"))}
            told, quiet = operation, 0.0
        for event in _EVENTS.dump_python(tuple(events), mode="json"):
            after = max(after, int(event["seq"]))
            yield {"type": "event", "event": log.redact(event)}
        if operation.status in TERMINAL and after >= operation.seq:
            return
        await asyncio.sleep(LOOK_SECONDS)
        quiet += LOOK_SECONDS


def _shown(operation: Operation) -> Operation:
    """The operation without what merely ticks."""
    stages = tuple(dataclasses.replace(s, elapsed_seconds=0.0) for s in operation.stages)
    return dataclasses.replace(operation, elapsed_seconds=0.0, next_check_in_seconds=0, stages=stages)
