"""A support bundle: what somebody who helps needs to see, and no secret. Everything in it passes through the redaction filter."""

from __future__ import annotations

import dataclasses
import io
import json
import platform
import sys
import zipfile
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Response
from prometheus_client import generate_latest
from pydantic import TypeAdapter

import instantstart
from instantstart.base import log, metrics
from instantstart.capabilities.doors import Admin, RoomDep
from instantstart.store.records import EventRow, OperationFilter

if TYPE_CHECKING:
    from instantstart.capabilities.room import Room

router = APIRouter(tags=["health"])
_MOST_OPERATIONS, _MOST_EVENTS = 200, 200
_ENDED_BADLY = ("failed", "blocked")
_EVENTS: TypeAdapter[list[EventRow]] = TypeAdapter(list[EventRow])
_README = """What is in this file
  about.json       versions and the machine
  settings.json    the settings; addresses without passwords
  clusters.json    registered clusters (tags, Regions, names)
  operations.json  the last operations with their stages and problems
  events/ID.json   what happened in those that failed or are blocked
  metrics.txt      figures of the process
Tokens, passwords and keys are not in it. Names of clusters and what people asked for are: read it before you pass it on.
"""


@router.get(
    "/support-bundle",
    operation_id="support_bundle_get",
    summary="Everything that helps to find a fault, in one archive",
    response_class=Response,
    responses={200: {"content": {"application/zip": {"schema": {"type": "string", "format": "binary"}}}, "description": "A zip archive."}},
)
def get_support_bundle(room: RoomDep, _caller: Admin) -> Response:
    """Versions, settings, operations with their events, figures; without secrets."""
    headers = {"Content-Disposition": 'attachment; filename="instantstart-support.zip"'}
    return Response(_archive(_contents(room)), media_type="application/zip", headers=headers)


def _contents(room: Room) -> dict[str, Any]:
    operations = room.engine.list(OperationFilter(), limit=_MOST_OPERATIONS).items
    events = {f"events/{o.id}.json": _events(room, o.id, o.seq) for o in operations if str(o.status) in _ENDED_BADLY}
    return {
        "README.txt": _README,
        "about.json": {"instantstart": instantstart.__version__, "python": sys.version, "platform": platform.platform()},
        "settings.json": room.settings.model_dump(mode="json"),
        "clusters.json": [dataclasses.asdict(row) for row in room.store.clusters.list()],
        "operations.json": [TypeAdapter(type(o)).dump_python(o, mode="json") for o in operations],
        **events,
        "metrics.txt": generate_latest(metrics.REGISTRY).decode(),
    }


def _events(room: Room, operation: str, seq: int) -> list[Any]:
    found: list[Any] = _EVENTS.dump_python(list(room.engine.events(operation, max(seq - _MOST_EVENTS, 0), _MOST_EVENTS)), mode="json")
    return found


def _archive(contents: Mapping[str, Any]) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, value in contents.items():
            told = log.redact(value)
            archive.writestr(name, told if isinstance(told, str) else json.dumps(told, indent=1, default=str))
    return held.getvalue()
