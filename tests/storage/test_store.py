import sqlite3
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateTable

from cicl.errors import ConfigurationError, StoreError
from cicl.selection.records import Receipt
from cicl.storage import database
from cicl.storage.journal import Journal
from cicl.storage.schema import REVISIONS, metadata
from cicl.storage.store import BATCH, Counts, Store

NOON = "2026-05-01T12:00:00Z"

RECEIPT = Receipt(
    id="r1",
    instance_id="here",
    session="s1",
    task="fix the parser",
    unit_ids=("src/a.py::f", "src/b.py"),
    tokens=120,
    created_at=NOON,
)
DIGESTS = {"src/a.py::f": "d-a", "src/b.py": "d-b"}

FIRST_SCHEMA = """
CREATE TABLE alembic_version (
    version_num VARCHAR(32) NOT NULL,
    CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
CREATE TABLE instances (
    id TEXT NOT NULL,
    created_at TEXT NOT NULL,
    CONSTRAINT pk_instances PRIMARY KEY (id)
);
CREATE TABLE receipts (
    seq INTEGER NOT NULL,
    "key" VARCHAR(64) NOT NULL,
    instance_id TEXT NOT NULL,
    receipt_id TEXT NOT NULL,
    session TEXT,
    task TEXT NOT NULL,
    tokens INTEGER NOT NULL,
    created_at TEXT NOT NULL,
    CONSTRAINT pk_receipts PRIMARY KEY (seq),
    CONSTRAINT uq_receipts_key UNIQUE ("key"),
    CONSTRAINT fk_receipts_instance_id FOREIGN KEY(instance_id) REFERENCES instances (id) ON DELETE CASCADE
);
CREATE INDEX ix_receipts_instance_id_seq ON receipts (instance_id, seq);
CREATE TABLE receipt_units (
    receipt INTEGER NOT NULL,
    position INTEGER NOT NULL,
    unit_id TEXT NOT NULL,
    digest TEXT NOT NULL,
    CONSTRAINT pk_receipt_units PRIMARY KEY (receipt, position),
    CONSTRAINT fk_receipt_units_receipt FOREIGN KEY(receipt) REFERENCES receipts (seq) ON DELETE CASCADE
);
CREATE TABLE outcomes (
    seq INTEGER NOT NULL,
    "key" VARCHAR(64) NOT NULL,
    receipt INTEGER NOT NULL,
    outcome TEXT NOT NULL,
    created_at TEXT NOT NULL,
    CONSTRAINT pk_outcomes PRIMARY KEY (seq),
    CONSTRAINT uq_outcomes_key UNIQUE ("key"),
    CONSTRAINT fk_outcomes_receipt FOREIGN KEY(receipt) REFERENCES receipts (seq) ON DELETE CASCADE
);
CREATE INDEX ix_outcomes_receipt ON outcomes (receipt);
CREATE TABLE outcome_actions (
    outcome INTEGER NOT NULL,
    position INTEGER NOT NULL,
    action TEXT NOT NULL,
    CONSTRAINT pk_outcome_actions PRIMARY KEY (outcome, position),
    CONSTRAINT fk_outcome_actions_outcome FOREIGN KEY(outcome) REFERENCES outcomes (seq) ON DELETE CASCADE
);
INSERT INTO alembic_version VALUES ('0001');
INSERT INTO instances VALUES ('here', '2026-05-01T12:00:00Z');
INSERT INTO receipts VALUES (1, 'k', 'here', 'r1', 's1', 'fix the parser', 120, '2026-05-01T12:00:00Z');
INSERT INTO receipt_units VALUES (1, 0, 'src/a.py::f', 'd-a'), (1, 1, 'src/b.py', 'd-b');
INSERT INTO outcomes VALUES (1, 'o', 1, 'solved', '2026-05-01T12:00:00Z');
INSERT INTO outcome_actions VALUES (1, 0, 'edit src/a.py');
"""
"""What cicl 0.1 leaves on disk. It never changes: every later version must open it."""

ABSORBER = """
import sys
from pathlib import Path
from cicl.storage.journal import Journal
from cicl.storage.store import Store

print("ready", flush=True)
sys.stdin.readline()
with Store.open(Path(sys.argv[1])) as store, Journal.open(Path(sys.argv[2])) as journal:
    print(store.absorb(journal))
"""


class InterruptedJournal(Journal):
    """A process that dies after the store's commit, before it could tell the journal."""

    def mark_absorbed(self, keys: Iterable[str]) -> None:
        raise StoreError("killed")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "store.sqlite3"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    with Store.open(path) as opened:
        yield opened


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with Journal.open(tmp_path / "state") as opened:
        yield opened


# Taking journals in


def test_an_empty_store_counts_nothing(store: Store) -> None:
    assert store.counts() == Counts(instances=0, receipts=0, cards=0, outcomes=0)
    assert store.receipts("here") == ()
    assert store.outcomes("here") == ()


def test_absorbing_an_empty_journal_takes_nothing(store: Store, journal: Journal) -> None:
    assert store.absorb(journal) == 0
    assert not journal.path.exists()


def test_absorb_takes_everything_once(store: Store, journal: Journal) -> None:
    journal.append_receipt(RECEIPT, DIGESTS)
    journal.append_outcome("r1", ["open src/a.py", "edit src/a.py"], "failed", NOON)
    journal.append_outcome("r1", [], "solved", NOON)
    assert store.absorb(journal) == 3
    assert store.absorb(journal) == 0
    assert store.receipts("here") == (replace(RECEIPT, outcome="solved"),)
    assert store.outcomes("here") == journal.outcomes()
    assert store.counts() == Counts(instances=1, receipts=1, cards=2, outcomes=2)


def test_absorb_takes_what_came_since(store: Store, journal: Journal) -> None:
    journal.append_receipt(RECEIPT, DIGESTS)
    store.absorb(journal)
    journal.append_outcome("r1", ["edit src/a.py"], "solved", NOON)
    journal.append_receipt(RECEIPT, DIGESTS)
    assert store.absorb(journal) == 1
    assert store.receipts("here") == (replace(RECEIPT, actions=("edit src/a.py",), outcome="solved"),)


def test_a_crash_before_the_journal_is_marked_doubles_nothing(store: Store, journal: Journal) -> None:
    journal.append_receipt(RECEIPT, DIGESTS)
    for _ in range(2):
        journal.append_outcome("r1", ["edit"], "failed", NOON)
    with InterruptedJournal.open(journal.path.parent) as dying, pytest.raises(StoreError, match="killed"):
        store.absorb(dying)
    before = store.counts()
    assert store.absorb(journal) == 0
    assert store.counts() == before == Counts(instances=1, receipts=1, cards=2, outcomes=2)
    assert journal.pending(10).keys == ()


def test_absorb_takes_more_than_a_batch(store: Store, journal: Journal) -> None:
    for number in range(BATCH + 3):
        journal.append_receipt(replace(RECEIPT, id=str(number)), DIGESTS)
    journal.append_outcome("0", [], "solved", NOON)
    assert store.absorb(journal) == BATCH + 4
    assert [receipt.id for receipt in store.receipts("here", limit=2)] == [str(BATCH + 1), str(BATCH + 2)]


def test_a_new_store_takes_an_outcome_with_the_receipt_it_lacks(
    store: Store, journal: Journal, tmp_path: Path
) -> None:
    journal.append_receipt(RECEIPT, DIGESTS)
    store.absorb(journal)
    journal.append_outcome("r1", [], "solved", NOON)
    with Store.open(tmp_path / "other.sqlite3") as other:
        assert other.absorb(journal) == 2
        assert other.receipts("here") == (replace(RECEIPT, outcome="solved"),)


def test_digests_are_kept_in_the_order_of_the_cards(store: Store, journal: Journal, path: Path) -> None:
    journal.append_receipt(RECEIPT, DIGESTS)
    store.absorb(journal)
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT position, unit_id, digest FROM receipt_units ORDER BY 1").fetchall()
    assert rows == [(0, "src/a.py::f", "d-a"), (1, "src/b.py", "d-b")]


def test_two_processes_absorb_one_journal_once(journal: Journal, path: Path) -> None:
    check_concurrent_absorbers(journal, path, processes=2, entries=200)


@pytest.mark.soak
def test_sixteen_processes_absorb_one_journal_once(journal: Journal, path: Path) -> None:
    check_concurrent_absorbers(journal, path, processes=16, entries=5_000)


def check_concurrent_absorbers(journal: Journal, path: Path, processes: int, entries: int) -> None:
    for number in range(entries):
        journal.append_receipt(replace(RECEIPT, id=str(number)), DIGESTS)
    running = [start_absorber(path, journal.path.parent) for _ in range(processes)]
    for process in running:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in running:  # all together, so that they also race for the first migration
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    answers = [process.communicate() for process in running]
    assert [errors for _, errors in answers] == [""] * processes
    assert sum(int(taken) for taken, _ in answers) == entries
    with Store.open(path) as store:
        assert store.counts().receipts == entries


def start_absorber(path: Path, state: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", ABSORBER, str(path), str(state)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


# Reading


def test_receipts_are_found_by_instance_and_session(store: Store, journal: Journal) -> None:
    for instance, session in (("here", "s1"), ("here", "s2"), ("there", "s1"), ("here", None)):
        journal.append_receipt(replace(RECEIPT, instance_id=instance, session=session), DIGESTS)
    store.absorb(journal)
    assert [receipt.session for receipt in store.receipts("here")] == ["s1", "s2", None]
    assert [receipt.session for receipt in store.receipts("here", session="s2")] == ["s2"]
    assert [receipt.instance_id for receipt in store.receipts("there")] == ["there"]
    assert store.counts("here") == Counts(instances=1, receipts=3, cards=6, outcomes=0)
    assert store.counts("nowhere") == Counts(instances=0, receipts=0, cards=0, outcomes=0)


def test_arrival_orders_receipts_whatever_the_clock_says(store: Store, journal: Journal) -> None:
    for number, hour in enumerate(("12", "09", "15", "10")):
        at = f"2026-05-01T{hour}:00:00Z"
        journal.append_receipt(replace(RECEIPT, id=str(number), created_at=at), DIGESTS)
        journal.append_outcome(str(number), [hour], "solved", at)
    store.absorb(journal)
    assert [receipt.id for receipt in store.receipts("here", limit=3)] == ["1", "2", "3"]
    assert [outcome.actions for outcome in store.outcomes("here")] == [("12",), ("09",), ("15",), ("10",)]


def test_long_and_odd_text_is_stored(store: Store, journal: Journal) -> None:
    odd = replace(RECEIPT, session="会话 🙂" * 2_000, task="%(x)s ' \" \\ \n" * 500, unit_ids=())
    journal.append_receipt(odd, {})
    store.absorb(journal)
    assert store.receipts("here", session=odd.session) == (odd,)


# The schema


def scripts() -> ScriptDirectory:
    return ScriptDirectory(str(database.MIGRATIONS))


def test_the_revisions_named_are_the_migrations_there_are() -> None:
    assert tuple(script.revision for script in scripts().walk_revisions())[::-1] == REVISIONS


def test_migrations_lead_to_the_tables_of_the_schema(store: Store, path: Path) -> None:
    engine = create_engine(f"sqlite:///{path}")
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_server_default": True})
        assert context.get_current_revision() == REVISIONS[-1]
        assert compare_metadata(context, metadata) == []
    engine.dispose()


def test_the_tables_can_be_written_for_postgresql() -> None:
    for table in metadata.sorted_tables:
        assert str(CreateTable(table).compile(dialect=postgresql.dialect()))


def test_a_store_of_the_first_version_opens(path: Path, journal: Journal) -> None:
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(FIRST_SCHEMA)
    journal.append_receipt(replace(RECEIPT, id="r2"), DIGESTS)
    with Store.open(path) as store:
        assert store.receipts("here") == (replace(RECEIPT, actions=("edit src/a.py",), outcome="solved"),)
        assert store.absorb(journal) == 1
        assert store.counts() == Counts(instances=1, receipts=2, cards=4, outcomes=1)


def test_a_store_of_a_newer_version_is_refused_with_advice(store: Store, path: Path) -> None:
    store.close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
        connection.commit()
    with pytest.raises(StoreError, match=r"9999.*Upgrade cicl") as caught:
        Store.open(path)
    assert str(path) in str(caught.value)


def test_a_migration_that_fails_leaves_nothing(path: Path) -> None:
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE outcomes (of_another_program TEXT)")
    with pytest.raises(StoreError, match="already exists"):
        Store.open(path)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("outcomes",)]


def run_python(script: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_store_at_the_newest_version_opens_without_alembic(store: Store, path: Path) -> None:
    script = """
import sys
from cicl.storage.store import Store
Store.open(sys.argv[1]).close()
print("alembic" in sys.modules)
"""
    assert run_python(script, str(path)) == "False\n"


# Places that cannot be used


def test_pragmas_are_set_on_every_connection(store: Store) -> None:
    def pragma(name: str) -> object:
        return store._database.read(
            lambda connection: connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()
        )

    assert [pragma(name) for name in ("journal_mode", "foreign_keys", "busy_timeout", "synchronous")] == [
        "wal",
        1,
        5_000,
        1,
    ]


def test_a_path_and_its_url_are_one_store(store: Store, path: Path, journal: Journal) -> None:
    journal.append_receipt(RECEIPT, DIGESTS)
    store.absorb(journal)
    for where in (path, str(path), f"sqlite:///{path}"):
        with Store.open(where) as same:
            assert same.counts().receipts == 1


@pytest.mark.parametrize("url", ["nonsense://host/db", "://", "sqlite+nothing:///x"])
def test_a_url_that_cannot_be_used_is_a_configuration_error(url: str) -> None:
    with pytest.raises(ConfigurationError):
        Store.open(url)


def test_a_password_is_not_shown() -> None:
    with pytest.raises(ConfigurationError) as caught:
        Store.open("nonsense://user:secret@host/db")
    assert "secret" not in str(caught.value)


def test_a_damaged_store_is_reported_and_left_alone(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"not a database, but precious" * 100)
    before = path.read_bytes()
    with pytest.raises(StoreError, match="damaged") as caught:
        Store.open(path)
    assert str(path) in str(caught.value)
    assert path.read_bytes() == before


def test_a_place_that_cannot_be_opened_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file" / "store.sqlite3", tmp_path):
        with pytest.raises(StoreError, match="cannot be"):
            Store.open(place)
