"""The routes of operations: what runs, what ran, and what a person may do about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from instantstart.base import patterns, problems
from instantstart.capabilities.doors import Caller, Kind, Operator, Role, RoomDep, Viewer, check_role
from instantstart.operations.record import Operation, OperationStatus
from instantstart.store.records import EventRow, OperationFilter

router = APIRouter(prefix="/operations", tags=["operations"])

OperationId = Annotated[str, Path(max_length=64, pattern=patterns.ID, description="Id of the operation.")]


@dataclass(frozen=True)
class OperationPage:
    """One page of operations, newest first unless asked otherwise. ``cursor`` asks for the next page; null: this is the last."""

    items: tuple[Operation, ...]
    cursor: str | None


@dataclass(frozen=True)
class EventPage:
    """Events of one operation, oldest first. ``last_seq`` is what to pass as ``after`` next time."""

    items: tuple[EventRow, ...]
    last_seq: int


def located(response: Response, operation: Operation) -> Operation:
    """``operation``, with its address in the Location header."""
    response.headers["Location"] = f"/api/v1/operations/{operation.id}"
    return operation


def only_people(caller: Caller) -> None:
    """Raises Denied when the caller is an agent: a yes to a destructive act is a person's."""
    if caller.kind is not Kind.person:
        raise problems.Denied(
            "approval.needs_person", "Only a person may decide this.", hint="Open the operation in the console and decide there."
        )


class OperationQuery(BaseModel):
    """What to list, and in which order."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    status: Annotated[list[OperationStatus], Field(default=[], max_length=8, description="Only operations with one of these statuses.")]
    workflow: Annotated[str | None, Field(default=None, max_length=80, description="Only this workflow, such as cluster.create.")]
    cluster: Annotated[str | None, Field(default=None, max_length=128, description="Only operations on this cluster.")]
    mine: Annotated[bool, Field(default=False, description="Only what the caller asked for.")]
    sort: Annotated[Literal["newest", "oldest"], Field(default="newest", description="Order by time of asking.")]
    limit: Annotated[int, Field(default=50, ge=1, le=200, description="Most operations to answer.")]
    cursor: Annotated[str | None, Field(default=None, max_length=200, description="The cursor of the page before.")]


@router.get("", operation_id="operation_list", summary="List operations")
def list_operations(room: RoomDep, caller: Viewer, asked: Annotated[OperationQuery, Query()]) -> OperationPage:
    """Every operation, running and ended, with its stages. Ended ones stay."""
    wanted = OperationFilter(
        statuses=tuple(asked.status),
        workflow=asked.workflow,
        cluster=asked.cluster,
        caller=caller.id if asked.mine else None,
        oldest_first=asked.sort == "oldest",
    )
    page = room.engine.list(wanted, limit=asked.limit, cursor=asked.cursor)
    return OperationPage(tuple(page.items), page.cursor)


@router.get("/{operation_id}", operation_id="operation_get", summary="Get one operation")
def get_operation(room: RoomDep, _caller: Viewer, operation_id: OperationId) -> Operation:
    """Its status, its stages with elapsed and typical times, why it waits, and the problem and next step when it is stuck."""
    operation: Operation = room.engine.get(operation_id)
    return operation


@router.get("/{operation_id}/events", operation_id="operation_events", summary="List the events of an operation")
def list_events(
    room: RoomDep,
    _caller: Viewer,
    operation_id: OperationId,
    after: Annotated[int, Query(ge=0, le=2**53, description="Only events with a sequence above this.")] = 0,
    limit: Annotated[int, Query(ge=1, le=500, description="Most events to answer.")] = 200,
) -> EventPage:
    """What happened, in order: each stage's beginning and end, and each reason for waiting."""
    room.engine.get(operation_id)
    events = tuple(room.engine.events(operation_id, after, limit))
    return EventPage(events, events[-1].seq if events else after)


@router.post("/{operation_id}:retry", operation_id="operation_retry", summary="Retry a stopped operation", status_code=202)
def retry_operation(room: RoomDep, caller: Operator, response: Response, operation_id: OperationId) -> Operation:
    """Go on at the stage that failed or is blocked, with a fresh deadline. Nothing that is done is done again."""
    return located(response, room.engine.retry(operation_id, caller.id))


@router.post("/{operation_id}:cancel", operation_id="operation_cancel", summary="Cancel an operation", status_code=202)
def cancel_operation(room: RoomDep, caller: Operator, response: Response, operation_id: OperationId) -> Operation:
    """Stop after the act in flight. What was made stays, and can be retried or deleted."""
    return located(response, room.engine.cancel(operation_id, caller.id))


@router.post("/{operation_id}:approve", operation_id="operation_approve", summary="Approve a waiting operation", status_code=202)
def approve_operation(room: RoomDep, caller: Operator, response: Response, operation_id: OperationId) -> Operation:
    """Let an operation begin that waits for a person's yes: an administrator's, never an agent's."""
    only_people(caller)
    check_role(caller, Role.admin)
    return located(response, room.engine.approve(operation_id, caller.id))


@router.post("/{operation_id}:reject", operation_id="operation_reject", summary="Reject a waiting operation", status_code=202)
def reject_operation(room: RoomDep, caller: Operator, response: Response, operation_id: OperationId) -> Operation:
    """End an operation that waits for a person's yes, without doing anything."""
    only_people(caller)
    return located(response, room.engine.reject(operation_id, caller.id))
