"""Counting: how often each term occurs in each field of each unit, for a batch of files at once.

Words are numbered as they are met, split into terms once each, and counted by sorting integers: Python
looks at a word once, whatever the number of units and fields it is counted in.
"""

import re
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from cicl.selection.postings import Postings
from cicl.selection.sources.facts import FIELDS, Extraction, UnitFacts
from cicl.selection.sources.names import MODULE
from cicl.text import TermSplitter, term_key, words

__all__ = ["Counted", "Vocabulary", "count_terms"]

PATH, NAME, DOC, BODY = range(len(FIELDS))

Numbers = NDArray[np.int64]

_COPY = re.compile(r"#\d+")
"""What tells two definitions of one name apart: no part of the name."""
_WORD_BITS = 32
_FIELD_BITS = 2


class Vocabulary(dict[str, int]):
    """The number of every word met so far, and what terms it is split into. 0 is the end of a line."""

    def __init__(self) -> None:
        super().__init__({"\n": 0})
        self.splitter = TermSplitter()
        self._term_numbers: dict[str, int] = {}
        self._term_keys: list[int] = []
        self._word_terms: list[tuple[int, ...]] = [()]

    def __missing__(self, word: str) -> int:
        number = self[word] = len(self._word_terms)
        self._word_terms.append(tuple(self._number(term) for term in self.splitter.split(word)))
        return number

    def _number(self, term: str) -> int:
        number = self._term_numbers.get(term)
        if number is None:
            number = self._term_numbers[term] = len(self._term_keys)
            self._term_keys.append(term_key(term))
        return number

    @property
    def terms(self) -> list[str]:
        """Every term, in the order met."""
        return list(self._term_numbers)

    def number_words(self, text: str) -> Numbers:
        """Return the number of each word of `text`, and 0 for each line feed, in order."""
        found = words(text, lines=True)
        return np.fromiter(map(self.__getitem__, found), np.int64, len(found))

    def expand(self, numbers: Numbers) -> tuple[Numbers, Numbers]:
        """Return the terms of each word of `numbers`, and the place in `numbers` each belongs to."""
        distinct, places = np.unique(numbers, return_inverse=True)
        terms = [self._word_terms[number] for number in distinct.tolist()]
        sizes = np.fromiter((len(item) for item in terms), np.int64, len(terms))
        flat = np.fromiter((term for item in terms for term in item), np.int64, int(sizes.sum()))
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]) if len(sizes) else sizes
        lengths = sizes[places]
        owners = np.repeat(np.arange(len(numbers)), lengths)
        within = np.arange(len(owners)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        return flat[np.repeat(starts[places], lengths) + within], owners

    def keys_of(self, terms: Numbers) -> NDArray[np.uint64]:
        """Return the key of each term."""
        distinct, places = np.unique(terms, return_inverse=True)
        keys = np.fromiter((self._term_keys[term] for term in distinct.tolist()), np.uint64, len(distinct))
        return keys[places]


class Counted:
    """Counts of a batch: one triple for each term of each field of each document."""

    def __init__(self, rows: Numbers, fields: Numbers, keys: NDArray[np.uint64], counts: Numbers) -> None:
        self.rows = rows
        """Ascending."""
        self.fields = fields
        self.keys = keys
        self.counts = counts

    def postings(self, field: int) -> Postings:
        """Return the inverted list of one field."""
        mine = self.fields == field
        capped = np.minimum(self.counts[mine], np.iinfo(np.uint16).max).astype(np.uint16)
        return Postings.build(self.keys[mine], self.rows[mine].astype(np.int32), capped)

    def lengths(self, documents: int) -> NDArray[np.int32]:
        """Return the number of terms by field and document."""
        lengths = np.zeros((len(FIELDS), documents), np.int32)
        np.add.at(lengths, (self.fields, self.rows), self.counts)
        return lengths

    def merge(self, owners: Numbers) -> "Counted":
        """Return the counts of the documents that `owners` gives for each row, summed."""
        return _sum(owners[self.rows], self.fields, self.keys, self.counts)

    def without(self, field: int) -> "Counted":
        """Return the counts of the other fields."""
        kept = self.fields != field
        return Counted(self.rows[kept], self.fields[kept], self.keys[kept], self.counts[kept])

    def plus(self, other: "Counted") -> "Counted":
        """Return both counts, summed."""
        return _sum(
            np.concatenate([self.rows, other.rows]),
            np.concatenate([self.fields, other.fields]),
            np.concatenate([self.keys, other.keys]),
            np.concatenate([self.counts, other.counts]),
        )


def count_terms(extractions: Sequence[Extraction], vocabulary: Vocabulary) -> tuple[Counted, Counted]:
    """Return the counts of the files, and of their parts, numbered in the order given."""
    parts: list[Numbers] = []
    paths: list[Numbers] = []
    first = 0
    for row, item in enumerate(extractions):
        path = _pack(row, PATH, vocabulary.number_words(item.facts.path))
        paths.append(path)
        count = len(item.facts.units)
        parts.append((np.arange(first - row, first - row + count)[:, None] << _ROW_SHIFT) + path)
        parts.append(_name_words(item.facts.units, first, vocabulary))
        parts.append(_text_words(item, first, vocabulary))
        first += count
    counted = _count(parts, vocabulary)
    owners = np.repeat(np.arange(len(extractions)), [len(item.facts.units) for item in extractions])
    whole = _count(paths, vocabulary).plus(counted.without(PATH).merge(owners))
    return whole, counted


_ROW_SHIFT = _WORD_BITS + _FIELD_BITS


def _pack(rows: Numbers | int, fields: Numbers | int, numbers: Numbers) -> Numbers:
    """One integer for a word in a field of a row: sorting integers sorts by all three."""
    packed: Numbers = (np.asarray(rows, np.int64) << _ROW_SHIFT) | (
        np.asarray(fields, np.int64) << _WORD_BITS
    )
    return packed | numbers


def _name_words(units: Sequence[UnitFacts], first: int, vocabulary: Vocabulary) -> Numbers:
    """The words of each unit's name: a symbol's own and what it assigns, the title of other units."""
    numbers = vocabulary.number_words("\n".join(_naming(unit).replace("\n", " ") for unit in units))
    ends = numbers == 0
    rows = first + (np.cumsum(ends) - ends)[~ends]
    return _pack(rows, NAME, numbers[~ends])


def _naming(unit: UnitFacts) -> str:
    if unit.kind not in ("symbol", "test") or unit.role == "unit":
        return unit.title
    own = "" if unit.name == MODULE else _COPY.sub("", unit.name)
    return " ".join((own, *unit.defines))


def _text_words(item: Extraction, first: int, vocabulary: Vocabulary) -> Numbers:
    """The words of each line, in the unit that the line is part of."""
    numbers = vocabulary.number_words(item.text)
    ends = numbers == 0
    lines = (np.cumsum(ends) - ends)[~ends]
    rows, fields = _label_lines(item.facts.units, int(ends.sum()) + 1)
    owned = rows[lines] >= 0
    return _pack(rows[lines][owned] + first, fields[lines][owned], numbers[~ends][owned])


def _label_lines(units: Sequence[UnitFacts], count: int) -> tuple[Numbers, Numbers]:
    """For each line the unit it belongs to, -1 for none, and whether it is prose of a docstring or body."""
    rows = np.full(count, -1, np.int64)
    fields = np.full(count, BODY, np.int64)
    for row, unit in enumerate(units):
        for span in unit.own or (unit.span,):
            rows[span.start - 1 : span.end] = row
        for span in unit.doc:
            fields[span.start - 1 : span.end] = DOC
    return rows, fields


def _count(packed: Iterable[Numbers], vocabulary: Vocabulary) -> Counted:
    flat = [item.ravel() for item in packed]
    found, counts = np.unique(np.concatenate(flat or [np.zeros(0, np.int64)]), return_counts=True)
    terms, owners = vocabulary.expand(found & ((1 << _WORD_BITS) - 1))
    rows = found >> _ROW_SHIFT
    fields = (found >> _WORD_BITS) & ((1 << _FIELD_BITS) - 1)
    return _sum(rows[owners], fields[owners], vocabulary.keys_of(terms), counts[owners])


def _sum(rows: Numbers, fields: Numbers, keys: NDArray[np.uint64], counts: Numbers) -> Counted:
    """Add up equal triples; different words share terms."""
    distinct, ranks = np.unique(keys, return_inverse=True)
    packed = _pack(rows, fields, ranks.astype(np.int64))
    order = np.argsort(packed, kind="stable")
    packed = packed[order]
    first = np.flatnonzero(np.concatenate([[True], packed[1:] != packed[:-1]])) if len(packed) else order
    sums = np.add.reduceat(counts[order], first) if len(first) else counts
    packed = packed[first]
    return Counted(
        packed >> _ROW_SHIFT,
        (packed >> _WORD_BITS) & ((1 << _FIELD_BITS) - 1),
        distinct[packed & ((1 << _WORD_BITS) - 1)],
        sums,
    )
