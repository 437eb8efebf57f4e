"""An inverted list: from a 64-bit key to the rows that carry it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Counts", "Keys", "Postings", "Rows"]

Keys = NDArray[np.uint64]
Rows = NDArray[np.int32]
Counts = NDArray[np.uint16]

MAX_COUNT = int(np.iinfo(np.uint16).max)


@dataclass(frozen=True, slots=True)
class Postings:
    """Rows by key, in compressed sparse form; arrays may be mapped from disk."""

    keys: Keys
    """Sorted, each once; shape (K,)."""
    starts: NDArray[np.int64]
    """Where the rows of each key begin; shape (K + 1,)."""
    rows: Rows
    """Ascending within a key; shape (P,)."""
    counts: Counts
    """Occurrences, capped at 65,535; shape (P,)."""

    def find(self, key: int) -> tuple[Rows, Counts]:
        """Return the rows that carry `key` and their counts; both empty where none does."""
        place = int(np.searchsorted(self.keys, np.uint64(key)))
        if place == len(self.keys) or int(self.keys[place]) != key:
            return self.rows[:0], self.counts[:0]
        start, end = self.starts[place], self.starts[place + 1]
        return self.rows[start:end], self.counts[start:end]

    @classmethod
    def build(cls, keys: Keys, rows: Rows, counts: Counts, *, ordered: bool = False) -> "Postings":
        """Return postings of the triples (key, row, count), in any order.

        `ordered` says that the rows of equal keys are in ascending order already, which saves most of it.
        """
        ordered = ordered or len(rows) < 2 or bool((rows[1:] >= rows[:-1]).all())
        order = np.argsort(keys, kind="stable") if ordered else np.lexsort((rows, keys))
        keys = keys[order]
        first = np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]]) if len(keys) else np.zeros(0, np.int64)
        starts = np.append(first, len(keys)).astype(np.int64)
        return cls(keys[first], starts, rows[order], counts[order])

    @classmethod
    def from_counts(cls, documents: Sequence[Mapping[int, int]]) -> "Postings":
        """Return postings of one mapping from key to count per row."""
        total = sum(len(counts) for counts in documents)
        keys = np.fromiter((key for counts in documents for key in counts), np.uint64, total)
        counts = np.fromiter(
            (min(count, MAX_COUNT) for counts in documents for count in counts.values()), np.uint16, total
        )
        lengths = np.fromiter((len(counts) for counts in documents), np.int64, len(documents))
        return cls.build(keys, np.repeat(np.arange(len(documents), dtype=np.int32), lengths), counts)
