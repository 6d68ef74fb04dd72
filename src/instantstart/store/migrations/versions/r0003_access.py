"""Who may enter, in more detail: people by OpenID Connect, notes, disabling, where sessions and audit lines come from.

Revision ID: 0003
Revises: 0002
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

MOMENT = sa.DateTime(timezone=True)
_ADDED = {
    "identities": ("note", "issuer", "subject"),
    "sessions": ("client", "via", "address", "agent"),
    "audit": ("name", "address", "action", "cluster", "code"),
}


def upgrade() -> None:
    """Add the columns and the table of sign-ins under way."""
    for table, names in _ADDED.items():
        for name in names:
            op.add_column(table, sa.Column(name, sa.Text(), nullable=True))
    op.add_column("identities", sa.Column("disabled_at", MOMENT, nullable=True))
    op.add_column("sessions", sa.Column("last_seen_at", MOMENT, nullable=True))
    op.add_column("sign_in_codes", sa.Column("proof_hash", sa.Text(), nullable=True))
    op.create_index("uq_identities_issuer_subject", "identities", ["issuer", "subject"], unique=True)
    op.create_index("ix_sessions_identity_id", "sessions", ["identity_id"])
    for name in ("at", "action", "cluster"):
        op.create_index(f"ix_audit_{name}", "audit", [name])
    op.create_table(
        "sign_ins",
        sa.Column("secret_hash", sa.Text(), nullable=False),
        sa.Column("next", sa.Text(), nullable=False),
        sa.Column("port", sa.Integer(), nullable=True),
        sa.Column("proof_hash", sa.Text(), nullable=False),
        sa.Column("client_state", sa.Text(), nullable=True),
        sa.Column("expires_at", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("secret_hash", name=op.f("pk_sign_ins")),
    )


def downgrade() -> None:
    """Take them away again."""
    op.drop_table("sign_ins")
    for name in ("at", "action", "cluster"):
        op.drop_index(f"ix_audit_{name}", "audit")
    op.drop_index("ix_sessions_identity_id", "sessions")
    op.drop_index("uq_identities_issuer_subject", "identities")
    op.drop_column("sign_in_codes", "proof_hash")
    op.drop_column("sessions", "last_seen_at")
    op.drop_column("identities", "disabled_at")
    for table, names in _ADDED.items():
        for name in names:
            op.drop_column(table, name)
