"""One SQLite file that any number of processes and threads use at once, by the standard library alone.

The file is made by the first write; until then every read is answered with its empty value. The write-ahead
log loses nothing when a process dies; a power cut may lose the last entries, never the file.
Unreadable is not deleted: a damaged file is reported and left as it is.
"""

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from cicl.errors import StoreError

__all__ = ["Schema", "SqliteFile"]

Schema = tuple[tuple[str, ...], ...]
"""The statements that lead from each version to the next; `user_version` counts the versions done."""

BUSY_TIMEOUT_SECONDS = 5.0
ATTEMPTS = 3
"""SQLite skips its own busy timeout where it sees a deadlock, such as two processes creating one file."""
PAUSE_SECONDS = 0.05

DAMAGED = (
    "is damaged. Nothing was deleted: move it and the -wal and -shm files beside it to another place, "
    "and a new one is begun; `sqlite3 FILE .recover` can read what is left"
)

T = TypeVar("T")


class SqliteFile:
    """A file and its schema. After a fork the child opens its own.

    Every method raises `StoreError`, which names the file and says what to do, when it is damaged, read-only,
    locked by another program for long or of a newer schema, or when its disk is full.
    """

    __slots__ = ("_connection", "_lock", "path", "schema")

    def __init__(self, path: Path, schema: Schema) -> None:
        self.path = path
        self.schema = schema
        self._connection: sqlite3.Connection | None = None
        self._lock = threading.Lock()

    def read(self, work: Callable[[sqlite3.Connection], T], empty: T) -> T:
        """Return what `work` finds in one snapshot; `empty` where there is no file."""
        with self._lock, translated(self.path):
            if not self.path.exists():
                return empty
            return self._patiently(work, "BEGIN")

    def write(self, work: Callable[[sqlite3.Connection], None]) -> None:
        """Do all of `work` or none of it. `work` may run again when the file was busy."""
        with self._lock, translated(self.path):
            if not self.path.exists():  # also: removed under a living process, whose entries would be lost
                self._disconnect()
                self.path.parent.mkdir(parents=True, exist_ok=True)
            self._patiently(work, "BEGIN IMMEDIATE")

    def close(self) -> None:
        with self._lock, translated(self.path):
            self._disconnect()

    def _patiently(self, work: Callable[[sqlite3.Connection], T], begin: str) -> T:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                if self._connection is None:
                    self._connection = connected(self.path, self.schema)
                return in_transaction(self._connection, work, begin)
            except sqlite3.Error as error:
                self._disconnect()  # the next try, or the next call, finds the file as it is then
                if not is_busy(error) or attempt == ATTEMPTS:
                    raise
                time.sleep(PAUSE_SECONDS * attempt)
        raise AssertionError("the last attempt returns or raises")

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def connected(path: Path, schema: Schema) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path, timeout=BUSY_TIMEOUT_SECONDS, isolation_level=None, check_same_thread=False
    )
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA foreign_keys = ON")
        if schema_version(connection) != len(schema):
            in_transaction(connection, lambda inside: migrate(inside, path, schema), "BEGIN IMMEDIATE")
    except BaseException:
        connection.close()
        raise
    return connection


def schema_version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def migrate(connection: sqlite3.Connection, path: Path, schema: Schema) -> None:
    version = schema_version(connection)  # again, inside the lock: another process may have been first
    if version > len(schema):
        raise StoreError(
            f"A newer cicl wrote {path} (schema {version}; this one knows {len(schema)}). Upgrade cicl here."
        )
    for statements in schema[version:]:
        for statement in statements:
            connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {len(schema)}")


def in_transaction(connection: sqlite3.Connection, work: Callable[[sqlite3.Connection], T], begin: str) -> T:
    connection.execute(begin)
    try:
        result = work(connection)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # SQLite rolls back by itself when the disk is full
            connection.execute("ROLLBACK")
        raise
    return result


def is_busy(error: sqlite3.Error) -> bool:
    return primary_code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def primary_code(error: sqlite3.Error) -> int:
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF  # the upper bytes of an extended code only refine it


@contextmanager
def translated(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise StoreError(f"{path} {complaint(error)}") from error
    except OSError as error:
        raise StoreError(f"{path} cannot be reached: {error}.") from error
    except ValueError as error:  # a text that was JSON when it was written
        raise StoreError(f"{path} {DAMAGED} ({error}).") from error


def complaint(error: sqlite3.Error) -> str:
    match primary_code(error):
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return f"{DAMAGED} ({error})."
        case sqlite3.SQLITE_FULL:
            return f"cannot grow: make room on its disk ({error})."
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
            return f"cannot be opened for writing: check the permissions of its directory ({error})."
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return f"is locked by another program; try again when that has ended ({error})."
        case _:
            return f"cannot be used ({error})."
