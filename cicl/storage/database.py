"""A database with the schema of the store: opened, migrated forward, used in whole transactions."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from sqlite3 import Error as SqliteError
from typing import Any, Self, TypeVar

from sqlalchemy import URL, Connection, Engine, create_engine, event, inspect, make_url, text
from sqlalchemy.exc import (
    ArgumentError,
    DBAPIError,
    IntegrityError,
    OperationalError,
    ProgrammingError,
)

from cicl.errors import ConfigurationError, StoreError
from cicl.storage.schema import REVISIONS
from cicl.storage.sqlite_file import ATTEMPTS, BUSY_TIMEOUT_SECONDS, PAUSE_SECONDS, complaint

__all__ = ["Database"]

MIGRATIONS = Path(__file__).with_name("migrations")

T = TypeVar("T")


class Database:
    """An engine and the two kinds of transaction it runs.

    Every method raises `StoreError` when the database cannot be reached, read or written; the message names
    it without its password and without the texts that were on their way.
    """

    __slots__ = ("_engine", "_writer")

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._writer = engine.execution_options(begin="BEGIN IMMEDIATE")

    @classmethod
    def open(cls, where: str | Path) -> Self:
        """Open the database at a path or URL; make it, or migrate it forward, where needed.

        Raises `ConfigurationError` for a URL that cannot be used here, `StoreError` for a newer schema.
        """
        database = cls(engine_of(url_of(where)))
        try:
            database._migrate()
        except BaseException:
            database.close()
            raise
        return database

    def read(self, work: Callable[[Connection], T]) -> T:
        """Return what `work` finds."""
        with translated(self._engine.url):
            return patiently(self._engine, work)

    def write(self, work: Callable[[Connection], T]) -> T:
        """Do all of `work` or none of it; it may run again where another writer was in its way."""
        with translated(self._engine.url):
            return patiently(self._writer, work)

    def close(self) -> None:
        self._engine.dispose()

    def _migrate(self) -> None:
        revision = self.read(revision_of)
        if revision == REVISIONS[-1]:
            return
        if revision is not None and revision not in REVISIONS:
            raise StoreError(
                f"{shown(self._engine.url)} has schema {revision}, newer than what this cicl knows "
                f"({REVISIONS[-1]}). Upgrade cicl here, or name another store."
            )
        try:
            self.write(upgrade)
        except StoreError as error:
            # PostgreSQL has no lock to take ahead: two first opens meet at the same table, and one is enough.
            if not isinstance(error.__cause__, ProgrammingError) or self.read(revision_of) != REVISIONS[-1]:
                raise


def url_of(where: str | Path) -> URL:
    if isinstance(where, Path) or "://" not in where:
        return URL.create("sqlite", database=str(Path(where)))
    try:
        url = make_url(where)
    except ArgumentError as error:
        raise ConfigurationError("The URL of the store cannot be read; see the SQLAlchemy manual.") from error
    if url.drivername in ("postgres", "postgresql"):
        return url.set(drivername="postgresql+psycopg")  # the driver that the extra `postgres` installs
    return url


def engine_of(url: URL) -> Engine:
    try:
        engine = create_engine(url, hide_parameters=True)
    except (ArgumentError, ImportError) as error:
        raise ConfigurationError(
            f"The store {shown(url)} needs a driver ({error}); for PostgreSQL: pip install 'cicl[postgres]'."
        ) from error
    if engine.dialect.name == "sqlite":
        with translated(url):
            Path(url.database or ".").parent.mkdir(parents=True, exist_ok=True)
        event.listen(engine, "connect", set_pragmas)
        event.listen(engine, "begin", send_begin)
    return engine


def set_pragmas(connection: Any, _: object) -> None:
    connection.isolation_level = None  # the driver would begin late and never around a migration
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_SECONDS * 1000:.0f}")


def send_begin(connection: Connection) -> None:
    connection.exec_driver_sql(connection.get_execution_options().get("begin", "BEGIN"))


def patiently(engine: Engine, work: Callable[[Connection], T]) -> T:
    for attempt in range(1, ATTEMPTS + 1):
        try:
            with engine.begin() as connection:
                return work(connection)
        except (OperationalError, IntegrityError):
            if attempt == ATTEMPTS:
                raise
            time.sleep(PAUSE_SECONDS * attempt)
    raise AssertionError("the last attempt returns or raises")


def revision_of(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def upgrade(connection: Connection) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def shown(url: URL) -> str:
    return url.database or ":memory:" if url.drivername == "sqlite" else url.render_as_string()


@contextmanager
def translated(url: URL) -> Iterator[None]:
    try:
        yield
    except DBAPIError as error:
        if isinstance(error.orig, SqliteError):
            raise StoreError(f"{shown(url)} {complaint(error.orig)}") from error
        raise StoreError(f"{shown(url)} cannot be used ({error.orig}).") from error
    except OSError as error:
        raise StoreError(f"{shown(url)} cannot be used ({error}).") from error
