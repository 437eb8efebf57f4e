import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cicl.errors import ReceiptNotFound, StoreError
from cicl.selection.records import Receipt
from cicl.storage.journal import FILE_NAME, SCHEMA, Journal, Outcome, Pending

NOON = "2026-05-01T12:00:00Z"
MORNING = "2026-05-01T09:00:00Z"

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

WRITER = """
import sys
from pathlib import Path
from cicl.selection.records import Receipt
from cicl.storage.journal import Journal

directory, writer, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
print("ready", flush=True)
sys.stdin.readline()
for number in range(count):
    with Journal.open(directory) as journal:
        name = f"{writer}-{number}"
        journal.append_receipt(
            Receipt(id=name, instance_id="here", session="shared", task="t", unit_ids=(name, "common"),
                    tokens=1, created_at="2026"),
            {name: "d"},
        )
        journal.append_receipt(
            Receipt(id=str(number), instance_id="here", session="shared", task="t", unit_ids=(),
                    tokens=1, created_at="2026"),
            {},
        )
        journal.append_outcome(name, ["edit"], "solved", "2026")
        print(name, flush=True)
"""


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with Journal.open(tmp_path / "state") as opened:
        yield opened


# What is remembered


def test_opening_and_reading_make_no_file(tmp_path: Path) -> None:
    with Journal.open(tmp_path / "state") as journal:
        assert journal.delivered("s1") == {}
        assert journal.outcomes() == ()
        assert journal.find_receipt("r1") is None
        assert journal.pending(10) == Pending()
    assert list(tmp_path.iterdir()) == []


def test_a_receipt_comes_back_as_it_went_in(journal: Journal) -> None:
    journal.append_receipt(RECEIPT, DIGESTS)
    assert journal.find_receipt("r1") == RECEIPT
    assert journal.find_receipt("r2") is None


def test_a_second_process_sees_it(journal: Journal) -> None:
    journal.append_receipt(RECEIPT, DIGESTS)
    with Journal.open(journal.path.parent) as other:
        assert other.find_receipt("r1") == RECEIPT
        assert other.delivered("s1") == DIGESTS


def test_a_pack_counts_once_a_session(journal: Journal) -> None:
    for session in ("s1", "s1", "s2", None, None, ""):
        journal.append_receipt(replace(RECEIPT, session=session), DIGESTS)
    found = [item.receipt.session for item in journal.pending(10).receipts]
    assert found == ["s1", "s2", None, ""]


def test_two_instances_in_one_journal_stay_apart(journal: Journal) -> None:
    journal.append_receipt(RECEIPT, DIGESTS)
    journal.append_receipt(replace(RECEIPT, instance_id="there"), DIGESTS)
    assert len(journal.pending(10).receipts) == 2


def test_units_are_delivered_to_their_session_only(journal: Journal) -> None:
    journal.append_receipt(RECEIPT, DIGESTS)
    journal.append_receipt(replace(RECEIPT, id="r2", session=None, unit_ids=("src/c.py",)), {})
    journal.append_receipt(replace(RECEIPT, id="r3", session="s2", unit_ids=("src/c.py",)), {})
    assert journal.delivered("s1") == DIGESTS
    assert journal.delivered("s2") == {"src/c.py": ""}
    assert journal.delivered("nobody") == {}


def test_the_last_digest_of_a_unit_counts_even_in_an_equal_pack(journal: Journal) -> None:
    journal.append_receipt(RECEIPT, DIGESTS)
    journal.append_receipt(RECEIPT, DIGESTS | {"src/b.py": "changed below its excerpt"})
    assert journal.delivered("s1")["src/b.py"] == "changed below its excerpt"
    assert len(journal.pending(10).receipts) == 1


def test_an_empty_pack_has_a_receipt(journal: Journal) -> None:
    empty = replace(RECEIPT, unit_ids=())
    journal.append_receipt(empty, {})
    assert journal.find_receipt("r1") == empty


def test_every_outcome_of_a_receipt_is_kept(journal: Journal) -> None:
    journal.append_receipt(RECEIPT, DIGESTS)
    for _ in range(2):
        journal.append_outcome("r1", ["open src/a.py", "edit src/a.py"], "failed", NOON)
    journal.append_outcome("r1", [], "solved", NOON)
    first, second, last = journal.outcomes()
    assert (
        first
        == second
        == Outcome(
            receipt="r1",
            task="fix the parser",
            unit_ids=RECEIPT.unit_ids,
            actions=("open src/a.py", "edit src/a.py"),
            outcome="failed",
            created_at=NOON,
        )
    )
    assert (last.actions, last.outcome) == ((), "solved")
    assert journal.find_receipt("r1") == replace(RECEIPT, actions=(), outcome="solved")


def test_an_outcome_needs_its_receipt(journal: Journal) -> None:
    with pytest.raises(ReceiptNotFound, match="'r1'"):
        journal.append_outcome("r1", [], "solved", NOON)
    journal.append_receipt(RECEIPT, DIGESTS)
    with pytest.raises(ReceiptNotFound, match="'r2'"):
        journal.append_outcome("r2", [], "solved", NOON)
    assert journal.outcomes() == ()


def test_a_receipt_that_carries_an_outcome_is_refused(journal: Journal) -> None:
    with pytest.raises(StoreError, match="append_outcome"):
        journal.append_receipt(replace(RECEIPT, outcome="solved"), DIGESTS)


def test_a_clock_that_goes_back_reorders_nothing(journal: Journal) -> None:
    journal.append_receipt(RECEIPT, DIGESTS)
    journal.append_receipt(replace(RECEIPT, session="s2", created_at=MORNING), DIGESTS)
    for outcome, at in (("failed", NOON), ("solved", MORNING)):
        journal.append_outcome("r1", [], outcome, at)
    assert [item.outcome for item in journal.outcomes()] == ["failed", "solved"]
    found = journal.find_receipt("r1")
    assert found is not None
    assert (found.session, found.outcome) == ("s2", "solved")


def test_the_newest_outcomes_are_read_and_the_rest_is_kept(journal: Journal) -> None:
    journal.append_receipt(RECEIPT, DIGESTS)
    for number in range(5):
        journal.append_outcome("r1", [], str(number), NOON)
    assert [item.outcome for item in journal.outcomes(limit=3)] == ["2", "3", "4"]
    assert len(journal.pending(10).outcomes) == 5


# What the store takes


def test_entries_are_pending_until_they_are_marked(journal: Journal) -> None:
    journal.append_receipt(RECEIPT, DIGESTS)
    journal.append_outcome("r1", ["edit"], "solved", NOON)
    pending = journal.pending(10)
    (receipt,), (outcome,) = pending.receipts, pending.outcomes
    assert (receipt.receipt, receipt.digests) == (RECEIPT, ("d-a", "d-b"))
    assert outcome.receipt == receipt
    assert outcome.outcome == journal.outcomes()[0]

    journal.mark_absorbed(pending.keys)
    assert journal.pending(10) == Pending()


def test_what_was_marked_stays_readable(journal: Journal) -> None:
    journal.append_receipt(RECEIPT, DIGESTS)
    journal.append_outcome("r1", ["edit"], "solved", NOON)
    before = journal.outcomes(), journal.delivered("s1"), journal.find_receipt("r1")
    journal.mark_absorbed(journal.pending(10).keys)
    assert before == (journal.outcomes(), journal.delivered("s1"), journal.find_receipt("r1"))


def test_pending_is_bounded_and_receipts_come_first(journal: Journal) -> None:
    for number in range(3):
        journal.append_receipt(replace(RECEIPT, id=str(number)), DIGESTS)
        journal.append_outcome(str(number), [], "solved", NOON)
    sizes = []
    while (pending := journal.pending(2)).keys:
        sizes.append((len(pending.receipts), len(pending.outcomes)))
        journal.mark_absorbed(pending.keys)
    assert sizes == [(2, 0), (1, 1), (0, 2)]


# Text


def test_lone_surrogates_and_nul_become_the_replacement_character(journal: Journal) -> None:
    odd, stored = "a\ud83d\x00b", "a\ufffd\ufffdb"
    journal.append_receipt(
        Receipt(id=odd, instance_id=odd, session=odd, task=odd, unit_ids=(odd,), tokens=1, created_at=odd),
        {odd: odd},
    )
    journal.append_outcome(odd, [odd], odd, odd)
    assert journal.delivered(odd) == {stored: stored}
    found = journal.find_receipt(odd)
    assert found is not None
    assert {found.id, found.task, found.session, *found.unit_ids, *found.actions, found.outcome} == {stored}


@settings(max_examples=15, deadline=None)
@given(
    session=st.text(), task=st.text(), unit_ids=st.lists(st.text(), max_size=4), actions=st.lists(st.text())
)
def test_any_text_can_be_stored(
    tmp_path_factory: pytest.TempPathFactory,
    session: str,
    task: str,
    unit_ids: list[str],
    actions: list[str],
) -> None:
    receipt = replace(RECEIPT, session=session, task=task, unit_ids=tuple(unit_ids))
    with Journal.open(tmp_path_factory.mktemp("any")) as journal:
        journal.append_receipt(receipt, {})
        journal.append_outcome("r1", actions, "solved", NOON)
        (outcome,) = journal.outcomes()
        assert set(journal.delivered(session)) == {text.replace("\x00", "\ufffd") for text in unit_ids}
    assert outcome.task == task.replace("\x00", "\ufffd")
    assert outcome.actions == tuple(action.replace("\x00", "\ufffd") for action in actions)


# Many at once


def start_writers(directory: Path, writers: int, count: int) -> list[subprocess.Popen[str]]:
    running = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(directory), str(writer), str(count)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for writer in range(writers)
    ]
    for process in running:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in running:  # all together, so that they also race for the creation of the file
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    return running


def check_concurrent_writers(directory: Path, writers: int, count: int) -> None:
    for process in start_writers(directory, writers, count):
        _, errors = process.communicate()
        assert (process.returncode, errors) == (0, "")
    with Journal.open(directory) as journal:
        pending = journal.pending(10**6)
        names = {f"{writer}-{number}" for writer in range(writers) for number in range(count)}
        expected = names | {str(number) for number in range(count)}
        assert sorted(item.receipt.id for item in pending.receipts) == sorted(expected)
        assert sorted(item.outcome.receipt for item in pending.outcomes) == sorted(names)
        assert set(journal.delivered("shared")) == names | {"common"}


def test_four_processes_lose_nothing(tmp_path: Path) -> None:
    check_concurrent_writers(tmp_path / "state", writers=4, count=15)


@pytest.mark.soak
def test_sixteen_processes_lose_nothing(tmp_path: Path) -> None:
    for turn in range(5):
        check_concurrent_writers(tmp_path / str(turn), writers=16, count=100)


@pytest.mark.soak
def test_a_killed_process_loses_nothing_it_had_reported(tmp_path: Path) -> None:
    for turn in range(10):
        directory = tmp_path / str(turn)
        (process,) = start_writers(directory, writers=1, count=100_000)
        assert process.stdout is not None
        reported = [process.stdout.readline().strip() for _ in range(10 + turn)]
        process.kill()
        process.communicate()
        with Journal.open(directory) as journal:
            assert set(reported) <= journal.delivered("shared").keys()
            assert set(reported) <= {outcome.receipt for outcome in journal.outcomes()}
            journal.append_receipt(RECEIPT, DIGESTS)


def test_threads_may_share_one_journal(journal: Journal) -> None:
    def append(thread: int) -> None:
        for number in range(20):
            journal.append_receipt(replace(RECEIPT, id=f"{thread}-{number}"), DIGESTS)

    threads = [threading.Thread(target=append, args=(thread,)) for thread in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(journal.pending(1_000).receipts) == 80


def test_a_lock_that_is_released_is_waited_for(journal: Journal) -> None:
    journal.append_receipt(RECEIPT, DIGESTS)
    holder = sqlite3.connect(journal.path, isolation_level=None, check_same_thread=False)
    holder.execute("BEGIN IMMEDIATE")
    release = threading.Timer(0.2, holder.execute, ("COMMIT",))
    release.start()
    journal.append_receipt(replace(RECEIPT, id="r2"), DIGESTS)
    release.join()
    holder.close()
    assert journal.find_receipt("r2") is not None


# Files that cannot be used


def each_operation(directory: Path) -> list[Callable[[], object]]:
    def using(work: Callable[[Journal], object]) -> Callable[[], object]:
        def run() -> None:
            with Journal.open(directory) as journal:
                work(journal)

        return run

    return [
        using(lambda journal: journal.delivered("s1")),
        using(lambda journal: journal.append_receipt(RECEIPT, DIGESTS)),
    ]


def test_a_file_that_is_no_database_is_reported_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    path.write_bytes(b"not a database, but precious" * 100)
    before = path.read_bytes()
    for operation in each_operation(tmp_path):
        with pytest.raises(StoreError, match=r"damaged.*Nothing was deleted") as caught:
            operation()
        assert str(path) in str(caught.value)
    assert path.read_bytes() == before


def test_a_damaged_page_is_reported(journal: Journal) -> None:
    for number in range(50):
        journal.append_receipt(replace(RECEIPT, id=str(number), task="t" * 500), DIGESTS)
    journal.close()
    whole = journal.path.read_bytes()
    journal.path.write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))
    with pytest.raises(StoreError, match="damaged"):
        journal.pending(100)


def test_a_damaged_row_is_reported(journal: Journal) -> None:
    journal.append_receipt(RECEIPT, DIGESTS)
    with sqlite3.connect(journal.path) as connection:
        connection.execute("UPDATE receipts SET unit_ids = '[\"src/a'")
    connection.close()
    with pytest.raises(StoreError, match="damaged"):
        journal.find_receipt("r1")


def test_a_journal_works_again_once_the_damaged_file_was_moved(journal: Journal) -> None:
    journal.path.parent.mkdir()
    journal.path.write_text("not a database")
    with pytest.raises(StoreError):
        journal.append_receipt(RECEIPT, DIGESTS)
    journal.path.rename(journal.path.with_suffix(".damaged"))
    journal.append_receipt(RECEIPT, DIGESTS)
    assert journal.find_receipt("r1") == RECEIPT


def test_a_file_removed_under_a_living_process_is_made_anew(journal: Journal) -> None:
    journal.append_receipt(RECEIPT, DIGESTS)
    for path in journal.path.parent.iterdir():
        path.unlink()
    assert journal.find_receipt("r1") is None
    journal.append_receipt(replace(RECEIPT, id="r2"), DIGESTS)
    with Journal.open(journal.path.parent) as other:
        assert other.find_receipt("r2") is not None


def test_a_newer_schema_is_refused_with_advice(journal: Journal) -> None:
    journal.append_receipt(RECEIPT, DIGESTS)
    journal.close()
    with sqlite3.connect(journal.path) as connection:
        connection.execute(f"PRAGMA user_version = {len(SCHEMA) + 1}")
    connection.close()
    for operation in each_operation(journal.path.parent):
        with pytest.raises(StoreError, match=r"newer cicl.*Upgrade"):
            operation()


def test_a_directory_that_cannot_be_made_is_reported(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file where the directory should be")
    with Journal.open(tmp_path / "state") as journal:
        assert journal.delivered("s1") == {}
        with pytest.raises(StoreError, match="cannot be reached"):
            journal.append_receipt(RECEIPT, DIGESTS)


def test_a_file_that_cannot_be_opened_is_reported(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).mkdir()
    for operation in each_operation(tmp_path):
        with pytest.raises(StoreError, match="check the permissions"):
            operation()


def run_python(script: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="no limits on the size of a file there")
def test_a_full_disk_is_reported_and_loses_nothing(journal: Journal) -> None:
    journal.append_receipt(RECEIPT, DIGESTS)
    journal.close()
    message = run_python(
        """
import resource, sys
from dataclasses import replace
from pathlib import Path
from cicl.errors import StoreError
from cicl.storage.journal import Journal

with Journal.open(Path(sys.argv[1])) as journal:
    known = journal.find_receipt("r1")
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, resource.RLIM_INFINITY))
    try:
        journal.append_receipt(replace(known, id="r2", task="t" * 1_000_000), {})
    except StoreError as error:
        print(error)
    assert journal.find_receipt("r2") is None
    journal.append_receipt(replace(known, id="r3"), {})
""",
        str(journal.path.parent),
    )
    assert str(journal.path) in message
    assert journal.find_receipt("r1") == RECEIPT
    assert journal.find_receipt("r3") is not None


# The hot path


def test_importing_the_journal_imports_no_library() -> None:
    script = """
import sys
before = set(sys.modules)
import cicl.storage.journal
foreign = {name.partition(".")[0] for name in set(sys.modules) - before} - sys.stdlib_module_names - {"cicl"}
print(sorted(foreign), sorted(name for name in sys.modules if name.startswith("cicl.")))
"""
    foreign, own = run_python(script).strip().split("] ")
    assert foreign == "["
    assert own == str(
        [
            "cicl.errors",
            "cicl.selection",
            "cicl.selection.records",
            "cicl.storage",
            "cicl.storage.journal",
            "cicl.storage.sqlite_file",
        ]
    )
