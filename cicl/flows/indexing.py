"""From a directory to a corpus: list, compare with the last snapshot, extract what changed, save."""

import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

import numpy as np

from cicl.config import state_folder
from cicl.pieces import PieceTable
from cicl.selection.corpus import Corpus
from cicl.selection.merging import merge_corpus
from cicl.selection.records import Skipped
from cicl.selection.segments import Segment
from cicl.selection.sources.files import OWN_PATHS, FileEntry, Limits, Listing, list_files, read_file
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
    listing = _list(root, files, limits, submodules)
    state, segments = _load(files, limits)
    changes = _compare(root, listing, state, segments, limits)
    kept = {entry.path for entry in listing.files}.difference(entry.path for entry in changes.extract)
    unreadable, partly = _only(state.unreadable, kept), _only(state.partly, kept)
    if changes.extract:
        from cicl.flows.extracting import extract_files  # brings every extractor with it

        batch = extract_files(root, changes.extract, limits, pieces, workers, progress)
        unreadable |= batch.skipped
        partly |= batch.partly
        segments = [*segments, batch.segment]
    corpus = _make_corpus(segments, listing, unreadable)
    notes = listing.notes
    if changes.touched or state is _EMPTY:
        corpus, note = _save(files, corpus, listing, unreadable, partly, listed_at, limits)
        notes += note
    return Indexed(
        root=root,
        corpus=corpus,
        skipped=_skipped(listing, unreadable, partly),
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
    listing = _list(root, files, limits, submodules)
    state, segments = _load(files, limits)
    changes = _compare(root, listing, state, segments, limits)
    corpus = _make_corpus(segments, listing, state.unreadable)
    present = {entry.path for entry in listing.files}
    skipped = _skipped(listing, _only(state.unreadable, present), _only(state.partly, present))
    parts = int(corpus.alive_parts.sum())
    return Survey(int(corpus.alive_files.sum()), parts, len(changes.extract), skipped, listing.notes)


_EMPTY = TreeState((), np.zeros((0, 3), np.int64), {}, (), 0, {}, ())


def _list(root: Path, files: SnapshotFiles, limits: Limits, submodules: bool) -> Listing:
    """List the tree without our own state, which would change the tree each time that it is indexed."""
    top = os.path.realpath(root)
    folders = (os.path.realpath(folder) for folder in (state_folder(), files.directory))
    inside = [os.path.relpath(folder, top) for folder in folders if folder.startswith(os.path.join(top, ""))]
    own = (*OWN_PATHS, *(path.replace(os.sep, "/") for path in inside))
    return list_files(root, submodules=submodules, own=own, limits=limits)


def _load(files: SnapshotFiles, limits: Limits) -> tuple[TreeState, list[Segment]]:
    """Return the last snapshot; an empty one where there is none, or one made under other limits."""
    loaded = files.load()
    return loaded if loaded is not None and loaded[0].limits == astuple(limits) else (_EMPTY, [])


def _only(reasons: Mapping[str, str], paths: Collection[str]) -> dict[str, str]:
    return {path: reason for path, reason in reasons.items() if path in paths}


def _skipped(
    listing: Listing, unreadable: Mapping[str, str], partly: Mapping[str, str]
) -> tuple[Skipped, ...]:
    reasons = [*unreadable.items(), *partly.items()]
    return tuple(sorted([*listing.skipped, *(Skipped(path, reason) for path, reason in reasons)]))


def _make_corpus(segments: Sequence[Segment], listing: Listing, unreadable: Collection[str]) -> Corpus:
    wanted = {entry.path for entry in listing.files}.difference(unreadable)
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
        digest = None if entry.path in state.unreadable else digests.get(entry.path)
        answered = digest is not None or entry.path in state.unreadable
        if known.get(entry.path) == entry[1:] and answered and not _is_racy(entry, state.indexed_at_ns):
            continue
        touched = True
        if entry.path not in known or not _has_digest(root, entry, digest, limits):
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
    files: SnapshotFiles,
    corpus: Corpus,
    listing: Listing,
    unreadable: Mapping[str, str],
    partly: Mapping[str, str],
    listed_at: int,
    limits: Limits,
) -> tuple[Corpus, tuple[str, ...]]:
    corpus = _tidy(corpus)
    try:
        names = tuple(files.save_segment(segment) for segment in corpus.segments)
        stats = np.array([entry[1:] for entry in listing.files], np.int64).reshape(-1, 3)
        paths = tuple(entry.path for entry in listing.files)
        files.save(TreeState(paths, stats, unreadable, names, listed_at, partly, astuple(limits)))
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
