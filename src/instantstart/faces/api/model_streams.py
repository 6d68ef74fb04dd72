"""A model's answer as it comes: server-sent events, relayed unchanged, with how fast they were at the end.

Like the other streams it holds a connection and no thread. Who may ask, and what, is decided before anything is asked.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

from anyio import to_thread
from fastapi import APIRouter
from starlette.responses import StreamingResponse

from instantstart.base import log, problems
from instantstart.capabilities.doors import ClusterPath, Operator, RoomDep
from instantstart.capabilities.inference.calls import judging, specs, views
from instantstart.capabilities.inference.calls.routes import NamePath, NamespacePath
from instantstart.kube import proxying

router = APIRouter(tags=["inference"])

#: the longest that one answer is relayed (real seconds)
_LONGEST_SECONDS = 3600.0
_EVENTS = "text/event-stream"
_RESPONSES: dict[int | str, dict[str, Any]] = {200: {"content": {_EVENTS: {"schema": {"type": "string"}}}, "description": "The events."}}


@router.post(
    "/clusters/{cluster}/served-models/{namespace}/{name}/calls/stream", operation_id="model_call_stream",
    summary="Call a model, streaming", response_class=StreamingResponse, responses=_RESPONSES,
)  # fmt: skip
async def stream_model_call(
    room: RoomDep, _caller: Operator, cluster: ClusterPath, namespace: NamespacePath, name: NamePath, ask: specs.CallModel
) -> StreamingResponse:
    """The model's own events as they come; then ``event: figures``. An answer that is no stream is one ``event: answer``."""
    call = await to_thread.run_sync(views.prepare, room, cluster, (namespace, name), ask)
    began = time.monotonic()
    async with AsyncExitStack() as opening:
        door, answer = await _open(opening, call)
        stack = opening.pop_all()  # from here on the answer's own end closes it
    events = _relay(stack, call, door, answer, began)
    return StreamingResponse(events, media_type=_EVENTS, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})


async def _open(stack: AsyncExitStack, call: views.Call) -> tuple[str, proxying.Stream]:
    """Through the first door that leads to somebody."""
    *others, last = call.doors
    for door in others:
        try:
            return door.name, await stack.enter_async_context(proxying.stream(call.kube, call.passage(door)))
        except (problems.Busy, problems.NotFound) as problem:
            if problem.code not in views.NOBODY_THERE:
                raise
    return last.name, await stack.enter_async_context(proxying.stream(call.kube, call.passage(last)))


async def _relay(stack: AsyncExitStack, call: views.Call, replica: str, answer: proxying.Stream, began: float) -> AsyncIterator[bytes]:
    """What comes, then the figures. A caller who leaves closes the connection to the model: it stops working for nobody."""
    reader, raw, streamed = judging.Reader(), b"", _EVENTS in answer.content_type
    async with stack:
        try:
            async for chunk in answer.chunks:
                seconds = time.monotonic() - began
                if streamed:
                    reader.feed(chunk, seconds)
                    yield chunk
                elif len(raw) < views.MOST_BYTES:
                    raw += chunk
                if seconds > _LONGEST_SECONDS:
                    break
        except problems.Problem as problem:
            yield _event("problem", log.redact(problem.document()))
    seconds = time.monotonic() - began
    figures = reader.figures(seconds)
    if not streamed:
        told, error = views.read(answer.status, raw)
        figures = judging.whole(told, seconds)
        yield _event("answer", {"status": answer.status, "error": error, "answer": told, "text": judging.text_of(told)})
    more = {"model": call.model, "replica": replica, "path": call.path, "status": answer.status, "curl": call.curl}
    yield _event("figures", {**dataclasses.asdict(figures), **more})


def _event(name: str, data: Any) -> bytes:
    """One event of ours, set off from what came before."""
    return f"\n\nevent: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()
