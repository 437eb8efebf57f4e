"""An instance opened: its snapshot, its indexes, its past, all as of one moment."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType

from cicl.config import Settings, state_folder
from cicl.errors import RepositoryError, StoreError
from cicl.flows.indexing import Indexed, Progress, index_tree
from cicl.flows.remembering import past_uses, remembered
from cicl.pieces import SPLITS, PieceTable
from cicl.selection.corpus import Corpus
from cicl.selection.evidence import History
from cicl.selection.graph import InstanceGraph, extract_unit
from cicl.selection.records import ContextUnit, Skipped
from cicl.selection.retrieval import Backend, Retriever
from cicl.selection.segments import build_segment
from cicl.selection.sources.decoding import decode, split_lines
from cicl.selection.sources.files import FileEntry, Limits, read_file
from cicl.selection.sources.repository import Repository
from cicl.storage.journal import Journal, Outcome
from cicl.storage.snapshots import SnapshotFiles
from cicl.tokens import PieceCounter, TokenCounter, counter_for

__all__ = ["Instance", "TreeInstance", "open_graph", "state_of"]


@dataclass(frozen=True)
class Instance:
    """Everything that one `select` reads."""

    graph: InstanceGraph
    retriever: Retriever
    history: History
    skipped: tuple[Skipped, ...] = ()
    notes: tuple[str, ...] = ()
    counters: "Counters | None" = None

    def counter(self, encoding: str) -> TokenCounter:
        """Return the counter of an encoding; raises `ConfigurationError` for one that nobody knows."""
        return self.counters.get(encoding) if self.counters is not None else counter_for(encoding)


class Counters:
    """The token counters of one state folder, each with its table of known pieces."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._tables: dict[str, PieceTable] = {}

    def get(self, encoding: str) -> TokenCounter:
        """Return the counter of an encoding; raises `ConfigurationError` for one that nobody knows."""
        counter = counter_for(encoding)  # first: a name that nobody knows never becomes a file name
        return counter_for(encoding, self._table(encoding)) if encoding in SPLITS else counter

    def learner(self, encoding: str) -> PieceTable | None:
        """Return the table that learns what is indexed; None where the encoding is not counted by pieces."""
        counter = self.get(encoding)
        return counter.table if isinstance(counter, PieceCounter) else None

    def _table(self, encoding: str) -> PieceTable:
        if encoding not in self._tables:
            self._tables[encoding] = PieceTable.open(self._folder, encoding)
        return self._tables[encoding]

    def save(self) -> None:
        """Keep what was learned; a disk that refuses costs the next process some milliseconds."""
        for table in self._tables.values():
            table.save()


def state_of(repository: Repository) -> Path:
    """Return the folder that holds the state of one work tree."""
    return state_folder() / "instances" / repository.key


class TreeInstance:
    """A directory, opened again and again: each `refresh` costs what changed since the last."""

    def __init__(self, repository: Repository, settings: Settings, progress: Progress | None = None) -> None:
        self.repository = repository
        self.settings = settings
        self.folder = state_of(repository)
        self.counters = Counters(self.folder)
        self._progress = progress
        self.limits = Limits(settings.max_file_bytes, settings.max_line_chars)
        self.snapshots = SnapshotFiles(self.folder)
        self._current: tuple[tuple[object, ...], Instance] | None = None

    @cached_property
    def journal(self) -> Journal:
        """The instance's journal; raises `StoreError` when it cannot be read."""
        return Journal.open(self.folder)

    def index(self) -> Indexed:
        """Return the corpus of the tree as it is now; raises `RepositoryError` when that is gone."""
        if not self.repository.root.is_dir():
            raise RepositoryError(f"{self.repository.root} is gone; open another directory")
        return index_tree(
            self.repository.root,
            self.snapshots,
            self.counters.learner(self.settings.encoding),
            self.limits,
            submodules=self.settings.submodules,
            progress=self._progress,
        )

    def refresh(self, backend: Backend) -> Instance:
        """Return the instance as it is now; the same object while nothing changed."""
        indexed = self.index()
        outcomes, notes = self._outcomes()
        state = (backend, tuple(indexed.stats.values()), indexed.corpus.digests, outcomes)
        if self._current is None or self._current[0] != state:
            self._current = (state, self._make(indexed, outcomes, backend, indexed.notes + notes))
        return self._current[1]

    def _outcomes(self) -> tuple[tuple[Outcome, ...], tuple[str, ...]]:
        try:
            return self.journal.outcomes(), ()
        except StoreError as error:
            return (), (f"past runs were not read: {error}",)

    def _make(
        self, indexed: Indexed, outcomes: Sequence[Outcome], backend: Backend, notes: tuple[str, ...]
    ) -> Instance:
        units, edges = remembered(outcomes, self.repository.key, indexed.corpus)
        graph = InstanceGraph(
            _with_units(indexed.corpus, units),
            instance_id=self.repository.key,
            read_lines=lambda path: self._read_lines(indexed.stats[path]),
            given={unit.id: unit for unit in units},
            edges=edges,
            refresher=lambda: self.refresh(backend).graph,
        )
        return Instance(
            graph=graph,
            retriever=Retriever(graph, backend=backend),
            history=past_uses(outcomes),
            skipped=indexed.skipped,
            notes=notes,
            counters=self.counters,
        )

    def _read_lines(self, entry: FileEntry) -> Sequence[str]:
        data = read_file(self.repository.root, entry, self.limits)
        decoded = data if isinstance(data, Skipped) else decode(data, entry.path, self.limits)
        if isinstance(decoded, Skipped):
            raise OSError(decoded.reason)
        return split_lines(decoded.text)


def _with_units(corpus: Corpus, units: Iterable[ContextUnit]) -> Corpus:
    """Add units that stand in no file, such as memories, as one more segment."""
    ordered = sorted(units, key=lambda unit: unit.id)
    if not ordered:
        return corpus
    segment = build_segment([extract_unit(unit) for unit in ordered])
    alive = set(corpus.paths)
    dead = sorted({path for item in corpus.segments for path in item.paths} - alive)
    return Corpus([*corpus.segments, segment], removed=dead)


def open_graph(graph: InstanceGraph, backend: Backend) -> Instance:
    """Return the instance of a graph built by hand; it has no past and keeps no state."""
    return Instance(graph=graph, retriever=Retriever(graph, backend=backend), history=MappingProxyType({}))
