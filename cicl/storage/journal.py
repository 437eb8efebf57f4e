"""The journal of one instance: what was delivered and what came of it, at the price of the standard library.

A command that answers in a few hundred milliseconds cannot import a database toolkit, so it writes here and
`cicl.storage.store` takes the entries in later. Entries are marked as taken, never deleted: the journal stays
what `select` reads. It looks at the newest `OUTCOMES_READABLE` outcomes; older ones are kept, unread.

Order is the order of arrival; times are text from outside and sort nothing. Lone surrogates and NUL in any
text become U+FFFD on entry, because SQLite and PostgreSQL do not hold both; a lookup follows the same rule.
"""

import hashlib
import json
import os
import re
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

from cicl.errors import ReceiptNotFound, StoreError
from cicl.selection.records import Receipt
from cicl.storage.sqlite_file import Schema, SqliteFile

__all__ = ["OUTCOMES_READABLE", "Journal", "Outcome", "Pending", "PendingOutcome", "PendingReceipt"]

FILE_NAME = "journal.sqlite3"

OUTCOMES_READABLE = 2_000
"""A bound on what every `select` pays for its past: 15 ms here (measured; 5 actions and 12 units each)."""

SCHEMA: Schema = (
    (
        """CREATE TABLE receipts (
            seq INTEGER PRIMARY KEY AUTOINCREMENT,
            key TEXT NOT NULL UNIQUE,
            id TEXT NOT NULL,
            instance_id TEXT NOT NULL,
            session TEXT,
            task TEXT NOT NULL,
            unit_ids TEXT NOT NULL,
            digests TEXT NOT NULL,
            tokens INTEGER NOT NULL,
            created_at TEXT NOT NULL,
            absorbed INTEGER NOT NULL DEFAULT 0
        )""",
        "CREATE INDEX receipts_by_id ON receipts (id)",
        "CREATE INDEX receipts_pending ON receipts (seq) WHERE absorbed = 0",
        """CREATE TABLE delivered (
            session TEXT NOT NULL,
            unit_id TEXT NOT NULL,
            digest TEXT NOT NULL,
            PRIMARY KEY (session, unit_id)
        ) WITHOUT ROWID""",
        """CREATE TABLE outcomes (
            seq INTEGER PRIMARY KEY AUTOINCREMENT,
            key TEXT NOT NULL UNIQUE,
            receipt INTEGER NOT NULL REFERENCES receipts (seq),
            actions TEXT NOT NULL,
            outcome TEXT NOT NULL,
            created_at TEXT NOT NULL,
            absorbed INTEGER NOT NULL DEFAULT 0
        )""",
        "CREATE INDEX outcomes_by_receipt ON outcomes (receipt)",
        "CREATE INDEX outcomes_pending ON outcomes (seq) WHERE absorbed = 0",
    ),
)
"""Released entries never change; a new version is one more entry."""

RECEIPT_COLUMNS = (
    "r.key, r.id, r.instance_id, r.session, r.task, r.unit_ids, r.digests, r.tokens, r.created_at"
)
OUTCOME_COLUMNS = "r.id, r.task, r.unit_ids, o.actions, o.outcome, o.created_at"

ReceiptRow = tuple[str, str, str, str | None, str, str, str, int, str]
OutcomeRow = tuple[str, str, str, str, str, str]

UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How one run ended that had been given one pack."""

    receipt: str
    """Id of the receipt of that pack."""
    task: str
    unit_ids: tuple[str, ...]
    """What the pack had delivered, in the order of its cards."""
    actions: tuple[str, ...]
    """What the agent did, in order."""
    outcome: str
    created_at: str
    """ISO 8601, UTC: when it was recorded."""


class PendingReceipt(NamedTuple):
    """A receipt that the store has not taken in."""

    key: str
    """Unique to this pack in this session of this instance, in any journal: what exactly-once rests on."""
    receipt: Receipt
    digests: tuple[str, ...]
    """Digest of each unit when it was delivered, in the order of `receipt.unit_ids`; empty where unknown."""


class PendingOutcome(NamedTuple):
    """An outcome that the store has not taken in."""

    key: str
    """Unique to this outcome, in any journal."""
    receipt: PendingReceipt
    """What the outcome belongs to, which may have been taken in long ago."""
    outcome: Outcome


class Pending(NamedTuple):
    """Entries for the store, each kind oldest first."""

    receipts: tuple[PendingReceipt, ...] = ()
    outcomes: tuple[PendingOutcome, ...] = ()

    @property
    def keys(self) -> tuple[str, ...]:
        return (*(item.key for item in self.receipts), *(item.key for item in self.outcomes))


class Journal:
    """Receipts and outcomes of one instance, for any number of processes and threads at once.

    Opening makes nothing: the directory and the file come with the first entry, and until then all is empty.
    Every method raises `StoreError` when the file is damaged, read-only, locked by another program for long
    or written by a newer cicl, or when its disk is full.
    """

    __slots__ = ("_file",)

    def __init__(self, path: Path) -> None:
        self._file = SqliteFile(path, SCHEMA)

    @classmethod
    def open(cls, directory: Path) -> Self:
        """Open the journal kept in `directory`, the state directory of one instance."""
        journal = cls(directory / FILE_NAME)
        journal._file.read(lambda _: None, None)
        return journal

    @property
    def path(self) -> Path:
        return self._file.path

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def append_receipt(self, receipt: Receipt, digests: Mapping[str, str]) -> None:
        """Record a delivery, with the digest of each unit by its id; the same pack counts once a session.

        Raises `StoreError` also for a receipt that carries an outcome: that is `append_outcome`'s to record.
        """
        if receipt.actions or receipt.outcome is not None:
            raise StoreError(
                "A receipt is appended before its outcome is known; append_outcome records that."
            )
        self._file.write(lambda connection: insert_receipt(connection, receipt, digests))

    def append_outcome(self, receipt_id: str, actions: Sequence[str], outcome: str, created_at: str) -> None:
        """Record how a run ended; each call counts, also for a receipt that has an outcome.

        Raises `ReceiptNotFound` when no such receipt was appended.
        """
        entry = (
            os.urandom(16).hex(),  # two equal outcomes of one pack are two facts: nothing in them is a key
            encoded(cleaned(action) for action in actions),
            cleaned(outcome),
            cleaned(created_at),
            cleaned(receipt_id),
        )
        self._file.write(lambda connection: insert_outcome(connection, entry))

    def delivered(self, session: str) -> Mapping[str, str]:
        """Return the units that reached `session`, each with the digest it had the last time."""
        query = "SELECT unit_id, digest FROM delivered WHERE session = ? ORDER BY unit_id"
        return self._file.read(lambda connection: dict(connection.execute(query, (cleaned(session),))), {})

    def find_receipt(self, receipt_id: str) -> Receipt | None:
        """Return the last delivery of that pack, with its last outcome if it has one."""
        return self._file.read(lambda connection: select_receipt(connection, cleaned(receipt_id)), None)

    def outcomes(self, limit: int = OUTCOMES_READABLE) -> tuple[Outcome, ...]:
        """Return the newest `limit` outcomes, oldest first."""
        return self._file.read(lambda connection: select_outcomes(connection, limit), ())

    def pending(self, limit: int) -> Pending:
        """Return at most `limit` entries that `mark_absorbed` has not named yet."""
        return self._file.read(lambda connection: select_pending(connection, limit), Pending())

    def mark_absorbed(self, keys: Iterable[str]) -> None:
        """Mark entries as taken in, once the store has committed them."""
        rows = [(key,) for key in keys]
        self._file.write(lambda connection: update_absorbed(connection, rows))


def cleaned(text: str) -> str:
    return UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def encoded(items: Iterable[object]) -> str:
    return json.dumps(list(items), ensure_ascii=False, separators=(",", ":"))


def insert_receipt(connection: sqlite3.Connection, receipt: Receipt, digests: Mapping[str, str]) -> None:
    session = None if receipt.session is None else cleaned(receipt.session)
    identity = (cleaned(receipt.id), cleaned(receipt.instance_id), session)
    unit_ids = [cleaned(unit_id) for unit_id in receipt.unit_ids]
    known = [cleaned(digests.get(unit_id, "")) for unit_id in receipt.unit_ids]
    connection.execute(
        """INSERT INTO receipts (key, id, instance_id, session, task, unit_ids, digests, tokens, created_at)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO NOTHING""",
        (
            hashlib.sha256(encoded(identity).encode()).hexdigest(),
            *identity,
            cleaned(receipt.task),
            encoded(unit_ids),
            encoded(known),
            receipt.tokens,
            cleaned(receipt.created_at),
        ),
    )
    if session is not None:  # also for a known receipt: a unit may have changed outside the lines it shows
        connection.executemany(
            "INSERT OR REPLACE INTO delivered (session, unit_id, digest) VALUES (?, ?, ?)",
            [(session, unit_id, digest) for unit_id, digest in zip(unit_ids, known, strict=True)],
        )


def insert_outcome(connection: sqlite3.Connection, entry: tuple[str, str, str, str, str]) -> None:
    cursor = connection.execute(
        """INSERT INTO outcomes (key, actions, outcome, created_at, receipt)
        SELECT ?, ?, ?, ?, seq FROM receipts WHERE id = ? ORDER BY seq DESC LIMIT 1""",
        entry,
    )
    if cursor.rowcount != 1:
        raise ReceiptNotFound(f"No pack with the receipt {entry[-1]!r} was recorded here; select first.")


def select_receipt(connection: sqlite3.Connection, receipt_id: str) -> Receipt | None:
    row = connection.execute(
        f"""SELECT {RECEIPT_COLUMNS}, o.actions, o.outcome
        FROM receipts r LEFT JOIN outcomes o ON o.receipt = r.seq
        WHERE r.id = ? ORDER BY r.seq DESC, o.seq DESC LIMIT 1""",
        (receipt_id,),
    ).fetchone()
    return None if row is None else receipt_of(row[:-2], *row[-2:]).receipt


def select_outcomes(connection: sqlite3.Connection, limit: int) -> tuple[Outcome, ...]:
    rows = connection.execute(
        f"""SELECT {OUTCOME_COLUMNS} FROM outcomes o JOIN receipts r ON r.seq = o.receipt
        ORDER BY o.seq DESC LIMIT ?""",
        (limit,),
    ).fetchall()
    return tuple(outcome_of(row) for row in reversed(rows))


def update_absorbed(connection: sqlite3.Connection, rows: list[tuple[str]]) -> None:
    for table in ("receipts", "outcomes"):
        connection.executemany(f"UPDATE {table} SET absorbed = 1 WHERE key = ?", rows)


def select_pending(connection: sqlite3.Connection, limit: int) -> Pending:
    receipts = connection.execute(
        f"SELECT {RECEIPT_COLUMNS} FROM receipts r WHERE absorbed = 0 ORDER BY seq LIMIT ?", (limit,)
    ).fetchall()
    outcomes = connection.execute(
        f"""SELECT o.key, {OUTCOME_COLUMNS}, {RECEIPT_COLUMNS}
        FROM outcomes o JOIN receipts r ON r.seq = o.receipt WHERE o.absorbed = 0 ORDER BY o.seq LIMIT ?""",
        (limit - len(receipts),),
    ).fetchall()
    return Pending(
        tuple(receipt_of(row) for row in receipts),
        tuple(PendingOutcome(row[0], receipt_of(row[7:]), outcome_of(row[1:7])) for row in outcomes),
    )


def receipt_of(row: ReceiptRow, actions: str | None = None, outcome: str | None = None) -> PendingReceipt:
    key, receipt_id, instance_id, session, task, unit_ids, digests, tokens, created_at = row
    receipt = Receipt(
        id=receipt_id,
        instance_id=instance_id,
        session=session,
        task=task,
        unit_ids=tuple(json.loads(unit_ids)),
        tokens=tokens,
        created_at=created_at,
        actions=tuple(json.loads(actions or "[]")),
        outcome=outcome,
    )
    return PendingReceipt(key, receipt, tuple(json.loads(digests)))


def outcome_of(row: OutcomeRow) -> Outcome:
    receipt_id, task, unit_ids, actions, outcome, created_at = row
    return Outcome(
        receipt=receipt_id,
        task=task,
        unit_ids=tuple(json.loads(unit_ids)),
        actions=tuple(json.loads(actions)),
        outcome=outcome,
        created_at=created_at,
    )
