"""Retrieval: the units that may matter to a task, by words, by name, and one hop along the graph."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from cicl.selection.corpus import Mask
from cicl.selection.graph import InstanceGraph
from cicl.selection.index import FieldWeights, Hits, LevelName, corpus_index
from cicl.selection.mentions import Resolved, resolve_mentions
from cicl.selection.queries import Query
from cicl.selection.records import MEMORY_KINDS, EdgeKind, Task
from cicl.selection.reference_index import ReferenceIndex

__all__ = ["Backend", "Found", "Hop", "RetrievalSettings", "Retriever", "SearchIndex"]

Backend = Literal["fielded", "rank-bm25"]

DECAY: Mapping[EdgeKind, float] = MappingProxyType(
    {
        "contains": 0.5,
        "calls": 0.6,
        "tests": 0.6,
        "imports": 0.3,
        "similar": 0.4,
        "requires": 0.6,
        "conflicts": 0.8,
        "remembers": 0.8,
        "evidence": 0.6,
        "changed_with": 0.4,
    }
)
"""What is left of a score after one hop; 0.6 is the paper's, the others are ordered by how directly the
edge says that the two belong together. A stale unit must bring what replaces it, so conflicts travel well."""


PART_WEIGHTS = FieldWeights(path=0.5, name=3.0, doc=1.5, body=1.0)
FILE_WEIGHTS = FieldWeights(path=2.0, name=1.5, doc=1.0, body=1.0)
"""A name says what a part is for; a path, what a file is for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrievalSettings:
    """How far retrieval looks."""

    parts: int = 60
    """Best parts by their own words."""
    files: int = 12
    """Best files by their words; each offers itself and its best parts."""
    parts_per_file: int = 3
    seeds: int = 10
    """Best finds whose neighbours are looked at."""
    neighbours: int = 24
    """Neighbours kept."""
    memories: int = 12
    """Best by their words of what earlier runs left; they take no place of the others."""
    memory_seeds: int = 2
    """Best of those whose neighbours are looked at as well."""
    namers: int = 30
    """Units looked at among those that merely name a seed."""
    part_weights: FieldWeights = PART_WEIGHTS
    file_weights: FieldWeights = FILE_WEIGHTS
    decay: Mapping[EdgeKind, float] = field(default_factory=lambda: DECAY)


class SearchIndex(Protocol):
    """What retrieval asks of an index of one level."""

    def search(self, query: Mapping[int, float]) -> Hits: ...

    @property
    def ceiling(self) -> float:
        """What a term scores at most, as a multiple of its weight."""

    def idf(self, frequency: int) -> float: ...

    def frequency(self, key: int) -> int: ...


class Hop(NamedTuple):
    """How a unit was reached from another one."""

    seed: str
    kind: EdgeKind
    outward: bool
    """Whether the edge leaves the seed."""
    score: float
    """Of the seed, after decay, in [0, 1]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A unit that may matter, and by which ways it was found."""

    unit_id: str
    lexical: float = 0.0
    """BM25 of the unit's own words, as a share of what a unit that held every word densely would score."""
    file_lexical: float = 0.0
    """The same of the whole file it stands in."""
    rank_score: float = 0.0
    """Both, relative to the best of the query, in [0, 1]: what orders candidates before they are judged."""
    mentions: tuple[Resolved, ...] = ()
    hops: tuple[Hop, ...] = ()


@dataclass(slots=True)
class _Draft:
    lexical: float = 0.0
    file_lexical: float = 0.0
    mentions: list[Resolved] = field(default_factory=list)
    hops: list[Hop] = field(default_factory=list)


class Retriever:
    """Finds candidates in one graph; built once for a snapshot, asked many times."""

    def __init__(
        self, graph: InstanceGraph, settings: RetrievalSettings | None = None, backend: Backend = "fielded"
    ) -> None:
        self.graph = graph
        self.settings = settings or RetrievalSettings()
        self.backend: Backend = backend
        self.past = frozenset(key for key, unit in graph.given.items() if unit.kind in MEMORY_KINDS)
        self._past_files, self._past_parts = self._mask_past()
        self._parts = self._index("parts", self.settings.part_weights)
        self._files = self._index("files", self.settings.file_weights)

    def _mask_past(self) -> tuple[Mask, Mask]:
        """Which rows of files and parts hold what earlier runs left: a word is not common for their sake."""
        corpus = self.graph.corpus
        files, parts = np.zeros_like(corpus.alive_files), np.zeros_like(corpus.alive_parts)
        for unit_id in self.past:
            row = corpus.file_row(unit_id)
            if row is not None:
                files[row] = True
                rows = corpus.parts_of(row)
                parts[rows.start : rows.stop] = True
        return files, parts

    def _index(self, level: LevelName, weights: FieldWeights) -> SearchIndex:
        counted = ~(self._past_files if level == "files" else self._past_parts)
        if self.backend == "rank-bm25":
            return ReferenceIndex(self.graph.corpus, level, counted)
        return corpus_index(self.graph.corpus, level, weights, counted)

    def term_weight(self, key: int) -> float:
        """Return how much a term says, by how few files hold it; the highest for a term nobody holds."""
        return self._files.idf(self._files.frequency(key))

    def holds(self, unit_ids: Sequence[str], keys: Sequence[int]) -> NDArray[np.bool_]:
        """Return which units hold which terms, in any field; shape (units, keys)."""
        corpus = self.graph.corpus
        table = np.zeros((len(unit_ids), len(keys)), np.bool_)
        places: dict[str, dict[int, int]] = {"files": {}, "parts": {}}
        for place, unit_id in enumerate(unit_ids):
            found = corpus.find_unit(unit_id)
            if found is not None:
                level, row = ("files", found[0]) if found[1] is None else ("parts", found[1])
                places[level][row] = place
        for level, rows in places.items():
            wanted = np.array(sorted(rows), np.int64)
            where = [rows[row] for row in wanted.tolist()]
            for column, key in enumerate(keys):
                table[where, column] = corpus.holds(level == "files", wanted, key)
        return table

    def is_known(self, key: int) -> bool:
        """Say whether any file holds a term."""
        return self._files.frequency(key) > 0

    def find(self, task: Task, query: Query) -> tuple[Found, ...]:
        """Return the candidates of a task by falling `rank_score`, then id; empty when nothing matches."""
        drafts: dict[str, _Draft] = {}
        self._add_lexical(query, drafts)
        for item in resolve_mentions(self.graph, query.mentions):
            drafts.setdefault(item.unit_id, _Draft()).mentions.append(item)
        for path in task.open_files:
            if path in self.graph:
                drafts.setdefault(path, _Draft())
        self._add_neighbours(drafts)
        return tuple(self._rank(drafts))

    def _rank(self, drafts: Mapping[str, _Draft]) -> list[Found]:
        """Score against the best that stands here; what earlier runs left sets no measure."""
        here = [draft for unit_id, draft in drafts.items() if unit_id not in self.past]
        best_part = max((draft.lexical for draft in here or drafts.values()), default=0.0)
        best_file = max((draft.file_lexical for draft in here or drafts.values()), default=0.0)
        found = [_finish(unit_id, draft, best_part, best_file) for unit_id, draft in drafts.items()]
        return sorted(found, key=lambda item: (-item.rank_score, item.unit_id))

    def _add_lexical(self, query: Query, drafts: dict[str, _Draft]) -> None:
        corpus, settings = self.graph.corpus, self.settings
        part_hits, file_hits = self._parts.search(query.keys), self._files.search(query.keys)
        part_most, file_most = self._most(self._parts, query), self._most(self._files, query)
        here = _without(part_hits, self._past_parts)
        rows = {int(row) for row in self._best(here, settings.parts, corpus.part_id)}
        for file in self._best(_without(file_hits, self._past_files), settings.files, corpus.path):
            if corpus.facts(int(file)).language != "unit":
                drafts[corpus.path(int(file))] = _Draft(file_lexical=file_hits.scores[file] / file_most)
            parts = corpus.parts_of(int(file))
            scores = part_hits.scores[parts.start : parts.stop]
            best = np.lexsort((np.arange(len(scores)), -scores))[: settings.parts_per_file]
            rows.update(parts.start + int(place) for place in best if scores[place] > 0)
        if self.past:
            past = _without(part_hits, ~self._past_parts)
            rows.update(self._best(past, settings.memories, corpus.part_id))
        for row in rows:
            file = corpus.file_of(row)
            drafts[corpus.part_id(row)] = _Draft(
                float(part_hits.scores[row] / part_most), float(file_hits.scores[file] / file_most)
            )

    @staticmethod
    def _most(index: SearchIndex, query: Query) -> float:
        """What a document would score that held every word of the query without end, also unknown words."""
        total = sum(weight * index.idf(index.frequency(key)) for key, weight in query.keys.items())
        return max(total * index.ceiling, 1e-9)

    @staticmethod
    def _best(hits: Hits, count: int, name: "Namer") -> list[int]:
        """The best rows, best first; a tie is decided by id, never by row."""
        rows = [int(row) for row in hits.top(count)]
        return sorted(rows, key=lambda row: (-hits.scores[row], name(row)))[:count]

    def _add_neighbours(self, drafts: dict[str, _Draft]) -> None:
        ranked = self._rank(drafts)
        here = [item for item in ranked if item.unit_id not in self.past]
        past = [item for item in ranked if item.unit_id in self.past]
        seeds = [*here[: self.settings.seeds], *past[: self.settings.memory_seeds]]
        reached: dict[str, list[Hop]] = {}
        for seed in seeds:
            for unit_id, hop in self._hops(seed):
                reached.setdefault(unit_id, []).append(hop)
        ordered = sorted(reached, key=lambda unit_id: (-max(hop.score for hop in reached[unit_id]), unit_id))
        kept = 0
        for unit_id in ordered:
            if unit_id not in drafts:
                kept += 1
                if kept > self.settings.neighbours:
                    continue
            draft = drafts.setdefault(unit_id, _Draft())
            draft.hops.extend(sorted(reached[unit_id], key=lambda hop: (-hop.score, hop.seed, hop.kind)))

    def _hops(self, seed: Found) -> Iterable[tuple[str, Hop]]:
        decay = self.settings.decay
        for edge in self.graph.edges_from(seed.unit_id):
            score = seed.rank_score * decay[edge.kind] * edge.weight
            yield edge.target, Hop(seed.unit_id, edge.kind, True, score)
        for edge in self.graph.edges_to(seed.unit_id, self.settings.namers):
            score = seed.rank_score * decay[edge.kind] * edge.weight
            yield edge.source, Hop(seed.unit_id, edge.kind, False, score)


class Namer(Protocol):
    """Gives the id of a row."""

    def __call__(self, row: int, /) -> str: ...


MENTION_SCORE: Mapping[str, float] = MappingProxyType(
    {"frame": 1.0, "path": 1.0, "dotted": 0.9, "quoted": 0.7, "identifier": 0.5}
)
"""How surely a mention of each kind is meant, before it is shared between its meanings."""


def mention_score(mentions: Iterable[Resolved]) -> float:
    """Return how surely the task names the unit, in [0, 1]."""
    return max((MENTION_SCORE[item.mention.kind] * item.weight for item in mentions), default=0.0)


def _without(hits: Hits, left_out: Mask) -> Hits:
    return Hits(np.where(left_out, 0.0, hits.scores), hits.matched & ~left_out)


def _finish(unit_id: str, draft: _Draft, best_part: float, best_file: float) -> Found:
    lexical = min(1.0, draft.lexical / (best_part or 1.0))
    words = 0.6 * lexical + 0.4 * min(1.0, draft.file_lexical / (best_file or 1.0))
    near = max((hop.score for hop in draft.hops), default=0.0)
    named = mention_score(draft.mentions)
    return Found(
        unit_id=unit_id,
        lexical=draft.lexical,
        file_lexical=draft.file_lexical,
        rank_score=1 - (1 - words) * (1 - named) * (1 - near),
        mentions=tuple(draft.mentions),
        hops=tuple(draft.hops),
    )
