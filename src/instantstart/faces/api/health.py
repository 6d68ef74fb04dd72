"""Is the process alive, and is it ready to work: the two answers that need no identity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request, Response

from instantstart.base import problems
from instantstart.capabilities.doors import RoomDep

if TYPE_CHECKING:
    from instantstart.capabilities.room import Room

router = APIRouter(tags=["health"])


@dataclass(frozen=True)
class Health:
    """``ok``, or what is missing."""

    status: str


@router.get("/healthz", operation_id="health_get", summary="Is the process alive")
async def get_health() -> Health:
    """Answers as long as the process serves requests; looks at nothing, and waits for no thread."""
    return Health("ok")


@router.get("/readyz", operation_id="readiness_get", summary="Is the server ready")
def get_readiness(room: RoomDep, request: Request, response: Response) -> Health:
    """Ready when work sent here is done here. 503 otherwise; AWS and Kubernetes are not asked, for another replica would fare no better."""
    missing = "shutting down" if request.app.state.stopping else _missing(room)
    response.status_code = 503 if missing else 200
    return Health(missing or "ok")


def _missing(room: Room) -> str | None:
    try:
        room.store.check()
    except problems.Conflict:
        return "the database has the schema of another version"
    except problems.Problem:
        return "the database does not answer"
    return None if room.engine.holds_its_name else "the name of this replica is not held"
