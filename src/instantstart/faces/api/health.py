"""Is the process alive, and is it ready to work: the two answers that need no identity."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import APIRouter, Response

from instantstart.base import problems
from instantstart.capabilities.doors import RoomDep

router = APIRouter(tags=["health"])


@dataclass(frozen=True)
class Health:
    """``ok``, or what is missing."""

    status: str


@router.get("/healthz", operation_id="health_get", summary="Is the process alive")
def get_health() -> Health:
    """Answers as long as the process serves requests; looks at nothing."""
    return Health("ok")


@router.get("/readyz", operation_id="readiness_get", summary="Is the server ready")
def get_readiness(room: RoomDep, response: Response) -> Health:
    """Ready when the database answers. 503 otherwise; AWS and Kubernetes are not asked."""
    try:
        room.store.identities.find("nobody")
    except problems.Problem:
        response.status_code = 503
        return Health("the database does not answer")
    return Health("ok")
