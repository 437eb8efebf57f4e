import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from cicl.flows.extracting import WORKER, extract_files
from cicl.flows.worker import Batch
from cicl.pieces import PieceTable
from cicl.selection.sources.files import FileEntry, Limits, list_files

CRASHING_WORKER = """
import json, os, sys, time
from cicl.flows import worker
from cicl.selection.sources import extraction

extract = worker.extract

def crash_on(path, text, digest):
    if "crash" in path:
        os.kill(os.getpid(), 9) if "kill" in path else os._exit(3)
    return extract(path, text, digest)

worker.extract = crash_on
sys.exit(worker.main())
"""
"""Dies as a process dies whose parser overran its stack."""

DYING_WORKER = """
import json, sys
from cicl.flows import worker
for line in sys.stdin:
    sys.exit(1)
"""

REFUSED_WORKER = """
import sys
for line in sys.stdin:
    if '"entries": []' not in line:
        print("done", flush=True)
        continue
    sys.stdin = iter([line])
    from cicl.flows import worker
    worker.main()
"""
"""Answers and leaves no file, as on a full disk."""


def write(root: Path, files: Mapping[str, str | bytes]) -> list[FileEntry]:
    for path, content in files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)
    return list(list_files(root).files)


MODULE = """\
import pkg.m{0:02} as n


def f{1}(x):
    '''Doc {1}.'''
    return n.f(x)
"""


def project(count: int) -> dict[str, str]:
    return {f"pkg/m{number:02}.py": MODULE.format(number // 2, number) for number in range(count)}


def script(folder: Path, source: str) -> Sequence[str]:
    file = folder / "worker_of_test.py"
    file.write_text(source)
    return (sys.executable, "-P", str(file))


def assert_same(one: Batch, other: Batch) -> None:
    assert (one.segment.paths, one.segment.digests) == (other.segment.paths, other.segment.digests)
    columns = other.segment.to_arrays()
    for name, column in one.segment.to_arrays().items():
        np.testing.assert_array_equal(column, columns[name], err_msg=name)
    assert (one.skipped, one.partly) == (other.skipped, other.partly)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "tree"
    folder.mkdir()
    return folder


def names(batch: Batch) -> list[str]:
    return [path.rpartition("/")[2] for path in batch.segment.paths]


# The same with any number of processes


def test_one_process_and_two_give_the_same(root: Path, tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {
        **project(30),
        "old.py": "print 'x'\n",
        "binary.dat": bytes(range(256)) * 4,
        "docs/a.md": "# A\n\nText.\n",
        "empty.py": "",
    }
    entries = write(root, files)
    tables = [PieceTable.open(tmp_path / name, "o200k_base") for name in ("one", "two")]
    one = extract_files(root, entries, Limits(), tables[0], workers=1)
    two = extract_files(root, entries, Limits(), tables[1], workers=2)
    assert_same(one, two)
    assert len(one.segment.paths) == 33
    assert list(one.skipped) == ["binary.dat"]
    assert list(one.partly) == ["old.py"]
    assert all(len(table) > 1000 for table in tables)


def test_no_files_are_a_batch_too(root: Path) -> None:
    for workers in (None, 1, 2):
        batch = extract_files(root, [], Limits(), None, workers=workers)
        assert (batch.segment.paths, batch.skipped, batch.partly) == ((), {}, {})


def test_few_bytes_are_read_in_this_process_unless_workers_are_asked_for(root: Path) -> None:
    entries = write(root, project(2))
    nobody = ("/nonexistent/worker",)
    assert names(extract_files(root, entries, Limits(), None, command=nobody)) == ["m00.py", "m01.py"]


def test_progress_counts_every_file_once(root: Path) -> None:
    entries = write(root, project(9))
    seen: list[tuple[int, int]] = []
    extract_files(
        root, entries, Limits(), None, workers=2, progress=lambda done, total: seen.append((done, total))
    )
    assert seen[-1] == (9, 9)
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})


def test_odd_names_reach_the_worker(root: Path) -> None:
    odd = {
        "数据/模块.py": "def 甲(): ...\n",
        'a "b".py': "x = 1\n",
        "new\nline.py": "y = 1\n",
        "{0}%s.md": "# T\n",
    }
    entries = write(root, odd)
    assert_same(
        extract_files(root, entries, Limits(), None, workers=1),
        extract_files(root, entries, Limits(), None, workers=2),
    )


# A file that ends its worker


@pytest.mark.parametrize("name", ["pkg/crash.py", "pkg/crash_kill.py"])
def test_a_file_that_ends_its_worker_costs_only_itself(root: Path, tmp_path: Path, name: str) -> None:
    entries = write(root, {**project(12), name: "x = 1\n"})
    seen: list[int] = []
    batch = extract_files(
        root,
        entries,
        Limits(),
        None,
        workers=2,
        progress=lambda done, total: seen.append(done),
        command=script(tmp_path, CRASHING_WORKER),
    )
    assert batch.skipped == {name: "reading it ended the process that read it"}
    assert names(batch) == [f"m{number:02}.py" for number in range(12)]
    assert seen[-1] == 13


def test_where_every_file_ends_its_worker_all_are_listed(root: Path, tmp_path: Path) -> None:
    entries = write(root, {f"crash{number}.py": "x = 1\n" for number in range(3)})
    batch = extract_files(root, entries, Limits(), None, workers=2, command=script(tmp_path, CRASHING_WORKER))
    assert batch.segment.paths == ()
    assert sorted(batch.skipped) == ["crash0.py", "crash1.py", "crash2.py"]


def unfit_workers(tmp_path: Path) -> Iterable[Sequence[str]]:
    yield ("/nonexistent/worker",)
    yield (sys.executable, "-c", "import sys; sys.exit(1)")
    yield (sys.executable, "-c", "print('hello')")
    yield script(tmp_path, DYING_WORKER)
    yield script(tmp_path, REFUSED_WORKER)


def test_where_no_worker_can_work_the_files_are_read_here(root: Path, tmp_path: Path) -> None:
    entries = write(root, {**project(4), "binary.dat": bytes(range(256)) * 4})
    here = extract_files(root, entries, Limits(), None, workers=1)
    for command in unfit_workers(tmp_path):
        assert_same(extract_files(root, entries, Limits(), None, workers=2, command=command), here)


def test_modules_of_the_tree_that_is_read_are_never_imported(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trap = "open('trapped', 'w').close(); raise SystemExit(1)\n"
    entries = write(
        root, {**project(4), "json.py": trap, "numpy/__init__.py": trap, "cicl/__init__.py": trap}
    )
    monkeypatch.chdir(root)
    batch = extract_files(root, entries, Limits(), None, workers=2)
    assert not (root / "trapped").exists()
    assert len(batch.segment.paths) == 7
    assert WORKER[1] == "-P"


def test_an_interruption_does_not_wait_for_the_rest(root: Path) -> None:
    entries = write(root, {f"m{number}.py": "x = 1\n" * 2_000 for number in range(40)})

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    start = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        extract_files(root, entries, Limits(), None, workers=2, progress=interrupt)
    assert time.perf_counter() - start < 10


# Files that change or fail


def test_what_cannot_be_read_is_listed_with_its_reason(root: Path) -> None:
    entries = write(
        root, {"a.py": "x = 1\n", "gone.py": "x = 1\n", "grown.txt": "x\n", "wide.js": "var a=1;" * 2000}
    )
    (root / "gone.py").unlink()
    batch = extract_files(root, entries, Limits(), None, workers=1)
    assert names(batch) == ["a.py", "grown.txt"]
    assert batch.skipped["gone.py"] == "cannot be read: No such file or directory"
    assert batch.skipped["wide.js"].startswith("minified or generated")
    tight = extract_files(root, entries, Limits(max_file_bytes=3), None, workers=1)
    assert "limit of 3" in tight.skipped["a.py"]


@pytest.mark.skipif(os.name == "nt", reason="no such links")
def test_a_file_that_became_a_link_is_not_followed(root: Path, tmp_path: Path) -> None:
    entries = write(root, {"a.py": "x = 1\n"})
    (tmp_path / "secret.py").write_text("password = 1\n")
    (root / "a.py").unlink()
    (root / "a.py").symlink_to(tmp_path / "secret.py")
    assert extract_files(root, entries, Limits(), None, workers=1).skipped == {"a.py": "became a symlink"}
