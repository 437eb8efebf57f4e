"""A file of named numpy arrays that is mapped, not read: no pickle, one file, written atomically."""

import contextlib
import json
import mmap
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["read_arrays", "write_arrays"]

_MAGIC = b"cicl-arrays-2\n"
_ALIGN = 64
_CHECKED_FROM = 64
"""Before it stand the magic, the length of the header, and the checksum of both that length and the rest."""
_KINDS = frozenset("bui")
"""Booleans and integers: nothing that could carry an object."""


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]) -> None:
    """Write `arrays`, and `meta` as JSON, to `path`, whole or not at all; raises `OSError`."""
    columns, offset = {}, 0
    contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    for name, array in contiguous.items():
        columns[name] = [array.dtype.str, list(array.shape), offset]
        offset += -(-array.nbytes // _ALIGN) * _ALIGN
    header = json.dumps({"meta": meta, "columns": columns}, ensure_ascii=True).encode()
    header += b" " * (-len(header) % _ALIGN)
    sums = [_checksum(header), *(_checksum(array) for array in contiguous.values())]
    checksum = (len(header) + sum(sums)) % 2**64
    preamble = _MAGIC + len(header).to_bytes(8, "little") + checksum.to_bytes(8, "little")
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".writing-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(preamble.ljust(_CHECKED_FROM, b"\0") + header)
            for array in contiguous.values():
                file.write(array.tobytes())
                file.write(b"\0" * (-array.nbytes % _ALIGN))
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def read_arrays(path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, Any]] | None:
    """Return the arrays, mapped read-only, and the meta of a file; None when it is missing or not whole."""
    try:
        with path.open("rb") as file:
            view = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        length, checksum = _read_preamble(view)
        if (length + _checksum(view[_CHECKED_FROM:])) % 2**64 != checksum:
            return None
        header = json.loads(bytes(view[_CHECKED_FROM : _CHECKED_FROM + length]))
        body = view[_CHECKED_FROM + length :]
        return {name: _column(body, *column) for name, column in header["columns"].items()}, header["meta"]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _read_preamble(view: memoryview) -> tuple[int, int]:
    place = len(_MAGIC)
    if bytes(view[:place]) != _MAGIC:
        raise ValueError("another kind of file")
    length, checksum = view[place : place + 8], view[place + 8 : place + 16]
    return int.from_bytes(length, "little"), int.from_bytes(checksum, "little")


def _checksum(data: bytes | memoryview | NDArray[Any]) -> int:
    """The sum of 64-bit words: finds what was cut, zeroed or overwritten, at the speed of memory."""
    flat = data.reshape(-1).view(np.uint8) if isinstance(data, np.ndarray) else np.frombuffer(data, np.uint8)
    whole = len(flat) // 8 * 8
    tail = int.from_bytes(flat[whole:].tobytes(), "little")
    return (int(flat[:whole].view(np.uint64).sum(dtype=np.uint64)) + tail) % 2**64


def _column(body: memoryview, dtype: str, shape: list[int], offset: int) -> NDArray[Any]:
    kind = np.dtype(dtype)
    if kind.kind not in _KINDS:
        raise ValueError(f"a column of {dtype}")
    size = int(np.prod(shape, dtype=np.int64))
    return np.frombuffer(body, kind, size, offset).reshape(shape)
