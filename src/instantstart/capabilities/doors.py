"""What a route may ask of its request: the room, the caller, the role it takes. Routes import this, never a face."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

from fastapi import Depends, Header, Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from instantstart.base import problems
from instantstart.operations.desk import hash_of
from instantstart.store.records import ClusterRow

if TYPE_CHECKING:
    from pydantic import BaseModel

    from instantstart.capabilities.room import Room
    from instantstart.operations.record import Operation


class Role(StrEnum):
    """What an identity may do, in rising order."""

    viewer = "viewer"
    operator = "operator"
    admin = "admin"


_RANK = {Role.viewer: 0, Role.operator: 1, Role.admin: 2}


class Kind(StrEnum):
    """Who is behind a token: a person, or an agent (which never reaches the admin floor)."""

    person = "person"
    agent = "agent"


@dataclass(frozen=True)
class Caller:
    """A verified identity and the face it came through (``api``, ``console``, ``cli`` or ``mcp``)."""

    id: str
    name: str
    role: Role
    kind: Kind
    face: str


def get_room(request: Request) -> Room:
    """The one Room, put on the app by the composition root."""
    return cast("Room", request.app.state.room)


def get_caller(request: Request) -> Caller:
    """The identity that the authentication middleware verified. Raises Unauthenticated when there is none."""
    caller = getattr(request.state, "caller", None)
    if caller is None:
        raise problems.Unauthenticated("identity.missing", "Sign in, or send a token: Authorization: Bearer ist_...")
    return cast("Caller", caller)


def check_role(caller: Caller, role: Role) -> None:
    """Raises Denied when ``caller`` stands below ``role``."""
    if _RANK[caller.role] < _RANK[role]:
        raise problems.Denied(
            "identity.role_too_low",
            f"This takes the role {role}; {caller.name} has {caller.role}.",
            hint="Ask an administrator for a token with that role.",
        )


def require(role: Role, agent: Role | None = None) -> Callable[..., Caller]:
    """A dependency that lets a caller of at least ``role`` through, or an agent of at least ``agent``. Raises Denied otherwise."""

    def check(caller: Annotated[Caller, Depends(get_caller)]) -> Caller:
        check_role(caller, agent if agent is not None and caller.kind is Kind.agent else role)
        return caller

    check.required_role = role  # type: ignore[attr-defined]
    return check


def _operator_in_person(caller: Annotated[Caller, Depends(get_caller)]) -> Caller:
    """An operator who is no agent. Raises Denied."""
    if caller.kind is Kind.agent:
        raise problems.Denied("identity.agent", "An agent may not do this: what it handles is a credential.", hint="A person does it.")
    check_role(caller, Role.operator)
    return caller


_operator_in_person.required_role = Role.operator  # type: ignore[attr-defined]

RoomDep = Annotated[Any, Depends(get_room)]
Viewer = Annotated[Caller, Depends(require(Role.viewer))]
Operator = Annotated[Caller, Depends(require(Role.operator))]
#: for what hands out a credential, or takes one
OperatorInPerson = Annotated[Caller, Depends(_operator_in_person)]
Admin = Annotated[Caller, Depends(require(Role.admin))]
#: for what destroys: an administrator; or an agent, whose operation then waits for an administrator's yes
AdminOrAgent = Annotated[Caller, Depends(require(Role.admin, agent=Role.operator))]
ClusterPath = Annotated[str, Path(max_length=128, description="Tag of the cluster.")]
DryRun = Annotated[bool, Query(description="Answer a plan of what would change, and change nothing.")]


class Key(str):
    """An Idempotency-Key, with the hash of the request that brought it: all but its approval, which is good only once."""

    request_hash: str


class RepeatedError(Exception):
    """A request under a key that became an operation already: that one is the answer, whatever a plan would say by now."""

    def __init__(self, operation: Operation) -> None:
        super().__init__(operation.id)
        self.operation = operation


async def once(
    request: Request, room: RoomDep, caller: Annotated[Caller, Depends(get_caller)],
    key: Annotated[
        str | None,
        Header(alias="Idempotency-Key", max_length=128, description="Repeat with the same key: the same answer, nothing done twice."),
    ] = None,
) -> Key | None:  # fmt: skip
    """The key of this request. Raises RepeatedError when it became an operation, Conflict when it stood for another request."""
    if not key:
        return None
    query = sorted((name, value) for name, value in request.query_params.multi_items() if name != "approval")
    known = Key(key)
    known.request_hash = hash_of([request.method, request.url.path, query, _canonical(await request.body())])
    if "dry_run" not in request.query_params:
        operation = await run_in_threadpool(room.engine.repeated, known, caller.id, known.request_hash)
        if operation is not None:
            raise RepeatedError(operation)
    return known


def _canonical(body: bytes) -> Any:
    """The body as a value, so that spaces and the order of fields do not count; what is no JSON as it came."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return body.hex()


IdempotencyKey = Annotated[Key | None, Depends(once)]
Approval = Annotated[str | None, Query(max_length=128, description="The approval that the plan (dry_run) gave, where it gave one.")]


_APPROVAL_MINUTES = 15
#: between using up an approval and keeping its operation lie a few writes
_TWIN_LOOKS, _TWIN_PAUSE_SECONDS = 30, 0.1
P = TypeVar("P")


def accepted(response: Response, operation: Operation) -> Operation:
    """Answer 202 with the operation's address in Location."""
    response.status_code = 202
    response.headers["Location"] = f"/api/v1/operations/{operation.id}"
    return operation


def promise(response: Response, plan: P) -> P:
    """Answer a plan: 200, nothing was changed."""
    response.status_code = 200
    return plan


def approve(room: Room, caller: Caller, exact: str, plan: P) -> P:
    """The plan with a single-use approval for this caller and this exact request, good for fifteen minutes."""
    until = room.clock.now() + dt.timedelta(minutes=_APPROVAL_MINUTES)
    _, secret = room.store.approvals.create(caller.id, exact, exact, until)
    return dataclasses.replace(plan, approval=secret, approval_expires_at=until)  # type: ignore[type-var]


@dataclass(frozen=True)
class Wish:
    """A request that starts an operation. ``exact`` and ``approval``: for what destroys, the request in words and its plan's approval."""

    workflow: str
    #: its tag is the cluster that the operation is shown with; one without a tag belongs to the account
    target: BaseModel
    key: str | None = None
    exact: str | None = None
    approval: str | None = None


@dataclass(frozen=True)
class Asking:
    """Who asks, and how."""

    room: Room
    caller: Caller
    response: Response
    key: str | None = None
    dry_run: bool = False
    approval: str | None = None


def making_way(room: Room, workflow: str, target: BaseModel, plan: P) -> P:
    """The plan, with the operations that the wish would cancel first, since it overtakes them."""
    ended = [f"Operation {o.id} ({o.title}, {o.status}) is cancelled first." for o in room.engine.overtaken(workflow, target)]
    return dataclasses.replace(plan, change=(*ended, *plan.change)) if ended else plan  # type: ignore[type-var, attr-defined]


def end(asking: Asking, wish: Wish, plan: Callable[[], P]) -> P | Operation:
    """What destroys, whole: the plan with its approval, or the operation, which takes that approval."""
    room = asking.room
    if asking.dry_run:
        told = making_way(room, wish.workflow, wish.target, plan())
        return promise(asking.response, approve(room, asking.caller, str(wish.exact), told))
    return begin_approved(room, asking.caller, asking.response, dataclasses.replace(wish, key=asking.key, approval=asking.approval))


def begin(room: Room, caller: Caller, response: Response, wish: Wish, waits: bool = False) -> Operation:
    """Start, register, and answer 202 with the operation's address. ``waits``: for an administrator's yes."""
    target, tag = wish.target, getattr(wish.target, "tag", None)
    request_hash = wish.key.request_hash if isinstance(wish.key, Key) else None
    operation, created = room.engine.start(
        wish.workflow, target, caller=caller.id, cluster=tag, key=wish.key, request_hash=request_hash, approval=waits
    )
    if created and tag is not None and room.store.clusters.find(tag) is None:
        room.store.clusters.upsert(ClusterRow(tag=tag, region=target.region))  # type: ignore[attr-defined]
    return accepted(response, operation)


def begin_approved(room: Room, caller: Caller, response: Response, wish: Wish) -> Operation:
    """The same for what destroys. Raises Conflict without its plan's approval; what an agent asks for waits for a person's yes."""
    check_approval(room, caller, wish)
    return begin(room, caller, response, wish, waits=caller.kind is Kind.agent)


def check_approval(room: Room, caller: Caller, wish: Wish, because: str = "This cannot be taken back") -> None:
    """Use up the approval of a plan for this caller and this exact request. Raises Conflict when there is none.

    Raises RepeatedError for the same request sent again while the first is still being begun.
    """
    exact, approval = str(wish.exact), wish.approval
    if approval is not None and room.store.approvals.consume(approval, caller.id, exact):
        return
    if approval is not None and room.store.approvals.is_used(approval, caller.id, exact):
        _await_twin(room, caller, wish.key)
    given = "The approval is used up, older than 15 minutes, or was given to another caller or for another request"
    raise problems.Conflict(
        "approval.missing",
        f"{because if approval is None else given}: it needs the approval that its own plan gives, once.",
        hint="Ask again with dry_run=true, read the plan, and pass its approval.",
        evidence={"request": exact},
    )


def _await_twin(room: Room, caller: Caller, key: str | None) -> None:
    """The approval went to a request of the same key, which is an operation in a moment: the answer was lost and it is sent again."""
    if not isinstance(key, Key):
        return
    for _ in range(_TWIN_LOOKS):
        operation = room.engine.repeated(key, caller.id, key.request_hash)
        if operation is not None:
            raise RepeatedError(operation)
        time.sleep(_TWIN_PAUSE_SECONDS)
