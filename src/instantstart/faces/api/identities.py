"""The routes of who may enter: sign in and out, who am I, tokens, and the audit log."""

from __future__ import annotations

import datetime as dt
import threading
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field, model_validator

from instantstart.base import patterns, problems
from instantstart.capabilities.doors import Admin, Kind, Role, RoomDep, Viewer
from instantstart.faces.api.auth import COOKIE, Attempts, address_of, cookie_of
from instantstart.faces.api.problems import HttpProblem
from instantstart.store.records import AuditFilter, AuditRow, IdentityRow

router = APIRouter(tags=["identities"])

_deciding = threading.Lock()  # two revocations at once must not take the last administrator's tokens


class SignIn(BaseModel):
    """How to begin a console session: with the one-time code of a sign-in link, or with a token."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    code: Annotated[str | None, Field(default=None, min_length=8, max_length=128, description="The code of a one-time sign-in link.")]
    token: Annotated[str | None, Field(default=None, min_length=8, max_length=256, description="A token (ist_...).")]

    @model_validator(mode="after")
    def one_of_them(self) -> SignIn:
        """Exactly one of the two is given."""
        if (self.code is None) == (self.token is None):
            raise ValueError("needs either code or token")
        return self


class NewToken(BaseModel):
    """Ask for a token."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    name: Annotated[str, Field(min_length=1, max_length=80, pattern=patterns.PRINTABLE, description="Who or what will use it.")]
    role: Annotated[Role, Field(strict=False, description="viewer looks, operator acts, admin also manages tokens and forgets clusters.")]
    kind: Annotated[
        Kind, Field(default=Kind.person, strict=False, description="A person, or an agent, which can neither approve nor be an admin.")
    ]
    expires_in_days: Annotated[int | None, Field(default=None, ge=1, le=3650, description="Days until it ends; left out: it does not.")]

    @model_validator(mode="after")
    def agents_are_not_admins(self) -> NewToken:
        """Agents stay below the admin floor."""
        if self.kind is Kind.agent and self.role is Role.admin:
            raise ValueError("cannot give an agent the role admin")
        return self


@dataclass(frozen=True)
class Me:
    """The caller as the server sees it."""

    id: str
    name: str
    role: Role
    kind: Kind
    face: str
    selected_cluster: str | None
    simulated: bool


@dataclass(frozen=True)
class Session:
    """A console session; its secret is in the cookie only."""

    identity: IdentityRow
    expires_at: dt.datetime


@dataclass(frozen=True)
class IdentityList:
    """Every identity, ended ones too."""

    items: tuple[IdentityRow, ...]


@dataclass(frozen=True)
class CreatedToken:
    """A new identity and its token, which is shown this once."""

    identity: IdentityRow
    token: str


@dataclass(frozen=True)
class AuditPage:
    """One page of the audit log, newest first. ``cursor`` asks for the next one."""

    items: tuple[AuditRow, ...]
    cursor: str | None


@router.post("/session", operation_id="session_create", summary="Sign in", status_code=201)
def create_session(request: Request, response: Response, room: RoomDep, ask: SignIn) -> Session:
    """Begin a console session: sets an HttpOnly cookie. The one route that needs no identity."""
    attempts: Attempts = request.app.state.sign_in_attempts
    address = address_of(request.scope)
    if attempts.exhausted(address):
        raise HttpProblem(429, "Too many failed sign-ins from this address; wait a minute.")
    identities = room.store.identities
    identity = identities.consume_code(ask.code) if ask.code else identities.find_token(ask.token)
    if identity is None:
        attempts.failed(address)
        detail = (
            "The sign-in link was used already or has ended." if ask.code else "The token is not known here, has expired or was revoked."
        )
        raise problems.Unauthenticated(
            "identity.sign_in_failed", detail, hint="Start the server again for a new link, or sign in with a token."
        )
    attempts.succeeded(address)
    secret, expires_at = identities.create_session(identity.id)
    secure = request.url.scheme == "https"
    seconds = int((expires_at - room.clock.now()).total_seconds())
    response.set_cookie(COOKIE, secret, max_age=seconds, path="/", secure=secure, httponly=True, samesite="strict")
    return Session(identity, expires_at)


@router.delete("/session", operation_id="session_delete", summary="Sign out", status_code=204)
def delete_session(request: Request, response: Response, room: RoomDep, _caller: Viewer) -> None:
    """End the console session of the cookie. Signed out already: no change."""
    secret = cookie_of(request.headers)
    if secret is not None:
        room.store.identities.revoke_session(secret)
    response.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")


@router.get("/me", operation_id="me_get", summary="Who am I")
def get_me(room: RoomDep, caller: Viewer) -> Me:
    """The caller's identity, role and selected cluster."""
    identity = room.store.identities.find(caller.id)
    selected = identity.selected_cluster if identity else None
    return Me(caller.id, caller.name, caller.role, caller.kind, caller.face, selected, room.settings.simulated)


@router.get("/tokens", operation_id="token_list", summary="List tokens")
def list_tokens(room: RoomDep, _caller: Admin) -> IdentityList:
    """Every token's identity, ended ones too; never the token itself."""
    return IdentityList(tuple(room.store.identities.list()))


@router.post("/tokens", operation_id="token_create", summary="Create a token", status_code=201)
def create_token(room: RoomDep, _caller: Admin, ask: NewToken) -> CreatedToken:
    """A new token, shown this once; only its hash is kept."""
    ends = room.clock.now() + dt.timedelta(days=ask.expires_in_days) if ask.expires_in_days else None
    identity, token = room.store.identities.create_token(ask.name, str(ask.role), str(ask.kind), ends)
    return CreatedToken(identity, token)


@router.delete("/tokens/{identity_id}", operation_id="token_revoke", summary="Revoke a token")
def revoke_token(
    room: RoomDep, _caller: Admin, identity_id: Annotated[str, Path(max_length=64, description="Id of the token's identity.")]
) -> IdentityRow:
    """End a token and the sessions it began, at once. The last administrator's token is kept."""
    with _deciding:
        keep_one_admin(room, identity_id)
        revoked: IdentityRow = room.store.identities.revoke(identity_id)
    return revoked


def keep_one_admin(room: Any, identity_id: str) -> None:
    """Raises Conflict when revoking ``identity_id`` would leave nobody who can make tokens."""
    now = room.clock.now()
    alive = [i for i in room.store.identities.list() if not i.revoked_at and (i.expires_at is None or i.expires_at > now)]
    admins = [i.id for i in alive if i.role == Role.admin]
    if admins == [identity_id]:
        raise problems.Conflict("identity.last_admin", "This is the last administrator's token.", hint="Create another admin token first.")


class AuditQuery(BaseModel):
    """Which lines to list."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    identity: Annotated[str | None, Field(default=None, max_length=64, description="Only calls of this identity.")]
    face: Annotated[str | None, Field(default=None, max_length=16, description="Only calls through this face: api, console, cli or mcp.")]
    operation_id: Annotated[str | None, Field(default=None, max_length=64, description="Only calls that began or touched this operation.")]
    limit: Annotated[int, Field(default=50, ge=1, le=200, description="Most lines to answer.")]
    cursor: Annotated[str | None, Field(default=None, max_length=200, description="The cursor of the page before.")]


@router.get("/audit", operation_id="audit_list", summary="List the audit log")
def list_audit(room: RoomDep, _caller: Admin, asked: Annotated[AuditQuery, Query()]) -> AuditPage:
    """Who changed what, through which face, with which answer."""
    wanted = AuditFilter(caller=asked.identity, face=asked.face, operation_id=asked.operation_id)
    page = room.store.audit.list(wanted, limit=asked.limit, cursor=asked.cursor)
    return AuditPage(tuple(page.items), page.cursor)
