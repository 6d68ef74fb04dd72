"""The tables. A change here needs a migration (store/migrations/versions); a test compares the two."""

from __future__ import annotations

import datetime as dt
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

#: the newest migration; a test holds it equal to Alembic's head
SCHEMA_VERSION = "0004"


class Moment(sa.TypeDecorator[dt.datetime]):
    """An aware UTC datetime. SQLite keeps no zone, so it is stripped on the way in and put back on the way out."""

    impl = sa.DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: dt.datetime | None, dialect: sa.Dialect) -> dt.datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"a moment without a zone cannot be stored: {value!r}")
        utc = value.astimezone(dt.UTC)
        return utc.replace(tzinfo=None) if dialect.name == "sqlite" else utc

    def process_result_value(self, value: dt.datetime | None, dialect: sa.Dialect) -> dt.datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=dt.UTC) if value.tzinfo is None else value.astimezone(dt.UTC)


_JSON = sa.JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")
_COUNTER = sa.BigInteger().with_variant(sa.Integer, "sqlite")  # SQLite numbers rows only in a column of type INTEGER

metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def _text(name: str, *rest: Any, **options: Any) -> sa.Column[str]:
    return sa.Column(name, sa.Text, *rest, nullable=options.pop("nullable", False), **options)


def _moment(name: str, *, nullable: bool = True) -> sa.Column[dt.datetime]:
    return sa.Column(name, Moment, nullable=nullable)


operations = sa.Table(
    "operations",
    metadata,
    sa.Column("number", _COUNTER, primary_key=True, autoincrement=True),
    _text("id", unique=True),
    _text("workflow"),
    _text("subject"),
    _text("cluster", nullable=True),
    _text("status"),
    _text("caller"),
    sa.Column("spec", _JSON, nullable=False),
    _text("spec_hash"),
    _moment("created_at", nullable=False),
    _moment("started_at"),
    _moment("ended_at"),
    sa.Column("problem", _JSON),
    _text("cancel_by", nullable=True),
    sa.Column("needs_approval", sa.Boolean, nullable=False),
    _text("approved_by", nullable=True),
    sa.Column("execution", sa.Integer, nullable=False),
    sa.Column("seq", sa.Integer, nullable=False),
    sa.Index("ix_operations_subject_number", "subject", "number"),
    sa.Index("ix_operations_cluster_number", "cluster", "number"),
    sa.Index("ix_operations_status", "status"),
)
# The last wall against two operations for one wish, should every lock above it fail.
sa.Index(
    "uq_operations_active_wish",
    operations.c.workflow,
    operations.c.subject,
    operations.c.spec_hash,
    unique=True,
    sqlite_where=operations.c.ended_at.is_(None),
    postgresql_where=operations.c.ended_at.is_(None),
)

stages = sa.Table(
    "stages",
    metadata,
    _text("operation_id", sa.ForeignKey("operations.id", ondelete="CASCADE"), primary_key=True),
    _text("name", primary_key=True),
    sa.Column("position", sa.Integer, nullable=False),
    _text("status"),
    sa.Column("attempt", sa.Integer, nullable=False),
    _text("because", nullable=True),
    _moment("since"),
    _moment("started_at"),
    _moment("ended_at"),
    sa.Column("progress", _JSON),
    sa.Column("learned", _JSON),
    sa.Column("problem", _JSON),
)

events = sa.Table(
    "events",
    metadata,
    _text("operation_id", sa.ForeignKey("operations.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("seq", sa.Integer, primary_key=True, autoincrement=False),
    _moment("at", nullable=False),
    _text("level"),
    _text("stage", nullable=True),
    _text("message"),
    sa.Column("evidence", _JSON, nullable=False),
)

repeats = sa.Table(
    "repeats",
    metadata,
    _text("caller", primary_key=True),
    _text("key", primary_key=True),
    _text("request_hash"),
    sa.Column("answer", _JSON, nullable=False),
    _moment("at", nullable=False),
)

identities = sa.Table(
    "identities",
    metadata,
    _text("id", primary_key=True),
    _text("name"),
    _text("role"),
    _text("kind"),
    _text("secret_hash", unique=True),
    _moment("created_at", nullable=False),
    _moment("expires_at"),
    #: when its present token was made; older rows have none
    _moment("token_made_at"),
    _moment("revoked_at"),
    _moment("last_used_at"),
    _text("selected_cluster", nullable=True),
    _text("note", nullable=True),
    #: who vouches for a person, and under which name: both or neither
    _text("issuer", nullable=True),
    _text("subject", nullable=True),
    _moment("disabled_at"),
    sa.Index("uq_identities_issuer_subject", "issuer", "subject", unique=True),
)

sessions = sa.Table(
    "sessions",
    metadata,
    _text("id", primary_key=True),
    _text("secret_hash", unique=True),
    _text("identity_id", sa.ForeignKey("identities.id", ondelete="CASCADE"), index=True),
    _moment("created_at", nullable=False),
    _moment("expires_at", nullable=False),
    _text("client", nullable=True),
    _text("via", nullable=True),
    _text("address", nullable=True),
    _text("agent", nullable=True),
    _moment("last_seen_at"),
)

sign_in_codes = sa.Table(
    "sign_in_codes",
    metadata,
    _text("secret_hash", primary_key=True),
    _text("identity_id", sa.ForeignKey("identities.id", ondelete="CASCADE")),
    _moment("expires_at", nullable=False),
    #: hash of what only the browser or command line that began the sign-in has
    _text("proof_hash", nullable=True),
)

#: sign-ins that wait for a person to come back from the identity provider
sign_ins = sa.Table(
    "sign_ins",
    metadata,
    _text("secret_hash", primary_key=True),
    _text("next"),
    sa.Column("port", sa.Integer, nullable=True),
    _text("proof_hash"),
    _text("client_state", nullable=True),
    _moment("expires_at", nullable=False),
)

approvals = sa.Table(
    "approvals",
    metadata,
    _text("id", primary_key=True),
    _text("secret_hash", unique=True),
    _text("caller"),
    _text("request_hash"),
    _text("summary"),
    _moment("created_at", nullable=False),
    _moment("expires_at", nullable=False),
    _text("state"),
    _text("decided_by", nullable=True),
    _moment("decided_at"),
)

audit = sa.Table(
    "audit",
    metadata,
    sa.Column("number", _COUNTER, primary_key=True, autoincrement=True),
    sa.Column("at", Moment, nullable=False, index=True),
    _text("caller", index=True),
    _text("kind"),
    _text("role"),
    _text("face"),
    _text("method"),
    _text("path"),
    _text("summary"),
    sa.Column("status", sa.Integer, nullable=False),
    _text("operation_id", nullable=True, index=True),
    _text("name", nullable=True),
    _text("address", nullable=True),
    _text("action", nullable=True, index=True),
    _text("cluster", nullable=True, index=True),
    _text("code", nullable=True),
    _text("target", nullable=True),
)

clusters = sa.Table(
    "clusters",
    metadata,
    _text("tag", primary_key=True),
    _text("region"),
    _text("eks_name", nullable=True),
    _text("eks_arn", nullable=True),
    _text("hyperpod_name", nullable=True),
    _text("hyperpod_arn", nullable=True),
    _text("origin"),
    sa.Column("state", _JSON, nullable=False),
    _moment("created_at", nullable=False),
    _moment("updated_at", nullable=False),
)

#: forms that a person keeps: what was filled in, to be filled in again
forms = sa.Table(
    "forms",
    metadata,
    _text("identity", primary_key=True),
    _text("kind", primary_key=True),
    _text("name", primary_key=True),
    sa.Column("content", _JSON, nullable=False),
    _moment("created_at", nullable=False),
    _moment("updated_at", nullable=False),
)
