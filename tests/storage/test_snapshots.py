import os
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cicl.selection.segments import Segment, build_segment
from cicl.selection.sources.extraction import extract
from cicl.storage import snapshots
from cicl.storage.arrays import read_arrays, write_arrays
from cicl.storage.snapshots import KEEP_SECONDS, SnapshotFiles, TreeState
from cicl.text import digest_text

FILES = {"a.py": "def alpha(): ...\n", "数据/b.py": "import a\n", "notes.md": "# Notes\n\nAlpha matters.\n"}


def segment_of(files: Mapping[str, str]) -> Segment:
    return build_segment([extract(path, files[path], digest_text(files[path])) for path in sorted(files)])


def state_of(*segments: str, paths: tuple[str, ...] = tuple(sorted(FILES))) -> TreeState:
    stats = np.arange(len(paths) * 3, dtype=np.int64).reshape(-1, 3)
    return TreeState(paths, stats, {"x.bin": "binary"}, segments, 77, {"b.py": "not Python"}, (5, 6))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "state" / "here"


@pytest.fixture
def saved(folder: Path) -> SnapshotFiles:
    files = SnapshotFiles(folder)
    files.save(state_of(files.save_segment(segment_of(FILES))))
    return files


def the_segment(folder: Path) -> Path:
    (path,) = folder.glob("segment-*.bin")
    return path


def test_there_is_no_snapshot_before_the_first(folder: Path) -> None:
    assert SnapshotFiles(folder).load() is None
    assert not folder.exists()


def test_a_snapshot_is_read_again_by_another_process_of_this_version(saved: SnapshotFiles) -> None:
    found = SnapshotFiles(saved.directory).load()
    assert found is not None
    state, (segment,) = found
    assert state.paths == tuple(sorted(FILES))
    assert (state.unreadable, state.partly) == ({"x.bin": "binary"}, {"b.py": "not Python"})
    assert (state.indexed_at_ns, state.limits) == (77, (5, 6))
    np.testing.assert_array_equal(state.stats, np.arange(9).reshape(3, 3))
    written = segment_of(FILES)
    assert (segment.paths, segment.digests) == (written.paths, written.digests)
    for row in range(3):
        assert segment.read_facts(row) == written.read_facts(row)
    arrays = segment.to_arrays()
    for name, column in written.to_arrays().items():
        np.testing.assert_array_equal(arrays[name], column)


def test_a_tree_without_files_has_a_snapshot_too(folder: Path) -> None:
    files = SnapshotFiles(folder)
    files.save(state_of(files.save_segment(segment_of({})), paths=()))
    found = SnapshotFiles(folder).load()
    assert found is not None
    assert found[0].paths == ()
    assert [segment.paths for segment in found[1]] == [()]


@pytest.mark.parametrize("name", ["snapshot.bin", "segment"])
@pytest.mark.parametrize("how", ["missing", "empty", "cut", "overwritten", "foreign"])
def test_what_is_not_whole_counts_as_absent(saved: SnapshotFiles, name: str, how: str) -> None:
    path = saved.directory / name if name == "snapshot.bin" else the_segment(saved.directory)
    data = path.read_bytes()
    damaged = {
        "empty": b"",
        "cut": data[: len(data) // 2],
        "overwritten": data[:-200] + os.urandom(200),
        "foreign": b"SQLite format 3\0" * 50,
    }
    if how == "missing":
        path.unlink()
    else:
        path.write_bytes(damaged[how])
    assert saved.load() is None


@pytest.mark.parametrize("name", ["snapshot.bin", "segment"])
def test_what_another_version_wrote_counts_as_absent(saved: SnapshotFiles, name: str) -> None:
    path = saved.directory / name if name == "snapshot.bin" else the_segment(saved.directory)
    found = read_arrays(path)
    assert found is not None
    write_arrays(path, found[0], {**found[1], "format": "1 0.0.0"})
    assert saved.load() is None


@pytest.mark.parametrize(
    "drop", ["paths", "stats", "segments", "unreadable", "partly", "indexed_at_ns", "limits"]
)
def test_a_snapshot_that_lacks_something_counts_as_absent(saved: SnapshotFiles, drop: str) -> None:
    head = saved.directory / "snapshot.bin"
    found = read_arrays(head)
    assert found is not None
    arrays, meta = found
    write_arrays(
        head,
        {key: array for key, array in arrays.items() if key != drop},
        {key: value for key, value in meta.items() if key != drop},
    )
    assert saved.load() is None


def test_a_snapshot_whose_columns_disagree_counts_as_absent(saved: SnapshotFiles) -> None:
    found = saved.load()
    assert found is not None
    saved.save(replace(found[0], paths=("a.py",)))
    assert saved.load() is None


def test_a_damaged_segment_is_written_again_by_the_next_save(saved: SnapshotFiles) -> None:
    path = the_segment(saved.directory)
    path.write_bytes(path.read_bytes()[:300])
    assert saved.load() is None
    name = saved.save_segment(segment_of(FILES))
    saved.save(state_of(name))
    assert saved.load() is not None


def test_versions_do_not_share_segments(saved: SnapshotFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    old = the_segment(saved.directory).name
    monkeypatch.setattr(snapshots, "FORMAT", "next")
    files = SnapshotFiles(saved.directory)
    name = files.save_segment(segment_of(FILES))
    assert name not in old
    files.save(state_of(name))
    assert files.load() is not None


def test_a_segment_that_is_there_is_not_written_again(saved: SnapshotFiles) -> None:
    before = the_segment(saved.directory).stat()
    SnapshotFiles(saved.directory).save_segment(segment_of(FILES))
    assert the_segment(saved.directory).stat().st_ino == before.st_ino


def age(path: Path) -> None:
    long_ago = time.time() - KEEP_SECONDS - 60
    os.utime(path, (long_ago, long_ago))


def test_segments_that_nobody_named_for_an_hour_are_removed(saved: SnapshotFiles) -> None:
    old = the_segment(saved.directory)
    young = saved.directory / "segment-0123.bin"
    abandoned = saved.directory / ".writing-xyz"
    for path in (young, abandoned):
        path.write_bytes(b"x")
    age(old)
    age(abandoned)
    saved.save(state_of(saved.save_segment(segment_of({"a.py": "x = 1\n"}))))
    assert not old.exists()
    assert not abandoned.exists()
    assert young.exists()


def test_a_segment_that_was_named_until_now_is_kept_however_old_it_is(saved: SnapshotFiles) -> None:
    old = the_segment(saved.directory)
    age(old)
    saved.save(state_of(old.stem.removeprefix("segment-")))
    saved.save(state_of(saved.save_segment(segment_of({"a.py": "x = 1\n"}))))
    assert old.exists(), "another process may have read the snapshot that names it a moment ago"


def test_a_reader_keeps_what_it_has_read_when_the_file_is_gone(saved: SnapshotFiles) -> None:
    found = saved.load()
    assert found is not None
    the_segment(saved.directory).unlink()
    (saved.directory / "snapshot.bin").unlink()
    assert found[1][0].read_facts(0).path == "a.py"


def test_a_state_folder_that_cannot_be_made_is_an_error_of_the_system(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    files = SnapshotFiles(tmp_path / "file" / "state")
    assert files.load() is None
    with pytest.raises(OSError):
        files.save_segment(segment_of(FILES))
    with pytest.raises(OSError):
        files.save(state_of())
