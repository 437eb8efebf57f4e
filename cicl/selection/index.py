"""The index: BM25 over weighted fields, exact however many segments the corpus has.

With one field it is BM25 as rank-bm25 and bm25s define it; with several, term counts are weighted and
normalised by field before they saturate (BM25F, Robertson, Zaragoza and Taylor, CIKM 2004).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cicl.selection.corpus import Corpus, Mask
from cicl.selection.postings import Postings
from cicl.selection.segments import Level
from cicl.selection.sources.facts import FIELDS

__all__ = ["FieldWeights", "FieldedIndex", "Hits", "LevelName", "Variant", "corpus_index"]

LevelName = Literal["files", "parts"]
Variant = Literal["lucene", "okapi", "plus"]
Scores = NDArray[np.float64]

K1 = 1.5
B = 0.75
"""Defaults of rank-bm25 and bm25s; Robertson and Zaragoza, "The Probabilistic Relevance Framework", 2009."""
SMALL_SAMPLE = 1000
"""A term that one of three files holds is not thereby common: a small instance is a small sample of all code,
and rarity is reckoned as if it had this many documents."""
PLUS_DELTA = 1.0
"""Lv and Zhai, "Lower-bounding term frequency normalization", CIKM 2011."""


class FieldWeights(NamedTuple):
    """How much one occurrence counts in each field, in the order of `FIELDS`."""

    path: float = 1.0
    name: float = 1.0
    doc: float = 1.0
    body: float = 1.0


@dataclass(frozen=True, slots=True)
class Hits:
    """What a query found: one score a row, 0 where nothing matched."""

    scores: Scores
    matched: Mask
    """Rows that hold at least one query term; only these are candidates."""

    def top(self, count: int) -> NDArray[np.int64]:
        """Return the rows of the `count` best scores and of ties with the last, best first, then by row."""
        rows = np.flatnonzero(self.matched)
        if len(rows) > count > 0:
            scores = self.scores[rows]
            floor = np.partition(scores, len(rows) - count)[len(rows) - count]
            rows = rows[scores >= floor]
        return rows[np.lexsort((rows, -self.scores[rows]))]


class FieldedIndex:
    """BM25 over the documents of one level, spread over segments.

    `levels` and `alive` come from the same corpus; documents that are not alive count nowhere: not in the
    hits, not in a document frequency, not in an average length. Those that are not `counted` can be hits, but
    make no word more common. `least_documents` is how many the rarity of a word is reckoned over at least.
    """

    def __init__(
        self,
        levels: Sequence[Level],
        alive: Mask,
        *,
        weights: Sequence[float] = (1.0,) * len(FIELDS),
        k1: float = K1,
        b: float = B,
        variant: Variant = "lucene",
        counted: Mask | None = None,
        least_documents: int = 0,
    ) -> None:
        self.levels = tuple(levels)
        self.alive = alive
        self.counted = alive if counted is None else alive & counted
        self.weights = tuple(weights)
        self.k1 = k1
        self.b = b
        self.variant: Variant = variant
        self.least_documents = least_documents
        self._frequencies: dict[int, int] = {}

    def __len__(self) -> int:
        return int(self.counted.sum())

    @cached_property
    def _lengths(self) -> NDArray[np.int32]:
        return np.concatenate(
            [level.lengths for level in self.levels] or [np.zeros((len(self.weights), 0), np.int32)], axis=1
        )

    @cached_property
    def _norms(self) -> Scores:
        """Length normalisation by field and document: 1 − b + b·length / average length."""
        lengths = self._lengths
        totals = (lengths * self.counted).sum(axis=1, dtype=np.int64)
        averages = np.maximum(totals / max(1, len(self)), 1e-9)
        norms: Scores = 1.0 - self.b + self.b * lengths / averages[:, None]
        return norms

    @property
    def ceiling(self) -> float:
        """What a term scores at most, as a multiple of its weight: where a document holds it without end."""
        most = 1.0 if self.variant == "lucene" else self.k1 + 1
        return most + PLUS_DELTA if self.variant == "plus" else most

    def frequency(self, key: int) -> int:
        """Return how many documents hold `key` in a field whose weight is not 0."""
        frequency = self._frequencies.get(key)
        if frequency is None:
            frequency = self._frequencies[key] = int(self._term_weights(key)[1][self.counted].sum())
        return frequency

    def idf(self, frequency: int) -> float:
        """Return the weight of a term that `frequency` documents hold."""
        total = max(len(self), self.least_documents)
        if self.variant == "plus":
            return float(np.log((total + 1) / frequency)) if frequency else 0.0
        ratio = (total - frequency + 0.5) / (frequency + 0.5)
        # Okapi's own form is negative for a term in half the documents; lucene's never is.
        return float(np.log(1 + ratio)) if self.variant == "lucene" else max(0.0, float(np.log(ratio)))

    def search(self, query: Mapping[int, float]) -> Hits:
        """Return the hits of a query given as weight by term key.

        An empty query, an empty corpus and terms that nowhere occur are normal: nothing matches.
        """
        scores = np.zeros(len(self.alive))
        matched = np.zeros(len(self.alive), np.bool_)
        for key, weight in query.items():
            counts, present = self._term_weights(key)
            frequency = self._frequencies[key] = int(present[self.counted].sum())
            if present.any():
                matched |= present
                scores += weight * self.idf(frequency) * self._saturate(counts)
            if frequency and self.variant == "plus":
                scores += weight * self.idf(frequency) * PLUS_DELTA
        return Hits(np.where(self.alive, scores, 0.0), matched)

    def _saturate(self, counts: Scores) -> Scores:
        if self.variant == "lucene":
            return counts / (counts + self.k1)
        return counts * (self.k1 + 1) / (counts + self.k1)

    def _term_weights(self, key: int) -> tuple[Scores, Mask]:
        """Return the weighted, normalised count of a term in each document, and where it occurs."""
        counts = np.zeros(len(self.alive))
        offset = 0
        for level in self.levels:
            for place, weight in enumerate(self.weights):
                rows, found = level.postings[place].find(key)
                if weight and len(rows):
                    at = rows.astype(np.int64) + offset
                    counts[at] += weight * found / self._norms[place, at]
            offset += len(level)
        counts *= self.alive
        return counts, counts > 0

    @classmethod
    def from_tokens(
        cls,
        documents: Sequence[Mapping[int, int]],
        *,
        k1: float = K1,
        b: float = B,
        variant: Variant = "lucene",
    ) -> "FieldedIndex":
        """Return an index of one field over documents given as count by term key."""
        lengths = np.array([[sum(counts.values()) for counts in documents]], np.int32)
        level = Level((Postings.from_counts(documents),), lengths)
        return cls([level], np.ones(len(documents), np.bool_), weights=(1.0,), k1=k1, b=b, variant=variant)


def corpus_index(
    corpus: Corpus, level: LevelName, weights: FieldWeights, counted: Mask | None = None
) -> FieldedIndex:
    """Return the index of a corpus's files or parts; documents that are not `counted` make no word common."""
    levels = [segment.files if level == "files" else segment.parts for segment in corpus.segments]
    alive = corpus.alive_files if level == "files" else corpus.alive_parts
    return FieldedIndex(levels, alive, weights=weights, counted=counted, least_documents=SMALL_SAMPLE)
