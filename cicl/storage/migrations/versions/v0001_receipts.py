"""Receipts and their outcomes."""

import sqlalchemy as sa
from alembic import op

__all__ = ["upgrade"]

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Lead from an empty database to the first schema."""
    create_receipts()
    create_outcomes()


def create_receipts() -> None:
    op.create_table(
        "instances",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("created_at", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_instances"),
    )
    op.create_table(
        "receipts",
        sa.Column("seq", sa.Integer, nullable=False),
        sa.Column("key", sa.String(64), nullable=False),
        sa.Column("instance_id", sa.Text, nullable=False),
        sa.Column("receipt_id", sa.Text, nullable=False),
        sa.Column("session", sa.Text),
        sa.Column("task", sa.Text, nullable=False),
        sa.Column("tokens", sa.Integer, nullable=False),
        sa.Column("created_at", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("seq", name="pk_receipts"),
        sa.UniqueConstraint("key", name="uq_receipts_key"),
        sa.ForeignKeyConstraint(
            ["instance_id"], ["instances.id"], name="fk_receipts_instance_id", ondelete="CASCADE"
        ),
    )
    op.create_index("ix_receipts_instance_id_seq", "receipts", ["instance_id", "seq"])
    op.create_table(
        "receipt_units",
        sa.Column("receipt", sa.Integer, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("unit_id", sa.Text, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("receipt", "position", name="pk_receipt_units"),
        sa.ForeignKeyConstraint(
            ["receipt"], ["receipts.seq"], name="fk_receipt_units_receipt", ondelete="CASCADE"
        ),
    )


def create_outcomes() -> None:
    op.create_table(
        "outcomes",
        sa.Column("seq", sa.Integer, nullable=False),
        sa.Column("key", sa.String(64), nullable=False),
        sa.Column("receipt", sa.Integer, nullable=False),
        sa.Column("outcome", sa.Text, nullable=False),
        sa.Column("created_at", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("seq", name="pk_outcomes"),
        sa.UniqueConstraint("key", name="uq_outcomes_key"),
        sa.ForeignKeyConstraint(
            ["receipt"], ["receipts.seq"], name="fk_outcomes_receipt", ondelete="CASCADE"
        ),
    )
    op.create_index("ix_outcomes_receipt", "outcomes", ["receipt"])
    op.create_table(
        "outcome_actions",
        sa.Column("outcome", sa.Integer, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("outcome", "position", name="pk_outcome_actions"),
        sa.ForeignKeyConstraint(
            ["outcome"], ["outcomes.seq"], name="fk_outcome_actions_outcome", ondelete="CASCADE"
        ),
    )
