"""The first schema.

Revision ID: 0001
Revises:
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

# Written out, not imported from tables.py: a migration must stay what it was when the tables move on.
MOMENT = sa.DateTime(timezone=True)
JSON = sa.JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")
COUNTER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make every table."""
    _make_operations()
    _make_history()
    _make_identities()
    _make_approvals_and_audit()
    _make_clusters()


def downgrade() -> None:
    """Drop every table, those that others point at last."""
    for name in ("clusters", "audit", "approvals", "sign_in_codes", "sessions", "identities", "repeats", "events", "stages", "operations"):
        op.drop_table(name)


def _make_operations() -> None:
    op.create_table(
        "operations",
        sa.Column("number", COUNTER, nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("workflow", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("cluster", sa.Text(), nullable=True),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("caller", sa.Text(), nullable=False),
        sa.Column("spec", JSON, nullable=False),
        sa.Column("spec_hash", sa.Text(), nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("started_at", MOMENT, nullable=True),
        sa.Column("ended_at", MOMENT, nullable=True),
        sa.Column("problem", JSON, nullable=True),
        sa.Column("cancel_by", sa.Text(), nullable=True),
        sa.Column("needs_approval", sa.Boolean(), nullable=False),
        sa.Column("approved_by", sa.Text(), nullable=True),
        sa.Column("execution", sa.Integer(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_operations")),
        sa.UniqueConstraint("id", name=op.f("uq_operations_id")),
    )
    op.create_table(
        "stages",
        sa.Column("operation_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("because", sa.Text(), nullable=True),
        sa.Column("since", MOMENT, nullable=True),
        sa.Column("started_at", MOMENT, nullable=True),
        sa.Column("ended_at", MOMENT, nullable=True),
        sa.Column("progress", JSON, nullable=True),
        sa.Column("learned", JSON, nullable=True),
        sa.Column("problem", JSON, nullable=True),
        sa.ForeignKeyConstraint(["operation_id"], ["operations.id"], name=op.f("fk_stages_operation_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("operation_id", "name", name=op.f("pk_stages")),
    )
    op.create_index("ix_operations_cluster_number", "operations", ["cluster", "number"], unique=False)
    op.create_index("ix_operations_status", "operations", ["status"], unique=False)
    op.create_index("ix_operations_subject_number", "operations", ["subject", "number"], unique=False)
    op.create_index(
        "uq_operations_active_wish",
        "operations",
        ["workflow", "subject", "spec_hash"],
        unique=True,
        sqlite_where=sa.text("ended_at IS NULL"),
        postgresql_where=sa.text("ended_at IS NULL"),
    )


def _make_history() -> None:
    op.create_table(
        "events",
        sa.Column("operation_id", sa.Text(), nullable=False),
        sa.Column("seq", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("at", MOMENT, nullable=False),
        sa.Column("level", sa.Text(), nullable=False),
        sa.Column("stage", sa.Text(), nullable=True),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("evidence", JSON, nullable=False),
        sa.ForeignKeyConstraint(["operation_id"], ["operations.id"], name=op.f("fk_events_operation_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("operation_id", "seq", name=op.f("pk_events")),
    )
    op.create_table(
        "repeats",
        sa.Column("caller", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("request_hash", sa.Text(), nullable=False),
        sa.Column("answer", JSON, nullable=False),
        sa.Column("at", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("caller", "key", name=op.f("pk_repeats")),
    )


def _make_identities() -> None:
    op.create_table(
        "identities",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("secret_hash", sa.Text(), nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("expires_at", MOMENT, nullable=True),
        sa.Column("revoked_at", MOMENT, nullable=True),
        sa.Column("last_used_at", MOMENT, nullable=True),
        sa.Column("selected_cluster", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_identities")),
        sa.UniqueConstraint("secret_hash", name=op.f("uq_identities_secret_hash")),
    )
    op.create_table(
        "sessions",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("secret_hash", sa.Text(), nullable=False),
        sa.Column("identity_id", sa.Text(), nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("expires_at", MOMENT, nullable=False),
        sa.ForeignKeyConstraint(["identity_id"], ["identities.id"], name=op.f("fk_sessions_identity_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sessions")),
        sa.UniqueConstraint("secret_hash", name=op.f("uq_sessions_secret_hash")),
    )
    op.create_table(
        "sign_in_codes",
        sa.Column("secret_hash", sa.Text(), nullable=False),
        sa.Column("identity_id", sa.Text(), nullable=False),
        sa.Column("expires_at", MOMENT, nullable=False),
        sa.ForeignKeyConstraint(["identity_id"], ["identities.id"], name=op.f("fk_sign_in_codes_identity_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("secret_hash", name=op.f("pk_sign_in_codes")),
    )


def _make_approvals_and_audit() -> None:
    op.create_table(
        "approvals",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("secret_hash", sa.Text(), nullable=False),
        sa.Column("caller", sa.Text(), nullable=False),
        sa.Column("request_hash", sa.Text(), nullable=False),
        sa.Column("summary", sa.Text(), nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("expires_at", MOMENT, nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("decided_by", sa.Text(), nullable=True),
        sa.Column("decided_at", MOMENT, nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_approvals")),
        sa.UniqueConstraint("secret_hash", name=op.f("uq_approvals_secret_hash")),
    )
    op.create_table(
        "audit",
        sa.Column("number", COUNTER, nullable=False),
        sa.Column("at", MOMENT, nullable=False),
        sa.Column("caller", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("face", sa.Text(), nullable=False),
        sa.Column("method", sa.Text(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("summary", sa.Text(), nullable=False),
        sa.Column("status", sa.Integer(), nullable=False),
        sa.Column("operation_id", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_audit")),
    )
    op.create_index(op.f("ix_audit_caller"), "audit", ["caller"], unique=False)
    op.create_index(op.f("ix_audit_operation_id"), "audit", ["operation_id"], unique=False)


def _make_clusters() -> None:
    op.create_table(
        "clusters",
        sa.Column("tag", sa.Text(), nullable=False),
        sa.Column("region", sa.Text(), nullable=False),
        sa.Column("eks_name", sa.Text(), nullable=True),
        sa.Column("eks_arn", sa.Text(), nullable=True),
        sa.Column("hyperpod_name", sa.Text(), nullable=True),
        sa.Column("hyperpod_arn", sa.Text(), nullable=True),
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("state", JSON, nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("updated_at", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("tag", name=op.f("pk_clusters")),
    )
