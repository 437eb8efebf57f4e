"""The corpus: several segments seen as one, without the files that a later segment replaced.

Files and parts are numbered across segments; the numbers live as long as one corpus and are never shown.
"""

from bisect import bisect_right
from collections.abc import Collection, Iterable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cicl.selection.segments import Segment
from cicl.selection.sources.facts import FileFacts, UnitFacts

__all__ = ["Corpus"]

Mask = NDArray[np.bool_]


class Corpus:
    """A read-only view over segments.

    A file that stands in several segments counts in the last one only; `removed` paths count nowhere.
    """

    def __init__(self, segments: Sequence[Segment], removed: Collection[str] = ()) -> None:
        self.segments = tuple(segments)
        self.file_offsets = _offsets(len(item.paths) for item in self.segments)
        self.part_offsets = _offsets(len(item.parts) for item in self.segments)
        self._rows: dict[str, int] = {}
        for offset, segment in zip(self.file_offsets, self.segments, strict=False):
            self._rows.update(zip(segment.paths, range(offset, offset + len(segment.paths)), strict=True))
        for path in removed:
            self._rows.pop(path, None)
        self._facts: dict[int, FileFacts] = {}

    @cached_property
    def _first_parts(self) -> list[list[int]]:
        """`first_part` of each segment: a list is searched ten times as fast as an array, by one number."""
        return [segment.first_part.tolist() for segment in self.segments]

    @property
    def paths(self) -> Iterable[str]:
        """The paths of the files that count, sorted."""
        return sorted(self._rows)

    @property
    def digests(self) -> tuple[str, ...]:
        """The digests of the files that count, in the order of their paths."""
        digests = [digest for segment in self.segments for digest in segment.digests]
        return tuple(digests[self._rows[path]] for path in sorted(self._rows))

    @cached_property
    def alive_files(self) -> Mask:
        """Whether each file row counts; shape (file rows,)."""
        alive = np.zeros(self.file_offsets[-1], np.bool_)
        alive[np.fromiter(self._rows.values(), np.int64, len(self._rows))] = True
        return alive

    @cached_property
    def alive_parts(self) -> Mask:
        """Whether each part row counts; shape (part rows,)."""
        sizes = [np.diff(item.first_part) for item in self.segments]
        return np.repeat(self.alive_files, np.concatenate([*sizes, np.zeros(0, np.int32)]))

    def file_row(self, path: str) -> int | None:
        """Return the row of the file `path`, or None."""
        return self._rows.get(path)

    def path(self, file: int) -> str:
        """Return the path of a file row."""
        segment, local = self.locate_file(file)
        return segment.paths[local]

    def digest(self, file: int) -> str:
        """Return the digest of the bytes of a file row."""
        segment, local = self.locate_file(file)
        return segment.digests[local]

    def facts(self, file: int) -> FileFacts:
        """Return the facts of a file row, decoded once."""
        facts = self._facts.get(file)
        if facts is None:
            segment, local = self.locate_file(file)
            facts = self._facts[file] = segment.read_facts(local)
        return facts

    def file_of(self, part: int) -> int:
        """Return the file row that holds a part row."""
        place = self._place(self.part_offsets, part)
        local = bisect_right(self._first_parts[place], part - self.part_offsets[place]) - 1
        return self.file_offsets[place] + local

    def parts_of(self, file: int) -> range:
        """Return the part rows of a file row, in the order of its units."""
        place = self._place(self.file_offsets, file)
        first = self._first_parts[place]
        local, offset = file - self.file_offsets[place], self.part_offsets[place]
        return range(offset + first[local], offset + first[local + 1])

    def part_facts(self, part: int) -> UnitFacts:
        """Return what the part row says by itself."""
        file = self.file_of(part)
        return self.facts(file).units[part - self.parts_of(file).start]

    def part_id(self, part: int) -> str:
        """Return the unit id of a part row."""
        name = self.part_facts(part).name
        path = self.path(self.file_of(part))
        return f"{path}::{name}" if name else path

    def signature(self, part: int) -> NDArray[np.uint32]:
        """Return the min-wise hashes of a part row."""
        place = self._place(self.part_offsets, part)
        signature: NDArray[np.uint32] = self.segments[place].signatures[part - self.part_offsets[place]]
        return signature

    def find_files(self, key: int) -> list[int]:
        """Return the file rows that carry a link key, ascending."""
        found: list[int] = []
        for offset, segment in zip(self.file_offsets, self.segments, strict=False):
            found.extend((segment.file_links.find(key)[0].astype(np.int64) + offset).tolist())
        return [row for row in found if self.alive_files[row]]

    def find_parts(self, key: int) -> list[int]:
        """Return the part rows that carry a link key, ascending."""
        found: list[int] = []
        for offset, segment in zip(self.part_offsets, self.segments, strict=False):
            found.extend((segment.part_links.find(key)[0].astype(np.int64) + offset).tolist())
        return [row for row in found if self.alive_parts[row]]

    def holds(self, whole: bool, rows: NDArray[np.int64], key: int) -> Mask:
        """Return which of the ascending `rows`, of files if `whole` and else of parts, hold a term."""
        held = np.zeros(len(rows), np.bool_)
        offsets = self.file_offsets if whole else self.part_offsets
        for offset, segment in zip(offsets, self.segments, strict=False):
            for postings in (segment.files if whole else segment.parts).postings:
                found, _ = postings.find(key)
                if len(found):
                    at = np.minimum(np.searchsorted(found, rows - offset), len(found) - 1)
                    held |= found[at] == rows - offset
        return held

    def find_unit(self, unit_id: str) -> tuple[int, int | None] | None:
        """Return (file row, part row) of a unit id, with None for the part of a file's own id."""
        file = self._rows.get(unit_id)
        if file is not None:
            # A unit that stands in no file is the only part of a file of its own.
            return file, self.parts_of(file).start if self.facts(file).language == "unit" else None
        path, separator, _ = unit_id.rpartition("::")
        while separator:
            file = self._rows.get(path)
            if file is not None:
                wanted = unit_id[len(path) + 2 :]
                for place, unit in enumerate(self.facts(file).units):
                    if unit.name == wanted:
                        return file, self.parts_of(file)[place]
            path, separator, _ = path.rpartition("::")
        return None

    def locate_file(self, file: int) -> tuple[Segment, int]:
        """Return the segment of a file row, and its row there."""
        place = self._place(self.file_offsets, file)
        return self.segments[place], file - self.file_offsets[place]

    @staticmethod
    def _place(offsets: Sequence[int], row: int) -> int:
        place = len(offsets) - 2
        while offsets[place] > row:
            place -= 1
        return place


def _offsets(sizes: Iterable[int]) -> list[int]:
    offsets = [0]
    for size in sizes:
        offsets.append(offsets[-1] + size)
    return offsets
