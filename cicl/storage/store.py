"""The durable home of what every instance learned: SQLite in a data folder, or PostgreSQL by URL.

It takes journals in, each entry exactly once however often it is tried, and answers what looks back over more
than one run. Importing it costs 200 ms: only commands that need it do. Order is the order of arrival.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

from sqlalchemy import Connection, Row, Select, Table, func, insert, select, true

from cicl.selection.records import Receipt
from cicl.storage.database import Database
from cicl.storage.journal import Journal, Outcome, Pending, PendingOutcome, PendingReceipt
from cicl.storage.schema import instances, outcome_actions, outcomes, receipt_units, receipts

__all__ = ["Counts", "Store"]

BATCH = 500
"""Entries of a journal in one transaction, so that a journal of any length takes little memory."""

RECEIPTS_SHOWN = 100

Entry = TypeVar("Entry", PendingReceipt, PendingOutcome)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How much the store holds."""

    instances: int
    receipts: int
    cards: int
    """Cards delivered, over all receipts."""
    outcomes: int


class Store:
    """Receipts and outcomes of all instances.

    Every method raises `StoreError` when the database cannot be reached, read or written.
    """

    __slots__ = ("_database",)

    def __init__(self, database: Database) -> None:
        self._database = database

    @classmethod
    def open(cls, where: str | Path) -> Self:
        """Open the store at a path (SQLite) or a database URL; make it, or migrate it forward, where needed.

        Raises `ConfigurationError` for a URL that cannot be used here, `StoreError` for a newer schema.
        """
        return cls(Database.open(where))

    def close(self) -> None:
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def absorb(self, journal: Journal) -> int:
        """Take in what is new in `journal`; return how many receipts and outcomes were new here.

        May be interrupted anywhere and called again: nothing is lost and nothing counts twice.
        """
        taken = 0
        while (batch := journal.pending(BATCH)).keys:
            taken += self._take(batch)
            journal.mark_absorbed(batch.keys)
        return taken

    def receipts(
        self, instance_id: str, session: str | None = None, limit: int = RECEIPTS_SHOWN
    ) -> tuple[Receipt, ...]:
        """Return the newest `limit` receipts, oldest first, each with its last outcome.

        A session of None is any session.
        """
        return self._database.read(
            lambda connection: select_receipts(connection, instance_id, session, limit)
        )

    def outcomes(self, instance_id: str) -> tuple[Outcome, ...]:
        """Return every outcome, oldest first."""
        return self._database.read(lambda connection: select_outcomes(connection, instance_id))

    def counts(self, instance_id: str | None = None) -> Counts:
        """Count what is held for one instance; None is all of them."""
        return self._database.read(lambda connection: select_counts(connection, instance_id))

    def _take(self, batch: Pending) -> int:
        return self._database.write(lambda connection: insert_batch(connection, batch))


def insert_batch(connection: Connection, batch: Pending) -> int:
    # An outcome brings its receipt: the journal may have given that to a store which is no longer this one.
    found = (*batch.receipts, *(item.receipt for item in batch.outcomes))
    return insert_receipts(connection, found) + insert_outcomes(connection, batch.outcomes)


def insert_receipts(connection: Connection, found: Sequence[PendingReceipt]) -> int:
    new = absent(connection, receipts, found)
    insert_instances(connection, [item.receipt for item in new])
    insert_rows(connection, receipts, [receipt_row(item) for item in new])
    numbers = numbers_of(connection, receipts, (item.key for item in new))
    rows = [
        {"receipt": numbers[item.key], "position": position, "unit_id": unit_id, "digest": digest}
        for item in new
        for position, (unit_id, digest) in enumerate(zip(item.receipt.unit_ids, item.digests, strict=True))
    ]
    insert_rows(connection, receipt_units, rows)
    return len(new)


def insert_instances(connection: Connection, found: Iterable[Receipt]) -> None:
    first = {receipt.instance_id: receipt.created_at for receipt in reversed(tuple(found))}
    known = set(connection.scalars(select(instances.c.id).where(instances.c.id.in_(first))))
    rows = [{"id": key, "created_at": at} for key, at in sorted(first.items()) if key not in known]
    insert_rows(connection, instances, rows)


def insert_outcomes(connection: Connection, found: Sequence[PendingOutcome]) -> int:
    new = absent(connection, outcomes, found)
    owners = numbers_of(connection, receipts, (item.receipt.key for item in new))
    insert_rows(connection, outcomes, [outcome_row(item, owners) for item in new])
    numbers = numbers_of(connection, outcomes, (item.key for item in new))
    rows = [
        {"outcome": numbers[item.key], "position": position, "action": action}
        for item in new
        for position, action in enumerate(item.outcome.actions)
    ]
    insert_rows(connection, outcome_actions, rows)
    return len(new)


def receipt_row(item: PendingReceipt) -> dict[str, object]:
    receipt = item.receipt
    return {
        "key": item.key,
        "instance_id": receipt.instance_id,
        "receipt_id": receipt.id,
        "session": receipt.session,
        "task": receipt.task,
        "tokens": receipt.tokens,
        "created_at": receipt.created_at,
    }


def outcome_row(item: PendingOutcome, owners: Mapping[str, int]) -> dict[str, object]:
    return {
        "key": item.key,
        "receipt": owners[item.receipt.key],
        "outcome": item.outcome.outcome,
        "created_at": item.outcome.created_at,
    }


def absent(connection: Connection, table: Table, found: Sequence[Entry]) -> list[Entry]:
    entries = {item.key: item for item in found}
    known = numbers_of(connection, table, entries)
    return [item for key, item in entries.items() if key not in known]


def numbers_of(connection: Connection, table: Table, keys: Iterable[str]) -> dict[str, int]:
    rows = connection.execute(select(table.c.key, table.c.seq).where(table.c.key.in_(list(keys))))
    return {row.key: row.seq for row in rows}


def insert_rows(connection: Connection, table: Table, rows: Sequence[Mapping[str, object]]) -> None:
    if rows:  # an empty list would insert one row of defaults
        connection.execute(insert(table), rows)


def select_receipts(
    connection: Connection, instance_id: str, session: str | None, limit: int
) -> tuple[Receipt, ...]:
    query = select(receipts).where(receipts.c.instance_id == instance_id)
    if session is not None:
        query = query.where(receipts.c.session == session)
    rows = connection.execute(query.order_by(receipts.c.seq.desc()).limit(limit)).all()[::-1]
    if not rows:
        return ()
    chosen = receipts.c.seq.between(rows[0].seq, rows[-1].seq), receipts.c.instance_id == instance_id
    units = texts_by_owner(connection, units_query().where(*chosen))
    last = {row.receipt: row for row in connection.execute(outcomes_query().where(*chosen))}
    actions = texts_by_owner(connection, actions_query().where(*chosen))
    return tuple(receipt_of(row, units.get(row.seq, ()), last.get(row.seq), actions) for row in rows)


def select_outcomes(connection: Connection, instance_id: str) -> tuple[Outcome, ...]:
    chosen = receipts.c.instance_id == instance_id
    units = texts_by_owner(connection, units_query().where(chosen))
    actions = texts_by_owner(connection, actions_query().where(chosen))
    return tuple(
        Outcome(
            receipt=row.receipt_id,
            task=row.task,
            unit_ids=units.get(row.receipt, ()),
            actions=actions.get(row.seq, ()),
            outcome=row.outcome,
            created_at=row.created_at,
        )
        for row in connection.execute(outcomes_query().where(chosen))
    )


def units_query() -> Select[Any]:
    return (
        select(receipt_units.c.receipt, receipt_units.c.unit_id)
        .select_from(receipt_units.join(receipts))
        .order_by(receipt_units.c.receipt, receipt_units.c.position)
    )


def outcomes_query() -> Select[Any]:
    return (
        select(outcomes, receipts.c.receipt_id, receipts.c.task)
        .select_from(outcomes.join(receipts))
        .order_by(outcomes.c.seq)
    )


def actions_query() -> Select[Any]:
    return (
        select(outcome_actions.c.outcome, outcome_actions.c.action)
        .select_from(outcome_actions.join(outcomes).join(receipts))
        .order_by(outcome_actions.c.outcome, outcome_actions.c.position)
    )


def texts_by_owner(connection: Connection, query: Select[Any]) -> dict[int, tuple[str, ...]]:
    grouped: dict[int, list[str]] = defaultdict(list)
    for owner, text in connection.execute(query):
        grouped[owner].append(text)
    return {owner: tuple(texts) for owner, texts in grouped.items()}


def receipt_of(
    row: Row[Any], unit_ids: tuple[str, ...], last: Row[Any] | None, actions: Mapping[int, tuple[str, ...]]
) -> Receipt:
    return Receipt(
        id=row.receipt_id,
        instance_id=row.instance_id,
        session=row.session,
        task=row.task,
        unit_ids=unit_ids,
        tokens=row.tokens,
        created_at=row.created_at,
        actions=() if last is None else actions.get(last.seq, ()),
        outcome=None if last is None else last.outcome,
    )


def select_counts(connection: Connection, instance_id: str | None) -> Counts:
    kept = true() if instance_id is None else receipts.c.instance_id == instance_id

    def count(query: Select[Any]) -> int:
        return int(connection.execute(query).scalar_one())

    return Counts(
        instances=count(select(func.count(receipts.c.instance_id.distinct())).where(kept)),
        receipts=count(select(func.count()).select_from(receipts).where(kept)),
        cards=count(select(func.count()).select_from(receipt_units.join(receipts)).where(kept)),
        outcomes=count(select(func.count()).select_from(outcomes.join(receipts)).where(kept)),
    )
