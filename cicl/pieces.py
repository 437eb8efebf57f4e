"""Pieces: what a byte-pair encoder encodes on its own, and a table of what each of them counts.

An encoder first splits a text by a fixed pattern and then encodes every piece by itself, so the count of a
text is the sum over its pieces. A table of pieces learned at index time answers without a vocabulary, which
takes longer to load than a whole ``cicl select`` may.
"""

from __future__ import annotations

import hashlib
import os
import re
import struct
import threading
import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from cicl.errors import ConfigurationError
from cicl.text import replace_surrogates

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "CAPACITY",
    "SPLITS",
    "PieceTable",
    "as_written",
    "common_pieces",
    "distinct_pieces",
    "shown_lines",
    "split_pieces",
]

_O200K: Final = (
    r"[^\r\n0-9A-Za-z]?+(?:[A-Z]*+[a-z]++|[A-Z]++)(?:'(?i:s|t|re|ve|m|ll|d))?+"
    r"|[0-9]{1,3}+"
    r"| ?+[^\s0-9A-Za-z]++[\r\n/]*+"
    r"|\s*[\r\n]++"
    r"|\s+(?!\S)"
    r"|\s++"
)
_CL100K: Final = (
    r"'(?i:[sdmt]|ll|ve|re)"
    r"|[^\r\n0-9A-Za-z]?+[A-Za-z]++"
    r"|[0-9]{1,3}+"
    r"| ?+[^\s0-9A-Za-z]++[\r\n]*+"
    r"|\s++\Z"
    r"|\s*[\r\n]"
    r"|\s+(?!\S)"
    r"|\s"
)
SPLITS: Final[Mapping[str, str]] = {
    "cl100k_base": _CL100K,
    "o200k_base": _O200K,
    "o200k_harmony": _O200K,
}
"""The published split patterns (`tiktoken_ext.openai_public`) on ASCII, where they need no ``\\p``."""

# No published pattern lets a piece go on from a line feed to anything but white space or a slash, or from a
# visible character to a space or tab, and none looks across such a place: either is a boundary in any text.
# Python's \s has \x1c to \x1f besides what the encoders call white space; here that only loses a boundary.
_LINE_START: Final = r"(?<=\n)(?!/)(?=[ \t]*\S)"
_WORD_END: Final = r"(?<=\S)(?=[ \t])"


def split_pieces(text: str, encoding: str) -> list[str]:
    """Split `text` so that the exact counts of the pieces sum to its own; joined, they are the text again.

    ASCII is split as the encoder does. Around other characters whole words stay in one piece, since the
    encoders' classes of letters are not in the standard library. Lone surrogates come back as U+FFFD.

    Raises ConfigurationError for an encoding other than cl100k_base, o200k_base and o200k_harmony.
    """
    if encoding not in SPLITS:
        raise ConfigurationError(f"no split pattern for {encoding!r}; there is one for {', '.join(SPLITS)}")
    split = re.compile(SPLITS[encoding], re.ASCII).findall
    if text.isascii():
        return split(text)
    pieces: list[str] = []
    for line in re.split(_LINE_START, replace_surrogates(text)):
        if line.isascii():
            pieces += split(line)
            continue
        for word in re.split(_WORD_END, line):
            pieces += split(word) if word.isascii() else (word,)
    return pieces


def distinct_pieces(texts: Iterable[str], encoding: str) -> set[str]:
    """Return the pieces of all `texts`, each once, as `PieceTable.learn` takes them.

    Raises ConfigurationError as `split_pieces` does.
    """
    distinct: set[str] = set()
    for text in texts:
        distinct.update(split_pieces(text, encoding))
    return distinct


def shown_lines(text: str) -> str:
    """Return the lines of a file as cards show them, less the numbers: learn this, not the file itself.

    A first word is another piece after a space than after a line feed; so are indentation and blank lines.
    """
    return "| " + "\n| ".join(text.splitlines()) + "\n"


def as_written(pieces: Iterable[str]) -> set[str]:
    """Return what pieces of shown lines are in the file itself, where it differs.

    A first word has no space before it; a line that ends in a sign takes in the blank lines after it and the
    slashes of a comment, or nothing where the unit ends.
    """
    written: set[str] = set()
    for piece in pieces:
        if piece[0] == " ":
            written.add(piece[1:])
        if piece[-1] == "\n":
            written.add(piece[:-1])
            written.update(piece + more for more in ("\n", "\n\n", "/", "//", "\n/", "\n//"))
    written.discard("")
    return written


def common_pieces() -> frozenset[str]:
    """Return what cards hold whatever the repository: numbers up to three digits, indentation."""
    numbers = (f"{number:0{width}}" for width in (1, 2, 3) for number in range(10**width))
    spaces = (" " * width for width in range(1, 81))
    tabs = (lead + "\t" * width for lead in ("", " ") for width in range(1, 13))
    return frozenset((*numbers, *spaces, *tabs, "\n", "...\n"))


_MAGIC: Final = b"ciclpt1\n"
_HEADER: Final = struct.Struct("<8sQQ")
_ROW_BYTES: Final = 12

CAPACITY: Final = 2_000_000
"""Pieces in one table: 24 MB on disk and in memory. Django's source has 53,000."""

_MEMO: Final = 200_000
"""Pieces kept with their text, which spares hashing them again; at about 100 bytes each."""


@dataclass(frozen=True, slots=True)
class _Rows:
    """Sorted distinct 64-bit keys, and the count of each."""

    keys: NDArray[np.uint64]
    counts: NDArray[np.uint32]


class Backend(Protocol):
    """What a table asks of the counter that fills it."""

    @property
    def encoding(self) -> str: ...

    @property
    def exact(self) -> bool: ...

    def count_batch(self, texts: Sequence[str]) -> list[int]: ...


class PieceTable:
    """What is known of the exact token counts of pieces of one encoding, in memory and in one file.

    A piece is known by 64 bits of its BLAKE2b digest: at full capacity a strange piece meets a wrong count
    once in 10^13 times. Threads may share a table. Processes may share a file: the last to save wins, after
    taking in what the others have saved, so a race costs entries and never a wrong count. A table that would
    outgrow `capacity` keeps only what was added last, so that what a repository no longer holds can leave.
    """

    __slots__ = ("_capacity", "_lock", "_memo", "_path", "_rows", "_unsaved", "encoding")

    def __init__(self, path: Path, encoding: str, capacity: int = CAPACITY) -> None:
        self.encoding: Final = encoding
        self._path = path
        self._capacity = capacity
        self._rows = _read_rows(path, encoding)
        self._memo: dict[str, int] = {}
        self._unsaved = False
        self._lock = threading.Lock()

    @classmethod
    def open(cls, directory: Path, encoding: str) -> PieceTable:
        """Return the table kept in `directory`; empty when there is none, or none that is whole."""
        return cls(directory / f"pieces-{encoding}.bin", encoding)

    def __len__(self) -> int:
        return len(self._rows.keys)

    def lookup(self, pieces: Iterable[str]) -> dict[str, int]:
        """Return the counts of those of `pieces` that are known."""
        memo = self._memo
        known: dict[str, int] = {}
        strange: list[str] = []
        for piece in pieces:
            count = memo.get(piece)
            if count is None:
                strange.append(piece)
            else:
                known[piece] = count
        if strange:
            found = self._find(strange)
            self._remember(found)
            known |= found
        return known

    def add(self, counts: Mapping[str, int]) -> None:
        """Take in exact counts, each below 2^32."""
        if counts:
            self._insert(_keys(counts), counts.values())
            self._remember(counts)

    def require_fit(self, backend: Backend) -> None:
        """Raise ValueError unless `backend` counts exactly, in the encoding of this table."""
        if not backend.exact:
            raise ValueError("a table of pieces holds exact counts only, and this counter gives bounds")
        if backend.encoding != self.encoding:
            raise ValueError(f"a counter of {backend.encoding} cannot fill a table of {self.encoding}")

    def learn(self, pieces: Iterable[str], backend: Backend) -> int:
        """Count by one call of `backend` those of `pieces` that are not known, and return how many.

        Raises ValueError when `backend` is not exact or of another encoding.
        """
        self.require_fit(backend)
        distinct = list(dict.fromkeys(pieces))
        keys = _keys(distinct)
        _, found = _positions(self._rows, keys)
        strange = [piece for piece, known in zip(distinct, found.tolist(), strict=True) if not known]
        if strange:
            self._insert(keys[~found], backend.count_batch(strange))
        return len(strange)

    def save(self) -> bool:
        """Write what was added since the last save, if anything; false when the disk refuses it."""
        with self._lock:
            if not self._unsaved:
                return True
            saved = _read_rows(self._path, self.encoding)
            rows = _merged(saved, self._rows, self._capacity)
            if not _write_rows(self._path, self.encoding, rows):
                return False
            self._rows = rows
            self._unsaved = False
            return True

    def _find(self, pieces: Sequence[str]) -> dict[str, int]:
        rows = self._rows
        at, found = _positions(rows, _keys(pieces))
        counts = rows.counts[at[found]].tolist()
        hits = (piece for piece, hit in zip(pieces, found.tolist(), strict=True) if hit)
        return dict(zip(hits, counts, strict=True))

    def _insert(self, keys: NDArray[np.uint64], counts: Iterable[int]) -> None:
        import numpy as np

        ordered, first = np.unique(keys, return_index=True)
        added = _Rows(ordered, np.fromiter(counts, np.uint32, len(keys))[first])
        with self._lock:
            self._rows = _merged(self._rows, added, self._capacity)
            self._unsaved = True

    def _remember(self, counts: Mapping[str, int]) -> None:
        # A new dictionary instead of a cleared one: another thread may be reading the old.
        if len(self._memo) + len(counts) > _MEMO:
            self._memo = {}
        self._memo.update(counts)


def _keys(pieces: Iterable[str]) -> NDArray[np.uint64]:
    import numpy as np

    digest = hashlib.blake2b
    # Surrogates have been replaced in whatever `split_pieces` gave; others must not raise either.
    encoded = (piece.encode("utf-8", "surrogatepass") for piece in pieces)
    return np.frombuffer(b"".join([digest(piece, digest_size=8).digest() for piece in encoded]), "<u8")


def _positions(rows: _Rows, keys: NDArray[np.uint64]) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Return the place of every key in `rows`, and whether it is there; if not, the place means nothing."""
    import numpy as np

    if not len(rows.keys):
        return np.zeros(len(keys), np.intp), np.zeros(len(keys), np.bool_)
    at = np.minimum(np.searchsorted(rows.keys, keys), len(rows.keys) - 1)
    return at, rows.keys[at] == keys


def _merged(older: _Rows, newer: _Rows, capacity: int) -> _Rows:
    import numpy as np

    fresh = ~_positions(older, newer.keys)[1]
    if len(older.keys) + np.count_nonzero(fresh) > capacity:
        return _Rows(newer.keys[:capacity], newer.counts[:capacity])
    keys, counts = newer.keys[fresh], newer.counts[fresh]
    at = np.searchsorted(older.keys, keys)
    return _Rows(np.insert(older.keys, at, keys), np.insert(older.counts, at, counts))


def _read_rows(path: Path, encoding: str) -> _Rows:
    import numpy as np

    body = _read_body(path, encoding)
    split = len(body) // _ROW_BYTES * 8
    return _Rows(np.frombuffer(body[:split], "<u8"), np.frombuffer(body[split:], "<u4"))


def _read_body(path: Path, encoding: str) -> memoryview:
    """Return the rows of a file; none when it is missing, not whole or not of this encoding."""
    nothing = memoryview(b"")
    try:
        data = memoryview(path.read_bytes())
    except OSError:
        return nothing
    if len(data) < _HEADER.size:
        return nothing
    magic, size, checksum = _HEADER.unpack_from(data)
    body = data[_HEADER.size :]
    whole = magic == _MAGIC and len(body) == size * _ROW_BYTES and checksum == _checksum(body, encoding)
    return body if whole else nothing


def _checksum(body: memoryview | bytes, encoding: str) -> int:
    return zlib.crc32(body, zlib.crc32(encoding.encode()))


def _write_rows(path: Path, encoding: str, rows: _Rows) -> bool:
    """Replace the file in one step, so that a reader sees keys and counts of the same moment."""
    body = rows.keys.astype("<u8").tobytes() + rows.counts.astype("<u4").tobytes()
    header = _HEADER.pack(_MAGIC, len(rows.keys), _checksum(body, encoding))
    draft = path.with_name(f"{path.name}.{os.getpid()}-{threading.get_native_id()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_bytes(header + body)
        os.replace(draft, path)
    except OSError:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        return False
    return True
