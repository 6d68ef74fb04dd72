"""What an audit line is about, and when a token was made, so that the one that takes its place is given as long.

Revision ID: 0004
Revises: 0003
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns; older rows have none."""
    op.add_column("audit", sa.Column("target", sa.Text(), nullable=True))
    op.add_column("identities", sa.Column("token_made_at", sa.DateTime(timezone=True), nullable=True))


def downgrade() -> None:
    """Take them away again."""
    op.drop_column("identities", "token_made_at")
    op.drop_column("audit", "target")
