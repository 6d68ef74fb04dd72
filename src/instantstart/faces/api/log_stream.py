"""Logs as they are written: a WebSocket of arrays of events, for the console, the command line and whoever else follows.

The address takes the parameters of ``GET .../logs``. Messages are JSON arrays of ``source``, ``lines``, ``note``, ``dropped`` and
``settled`` (kube/log_reader.py). A reader that was cut off asks again with ``resume=true`` and says in its first message how far it was:
``{"after": {source: position}}``; it then misses nothing that is still there and gets nothing twice.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Any

from anyio import to_thread
from fastapi import APIRouter, WebSocket, WebSocketDisconnect
from pydantic import ValidationError

from instantstart.base import log, problems
from instantstart.capabilities.training.logs import views
from instantstart.capabilities.training.logs.specs import LogsAsk, Resumed, resumed
from instantstart.faces.api.problems import invalid
from instantstart.faces.api.streams import CLOSE_PROBLEM, CLOSE_UNAUTHENTICATED, until_gone, until_refused
from instantstart.kube.log_reader import Reader, encode

router = APIRouter(tags=["logs"])

RESUME_SECONDS = 10.0
#: what is sent together: more than this waits until it is on its way
MESSAGE_BYTES = 256 * 1024


@router.websocket("/clusters/{cluster}/logs/stream")
async def stream_logs(socket: WebSocket, cluster: str) -> None:
    """See the module. Authentication, Origin and Host were checked before this runs; every identity may read."""
    room = socket.app.state.room
    await socket.accept()
    try:
        ask = _asked(dict(socket.query_params))
        told = await _resumed(socket)
        bell = _Bell()
        reader: Reader = await to_thread.run_sync(views.follow, room, cluster, ask, told, bell.ring)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(until_gone(socket))
                tasks.create_task(until_refused(socket, room.store.identities))
                tasks.create_task(_send(socket, reader, bell))
        finally:
            reader.close()
    except* WebSocketDisconnect:
        pass
    except* problems.Problem as group:
        await _tell(socket, group.exceptions[0])


class _Bell:
    """Rung from the hub's thread, heard in this loop; many rings are one."""

    def __init__(self) -> None:
        self._loop, self._rung = asyncio.get_running_loop(), asyncio.Event()

    def ring(self) -> None:
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._rung.set)

    async def wait(self) -> None:
        await self._rung.wait()
        self._rung.clear()


async def _send(socket: WebSocket, reader: Reader, bell: _Bell) -> None:
    """Only what is on its way is taken out of the rings: a slow connection waits here and nowhere else."""
    while True:
        events = reader.take(MESSAGE_BYTES)
        if events:
            await socket.send_text(encode(events))
        else:
            await bell.wait()


def _asked(query: dict[str, str]) -> LogsAsk:
    try:
        ask = LogsAsk.model_validate({name: value for name, value in query.items() if name != "resume"})
    except ValidationError as error:
        raise invalid([{**e, "loc": ("query", *e["loc"])} for e in error.errors()]) from error
    ask.check()
    return ask


async def _resumed(socket: WebSocket) -> Resumed:
    if socket.query_params.get("resume") != "true":
        return Resumed()
    try:
        return resumed(json.loads(await asyncio.wait_for(socket.receive_text(), RESUME_SECONDS)))
    except (TimeoutError, ValueError, RecursionError):
        return Resumed()


async def _tell(socket: WebSocket, problem: Any) -> None:
    with suppress(WebSocketDisconnect, RuntimeError):
        await socket.send_json([{"type": "problem", "problem": log.redact(problem.document())}])
        await socket.close(CLOSE_UNAUTHENTICATED if isinstance(problem, problems.Unauthenticated) else CLOSE_PROBLEM)
