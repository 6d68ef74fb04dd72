"""Queries over approvals: single use, short-lived, bound to one caller and one exact request."""

from __future__ import annotations

import datetime as dt
import secrets

import sqlalchemy as sa

from instantstart.base import problems
from instantstart.store import tables
from instantstart.store.connection import Connector, new_id
from instantstart.store.identities import hash_of
from instantstart.store.records import ApprovalRow

PENDING, GRANTED, REJECTED, USED = "pending", "granted", "rejected", "used"
_APPROVALS = tables.approvals
_SHOWN = [column for column in _APPROVALS.c if column.name != "secret_hash"]


class Approvals:
    """``store.approvals``."""

    def __init__(self, connector: Connector) -> None:
        self._connector = connector

    def create(
        self, caller: str, request_hash: str, summary: str, expires_at: dt.datetime, *, granted: bool = True
    ) -> tuple[ApprovalRow, str]:
        """A new approval and its secret (shown once). Not ``granted``: a person must decide first."""
        secret = secrets.token_urlsafe(24)
        row = ApprovalRow(new_id("ap"), caller, request_hash, summary, self._connector.now(), expires_at, GRANTED if granted else PENDING)
        values = {column.name: getattr(row, column.name) for column in _SHOWN}
        with self._connector.transaction() as connection:
            connection.execute(sa.insert(_APPROVALS).values(secret_hash=hash_of(secret), **values))
        return row, secret

    def consume(self, secret: str, caller: str, request_hash: str) -> bool:
        """Use an approval up. True once, and only for the caller, the request and the time it was given for."""
        usable = (
            (_APPROVALS.c.secret_hash == hash_of(secret))
            & (_APPROVALS.c.caller == caller)
            & (_APPROVALS.c.request_hash == request_hash)
            & (_APPROVALS.c.state == GRANTED)
            & (_APPROVALS.c.expires_at > self._connector.now())
        )
        with self._connector.transaction() as connection:  # one statement: of two who use it at once, one changes a row
            return connection.execute(sa.update(_APPROVALS).where(usable).values(state=USED)).rowcount == 1

    def is_used(self, secret: str, caller: str, request_hash: str) -> bool:
        """Whether this caller has used it up for this request."""
        mine = (_APPROVALS.c.secret_hash == hash_of(secret)) & (_APPROVALS.c.caller == caller) & (_APPROVALS.c.request_hash == request_hash)
        with self._connector.read() as connection:
            return connection.execute(sa.select(_APPROVALS.c.id).where(mine, _APPROVALS.c.state == USED)).first() is not None

    def find(self, approval_id: str) -> ApprovalRow | None:
        """The approval, or None."""
        with self._connector.read() as connection:
            row = connection.execute(sa.select(*_SHOWN).where(_APPROVALS.c.id == approval_id)).mappings().one_or_none()
        return ApprovalRow(**row) if row else None

    def list_pending(self) -> list[ApprovalRow]:
        """What waits for a person, oldest first; expired ones are left out."""
        query = sa.select(*_SHOWN).where(_APPROVALS.c.state == PENDING, _APPROVALS.c.expires_at > self._connector.now())
        with self._connector.read() as connection:
            return [ApprovalRow(**row) for row in connection.execute(query.order_by(_APPROVALS.c.created_at, _APPROVALS.c.id)).mappings()]

    def decide(self, approval_id: str, by: str, *, grant: bool) -> ApprovalRow:
        """A person's yes or no. Raises NotFound, and Conflict when it was decided already or has expired."""
        now = self._connector.now()
        open_ = (_APPROVALS.c.id == approval_id) & (_APPROVALS.c.state == PENDING) & (_APPROVALS.c.expires_at > now)
        verdict = {"state": GRANTED if grant else REJECTED, "decided_by": by, "decided_at": now}
        with self._connector.transaction() as connection:
            changed = connection.execute(sa.update(_APPROVALS).where(open_).values(**verdict)).rowcount
            row = self.find(approval_id)
        if row is None:
            raise problems.NotFound("approval.unknown", f"There is no approval {approval_id}.")
        if not changed:
            told = "has expired" if row.state == PENDING else f"is {row.state} already"
            raise problems.Conflict("approval.decided", f"Approval {approval_id} {told}.", hint="Ask for a new plan.")
        return row
