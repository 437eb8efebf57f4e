"""The tables of the store, as the newest migration leaves them, for SQLite and PostgreSQL alike.

Times are ISO 8601 texts in UTC. Text that may be long is in no index, because PostgreSQL refuses an entry
over 2,704 bytes: what must be there exactly once has a digest for its `key`, and ids of instances are short.
"""

from sqlalchemy import Column, ForeignKey, Index, Integer, MetaData, String, Table, Text

__all__ = ["REVISIONS", "instances", "metadata", "outcome_actions", "outcomes", "receipt_units", "receipts"]

REVISIONS = ("0001",)
"""Every migration, oldest first, so that a store at the newest opens without importing Alembic (350 ms)."""

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

instances = Table(
    "instances",
    metadata,
    Column("id", Text, primary_key=True),
    Column("created_at", Text, nullable=False),
)

receipts = Table(
    "receipts",
    metadata,
    Column("seq", Integer, primary_key=True),
    Column("key", String(64), nullable=False, unique=True),
    Column("instance_id", ForeignKey("instances.id", ondelete="CASCADE"), nullable=False),
    Column("receipt_id", Text, nullable=False),
    Column("session", Text),
    Column("task", Text, nullable=False),
    Column("tokens", Integer, nullable=False),
    Column("created_at", Text, nullable=False),
    Index(None, "instance_id", "seq"),
)

receipt_units = Table(
    "receipt_units",
    metadata,
    Column("receipt", ForeignKey("receipts.seq", ondelete="CASCADE"), primary_key=True),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("unit_id", Text, nullable=False),
    Column("digest", Text, nullable=False),
)

outcomes = Table(
    "outcomes",
    metadata,
    Column("seq", Integer, primary_key=True),
    Column("key", String(64), nullable=False, unique=True),
    Column("receipt", ForeignKey("receipts.seq", ondelete="CASCADE"), nullable=False, index=True),
    Column("outcome", Text, nullable=False),
    Column("created_at", Text, nullable=False),
)

outcome_actions = Table(
    "outcome_actions",
    metadata,
    Column("outcome", ForeignKey("outcomes.seq", ondelete="CASCADE"), primary_key=True),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("action", Text, nullable=False),
)
