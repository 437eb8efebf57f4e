import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cicl.config import Settings
from cicl.errors import ConfigurationError, RepositoryError
from cicl.flows.indexing import RACY_NS
from cicl.flows.instance import TreeInstance, open_graph
from cicl.selection.graph import InstanceGraph
from cicl.selection.records import ContextUnit, Receipt
from cicl.selection.sources.repository import identify
from cicl.tokens import ByteCounter

FILES = {"a.py": "def alpha():\n    return 1\n", "b.md": "# B\n\nText.\n"}


def write(root: Path, files: Mapping[str, str]) -> None:
    for path, text in files.items():
        (root / path).write_text(text)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CICL_HOME", str(tmp_path / "home"))
    folder = tmp_path / "tree"
    folder.mkdir()
    write(folder, FILES)
    return folder


def instance_of(root: Path, **options: object) -> TreeInstance:
    return TreeInstance(identify(root), Settings(**options))  # type: ignore[arg-type]


RECEIPT = Receipt(
    id="r1",
    instance_id="here",
    session=None,
    task="fix alpha",
    unit_ids=("a.py::alpha",),
    tokens=9,
    created_at="2026-05-01T12:00:00Z",
)


def test_an_instance_is_the_same_object_until_something_changes(root: Path) -> None:
    tree = instance_of(root)
    first = tree.refresh("fielded")
    assert tree.refresh("fielded") is first
    assert first.graph.refresh() is first.graph
    assert tree.refresh("rank-bm25") is not first
    write(root, {"a.py": "def beta():\n    return 22\n"})
    second = tree.refresh("fielded")
    assert "a.py::beta" in second.graph
    assert "a.py::alpha" in first.graph, "a snapshot is never changed"
    assert "a.py::beta" in first.graph.refresh()


def test_an_edit_that_no_time_and_no_size_shows_makes_a_new_instance(root: Path) -> None:
    tree = instance_of(root)
    tree.refresh("fielded")
    write(root, {"a.py": "def gamma():\n    return 1\n"})
    loaded = tree.snapshots.load()
    assert loaded is not None
    stats = [(root / path).stat() for path in loaded[0].paths]
    rows = [(status.st_size, status.st_mtime_ns, status.st_ctime_ns) for status in stats]
    now = max(row[2] for row in rows) + RACY_NS - 1
    tree.snapshots.save(replace(loaded[0], stats=np.array(rows, np.int64), indexed_at_ns=now))
    assert "a.py::gamma" in tree.refresh("fielded").graph


def test_the_lines_of_a_unit_are_those_of_the_file(root: Path) -> None:
    graph = instance_of(root).refresh("fielded").graph
    assert graph.unit("a.py::alpha").content == FILES["a.py"].rstrip("\n")
    (root / "b.md").unlink()
    assert graph.unit("b.md::b").content == ""


def test_past_runs_are_units_of_the_next_instance(root: Path) -> None:
    tree = instance_of(root)
    before = tree.refresh("fielded")
    tree.journal.append_receipt(RECEIPT, {})
    tree.journal.append_outcome("r1", ["edit a.py"], "solved", "2026-05-01T13:00:00Z")
    after = tree.refresh("fielded")
    assert after is not before
    assert [unit.kind for unit in after.graph.given.values()] == ["trace", "strategy"]
    assert after.history["a.py::alpha"].successes == 1
    assert {edge.kind for edge in after.graph.edges_to("a.py::alpha")} >= {"contains", "remembers"}


def test_a_journal_that_cannot_be_read_is_a_note(root: Path) -> None:
    tree = instance_of(root)
    tree.folder.mkdir(parents=True)
    (tree.folder / "journal.sqlite3").write_bytes(b"not a database " * 100)
    found = tree.refresh("fielded")
    assert any(note.startswith("past runs were not read: ") for note in found.notes)
    assert "a.py::alpha" in found.graph


@pytest.mark.parametrize("encoding", ["o200k_base", "cl100k_base", "qwen3.5", "gpt2", "p50k_base"])
def test_a_tree_is_indexed_whatever_the_encoding(
    root: Path, encoding: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    found = instance_of(root, encoding=encoding).refresh("fielded")
    assert "a.py::alpha" in found.graph
    assert found.counter(encoding).count("alpha beta") >= 2


def test_an_encoding_that_nobody_knows_is_refused_and_never_becomes_a_file(root: Path) -> None:
    tree = instance_of(root, encoding="../../evil")
    with pytest.raises(ConfigurationError):
        tree.refresh("fielded")
    assert not list(root.parent.rglob("*evil*"))


def test_a_tree_that_is_gone_is_an_error_that_says_so(root: Path) -> None:
    tree = instance_of(root)
    tree.refresh("fielded")
    for path in FILES:
        (root / path).unlink()
    root.rmdir()
    with pytest.raises(RepositoryError, match="is gone"):
        tree.refresh("fielded")


def test_a_graph_built_by_hand_is_an_instance_without_a_past() -> None:
    graph = InstanceGraph.from_units([ContextUnit(id="m", kind="memory", source="log", content="alpha")])
    found = open_graph(graph, "fielded")
    assert (found.skipped, found.notes, dict(found.history)) == ((), (), {})
    assert not isinstance(found.counter("o200k_base"), ByteCounter)


def test_a_refresh_of_an_unchanged_tree_writes_nothing(root: Path) -> None:
    tree = instance_of(root)
    time.sleep(RACY_NS / 1e9 + 0.02)
    first = tree.refresh("fielded")
    before = {path: path.stat().st_ino for path in tree.folder.glob("*.bin")}
    assert tree.refresh("fielded") is first
    assert {path: path.stat().st_ino for path in tree.folder.glob("*.bin")} == before
