"""Queries over identities: people and agents, and what they enter with. Secrets are stored as hashes only."""

from __future__ import annotations

import datetime as dt
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from instantstart.base import problems
from instantstart.store import tables
from instantstart.store.connection import new_id
from instantstart.store.paging import after_key, key_page
from instantstart.store.records import IdentityFilter, IdentityRow, Page
from instantstart.store.sessions import CODE_SECONDS, SESSION_SECONDS, SHOWN, Sessions, hash_of

__all__ = ["CODE_SECONDS", "SESSION_SECONDS", "Identities", "hash_of"]

TOKEN_PREFIX = "ist_"  # noqa: S105 - the public prefix of our tokens, not one of them
#: the administrator whose token the settings give
GIVEN_ADMIN = "id-0000000000000000"
_USE_NOTED_EVERY = dt.timedelta(minutes=1)
_IDENTITIES = tables.identities
_COLUMN = _IDENTITIES.c
_NEVER = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
#: column -> what rows are ordered by (never empty, so that a cursor can name it)
_SORTS: Mapping[str, Any] = {
    "created_at": _COLUMN.created_at,
    "name": sa.func.lower(_COLUMN.name),
    "role": _COLUMN.role,
    "kind": _COLUMN.kind,
    "last_used_at": sa.func.coalesce(_COLUMN.last_used_at, sa.bindparam("never", _NEVER, type_=tables.Moment), type_=tables.Moment),
}


class Identities(Sessions):
    """``store.identities``."""

    def create_token(
        self, name: str, role: str, kind: str, expires_at: dt.datetime | None = None, note: str | None = None
    ) -> tuple[IdentityRow, str]:
        """A new identity and its token. The token is in this answer and nowhere else."""
        secret = TOKEN_PREFIX + secrets.token_urlsafe(32)
        identity = IdentityRow(new_id("id"), name, role, kind, self._connector.now(), expires_at, note=note)
        return self._insert(identity, secret), secret

    def given(self, secret: str) -> IdentityRow | None:
        """The administrator whose token is ``secret``, given by whoever set the server up; made, or given this token in place of another.

        None when that administrator was revoked or disabled here, which a restart does not undo.
        """
        with self._connector.transaction():
            if known := self._one(_COLUMN.secret_hash == hash_of(secret)):
                return self.living((_COLUMN.id == known.id) & (_COLUMN.role == "admin"))
            if self.find(GIVEN_ADMIN) is None:
                made = IdentityRow(GIVEN_ADMIN, "administrator of the settings", "admin", "person", self._connector.now())
                return self._insert(made, secret)
            if self.living(_COLUMN.id == GIVEN_ADMIN) is None:
                return None
            self.end_sessions(GIVEN_ADMIN)
            return self.change(GIVEN_ADMIN, {"secret_hash": hash_of(secret), "token_made_at": self._connector.now()})

    def _insert(self, identity: IdentityRow, secret: str) -> IdentityRow:
        values = {column.name: getattr(identity, column.name) for column in SHOWN}
        with self._connector.transaction() as connection:
            connection.execute(sa.insert(_IDENTITIES).values(secret_hash=hash_of(secret), **values))
        return identity

    def vouched(self, issuer: str, subject: str, name: str, role: str) -> IdentityRow | None:
        """The person that ``issuer`` calls ``subject``, with today's name and role; made at the first sign-in.

        None when this person was disabled or revoked here: the provider's word does not undo that.
        """
        whose = (_COLUMN.issuer == issuer) & (_COLUMN.subject == subject)
        with self._connector.transaction(lock="vouched"):
            known = self._one(whose)
            if known is None:
                made = IdentityRow(new_id("id"), name, role, "person", self._connector.now(), issuer=issuer, subject=subject)
                return self._insert(made, secrets.token_urlsafe(32))  # no token of ours opens it
            return self.change(known.id, {"name": name, "role": role}) if self.living(whose) else None

    def find_token(self, secret: str) -> IdentityRow | None:
        """Whose token this is; None when it is unknown, revoked, disabled or expired. Notes the use, at most once a minute."""
        identity = self.living(_COLUMN.secret_hash == hash_of(secret))
        if identity is not None:
            now = self._connector.now()
            if identity.last_used_at is None or now - identity.last_used_at > _USE_NOTED_EVERY:
                self.noted(sa.update(_IDENTITIES).where(_COLUMN.id == identity.id).values(last_used_at=now))
        return identity

    def find(self, identity_id: str) -> IdentityRow | None:
        """The identity, living or not, or None."""
        return self._one(_COLUMN.id == identity_id)

    def _one(self, wanted: sa.ColumnElement[bool]) -> IdentityRow | None:
        with self._connector.read() as connection:
            row = connection.execute(sa.select(*SHOWN).where(wanted)).mappings().one_or_none()
        return IdentityRow(**row) if row else None

    def _known(self, identity_id: str) -> IdentityRow:
        found = self.find(identity_id)
        if found is None:
            raise problems.NotFound("identity.unknown", f"There is no identity {identity_id}.")
        return found

    def change(self, identity_id: str, changes: Mapping[str, Any]) -> IdentityRow:
        """Set the columns of ``changes``. Raises NotFound (identity.unknown)."""
        with self._connector.transaction() as connection:
            if changes:
                connection.execute(sa.update(_IDENTITIES).where(_COLUMN.id == identity_id).values(**changes))
            return self._known(identity_id)

    def disable(self, identity_id: str) -> IdentityRow:
        """Keep an identity out, and end its sessions, until it is enabled again. Raises NotFound."""
        with self._connector.transaction():
            if self._known(identity_id).disabled_at is None:
                self.change(identity_id, {"disabled_at": self._connector.now()})
            self.end_sessions(identity_id)
            return self._known(identity_id)

    def rotate(self, identity_id: str, expires_at: dt.datetime | None, but_session: str | None = None) -> tuple[IdentityRow, str]:
        """A new token for an identity; the old one, and sessions (except ``but_session``), end at once. Raises NotFound."""
        secret = TOKEN_PREFIX + secrets.token_urlsafe(32)
        with self._connector.transaction():
            made = {"secret_hash": hash_of(secret), "expires_at": expires_at, "token_made_at": self._connector.now()}
            identity = self.change(identity_id, made)
            self.end_sessions(identity_id, but_session)
        return identity, secret

    def revoke(self, identity_id: str) -> IdentityRow:
        """End the token and every session of an identity. Again: no change. Raises NotFound (identity.unknown)."""
        with self._connector.transaction() as connection:
            living = sa.update(_IDENTITIES).where(_COLUMN.id == identity_id, _COLUMN.revoked_at.is_(None))
            connection.execute(living.values(revoked_at=self._connector.now()))
            self.end_sessions(identity_id)
            return self._known(identity_id)

    def select_cluster(self, identity_id: str, tag: str | None) -> None:
        """Remember which cluster this identity works on by default; None forgets it."""
        self.change(identity_id, {"selected_cluster": tag})

    def unselect_cluster(self, tag: str) -> None:
        """Forget a cluster that is gone, for everybody who had selected it."""
        with self._connector.transaction() as connection:
            connection.execute(sa.update(_IDENTITIES).where(_COLUMN.selected_cluster == tag).values(selected_cluster=None))

    def has_administrator(self) -> bool:
        """Whether somebody can enter as an administrator with a token of ours now."""
        return self.administrators() != []

    def administrators(self) -> Sequence[str]:
        """Ids of those who can enter as administrators with a token of ours now.

        Those by the word of an identity provider are not counted: what it says tomorrow is not in our hands.
        """
        ours = (_COLUMN.role == "admin", _COLUMN.issuer.is_(None), *self._narrowed(IdentityFilter(state="active")))
        with self._connector.read() as connection:
            return connection.execute(sa.select(_COLUMN.id).where(*ours)).scalars().all()

    def list(self) -> list[IdentityRow]:
        """Every identity, living or not, oldest first."""
        with self._connector.read() as connection:
            rows = connection.execute(sa.select(*SHOWN).order_by(_COLUMN.created_at, _COLUMN.id)).mappings()
            return [IdentityRow(**row) for row in rows]

    def page(self, wanted: IdentityFilter, limit: int = 50, cursor: str | None = None) -> Page[IdentityRow]:
        """One page of those that match, in the asked order. Raises Invalid for a cursor that is not ours."""
        key = _SORTS[wanted.sort].label("sort_key")
        query = sa.select(*SHOWN, key).where(*self._narrowed(wanted))
        query = after_key(query, (_SORTS[wanted.sort], _COLUMN.id), cursor, falling=wanted.falling)
        with self._connector.read() as connection:
            rows = connection.execute(query.limit(limit + 1)).mappings().all()
        page = key_page(rows, limit)
        shown = tuple(IdentityRow(**{column.name: row[column.name] for column in SHOWN}) for row in page.items)
        return Page(shown, page.cursor)

    def _narrowed(self, wanted: IdentityFilter) -> tuple[sa.ColumnElement[bool], ...]:
        now = self._connector.now()
        unrevoked = _COLUMN.revoked_at.is_(None)
        expired = sa.and_(_COLUMN.expires_at.is_not(None), _COLUMN.expires_at <= now)
        states = {
            "revoked": _COLUMN.revoked_at.is_not(None),
            "expired": sa.and_(unrevoked, expired),
            "disabled": sa.and_(unrevoked, sa.not_(expired), _COLUMN.disabled_at.is_not(None)),
            "active": sa.and_(unrevoked, sa.not_(expired), _COLUMN.disabled_at.is_(None)),
        }
        named = {"role": wanted.role, "kind": wanted.kind}
        found = [_COLUMN[name] == value for name, value in named.items() if value is not None]
        found += [states[wanted.state]] if wanted.state is not None else []
        searched = (_COLUMN.name, _COLUMN.note, _COLUMN.id)
        found += [sa.or_(*(each.icontains(wanted.text, autoescape=True) for each in searched))] if wanted.text else []
        return tuple(found)
