import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cicl.flows.indexing import (
    MAX_SMALL_SEGMENTS,
    RACY_NS,
    Indexed,
    count_stale,
    index_tree,
)
from cicl.selection.graph import InstanceGraph
from cicl.selection.index import FieldWeights, LevelName, corpus_index
from cicl.selection.sources.files import DEFAULT_LIMITS, Limits
from cicl.storage.snapshots import SnapshotFiles
from cicl.text import term_key

needs_users = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can become somebody else"
)


class Place:
    """A tree and the folder that its snapshots are kept in."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "tree"
        self.state = folder / "state"
        self.root.mkdir(parents=True)

    def write(self, files: Mapping[str, str | bytes]) -> None:
        for path, content in files.items():
            target = self.root / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content.encode() if isinstance(content, str) else content)

    def index(self, state: Path | None = None, limits: Limits = DEFAULT_LIMITS, **options: Any) -> Indexed:
        return index_tree(self.root, SnapshotFiles(state or self.state), None, limits, **options)

    def age(self) -> None:
        """Let the files grow older than what might still change unseen."""
        time.sleep(RACY_NS / 1e9 + 0.02)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


QUERIES = ("alpha", "beta gamma", "run total", "m03", "中文")


def answers(indexed: Indexed) -> dict[str, object]:
    """All that a snapshot can be asked: facts, scores to the last bit, and edges."""
    corpus = indexed.corpus
    graph = InstanceGraph(corpus)
    rows = {path: corpus.file_row(path) for path in corpus.paths}
    found: dict[str, object] = {
        "skipped": indexed.skipped,
        "facts": [corpus.facts(row) for row in rows.values() if row is not None],
        "edges": {unit_id: graph.edges_from(unit_id) for unit_id in graph},
        "reached": {unit_id: graph.edges_to(unit_id, limit=4) for unit_id in graph},
    }
    levels: tuple[LevelName, ...] = ("files", "parts")
    for level in levels:
        index = corpus_index(corpus, level, FieldWeights(2.0, 1.5, 1.0, 1.0))
        for query in QUERIES:
            hits = index.search({term_key(term): 1.0 for term in query.split()})
            named = corpus.path if level == "files" else corpus.part_id
            matched = np.flatnonzero(hits.matched).tolist()
            found[f"{level} {query}"] = {named(row): hits.scores[row].hex() for row in matched}
    return found


# Nothing is read twice


FILES = {
    "a.py": "from b import beta\n\n\ndef alpha():\n    return beta()\n",
    "b.py": "def beta():\n    return 1\n",
    "docs/c.md": "# Gamma\n\nalpha and beta\n",
}


def test_only_what_changed_is_extracted(place: Place) -> None:
    place.write(FILES)
    first = place.index()
    assert (first.extracted, first.files, first.parts, first.notes) == (3, 3, 4, ())
    assert place.index().extracted == 0
    place.write({"b.py": "def beta():\n    return 2\n"})
    assert place.index().extracted == 1
    place.write({"d.py": "x = 1\n"})
    assert place.index().extracted == 1
    (place.root / "a.py").rename(place.root / "e.py")
    renamed = place.index()
    assert renamed.extracted == 1
    assert list(renamed.corpus.paths) == ["b.py", "d.py", "docs/c.md", "e.py"]
    assert set(renamed.stats) == {"b.py", "d.py", "docs/c.md", "e.py"}


def test_a_file_that_was_only_touched_is_not_extracted(place: Place) -> None:
    place.write(FILES)
    place.age()
    place.index()
    os.utime(place.root / "a.py")
    assert place.index().extracted == 0


def test_a_current_snapshot_is_not_written_again(place: Place) -> None:
    place.write(FILES)
    place.age()
    place.index()
    before = {path.name: path.stat().st_ino for path in place.state.iterdir()}
    place.index()
    assert {path.name: path.stat().st_ino for path in place.state.iterdir()} == before


def test_a_tree_may_be_empty_and_become_so(place: Place) -> None:
    assert (place.index().files, place.index().extracted) == (0, 0)
    place.write(FILES)
    assert place.index().files == 3
    for path in FILES:
        (place.root / path).unlink()
    assert (place.index().files, place.index().extracted) == (0, 0)
    place.write(FILES)
    assert answers(place.index()) == answers(place.index(place.state / "fresh"))


def test_skipped_files_are_remembered_with_their_reason(place: Place) -> None:
    place.write(
        {**FILES, "blob.dat": bytes(range(256)) * 9, "min.js": "var a=1;" * 3000, "old.py": "print 'x'\n"}
    )
    place.age()
    first = place.index()
    assert [item.path for item in first.skipped] == ["blob.dat", "min.js", "old.py"]
    assert [item.reason.partition(":")[0] for item in first.skipped] == [
        "binary",
        "minified or generated",
        "read as plain lines",
    ]
    again = place.index()
    assert again.extracted == 0, "a skipped file makes the index stale for ever"
    assert again.skipped == first.skipped
    assert "old.py" in set(again.corpus.paths)
    place.write({"old.py": "print('x')\n"})
    assert [item.path for item in place.index().skipped] == ["blob.dat", "min.js"]


def test_a_text_that_turned_binary_and_back_is_indexed_again(place: Place) -> None:
    place.write(FILES)
    place.index()
    place.write({"b.py": bytes(range(256)) * 9})
    assert "b.py" not in set(place.index().corpus.paths)
    place.write({"b.py": FILES["b.py"]})
    found = place.index()
    assert found.skipped == ()
    assert answers(found) == answers(place.index(place.state / "fresh"))


def test_other_limits_are_another_snapshot(place: Place) -> None:
    place.write({**FILES, "wide.txt": "wide " * 300 + "\n"})
    tight = Limits(max_line_chars=100)
    assert [item.path for item in place.index(limits=tight).skipped] == ["wide.txt"]
    assert place.index().skipped == ()
    assert [item.path for item in place.index(limits=tight).skipped] == ["wide.txt"]


def test_our_own_state_inside_the_tree_does_not_change_what_is_indexed(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.write(FILES)
    monkeypatch.setenv("CICL_HOME", str(place.root / "var"))
    place.write({"var/store.sqlite3": "SQLite format 3\0"})
    state = place.root / "var" / "instances" / "1"
    for _ in range(3):
        found = place.index(state)
        assert (found.files, found.skipped) == (3, ())
    place.age()
    place.index(state)
    assert place.index(state).extracted == 0
    elsewhere = place.root / "cache"
    place.index(elsewhere)
    assert set(place.index(elsewhere).stats) == set(FILES)


# Changes that a file's times do not show


def forge(place: Place, indexed_at_ns: int) -> None:
    """Make the last snapshot believe that it was taken of the files as they are, at that time."""
    files = SnapshotFiles(place.state)
    found = files.load()
    assert found is not None
    stats = [(place.root / path).stat() for path in found[0].paths]
    rows = [(status.st_size, status.st_mtime_ns, status.st_ctime_ns) for status in stats]
    files.save(replace(found[0], stats=np.array(rows, np.int64), indexed_at_ns=indexed_at_ns))


def test_an_edit_within_the_same_tick_and_of_the_same_size_is_noticed(place: Place) -> None:
    place.write(FILES)
    place.index()
    place.write({"b.py": "def beta():\n    return 2\n"})
    changed = (place.root / "b.py").stat().st_ctime_ns
    forge(place, changed + RACY_NS - 1)
    found = place.index()
    assert found.extracted == 1
    assert answers(found) == answers(place.index(place.state / "fresh"))
    forge(place, changed + RACY_NS + 1)
    assert place.index().extracted == 0


def test_edits_in_quick_succession_are_all_noticed(place: Place) -> None:
    place.write(FILES)
    for number in range(40):
        place.write({"b.py": f"def beta{number:02}():\n    return 1\n"})
        assert place.index().corpus.find_unit(f"b.py::beta{number:02}") is not None


def test_a_clock_that_goes_back_hides_no_edit(place: Place) -> None:
    place.write(FILES)
    place.index()
    place.write({"b.py": "def gamma():\n    return 1\n"})
    os.utime(place.root / "b.py", (1, 1))
    assert place.index().corpus.find_unit("b.py::gamma") is not None
    future = time.time() + 1e6
    place.write({"b.py": "def delta():\n    return 1\n"})
    os.utime(place.root / "b.py", (future, future))
    for _ in range(2):
        found = place.index()
        assert found.corpus.find_unit("b.py::delta") is not None
    assert found.extracted == 0


def test_a_snapshot_that_lost_a_file_finds_it_again(place: Place) -> None:
    place.write(FILES)
    place.age()
    place.index()
    other = Place(place.root.parent / "other")
    other.write({"a.py": FILES["a.py"]})
    other.index()
    found = SnapshotFiles(other.state).load()
    assert found is not None
    files = SnapshotFiles(place.state)
    state = files.load()
    assert state is not None
    files.save(replace(state[0], segments=(files.save_segment(found[1][0]),)))
    assert answers(place.index()) == answers(place.index(place.state / "fresh"))


# State that is damaged, foreign, refused or shared


@pytest.mark.parametrize("how", ["cut", "zeroed", "random", "missing", "empty", "folder"])
def test_damaged_state_is_rebuilt_and_heals(place: Place, how: str) -> None:
    place.write(FILES)
    expected = answers(place.index())
    for name in sorted(path.name for path in place.state.iterdir()):
        path = place.state / name
        data = path.read_bytes()
        middle = len(data) // 2
        path.unlink()
        if how == "folder":
            path.mkdir()
        elif how != "missing":
            path.write_bytes(
                {
                    "cut": data[:middle],
                    "zeroed": data[:middle] + bytes(len(data) - middle),
                    "random": data[:middle] + os.urandom(len(data) - middle),
                    "empty": b"",
                }[how]
            )
        found = place.index()
        assert answers(found) == expected
        if how == "folder":
            assert "could not be saved" in found.notes[0]
            path.rmdir()
            place.index()
        place.age()
        place.index()
        healed = place.index()
        assert (healed.extracted, healed.notes) == (0, ())


def test_a_state_folder_that_cannot_be_written_costs_time_and_nothing_else(place: Place) -> None:
    place.write(FILES)
    (place.root.parent / "file").write_text("in the way")
    for _ in range(2):
        found = place.index(place.root.parent / "file" / "state")
        assert found.extracted == 3
        assert len(found.notes) == 1
        assert found.notes[0].startswith("the index could not be saved in ")
        assert answers(found) == answers(place.index(place.state))


@needs_users
def test_a_state_folder_of_somebody_else_is_a_note() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        place = Place(Path(folder))
        place.write(FILES)
        place.index()
        place.write({"d.py": "x = 1\n"})
        os.seteuid(65534)
        try:
            found = place.index()
        finally:
            os.seteuid(0)
        assert list(found.corpus.paths) == ["a.py", "b.py", "d.py", "docs/c.md"]
        assert "Permission denied" in found.notes[0]
        assert answers(found) == answers(place.index())


PROGRAM = """
import json, sys
from pathlib import Path
from cicl.flows.indexing import index_tree
from cicl.selection.sources.files import Limits
from cicl.storage.snapshots import SnapshotFiles
found = index_tree(Path(sys.argv[1]), SnapshotFiles(Path(sys.argv[2])), None, Limits())
print(json.dumps([list(found.corpus.paths), list(found.corpus.digests), found.notes]))
"""


def test_processes_that_index_at_once_agree(place: Place) -> None:
    place.write({**FILES, **{f"m{number:02}.py": f"x{number} = 1\n" for number in range(40)}})
    for step in range(2):
        place.write({"b.py": f"def beta{step}(): ...\n"})
        command = [sys.executable, "-c", PROGRAM, str(place.root), str(place.state)]
        started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
        outputs = {process.communicate()[0] for process in started}
        assert [process.returncode for process in started] == [0, 0, 0]
        assert len(outputs) == 1
        paths, digests, notes = json.loads(outputs.pop())
        found = place.index()
        assert (list(found.corpus.paths), list(found.corpus.digests), notes) == (paths, digests, [])
    assert answers(found) == answers(place.index(place.state / "fresh"))


# Any history gives what a fresh start gives


BASE = {
    f"lib/m{number:02}.py": (
        f"from lib.m{(number * 7 + 1) % 40:02} import run{(number * 7 + 1) % 40} as other\n\n\n"
        f"def run{number}(x):\n    '''Run {number}.'''\n    return other(x)\n"
    )
    for number in range(40)
}
PATHS = (
    "a.py",
    "pkg/__init__.py",
    "pkg/b.py",
    "tests/test_b.py",
    "tests/conftest.py",
    "docs/d.md",
    "AGENTS.md",
)
TEXTS = (
    "",
    "alpha = 1\n",
    "from pkg import total\nimport lib.m03 as m\n\n\ndef alpha(x):\n    return total(m.run3(x))\n",
    "from .b import *\nfrom pkg.b import total as summed\n",
    "class Base:\n    def run(self): ...\n\n\nclass C(Base):\n    def go(self):\n        self.run()\n",
    "def total(x): ...\n\n\nclass C:\n    def run(self):\n        super().run(); x.go()\n",
    "import pytest\nfrom pkg.b import C\n\n\n@pytest.fixture\ndef beta(): ...\n",
    "from pkg.b import C\n\n\ndef test_total(beta):\n    C().go()\n",
    "# Gamma\n\nDeprecated. Use `pkg/b.py` instead.\n\n# 中文\n\nalpha beta\n",
    "- Always read @docs/d.md first.\n- Never call beta.\n",
    "print 'python 2'\n",
    bytes(range(256)) * 4,
)
writes = st.tuples(st.just("write"), st.sampled_from((*PATHS, "lib/m03.py")), st.sampled_from(TEXTS))
moves = st.tuples(st.just("move"), st.sampled_from(PATHS), st.sampled_from(PATHS))
deletions = st.tuples(st.just("delete"), st.sampled_from((*PATHS, "lib/m04.py")), st.none())
steps = st.lists(st.one_of(writes, writes, moves, deletions), min_size=1, max_size=4)


def perform(place: Place, step: tuple[str, str, object]) -> None:
    kind, path, argument = step
    if kind == "write":
        assert isinstance(argument, str | bytes)
        place.write({path: argument})
    elif kind == "delete":
        (place.root / path).unlink(missing_ok=True)
    elif (place.root / path).exists() and path != argument:
        target = place.root / str(argument)
        target.parent.mkdir(parents=True, exist_ok=True)
        (place.root / path).replace(target)


@settings(
    deadline=None,
    max_examples=12,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(steps, min_size=2, max_size=9))
def test_any_history_of_edits_gives_the_answers_of_a_fresh_start(
    tmp_path_factory: pytest.TempPathFactory, history: list[list[tuple[str, str, object]]]
) -> None:
    place = Place(tmp_path_factory.mktemp("history"))
    place.write(BASE)
    place.index()
    for number, step in enumerate(history):
        for action in step:
            perform(place, action)
        found = place.index()
        assert len(found.corpus.segments) <= MAX_SMALL_SEGMENTS + 1
        if number % 3 == 0 or step is history[-1]:
            assert answers(found) == answers(place.index(place.state / f"fresh{number}"))


def test_after_many_small_edits_the_segments_are_merged_and_the_answers_are_the_same(place: Place) -> None:
    place.write(BASE)
    place.index()
    counts = []
    for number in range(3 * MAX_SMALL_SEGMENTS):
        place.write({f"lib/m{number % 7:02}.py": f"def run{number}(alpha): ...\n"})
        found = place.index()
        counts.append(len(found.corpus.segments))
        assert found.extracted == 1
    assert max(counts) == MAX_SMALL_SEGMENTS + 1
    assert counts.count(2) > 1, "merged more than once"
    assert answers(found) == answers(place.index(place.state / "fresh"))
    for number in range(30):
        (place.root / f"lib/m{number:02}.py").unlink()
    smaller = place.index()
    assert len(smaller.corpus.segments) == 1
    assert answers(smaller) == answers(place.index(place.state / "fresher"))


def test_one_process_and_two_index_alike(place: Place) -> None:
    place.write(BASE)
    assert answers(place.index(workers=1)) == answers(place.index(place.state / "two", workers=2))


# Counting what is stale


def test_what_is_stale_is_counted_and_nothing_is_changed(place: Place) -> None:
    def survey() -> tuple[int, int, int]:
        found = count_stale(place.root, SnapshotFiles(place.state), DEFAULT_LIMITS, submodules=True)
        return found.files, found.parts, found.stale

    place.write({**FILES, "blob.dat": bytes(range(256)) * 9})
    assert survey() == (0, 0, 4)
    assert not place.state.exists()
    place.age()
    place.index()
    assert survey() == (3, 4, 0)
    found = count_stale(place.root, SnapshotFiles(place.state), DEFAULT_LIMITS, submodules=True)
    assert found.skipped == place.index().skipped
    place.write({"b.py": "x = 1\n", "d.py": "y = 1\n", "a.py": bytes(range(256)) * 9})
    (place.root / "docs/c.md").unlink()
    assert survey() == (2, 3, 3)
    place.index()
    assert survey()[0] == 2
