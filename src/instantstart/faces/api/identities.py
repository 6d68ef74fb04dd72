"""The routes of who may enter: people and agents, their roles, and the tokens they enter with."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field, model_validator

from instantstart.base import patterns, problems
from instantstart.capabilities.doors import Admin, Kind, Role, RoomDep
from instantstart.capabilities.vocabulary import Change
from instantstart.faces.api.sessions import IdentityPath
from instantstart.store.records import IdentityFilter, IdentityRow

router = APIRouter(prefix="/tokens", tags=["identities"])

Name = Annotated[str, Field(min_length=1, max_length=80, pattern=patterns.PRINTABLE, description="Who or what will use it.")]
Note = Annotated[str | None, Field(default=None, max_length=300, pattern=patterns.ONE_LINE, description="What it is for, or whom to ask.")]
Days = Annotated[int | None, Field(default=None, ge=1, le=3650, description="Days until it ends; left out: it does not.")]
_ROLE = "viewer looks, operator acts, admin also manages tokens and forgets clusters."


class NewToken(BaseModel):
    """Ask for a token."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    name: Name
    role: Annotated[Role, Field(strict=False, description=_ROLE)]
    kind: Annotated[
        Kind, Field(default=Kind.person, strict=False, description="A person, or an agent, which can neither approve nor be an admin.")
    ]
    expires_in_days: Days
    note: Note

    @model_validator(mode="after")
    def agents_are_not_admins(self) -> NewToken:
        """Agents stay below the admin floor."""
        if self.kind is Kind.agent and self.role is Role.admin:
            raise ValueError("cannot give an agent the role admin")
        return self


class ChangeToken(Change):
    """What to change of an identity; what is left out stays as it is."""

    name: Annotated[str | None, Field(default=None, min_length=1, max_length=80, pattern=patterns.PRINTABLE, description="Another name.")]
    role: Annotated[Role | None, Field(default=None, strict=False, description=f"Another role, at once: {_ROLE}")]
    note: Note
    disabled: Annotated[bool | None, Field(default=None, description="true keeps it out, and ends its sessions, until it is false again.")]

    def says(self, name: str) -> bool:
        """null takes the note away."""
        return name == "note" or super().says(name)


class RotateToken(BaseModel):
    """Ask for a new token in place of the old one."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    expires_in_days: Annotated[
        int | None, Field(default=None, ge=1, le=3650, description="Days until it ends; left out: as long as the old one was given.")
    ]
    never_expires: Annotated[bool, Field(default=False, description="The new one does not end.")]

    @model_validator(mode="after")
    def one_end(self) -> RotateToken:
        """It ends once, or never."""
        if self.never_expires and self.expires_in_days is not None:
            raise ValueError("cannot both end and never end: leave out expires_in_days or never_expires")
        return self


@dataclass(frozen=True)
class IdentityList:
    """One page of identities, ended ones too. ``cursor`` asks for the next one."""

    items: tuple[IdentityRow, ...]
    cursor: str | None


@dataclass(frozen=True)
class CreatedToken:
    """An identity and its token, which is shown this once."""

    identity: IdentityRow
    token: str


class IdentityQuery(BaseModel):
    """Which identities to list."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    role: Annotated[Role | None, Field(default=None, description="Only this role.")]
    kind: Annotated[Kind | None, Field(default=None, description="Only people, or only agents.")]
    state: Annotated[
        Literal["active", "disabled", "expired", "revoked"] | None, Field(default=None, description="Only those that are so now.")
    ]
    text: Annotated[str | None, Field(default=None, max_length=100, pattern=patterns.ONE_LINE, description="In the name, note or id.")]
    sort: Annotated[
        Literal["created_at", "name", "role", "kind", "last_used_at"], Field(default="created_at", description="What they are ordered by.")
    ]
    descending: Annotated[bool, Field(default=False, description="The other way round.")]
    limit: Annotated[int, Field(default=100, ge=1, le=200, description="Most identities to answer.")]
    cursor: Annotated[str | None, Field(default=None, max_length=400, description="The cursor of the page before.")]


@router.get("", operation_id="token_list", summary="List people, agents and tokens")
def list_tokens(room: RoomDep, _caller: Admin, asked: Annotated[IdentityQuery, Query()]) -> IdentityList:
    """Who may enter, ended ones too; never a token itself."""
    wanted = IdentityFilter(asked.role, asked.kind, asked.state, asked.text, asked.sort, asked.descending)
    page = room.store.identities.page(wanted, asked.limit, asked.cursor)
    return IdentityList(tuple(page.items), page.cursor)


@router.post("", operation_id="token_create", summary="Create a token", status_code=201)
def create_token(room: RoomDep, _caller: Admin, ask: NewToken) -> CreatedToken:
    """A new token, shown this once; only its hash is kept."""
    ends = _ends(room, ask.expires_in_days)
    identity, token = room.store.identities.create_token(ask.name, str(ask.role), str(ask.kind), ends, ask.note)
    return CreatedToken(identity, token)


def _ends(room: Any, days: int | None) -> dt.datetime | None:
    return room.clock.now() + dt.timedelta(days=days) if days else None


def _as_long(room: Any, known: IdentityRow) -> dt.datetime | None:
    lifetime = known.lifetime
    return room.clock.now() + lifetime if lifetime else None


@router.get("/{identity_id}", operation_id="token_get", summary="Get a person or agent")
def get_token(room: RoomDep, _caller: Admin, identity_id: IdentityPath) -> IdentityRow:
    """One identity: role, kind, last use, end; never the token itself."""
    return _known(room, identity_id)


@router.patch("/{identity_id}", operation_id="token_update", summary="Change a person or agent")
def update_token(room: RoomDep, _caller: Admin, identity_id: IdentityPath, ask: ChangeToken) -> IdentityRow:
    """Rename, note, disable or enable, or give another role, which holds at once. One administrator stays."""
    with room.store.transaction(lock="administrators"):
        known = _known(room, identity_id)
        _check_change(room, known, ask)
        changes: dict[str, Any] = {name: str(value) for name in ("name", "role") if (value := getattr(ask, name)) is not None}
        if "note" in ask.model_fields_set:
            changes["note"] = ask.note or None
        if ask.disabled is False:
            changes["disabled_at"] = None
        changed: IdentityRow = room.store.identities.change(identity_id, changes)
        return room.store.identities.disable(identity_id) if ask.disabled else changed


def _check_change(room: Any, known: IdentityRow, ask: ChangeToken) -> None:
    if known.revoked_at is not None:
        raise problems.Conflict("identity.revoked", "That identity was revoked, which is for good.", hint="Create another.")
    if ask.role is Role.admin and known.kind == Kind.agent:
        violation = problems.Violation("/role", "An agent cannot be an administrator.")
        raise problems.Invalid("request.invalid", violation.message, title="The request is not valid", fields=[violation])
    if known.issuer is not None and (ask.role or ask.name):
        raise problems.Conflict(
            "identity.vouched_elsewhere",
            "The name and role of this person come from the identity provider, at each sign-in.",
            hint="Change the claim there, or INSTANTSTART_OIDC_ROLES; to keep somebody out, disable.",
        )
    if ask.disabled or ask.role not in (None, Role.admin):
        keep_one_admin(room, known.id)


@router.post("/{identity_id}:rotate", operation_id="token_rotate", summary="Rotate a token")
def rotate_token(request: Request, room: RoomDep, _caller: Admin, identity_id: IdentityPath, ask: RotateToken) -> CreatedToken:
    """A new token for the same identity, shown this once, which lasts as long as the old one was given, unless told otherwise.

    The old one and every other session of the identity end at once.
    """
    known = _known(room, identity_id)
    if known.revoked_at is not None or known.issuer is not None:
        why = "was revoked" if known.revoked_at else "signs in at the identity provider and has no token"
        raise problems.Conflict("identity.no_token", f"{known.name} {why}.", hint="Create a token.")
    own = getattr(request.state, "session_id", None)
    ends = None if ask.never_expires else _ends(room, ask.expires_in_days) if ask.expires_in_days else _as_long(room, known)
    identity, token = room.store.identities.rotate(identity_id, ends, own)
    return CreatedToken(identity, token)


@router.delete("/{identity_id}", operation_id="token_revoke", summary="Revoke a token")
def revoke_token(room: RoomDep, _caller: Admin, identity_id: IdentityPath) -> IdentityRow:
    """End an identity, its token and its sessions, at once and for good. The last administrator's token is kept."""
    with room.store.transaction(lock="administrators"):
        keep_one_admin(room, identity_id)
        revoked: IdentityRow = room.store.identities.revoke(identity_id)
    return revoked


def _known(room: Any, identity_id: str) -> IdentityRow:
    known: IdentityRow | None = room.store.identities.find(identity_id)
    if known is None:
        raise problems.NotFound("identity.unknown", f"There is no identity {identity_id}.")
    return known


def keep_one_admin(room: Any, identity_id: str) -> None:
    """Raises Conflict when without ``identity_id`` nobody is left who can make tokens (store.identities.administrators says who counts)."""
    if list(room.store.identities.administrators()) == [identity_id]:
        raise problems.Conflict("identity.last_admin", "This is the last administrator's token.", hint="Create another admin token first.")
