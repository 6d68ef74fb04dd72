"""The routes of sessions: sign in and out, who am I, which sessions there are, and ending them."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field, model_validator

from instantstart.base import log, patterns, problems
from instantstart.capabilities.doors import Caller, Kind, Role, RoomDep, Viewer, check_role
from instantstart.faces.api.auth import COOKIE, Attempts, cookie_of
from instantstart.faces.api.origin import address_of, network_of
from instantstart.faces.api.problems import HttpProblem
from instantstart.faces.api.sign_in import browser_proof, forget_sign_in, is_secure
from instantstart.store.records import Entrance, IdentityRow, SessionRow

router = APIRouter(tags=["sessions"])
IdentityPath = Annotated[str, Path(max_length=64, description="Id of the identity.")]


class SignIn(BaseModel):
    """How to begin a session: with a one-time code, or with a token."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    code: Annotated[
        str | None,
        Field(default=None, min_length=8, max_length=128, description="The one-time code of a link, or of a sign-in at the provider."),
    ]
    token: Annotated[str | None, Field(default=None, min_length=8, max_length=256, description="A token (ist_...).")]
    proof: Annotated[
        str | None,
        Field(
            default=None,
            min_length=43,
            max_length=128,
            pattern=patterns.ID,
            description="A command line's own secret that its sign-in began with.",
        ),
    ]

    @model_validator(mode="after")
    def one_of_them(self) -> SignIn:
        """Exactly one of the two is given."""
        if (self.code is None) == (self.token is None):
            raise ValueError("needs either code or token")
        if self.proof is not None and self.code is None:
            raise ValueError("needs a code beside proof")
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
    #: signs in at the identity provider
    vouched: bool = False


@dataclass(frozen=True)
class Session:
    """A new session. A browser's secret is in its cookie only; a command line's is ``bearer``, shown this once."""

    identity: IdentityRow
    expires_at: dt.datetime
    bearer: str | None = None


@dataclass(frozen=True)
class SessionView:
    """A session that is open. ``current``: the one that asks. ``client`` console or cli; ``via`` link, token or oidc."""

    id: str
    identity_id: str
    name: str
    role: Role
    client: str | None
    via: str | None
    address: str | None
    agent: str | None
    created_at: dt.datetime
    last_seen_at: dt.datetime | None
    expires_at: dt.datetime
    current: bool


@dataclass(frozen=True)
class SessionPage:
    """One page of sessions, newest first. ``cursor`` asks for the next one."""

    items: tuple[SessionView, ...]
    cursor: str | None


@dataclass(frozen=True)
class SessionsEnded:
    """How many sessions were ended."""

    ended: int


@router.post("/session", operation_id="session_create", summary="Sign in", status_code=201)
def create_session(request: Request, response: Response, room: RoomDep, ask: SignIn) -> Session:
    """Begin a session of a person. A browser gets an HttpOnly cookie; a command line, with its ``proof``, a bearer."""
    identity = _identified(request, room, ask)
    client = "cli" if ask.proof else "console"
    request.state.caller = Caller(identity.id, identity.name, Role(identity.role), Kind(identity.kind), client)  # for the audit log
    via = "oidc" if identity.issuer else "link" if ask.code else "token"
    agent = "".join(c for c in request.headers.get("user-agent", "") if c.isprintable())[:200]
    entrance = Entrance(client, via, address_of(request.scope), str(log.redact(agent)))
    secret, expires_at = room.store.identities.create_session(identity.id, room.settings.session_hours * 3600, entrance)
    if client == "cli":
        return Session(identity, expires_at, secret)
    seconds = int((expires_at - room.clock.now()).total_seconds())
    secure = is_secure(request, room.settings)
    response.set_cookie(COOKIE, secret, max_age=seconds, path="/", secure=secure, httponly=True, samesite="strict")
    forget_sign_in(response)
    return Session(identity, expires_at)


def _identified(request: Request, room: Any, ask: SignIn) -> IdentityRow:
    attempts: Attempts = request.app.state.sign_in_attempts
    address = network_of(address_of(request.scope))
    if attempts.exhausted(address):
        raise HttpProblem(429, "Too many failed sign-ins from this address; wait a minute.")
    identities = room.store.identities
    proof = ask.proof or browser_proof(request)
    identity: IdentityRow | None = identities.consume_code(ask.code, proof) if ask.code else identities.find_token(ask.token)
    if identity is None:
        attempts.failed(address)
        detail = (
            "The sign-in link was used already or has ended." if ask.code else "The token is not known here, has expired or was revoked."
        )
        raise problems.Unauthenticated(
            "identity.sign_in_failed", detail, hint="Start the server again for a new link, or sign in with a token."
        )
    attempts.succeeded(address)
    if identity.kind == Kind.agent:
        raise problems.Denied("identity.agent_has_no_session", "Sessions are for people; an agent sends its token.")
    return identity


@router.delete("/session", operation_id="session_delete", summary="Sign out", status_code=204)
def delete_session(request: Request, response: Response, room: RoomDep, _caller: Viewer) -> None:
    """End the caller's own session. Signed out already, or entered with a token: no change."""
    secret = cookie_of(request.headers)
    if secret is not None:
        room.store.identities.revoke_session(secret)
    session_id = getattr(request.state, "session_id", None)
    if session_id is not None:
        room.store.identities.end_session(session_id)
    response.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")


@router.get("/me", operation_id="me_get", summary="Who am I")
def get_me(room: RoomDep, caller: Viewer) -> Me:
    """The caller's identity, role and selected cluster."""
    identity = room.store.identities.find(caller.id)
    selected = identity.selected_cluster if identity else None
    vouched = identity is not None and identity.issuer is not None
    return Me(caller.id, caller.name, caller.role, caller.kind, caller.face, selected, room.settings.simulated, vouched)


class SessionQuery(BaseModel):
    """Which sessions to list."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    whose: Annotated[Literal["mine", "all"], Field(default="mine", description="The caller's own, or everybody's (administrators).")]
    identity: Annotated[
        str | None, Field(default=None, max_length=64, pattern=patterns.ID, description="Only of this identity (administrators).")
    ]
    limit: Annotated[int, Field(default=50, ge=1, le=200, description="Most sessions to answer.")]
    cursor: Annotated[str | None, Field(default=None, max_length=400, description="The cursor of the page before.")]


@router.get("/sessions", operation_id="session_list", summary="List sessions")
def list_sessions(request: Request, room: RoomDep, caller: Viewer, asked: Annotated[SessionQuery, Query()]) -> SessionPage:
    """Open sessions of people: one's own, and for administrators everybody's."""
    whose = asked.identity if asked.identity is not None else None if asked.whose == "all" else caller.id
    if whose != caller.id:
        check_role(caller, Role.admin)
    page = room.store.identities.list_sessions(whose, asked.limit, asked.cursor)
    current = getattr(request.state, "session_id", None)
    return SessionPage(tuple(_view(each, current) for each in page.items), page.cursor)


def _view(row: SessionRow, current: str | None) -> SessionView:
    who = row.identity
    return SessionView(
        row.id, who.id, who.name, Role(who.role), row.client, row.via, row.address, row.agent, row.created_at, row.last_seen_at,
        row.expires_at, row.id == current,
    )  # fmt: skip


@router.delete("/sessions/{session_id}", operation_id="session_revoke", summary="End a session", status_code=204)
def revoke_session(
    room: RoomDep, caller: Viewer, session_id: Annotated[str, Path(max_length=64, pattern=patterns.ID, description="Id of the session.")]
) -> None:
    """End one session at once, with what it holds open: one's own, or as an administrator anybody's."""
    owner = room.store.identities.find_session_owner(session_id)
    if owner is None or (owner != caller.id and caller.role is not Role.admin):
        raise problems.NotFound("session.unknown", f"You have no open session {session_id}.")
    room.store.identities.end_session(session_id)


@router.delete("/tokens/{identity_id}/sessions", operation_id="identity_sessions_revoke", summary="End all sessions of an identity")
def revoke_sessions(request: Request, room: RoomDep, caller: Viewer, identity_id: IdentityPath) -> SessionsEnded:
    """End every session of an identity at once, except the one that asks. One's own, or as an administrator anybody's."""
    _check_own_or_admin(room, caller, identity_id)
    return SessionsEnded(room.store.identities.end_sessions(identity_id, getattr(request.state, "session_id", None)))


def _check_own_or_admin(room: Any, caller: Caller, identity_id: str) -> None:
    if identity_id != caller.id:
        check_role(caller, Role.admin)
        if room.store.identities.find(identity_id) is None:
            raise problems.NotFound("identity.unknown", f"There is no identity {identity_id}.")
