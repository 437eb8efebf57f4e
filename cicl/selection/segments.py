"""Segments: the facts, terms and links of a set of files, column by column.

A snapshot is a base segment, a small one of what changed since, and one in memory of what is no file.
A segment is arrays only, so that it is written without pickle and mapped back without being read.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cicl.selection.counting import BODY, Counted, Vocabulary, count_terms
from cicl.selection.postings import Postings
from cicl.selection.sources.facts import (
    FIELDS,
    OF_FILE,
    Extraction,
    FileFacts,
    decode_facts,
    encode_facts,
)

__all__ = ["SIGNATURE_SIZE", "Level", "Segment", "band_keys", "build_segment", "starts_of"]

SIGNATURE_SIZE = 12
BAND_SIZE = 3
"""Bands of three of twelve hashes find a pair with Jaccard similarity 0.7 four times in five."""
_MULTIPLIERS = tuple((0x9E3779B97F4A7C15 * (2 * place + 1)) % 2**64 | 1 for place in range(SIGNATURE_SIZE))
MIN_SIGNED_TERMS = 8
"""Shorter bodies resemble one another by chance."""

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Level:
    """Documents of one granularity: whole files, or their parts."""

    postings: tuple[Postings, ...]
    """One for each of `FIELDS`."""
    lengths: NDArray[np.int32]
    """Terms by field and document; shape (fields, documents)."""

    def __len__(self) -> int:
        return int(self.lengths.shape[1])


@dataclass(frozen=True, slots=True)
class Segment:
    """The contribution of a sorted set of files."""

    paths: tuple[str, ...]
    digests: tuple[str, ...]
    first_part: NDArray[np.int32]
    """Row of each file's first part; shape (files + 1,)."""
    files: Level
    parts: Level
    file_links: Postings
    part_links: Postings
    signatures: NDArray[np.uint32]
    """Min-wise hashes of each part's body; shape (parts, `SIGNATURE_SIZE`); all zero for a short body."""
    facts: NDArray[np.uint8]
    """Encoded facts of all files, one after another."""
    facts_start: NDArray[np.int64]
    """Where each file's facts begin; shape (files + 1,)."""

    def read_facts(self, file: int) -> FileFacts:
        """Return the facts of the file at row `file`."""
        return decode_facts(self.facts[self.facts_start[file] : self.facts_start[file + 1]].tobytes())

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return every column by name: what `from_arrays` takes."""
        arrays: dict[str, NDArray[Any]] = {
            "paths": _pack_text("\0".join(self.paths)),
            "digests": _pack_text("\0".join(self.digests)),
            "first_part": self.first_part,
            "signatures": self.signatures,
            "facts": self.facts,
            "facts_start": self.facts_start,
            "file_lengths": self.files.lengths,
            "part_lengths": self.parts.lengths,
        }
        for name, postings in self._named_postings():
            for column in ("keys", "starts", "rows", "counts"):
                arrays[f"{name}.{column}"] = getattr(postings, column)
        return arrays

    def _named_postings(self) -> Iterable[tuple[str, Postings]]:
        yield "file_links", self.file_links
        yield "part_links", self.part_links
        for place, field in enumerate(FIELDS):
            yield f"file_{field}", self.files.postings[place]
            yield f"part_{field}", self.parts.postings[place]

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> "Segment":
        """Return the segment that `to_arrays` described; raises `KeyError` or `ValueError` on others."""

        def postings(name: str) -> Postings:
            return Postings(*(arrays[f"{name}.{column}"] for column in ("keys", "starts", "rows", "counts")))

        paths = _unpack_text(arrays["paths"])
        return cls(
            paths=paths,
            digests=_unpack_text(arrays["digests"]),
            first_part=arrays["first_part"],
            files=Level(tuple(postings(f"file_{field}") for field in FIELDS), arrays["file_lengths"]),
            parts=Level(tuple(postings(f"part_{field}") for field in FIELDS), arrays["part_lengths"]),
            file_links=postings("file_links"),
            part_links=postings("part_links"),
            signatures=arrays["signatures"],
            facts=arrays["facts"],
            facts_start=arrays["facts_start"],
        )


def build_segment(extractions: Sequence[Extraction], vocabulary: Vocabulary | None = None) -> Segment:
    """Return the segment of some files, given in the order of their paths.

    A `vocabulary` that is passed again and again splits each word once.
    """
    encoded = [encode_facts(item.facts) for item in extractions]
    first_part = starts_of([len(item.facts.units) for item in extractions]).astype(np.int32)
    files, parts = count_terms(extractions, vocabulary if vocabulary is not None else Vocabulary())
    signatures = sign(parts, int(first_part[-1]))
    file_keys, part_keys = _link_pairs(extractions, first_part)
    return Segment(
        paths=tuple(item.facts.path for item in extractions),
        digests=tuple(item.facts.digest for item in extractions),
        first_part=first_part,
        files=_level(files, len(extractions)),
        parts=_level(parts, int(first_part[-1])),
        file_links=_unweighted(*file_keys),
        part_links=_unweighted(*_join(part_keys, _band_pairs(signatures))),
        signatures=signatures,
        facts=np.frombuffer(b"".join(encoded), np.uint8),
        facts_start=starts_of([len(item) for item in encoded]),
    )


def sign(parts: Counted, count: int) -> NDArray[np.uint32]:
    """Return min-wise hashes of the terms of each body; equal places estimate the Jaccard similarity.

    Broder, "On the resemblance and containment of documents", SEQUENCES 1997. Shape
    (`count`, `SIGNATURE_SIZE`); a row of zeros for fewer than `MIN_SIGNED_TERMS` terms.
    """
    signatures = np.zeros((count, SIGNATURE_SIZE), np.uint32)
    mine = parts.fields == BODY
    rows, keys = parts.rows[mine], parts.keys[mine]
    starts = np.flatnonzero(np.concatenate([[True], rows[1:] != rows[:-1]])) if len(rows) else rows
    sizes = np.diff(np.append(starts, len(rows)))
    for place in range(SIGNATURE_SIZE if len(rows) else 0):
        hashed = (keys * np.uint64(_MULTIPLIERS[place])) >> np.uint64(32)
        least = np.minimum.reduceat(hashed, starts).astype(np.uint32)
        signatures[rows[starts], place] = np.where(sizes >= MIN_SIGNED_TERMS, least, 0)
    return signatures


def band_keys(signatures: NDArray[np.uint32]) -> NDArray[np.uint64]:
    """Return the link keys under which similar parts meet; shape (parts, bands)."""
    shape = (len(signatures), SIGNATURE_SIZE // BAND_SIZE, BAND_SIZE)
    bands = signatures.reshape(shape).astype(np.uint64)
    keys = np.broadcast_to(np.arange(1, bands.shape[1] + 1, dtype=np.uint64), bands.shape[:2]).copy()
    for place in range(BAND_SIZE):
        keys = (keys ^ bands[:, :, place]) * np.uint64(_MULTIPLIERS[0])
        keys ^= keys >> np.uint64(29)
    return keys


Pairs = tuple[NDArray[np.uint64], NDArray[np.int32]]
"""Keys, and the row of each."""


def _band_pairs(signatures: NDArray[np.uint32]) -> Pairs:
    signed = np.flatnonzero(signatures.any(axis=1))
    keys = band_keys(signatures[signed])
    return keys.ravel(), np.repeat(signed, keys.shape[1]).astype(np.int32)


def _link_pairs(extractions: Sequence[Extraction], first_part: NDArray[np.int32]) -> tuple[Pairs, Pairs]:
    of_files: list[tuple[int, int]] = []
    of_parts: list[tuple[int, int]] = []
    for row, item in enumerate(extractions):
        first = int(first_part[row])
        for key, unit in item.links:
            if unit == OF_FILE:
                of_files.append((key, row))
            else:
                of_parts.append((key, first + unit))
    return _columns(of_files), _columns(of_parts)


def _columns(pairs: Sequence[tuple[int, int]]) -> Pairs:
    keys = np.fromiter((key for key, _ in pairs), np.uint64, len(pairs))
    return keys, np.fromiter((row for _, row in pairs), np.int32, len(pairs))


def _join(one: Pairs, other: Pairs) -> Pairs:
    return np.concatenate([one[0], other[0]]), np.concatenate([one[1], other[1]])


def _unweighted(keys: NDArray[np.uint64], rows: NDArray[np.int32]) -> Postings:
    return Postings.build(keys, rows, np.ones(len(keys), np.uint16))


def _level(counted: Counted, documents: int) -> Level:
    columns = tuple(counted.postings(place) for place in range(len(FIELDS)))
    return Level(columns, counted.lengths(documents))


def starts_of(sizes: Sequence[int]) -> NDArray[np.int64]:
    """Return where each of consecutive runs of these sizes begins, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(np.asarray(sizes, np.int64))]).astype(np.int64)


def _pack_text(text: str) -> NDArray[np.uint8]:
    return np.frombuffer(text.encode(), np.uint8)


def _unpack_text(data: NDArray[Any]) -> tuple[str, ...]:
    text = data.tobytes().decode()
    return tuple(text.split("\0")) if text else ()
