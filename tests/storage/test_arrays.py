import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cicl.storage.arrays import read_arrays, write_arrays

quick = settings(
    deadline=None,
    max_examples=60,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)

ARRAYS: dict[str, NDArray[Any]] = {
    "keys": np.array([1, 2**63, 2**64 - 1], np.uint64),
    "rows": np.arange(-3, 4, dtype=np.int32),
    "bytes": np.frombuffer(b"seven b", np.uint8),
    "flags": np.array([True, False]),
    "table": np.arange(12, dtype=np.int64).reshape(4, 3),
    "empty": np.zeros((0, 3), np.int64),
}
META = {"format": "1", "names": ["a\ud800", "中文", "<|endoftext|>"]}

dtypes = st.sampled_from([np.uint8, np.int32, np.uint16, np.uint64, np.int64, np.bool_])
shapes = st.lists(st.integers(0, 5), min_size=1, max_size=3).map(tuple)


def written(folder: Path) -> Path:
    path = folder / "arrays.bin"
    write_arrays(path, ARRAYS, META)
    return path


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    found = read_arrays(written(tmp_path))
    assert found is not None
    arrays, meta = found
    assert meta == META
    assert arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert arrays[name].dtype == array.dtype
        np.testing.assert_array_equal(arrays[name], array)


@quick
@given(st.dictionaries(st.text(max_size=5), st.tuples(dtypes, shapes), max_size=5), st.randoms())
def test_any_set_of_columns_is_read_again(
    tmp_path: Path, columns: dict[str, tuple[type, tuple[int, ...]]], random: Any
) -> None:
    arrays: dict[str, NDArray[Any]] = {
        name: np.frombuffer(random.randbytes(int(np.prod(shape)) * np.dtype(kind).itemsize), np.uint8)
        .view(np.uint8 if kind is np.bool_ else kind)
        .reshape(shape)
        for name, (kind, shape) in columns.items()
    }
    path = tmp_path / "any.bin"
    write_arrays(path, arrays, {})
    found = read_arrays(path)
    assert found is not None
    assert list(found[0]) == list(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[0][name], array)


def test_columns_are_mapped_and_cannot_be_written(tmp_path: Path) -> None:
    found = read_arrays(written(tmp_path))
    assert found is not None
    assert not any(array.flags.writeable for array in found[0].values() if array.size)


def test_columns_that_do_not_lie_in_one_piece_are_written_as_if_they_did(tmp_path: Path) -> None:
    table = np.arange(24, dtype=np.int32).reshape(4, 6)
    path = tmp_path / "strided.bin"
    write_arrays(path, {"rows": table[::2], "columns": table[:, ::3]}, {})
    found = read_arrays(path)
    assert found is not None
    np.testing.assert_array_equal(found[0]["rows"], table[::2])
    np.testing.assert_array_equal(found[0]["columns"], table[:, ::3])


def test_a_missing_an_empty_and_a_foreign_file_hold_nothing(tmp_path: Path) -> None:
    path = tmp_path / "other.bin"
    assert read_arrays(path) is None
    for data in (b"", b"x", b"PK\x03\x04" + b"x" * 500, json.dumps(META).encode() * 100):
        path.write_bytes(data)
        assert read_arrays(path) is None
    assert read_arrays(tmp_path) is None


def test_a_file_cut_anywhere_holds_nothing_or_all(tmp_path: Path) -> None:
    path = written(tmp_path)
    data = path.read_bytes()
    for end in range(0, len(data), 7):
        path.write_bytes(data[:end])
        found = read_arrays(path)
        assert found is None or all((found[0][name] == ARRAYS[name]).all() for name in ARRAYS)


@quick
@given(st.data())
def test_a_changed_byte_is_noticed_wherever_it_is(tmp_path: Path, data: st.DataObject) -> None:
    path = written(tmp_path)
    whole = bytearray(path.read_bytes())
    place = data.draw(st.integers(0, len(whole) - 1))
    preamble_padding = range(30, 64)
    whole[place] ^= data.draw(st.integers(1, 255))
    path.write_bytes(whole)
    assert (read_arrays(path) is None) == (place not in preamble_padding)


def test_an_array_of_objects_is_refused_when_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "objects.bin"
    write_arrays(path, {"text": np.array(["a", "b"])}, {})
    assert read_arrays(path) is None


def test_what_cannot_be_written_leaves_the_old_file_and_no_litter(tmp_path: Path) -> None:
    path = written(tmp_path)
    before = path.read_bytes()
    with pytest.raises(TypeError):
        write_arrays(path, {"a": np.zeros(3, np.uint8)}, {"meta": object()})
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError):
        write_arrays(tmp_path / "folder", {"a": np.zeros(3, np.uint8)}, {})
    with pytest.raises(OSError):
        write_arrays(tmp_path / "missing" / "a.bin", {}, {})
    assert path.read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["arrays.bin", "folder"]
