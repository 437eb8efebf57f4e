"""From a directory to a corpus: list, compare with the last snapshot, extract what changed, save."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cicl.pieces import PieceTable
from cicl.selection.corpus import Corpus
from cicl.selection.merging import merge_corpus
from cicl.selection.records import Skipped
from cicl.selection.segments import Segment
from cicl.selection.sources.files import FileEntry, Limits, Listing, list_files, read_file
from cicl.storage.snapshots import SnapshotFiles, TreeState
from cicl.text import digest_bytes

__all__ = ["Indexed", "Progress", "Survey", "count_stale", "index_tree"]

RACY_NS = 50_000_000
"""A file whose times are this close to its listing may have changed after it was read: it is read again.
File systems stamp files by the kernel's tick, 10 ms at the coarsest; git guards its index the same way."""
MAX_SMALL_SEGMENTS = 4
"""More small segments than this are merged into one."""
MAX_SMALL_SHARE = 0.2
"""Small segments that hold more of the files than this are merged into the base."""


Progress = Callable[[int, int], None]
"""Called with how many files are done, and of how many."""


@dataclass(frozen=True, slots=True)
class Indexed:
    """A corpus of a tree as it is now."""

    root: Path
    corpus: Corpus
    skipped: tuple[Skipped, ...]
    """By path."""
    notes: tuple[str, ...]
    extracted: int
    """How many files had to be extracted; 0 when the snapshot was current."""
    stats: Mapping[str, FileEntry]
    """The listing that the corpus stands for, by path."""

    @property
    def files(self) -> int:
        """How many files are indexed."""
        return int(self.corpus.alive_files.sum())

    @property
    def parts(self) -> int:
        """How many parts they have."""
        return int(self.corpus.alive_parts.sum())


@dataclass(frozen=True, slots=True)
class _Changes:
    extract: list[FileEntry]
    """New, or changed in content."""
    touched: bool
    """Whether anything at all differs from the snapshot."""


def index_tree(
    root: Path,
    files: SnapshotFiles,
    pieces: PieceTable | None,
    limits: Limits,
    *,
    submodules: bool = True,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Indexed:
    """Return the corpus of the tree at `root`; only files that changed since the last snapshot are read.

    A snapshot that cannot be written costs the next call its time, and is said in the notes.
    """
    listed_at = time.time_ns()
    listing = list_files(root, submodules=submodules, limits=limits)
    loaded = files.load()
    state, segments = loaded if loaded else (_EMPTY, [])
    changes = _compare(root, listing, state, segments, limits)
    unreadable = dict(state.unreadable)
    if changes.extract:
        from cicl.flows.extracting import extract_files  # brings every extractor with it

        segment, skipped = extract_files(root, changes.extract, limits, pieces, workers, progress)
        for entry in changes.extract:
            unreadable.pop(entry.path, None)
        unreadable.update(skipped)
        segments = [*segments, segment]
    present = {entry.path for entry in listing.files}
    unreadable = {path: reason for path, reason in unreadable.items() if path in present}
    corpus = _make_corpus(segments, present - unreadable.keys())
    notes = listing.notes
    if changes.touched or not loaded:
        corpus, note = _save(files, corpus, listing, unreadable, listed_at)
        notes += note
    skipped_files = [*listing.skipped, *(Skipped(path, reason) for path, reason in unreadable.items())]
    return Indexed(
        root=root,
        corpus=corpus,
        skipped=tuple(sorted(skipped_files)),
        notes=notes,
        extracted=len(changes.extract),
        stats={entry.path: entry for entry in listing.files},
    )


@dataclass(frozen=True, slots=True)
class Survey:
    """How a snapshot stands to the tree."""

    files: int
    parts: int
    stale: int
    """Files whose content the snapshot does not know."""
    skipped: tuple[Skipped, ...]
    notes: tuple[str, ...]


def count_stale(root: Path, files: SnapshotFiles, limits: Limits, submodules: bool) -> Survey:
    """Compare the last snapshot with the tree, and change nothing."""
    listing = list_files(root, submodules=submodules, limits=limits)
    state, segments = files.load() or (_EMPTY, [])
    changes = _compare(root, listing, state, segments, limits)
    present = {entry.path for entry in listing.files}
    corpus = _make_corpus(segments, present)
    unreadable = [Skipped(path, reason) for path, reason in state.unreadable.items() if path in present]
    skipped = tuple(sorted([*listing.skipped, *unreadable]))
    parts = int(corpus.alive_parts.sum())
    return Survey(int(corpus.alive_files.sum()), parts, len(changes.extract), skipped, listing.notes)


_EMPTY = TreeState((), np.zeros((0, 3), np.int64), {}, (), 0)


def _make_corpus(segments: Sequence[Segment], present: Iterable[str]) -> Corpus:
    wanted = set(present)
    known = {path for segment in segments for path in segment.paths}
    return Corpus(segments, removed=sorted(known - wanted))


def _compare(
    root: Path, listing: Listing, state: TreeState, segments: Sequence[Segment], limits: Limits
) -> _Changes:
    known = dict(zip(state.paths, map(tuple, state.stats.tolist()), strict=True))
    digests = {p: d for segment in segments for p, d in zip(segment.paths, segment.digests, strict=True)}
    extract: list[FileEntry] = []
    touched = len(listing.files) != len(known)
    for entry in listing.files:
        if known.get(entry.path) == entry[1:] and not _is_racy(entry, state.indexed_at_ns):
            continue
        touched = True
        if entry.path not in known or not _has_digest(root, entry, digests.get(entry.path), limits):
            extract.append(entry)
    return _Changes(extract, touched)


def _is_racy(entry: FileEntry, indexed_at_ns: int) -> bool:
    return max(entry.mtime_ns, entry.ctime_ns) > indexed_at_ns - RACY_NS


def _has_digest(root: Path, entry: FileEntry, digest: str | None, limits: Limits) -> bool:
    if digest is None:
        return False
    data = read_file(root, entry, limits)
    return not isinstance(data, Skipped) and digest_bytes(data) == digest


def _save(
    files: SnapshotFiles, corpus: Corpus, listing: Listing, unreadable: Mapping[str, str], listed_at: int
) -> tuple[Corpus, tuple[str, ...]]:
    corpus = _tidy(corpus)
    try:
        names = tuple(files.save_segment(segment) for segment in corpus.segments)
        stats = np.array([entry[1:] for entry in listing.files], np.int64).reshape(-1, 3)
        paths = tuple(entry.path for entry in listing.files)
        files.save(TreeState(paths, stats, unreadable, names, listed_at))
    except OSError as error:
        where = files.directory
        return corpus, (
            f"the index could not be saved in {where} ({error.strerror}); the next call starts anew",
        )
    return corpus, ()


def _tidy(corpus: Corpus) -> Corpus:
    """Merge segments when reading many would cost more than merging them."""
    if len(corpus.segments) < 2:
        return corpus
    base, *small = corpus.segments
    alive = sum(1 for _ in corpus.paths)
    held = sum(len(segment.paths) for segment in small)
    dead = corpus.file_offsets[-1] - alive
    if held > MAX_SMALL_SHARE * alive or dead > MAX_SMALL_SHARE * max(1, alive):
        return Corpus([merge_corpus(corpus)])
    if len(small) > MAX_SMALL_SEGMENTS:
        alive_paths = set(corpus.paths)
        removed = [path for segment in small for path in segment.paths if path not in alive_paths]
        merged = merge_corpus(Corpus(small, removed=removed))
        return Corpus([base, merged], removed=sorted(set(base.paths) - alive_paths))
    return corpus
