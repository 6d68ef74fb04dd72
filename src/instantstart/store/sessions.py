"""Queries over sessions, one-time codes and sign-ins under way."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import hashlib
import secrets
from typing import Any

import sqlalchemy as sa

from instantstart.base import problems
from instantstart.store import tables
from instantstart.store.connection import Connector, new_id
from instantstart.store.paging import after_key, key_page
from instantstart.store.records import Entrance, IdentityRow, Page, SessionRow, SignInRow

#: the public prefix of a session's secret that a command line sends
SESSION_PREFIX = "iss_"
CODE_SECONDS = 600.0
SESSION_SECONDS = 12 * 3600.0
SIGN_IN_SECONDS = 600.0
#: sign-ins under way at most, over all replicas: who begins more is told to wait
MOST_SIGN_INS = 1000
_NOTED_EVERY = dt.timedelta(minutes=1)

_IDENTITIES = tables.identities
_SESSIONS = tables.sessions
_CODES = tables.sign_in_codes
_SIGN_INS = tables.sign_ins
SHOWN = [column for column in _IDENTITIES.c if column.name != "secret_hash"]
_SESSION_SHOWN = [column for column in _SESSIONS.c if column.name not in ("secret_hash", "identity_id")]


def hash_of(secret: str) -> str:
    """What is kept of a secret. Ours have 256 random bits, so no salt and no slow hash is needed."""
    return hashlib.sha256(secret.encode()).hexdigest()


class Sessions:
    """The part of ``store.identities`` that lets people in."""

    def __init__(self, connector: Connector) -> None:
        self._connector = connector

    def living(self, *wanted: sa.ColumnElement[bool]) -> IdentityRow | None:
        """The one identity of ``wanted`` that may enter now: not revoked, not disabled, not expired."""
        now, column = self._connector.now(), _IDENTITIES.c
        ends = sa.or_(column.expires_at.is_(None), column.expires_at > now)
        query = sa.select(*SHOWN).where(column.revoked_at.is_(None), column.disabled_at.is_(None), ends, *wanted)
        with self._connector.read() as connection:
            row = connection.execute(query).mappings().one_or_none()
        return IdentityRow(**row) if row else None

    def create_session(
        self, identity_id: str, lifetime_seconds: float = SESSION_SECONDS, entrance: Entrance | None = None
    ) -> tuple[str, dt.datetime]:
        """A session: its secret (shown once) and when it ends. Clears ended ones away."""
        secret, now = SESSION_PREFIX + secrets.token_urlsafe(32), self._connector.now()
        expires_at = now + dt.timedelta(seconds=lifetime_seconds)
        values = {"id": new_id("se"), "identity_id": identity_id, "created_at": now, "expires_at": expires_at, "last_seen_at": now}
        values |= dataclasses.asdict(entrance or Entrance())
        with self._connector.transaction() as connection:
            connection.execute(sa.delete(_SESSIONS).where(_SESSIONS.c.expires_at <= now))
            connection.execute(sa.insert(_SESSIONS).values(secret_hash=hash_of(secret), **values))
        return secret, expires_at

    def find_session(self, secret: str) -> SessionRow | None:
        """The living session of a secret, with its living identity; else None. Notes the use, at most once a minute."""
        query = sa.select(_SESSIONS).where(_SESSIONS.c.secret_hash == hash_of(secret), _SESSIONS.c.expires_at > self._connector.now())
        with self._connector.read() as connection:
            row = connection.execute(query).mappings().one_or_none()
        identity = self.living(_IDENTITIES.c.id == row["identity_id"]) if row else None
        if row is None or identity is None:
            return None
        found = _session(row, identity)
        self._note_seen(found)
        return found

    def _note_seen(self, session: SessionRow) -> None:
        now = self._connector.now()
        if session.last_seen_at is None or now - session.last_seen_at > _NOTED_EVERY:
            self.noted(sa.update(_SESSIONS).where(_SESSIONS.c.id == session.id).values(last_seen_at=now))
            self.noted(sa.update(_IDENTITIES).where(_IDENTITIES.c.id == session.identity.id).values(last_used_at=now))

    def noted(self, statement: sa.Update) -> None:
        """Write a note that is not worth a refusal: whoever reads may read on while the disk is full or the database is held."""
        with contextlib.suppress(problems.Busy), self._connector.transaction() as connection:
            connection.execute(statement)

    def list_sessions(self, identity_id: str | None, limit: int = 50, cursor: str | None = None) -> Page[SessionRow]:
        """Living sessions of an identity, or of everybody; the newest first. Raises Invalid for a cursor that is not ours."""
        column = _SESSIONS.c
        query = sa.select(_SESSIONS, column.created_at.label("sort_key")).where(column.expires_at > self._connector.now())
        if identity_id is not None:
            query = query.where(column.identity_id == identity_id)
        with self._connector.read() as connection:
            rows = (
                connection.execute(after_key(query, (column.created_at, column.id), cursor, falling=True).limit(limit + 1)).mappings().all()
            )
            found = sa.select(*SHOWN).where(_IDENTITIES.c.id.in_({row["identity_id"] for row in rows}))
            whose = {row["id"]: IdentityRow(**row) for row in connection.execute(found).mappings()}
        page = key_page(rows, limit)
        return Page(tuple(_session(row, whose[row["identity_id"]]) for row in page.items), page.cursor)

    def find_session_owner(self, session_id: str) -> str | None:
        """Whose session that is; None when there is none."""
        with self._connector.read() as connection:
            return connection.execute(sa.select(_SESSIONS.c.identity_id).where(_SESSIONS.c.id == session_id)).scalar_one_or_none()

    def end_session(self, session_id: str) -> None:
        """End one session by its id. Ended already: no change."""
        with self._connector.transaction() as connection:
            connection.execute(sa.delete(_SESSIONS).where(_SESSIONS.c.id == session_id))

    def end_sessions(self, identity_id: str, but: str | None = None) -> int:
        """End every session of an identity, except ``but``, and its unused codes; how many sessions that were."""
        chosen = (_SESSIONS.c.identity_id == identity_id) & (_SESSIONS.c.id != (but or ""))
        with self._connector.transaction() as connection:
            connection.execute(sa.delete(_CODES).where(_CODES.c.identity_id == identity_id))
            return int(connection.execute(sa.delete(_SESSIONS).where(chosen)).rowcount)

    def revoke_session(self, secret: str) -> None:
        """Sign out. An unknown secret changes nothing."""
        with self._connector.transaction() as connection:
            connection.execute(sa.delete(_SESSIONS).where(_SESSIONS.c.secret_hash == hash_of(secret)))

    def create_code(self, identity_id: str, lifetime_seconds: float = CODE_SECONDS, proof_hash: str | None = None) -> str:
        """A one-time code for a sign-in link; with ``proof_hash`` only for whoever has that proof. Clears ended ones away."""
        secret, now = secrets.token_urlsafe(24), self._connector.now()
        expires_at = now + dt.timedelta(seconds=lifetime_seconds)
        values = {"identity_id": identity_id, "expires_at": expires_at, "proof_hash": proof_hash}
        with self._connector.transaction() as connection:
            connection.execute(sa.delete(_CODES).where(_CODES.c.expires_at <= now))
            connection.execute(sa.insert(_CODES).values(secret_hash=hash_of(secret), **values))
        return secret

    def consume_code(self, secret: str, proof: str | None = None) -> IdentityRow | None:
        """Whom the code signs in, once; None when it is unknown, used, expired, or bound to another proof (it is then used up too)."""
        living = (_CODES.c.secret_hash == hash_of(secret)) & (_CODES.c.expires_at > self._connector.now())
        with self._connector.transaction() as connection:  # DELETE .. RETURNING: of two who use it at once, one gets a row
            row = connection.execute(sa.delete(_CODES).where(living).returning(_CODES.c.identity_id, _CODES.c.proof_hash)).one_or_none()
        if row is None or (row.proof_hash is not None and row.proof_hash != hash_of(proof or "")):
            return None
        return self.living(_IDENTITIES.c.id == row.identity_id)

    def begin_sign_in(self, secret: str, row: SignInRow, lifetime_seconds: float = SIGN_IN_SECONDS) -> None:
        """Remember who left for the provider. Raises Busy when too many are on the way."""
        now = self._connector.now()
        expires_at = now + dt.timedelta(seconds=lifetime_seconds)
        with self._connector.transaction() as connection:
            connection.execute(sa.delete(_SIGN_INS).where(_SIGN_INS.c.expires_at <= now))
            if (connection.execute(sa.select(sa.func.count()).select_from(_SIGN_INS)).scalar() or 0) >= MOST_SIGN_INS:
                raise problems.Busy("sign_in.too_many", "Too many sign-ins are under way.", hint="Try again in some minutes.")
            values = {**dataclasses.asdict(row), "secret_hash": hash_of(secret), "expires_at": expires_at}
            connection.execute(sa.insert(_SIGN_INS).values(**values))

    def finish_sign_in(self, secret: str) -> SignInRow | None:
        """Who comes back, once; None when nobody left with this secret, or too long ago."""
        living = (_SIGN_INS.c.secret_hash == hash_of(secret)) & (_SIGN_INS.c.expires_at > self._connector.now())
        columns = [_SIGN_INS.c[field.name] for field in dataclasses.fields(SignInRow)]
        with self._connector.transaction() as connection:
            row = connection.execute(sa.delete(_SIGN_INS).where(living).returning(*columns)).mappings().one_or_none()
        return SignInRow(**row) if row else None


def _session(row: Any, identity: IdentityRow) -> SessionRow:
    return SessionRow(identity=identity, **{column.name: row[column.name] for column in _SESSION_SHOWN})
