"""The door of the logs slice. What follows a log is beside it, in faces/api/log_stream.py."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import PlainTextResponse, StreamingResponse

from instantstart.capabilities.doors import ClusterPath, RoomDep, Viewer
from instantstart.capabilities.training.logs import views
from instantstart.capabilities.training.logs.specs import LogsAsk

router = APIRouter(tags=["logs"])

Previous = Annotated[bool, Query(description="The run before the container's last restart.")]


@router.get("/clusters/{cluster}/logs", operation_id="logs_read", summary="Read logs")
def read_logs(
    room: RoomDep, _caller: Viewer, cluster: ClusterPath, ask: Annotated[LogsAsk, Query()], previous: Previous = False,
    limit: Annotated[int, Query(ge=1, le=5000, description="Most lines to answer, the newest.")] = 500,
) -> views.LogPage:  # fmt: skip
    """What the containers of a pod, job, Deployment, endpoint or selector wrote last, in the order of time. To follow: /logs/stream."""
    return views.read_logs(room, cluster, ask, previous, limit)


@router.get(
    "/clusters/{cluster}/logs/download", operation_id="logs_download", summary="Download logs", response_class=PlainTextResponse,
)  # fmt: skip
def download(
    room: RoomDep, _caller: Viewer, cluster: ClusterPath, ask: Annotated[LogsAsk, Query()], previous: Previous = False
) -> StreamingResponse:
    """All that is still there, as text: each line with its time, one container after the other. ``tail`` left out: everything."""
    name = ask.pod or ask.job or ask.deployment or ask.endpoint or "pods"
    headers = {"Content-Disposition": f'attachment; filename="{name}.log"'}
    return StreamingResponse(views.download(room, cluster, ask, previous), media_type="text/plain; charset=utf-8", headers=headers)
