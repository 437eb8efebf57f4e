"""rank-bm25 over the same corpus: the reference of the index, selectable as a backend."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from cicl.selection.corpus import Corpus, Mask
from cicl.selection.index import K1, B, Hits, LevelName
from cicl.selection.segments import Level

__all__ = ["ReferenceIndex"]


class ReferenceIndex:
    """`rank_bm25.BM25Okapi` with no floor under rare terms (epsilon 0), over all fields as one text."""

    def __init__(self, corpus: Corpus, level: LevelName, counted: Mask | None = None) -> None:
        self._levels = [segment.files if level == "files" else segment.parts for segment in corpus.segments]
        alive = corpus.alive_files if level == "files" else corpus.alive_parts
        self._alive = alive if counted is None else alive & counted

    @cached_property
    def _documents(self) -> list[list[int]]:
        """The terms of each document that counts, as keys, with repetition."""
        documents: list[list[int]] = [[] for _ in range(len(self._alive))]
        offset = 0
        for level in self._levels:
            _fill(documents, level, offset)
            offset += len(level)
        return [document for document, alive in zip(documents, self._alive, strict=True) if alive]

    @cached_property
    def _engine(self) -> Any:
        from rank_bm25 import BM25Okapi

        return BM25Okapi(self._documents, k1=K1, b=B, epsilon=0)

    @cached_property
    def _frequencies(self) -> Mapping[int, int]:
        counts: dict[int, int] = {}
        for document in self._documents:
            for key in set(document):
                counts[key] = counts.get(key, 0) + 1
        return counts

    @property
    def ceiling(self) -> float:
        """What a term scores at most, as a multiple of its weight."""
        return K1 + 1

    def frequency(self, key: int) -> int:
        """Return how many documents hold a term."""
        return self._frequencies.get(key, 0)

    def idf(self, frequency: int) -> float:
        """Return Okapi's weight of a term, never below 0."""
        total = len(self._documents)
        return max(0.0, float(np.log(total - frequency + 0.5) - np.log(frequency + 0.5)))

    def search(self, query: Mapping[int, float]) -> Hits:
        """Return what rank-bm25 finds; a term of weight w counts as w terms."""
        scores, matched = np.zeros(len(self._alive)), np.zeros(len(self._alive), np.bool_)
        rows = np.flatnonzero(self._alive)
        if len(rows) and any(self._documents):
            engine = self._engine
            for key, weight in query.items():
                scores[rows] += weight * engine.get_scores([key])
                matched[rows] |= np.fromiter(
                    (key in counts for counts in engine.doc_freqs), np.bool_, len(rows)
                )
        return Hits(scores, matched)


def _fill(documents: list[list[int]], level: Level, offset: int) -> None:
    for postings in level.postings:
        keys = np.repeat(postings.keys, np.diff(postings.starts)).tolist()
        for key, row, count in zip(keys, postings.rows.tolist(), postings.counts.tolist(), strict=True):
            documents[row + offset].extend([key] * count)
