"""Merging segments: the files that count in a corpus, in one segment again."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cicl.selection.corpus import Corpus
from cicl.selection.postings import Postings
from cicl.selection.segments import Level, Segment, build_segment, starts_of
from cicl.selection.sources.facts import FIELDS

__all__ = ["merge_corpus"]

RowMap = NDArray[np.int32]
"""The new row of each old one; -1 for rows that do not count."""


def merge_corpus(corpus: Corpus) -> Segment:
    """Return one segment of the files that count in `corpus`, by path."""
    segments = corpus.segments or (build_segment([]),)
    paths = list(corpus.paths)
    files = np.array([corpus.file_row(path) for path in paths], np.int64)
    parts = [corpus.parts_of(int(file)) for file in files]
    file_map = _row_map(files, corpus.file_offsets[-1])
    order = np.concatenate([np.arange(item.start, item.stop) for item in parts] or [np.zeros(0, np.int64)])
    part_map = _row_map(order, corpus.part_offsets[-1])
    encoded = [_facts_bytes(corpus, int(file)) for file in files]
    signatures = np.concatenate([item.signatures for item in segments])
    return Segment(
        paths=tuple(paths),
        digests=tuple(corpus.digest(int(file)) for file in files),
        first_part=starts_of([len(item) for item in parts]).astype(np.int32),
        files=_merge_levels([item.files for item in segments], files, file_map),
        parts=_merge_levels([item.parts for item in segments], order, part_map),
        file_links=_merge_postings([item.file_links for item in segments], corpus.file_offsets, file_map),
        part_links=_merge_postings([item.part_links for item in segments], corpus.part_offsets, part_map),
        signatures=signatures[order],
        facts=np.frombuffer(b"".join(encoded), np.uint8),
        facts_start=starts_of([len(item) for item in encoded]),
    )


def _row_map(order: NDArray[Any], size: int) -> RowMap:
    rows = np.full(size, -1, np.int32)
    rows[order] = np.arange(len(order), dtype=np.int32)
    return rows


def _facts_bytes(corpus: Corpus, file: int) -> bytes:
    segment, local = corpus.locate_file(file)
    return segment.facts[segment.facts_start[local] : segment.facts_start[local + 1]].tobytes()


def _merge_levels(levels: Sequence[Level], order: NDArray[Any], rows: RowMap) -> Level:
    offsets = starts_of([len(level) for level in levels]).tolist()
    columns = tuple(
        _merge_postings([level.postings[place] for level in levels], offsets, rows)
        for place in range(len(FIELDS))
    )
    lengths = np.concatenate([level.lengths for level in levels], axis=1)
    return Level(columns, lengths[:, order])


def _merge_postings(parts: Sequence[Postings], offsets: Sequence[int], row_map: RowMap) -> Postings:
    keys = np.concatenate([np.repeat(item.keys, np.diff(item.starts)) for item in parts])
    old = [item.rows.astype(np.int64) + offset for item, offset in zip(parts, offsets, strict=False)]
    rows = row_map[np.concatenate(old)]
    counts = np.concatenate([item.counts for item in parts])
    alive = rows >= 0
    kept = row_map[row_map >= 0]
    ordered = bool((kept[1:] > kept[:-1]).all())
    return Postings.build(keys[alive], rows[alive], counts[alive], ordered=ordered)
