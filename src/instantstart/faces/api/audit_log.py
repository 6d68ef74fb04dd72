"""The routes of the audit log: a page of it, and the whole as a file."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from instantstart.base import patterns
from instantstart.capabilities.doors import Admin, RoomDep
from instantstart.store.records import AuditFilter, AuditRow

router = APIRouter(prefix="/audit", tags=["audit"])
_COLUMNS = (
    "number", "at", "caller", "name", "kind", "role", "face", "address", "action", "method", "path", "summary", "target", "cluster",
    "status", "code", "operation_id",
)  # fmt: skip
#: a cell that begins with one of these is a formula to a spreadsheet
_FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_MEDIA = {"csv": "text/csv; charset=utf-8", "jsonl": "application/jsonl"}
_FILES: dict[int | str, dict[str, Any]] = {
    200: {"content": {each.partition(";")[0]: {"schema": {"type": "string"}} for each in _MEDIA.values()}, "description": "The lines."}
}


@dataclass(frozen=True)
class AuditPage:
    """One page of the audit log. ``cursor`` asks for the next one."""

    items: tuple[AuditRow, ...]
    cursor: str | None


class _Wanted(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    identity: Annotated[
        str | None,
        Field(default=None, max_length=64, pattern=patterns.ONE_LINE, description="Only of this identity; anonymous: of nobody known."),
    ]
    face: Annotated[Literal["api", "console", "cli", "mcp"] | None, Field(default=None, description="Only through this face.")]
    action: Annotated[
        str | None, Field(default=None, max_length=80, pattern=patterns.ONE_LINE, description="Only this action, such as token_create.")
    ]
    outcome: Annotated[
        Literal["done", "refused", "failed"] | None,
        Field(default=None, description="done: it was taken; refused: at the door (401, 403, 421, 429); failed: any other problem."),
    ]
    cluster: Annotated[str | None, Field(default=None, max_length=128, pattern=patterns.ONE_LINE, description="Only on this cluster.")]
    operation_id: Annotated[
        str | None,
        Field(default=None, max_length=64, pattern=patterns.ONE_LINE, description="Only calls that began or touched this operation."),
    ]
    target: Annotated[
        str | None,
        Field(
            default=None,
            max_length=200,
            pattern=patterns.ONE_LINE,
            description="Only what was made, begun or changed under this name or id, or a part of it.",
        ),
    ]
    after: Annotated[AwareDatetime | None, Field(default=None, description="From this moment on, such as 2026-11-30T12:00:00Z.")]
    before: Annotated[AwareDatetime | None, Field(default=None, description="Before this moment.")]
    text: Annotated[
        str | None,
        Field(
            default=None,
            max_length=100,
            pattern=patterns.ONE_LINE,
            description="In the name, id, address, path, summary, target or problem code.",
        ),
    ]
    order: Annotated[Literal["newest", "oldest"], Field(default="newest", description="Which come first.")]

    def filter(self) -> AuditFilter:
        """What the store is asked for."""
        same = ("face", "action", "outcome", "cluster", "operation_id", "target", "after", "before", "text")
        return AuditFilter(caller=self.identity, oldest_first=self.order == "oldest", **{name: getattr(self, name) for name in same})


class AuditQuery(_Wanted):
    """Which lines to list."""

    limit: Annotated[int, Field(default=50, ge=1, le=200, description="Most lines to answer.")]
    cursor: Annotated[str | None, Field(default=None, max_length=200, description="The cursor of the page before.")]


class AuditExport(_Wanted):
    """Which lines to write into a file, and how."""

    form: Annotated[Literal["csv", "jsonl"], Field(default="csv", description="Comma separated values, or a JSON object a line.")]


@router.get("", operation_id="audit_list", summary="List the audit log")
def list_audit(room: RoomDep, _caller: Admin, asked: Annotated[AuditQuery, Query()]) -> AuditPage:
    """Who changed what, from where, through which face, with which answer; and who was refused at the door."""
    page = room.store.audit.list(asked.filter(), limit=asked.limit, cursor=asked.cursor)
    return AuditPage(tuple(page.items), page.cursor)


@router.get("/export", operation_id="audit_export", summary="Export the audit log", response_class=StreamingResponse, responses=_FILES)
def export_audit(room: RoomDep, _caller: Admin, asked: Annotated[AuditExport, Query()]) -> StreamingResponse:
    """Every line that matches, streamed. In CSV no cell is a formula: what could be one has an apostrophe before it."""
    rows = room.store.audit.every(asked.filter())
    lines = _csv(rows) if asked.form == "csv" else (json.dumps(_plain(row), ensure_ascii=False) + "\n" for row in rows)
    headers = {"Content-Disposition": f'attachment; filename="instantstart-audit.{asked.form}"', "Cache-Control": "no-store"}
    return StreamingResponse(lines, media_type=_MEDIA[asked.form], headers=headers)


def _plain(row: AuditRow) -> dict[str, Any]:
    return {**dataclasses.asdict(row), "at": row.at.isoformat()}


def _csv(rows: Iterator[AuditRow]) -> Iterator[str]:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\r\n")
    writer.writerow(_COLUMNS)
    for row in rows:
        told = _plain(row)
        writer.writerow([harmless(told[name]) for name in _COLUMNS])
        if buffer.tell() > 32_768:
            yield buffer.getvalue()
            buffer.seek(0)
            buffer.truncate()
    yield buffer.getvalue()


def harmless(value: Any) -> str:
    """A cell that no spreadsheet runs."""
    text = "" if value is None else str(value)
    return "'" + text if text.lstrip(" ").startswith(_FORMULAS) else text
