"""Queries over who may enter: tokens, console sessions, one-time sign-in codes. Secrets are stored as SHA-256 only."""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
import secrets

import sqlalchemy as sa

from instantstart.base import problems
from instantstart.store import tables
from instantstart.store.connection import Connector, new_id
from instantstart.store.records import IdentityRow, SessionRow

TOKEN_PREFIX = "ist_"  # noqa: S105 - the mark of our tokens, not one
CODE_SECONDS = 600.0
SESSION_SECONDS = 12 * 3600.0
_USE_NOTED_EVERY = dt.timedelta(minutes=1)

_IDENTITIES = tables.identities
_SESSIONS = tables.sessions
_CODES = tables.sign_in_codes
_SHOWN = [column for column in _IDENTITIES.c if column.name != "secret_hash"]


def hash_of(secret: str) -> str:
    """What is kept of a secret. Ours have 256 random bits, so no salt and no slow hash is needed."""
    return hashlib.sha256(secret.encode()).hexdigest()


class Identities:
    """``store.identities``."""

    def __init__(self, connector: Connector) -> None:
        self._connector = connector

    def create_token(self, name: str, role: str, kind: str, expires_at: dt.datetime | None = None) -> tuple[IdentityRow, str]:
        """A new identity and its token. The token is in this answer and nowhere else."""
        secret = TOKEN_PREFIX + secrets.token_urlsafe(32)
        identity = IdentityRow(new_id("id"), name, role, kind, self._connector.now(), expires_at)
        values = {column.name: getattr(identity, column.name) for column in _SHOWN}
        with self._connector.transaction() as connection:
            connection.execute(sa.insert(_IDENTITIES).values(secret_hash=hash_of(secret), **values))
        return identity, secret

    def find_token(self, secret: str) -> IdentityRow | None:
        """Whose token this is; None when it is unknown, revoked or expired. Notes the use, at most once a minute."""
        identity = self._living(sa.select(*_SHOWN).where(_IDENTITIES.c.secret_hash == hash_of(secret)))
        if identity is not None:
            self._note_use(identity)
        return identity

    def _living(self, query: sa.Select[tuple[object, ...]]) -> IdentityRow | None:
        now = self._connector.now()
        alive = query.where(_IDENTITIES.c.revoked_at.is_(None), sa.or_(_IDENTITIES.c.expires_at.is_(None), _IDENTITIES.c.expires_at > now))
        with self._connector.read() as connection:
            row = connection.execute(alive).mappings().one_or_none()
        return IdentityRow(**row) if row else None

    def _note_use(self, identity: IdentityRow) -> None:
        now = self._connector.now()
        if identity.last_used_at is None or now - identity.last_used_at > _USE_NOTED_EVERY:
            # whoever reads may read on while the disk is full or the database is held: this note is not worth a refusal
            with contextlib.suppress(problems.Busy), self._connector.transaction() as connection:
                connection.execute(sa.update(_IDENTITIES).where(_IDENTITIES.c.id == identity.id).values(last_used_at=now))

    def find(self, identity_id: str) -> IdentityRow | None:
        """The identity, living or not, or None."""
        with self._connector.read() as connection:
            row = connection.execute(sa.select(*_SHOWN).where(_IDENTITIES.c.id == identity_id)).mappings().one_or_none()
        return IdentityRow(**row) if row else None

    def revoke(self, identity_id: str) -> IdentityRow:
        """End the token and every session of an identity. Again: no change. Raises NotFound (identity.unknown)."""
        with self._connector.transaction() as connection:
            living = sa.update(_IDENTITIES).where(_IDENTITIES.c.id == identity_id, _IDENTITIES.c.revoked_at.is_(None))
            connection.execute(living.values(revoked_at=self._connector.now()))
            connection.execute(sa.delete(_SESSIONS).where(_SESSIONS.c.identity_id == identity_id))
            connection.execute(sa.delete(_CODES).where(_CODES.c.identity_id == identity_id))
            revoked = self.find(identity_id)
        if revoked is None:
            raise problems.NotFound("identity.unknown", f"There is no identity {identity_id}.")
        return revoked

    def select_cluster(self, identity_id: str, tag: str | None) -> None:
        """Remember which cluster this identity works on by default; None forgets it."""
        with self._connector.transaction() as connection:
            connection.execute(sa.update(_IDENTITIES).where(_IDENTITIES.c.id == identity_id).values(selected_cluster=tag))

    def unselect_cluster(self, tag: str) -> None:
        """Forget a cluster that is gone, for everybody who had selected it."""
        with self._connector.transaction() as connection:
            connection.execute(sa.update(_IDENTITIES).where(_IDENTITIES.c.selected_cluster == tag).values(selected_cluster=None))

    def create_session(self, identity_id: str, lifetime_seconds: float = SESSION_SECONDS) -> tuple[str, dt.datetime]:
        """A console session: the secret for the cookie (shown once) and when it ends. Clears ended ones away."""
        secret, now = secrets.token_urlsafe(32), self._connector.now()
        expires_at = now + dt.timedelta(seconds=lifetime_seconds)
        values = {"id": new_id("se"), "identity_id": identity_id, "created_at": now, "expires_at": expires_at}
        with self._connector.transaction() as connection:
            connection.execute(sa.delete(_SESSIONS).where(_SESSIONS.c.expires_at <= now))
            connection.execute(sa.insert(_SESSIONS).values(secret_hash=hash_of(secret), **values))
        return secret, expires_at

    def find_session(self, secret: str) -> SessionRow | None:
        """The living session of a cookie, with its living identity; else None."""
        query = sa.select(_SESSIONS).where(_SESSIONS.c.secret_hash == hash_of(secret), _SESSIONS.c.expires_at > self._connector.now())
        with self._connector.read() as connection:
            row = connection.execute(query).one_or_none()
        identity = self._living(sa.select(*_SHOWN).where(_IDENTITIES.c.id == row.identity_id)) if row else None
        return SessionRow(row.id, identity, row.created_at, row.expires_at) if row and identity else None

    def revoke_session(self, secret: str) -> None:
        """Sign out. An unknown secret changes nothing."""
        with self._connector.transaction() as connection:
            connection.execute(sa.delete(_SESSIONS).where(_SESSIONS.c.secret_hash == hash_of(secret)))

    def create_code(self, identity_id: str, lifetime_seconds: float = CODE_SECONDS) -> str:
        """A one-time code for a sign-in link. Clears ended ones away."""
        secret, now = secrets.token_urlsafe(24), self._connector.now()
        expires_at = now + dt.timedelta(seconds=lifetime_seconds)
        with self._connector.transaction() as connection:
            connection.execute(sa.delete(_CODES).where(_CODES.c.expires_at <= now))
            connection.execute(sa.insert(_CODES).values(secret_hash=hash_of(secret), identity_id=identity_id, expires_at=expires_at))
        return secret

    def consume_code(self, secret: str) -> IdentityRow | None:
        """Whom the code signs in, once; None when it is unknown, used or expired."""
        living = (_CODES.c.secret_hash == hash_of(secret)) & (_CODES.c.expires_at > self._connector.now())
        with self._connector.transaction() as connection:  # DELETE .. RETURNING: of two who use it at once, one gets a row
            identity_id = connection.execute(sa.delete(_CODES).where(living).returning(_CODES.c.identity_id)).scalar_one_or_none()
        return self._living(sa.select(*_SHOWN).where(_IDENTITIES.c.id == identity_id)) if identity_id else None

    def list(self) -> list[IdentityRow]:
        """Every identity, living or not, oldest first."""
        with self._connector.read() as connection:
            rows = connection.execute(sa.select(*_SHOWN).order_by(_IDENTITIES.c.created_at, _IDENTITIES.c.id)).mappings()
            return [IdentityRow(**row) for row in rows]
