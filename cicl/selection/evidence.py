"""Evidence: the one place where a unit and a task are looked at and what is seen gets a name.

Retrieval orders by it, `proxy` and every ranker judge by it, `--explain` prints it. A signal is a function
below whose docstring says what it means; it is added in `SIGNALS` and nowhere else.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cicl.selection.graph import InstanceGraph
from cicl.selection.queries import Query
from cicl.selection.records import MEMORY_KINDS, Candidate, ContextUnit, Evidence, Task
from cicl.selection.relations import covers, is_nested
from cicl.selection.retrieval import Found, Retriever, mention_score
from cicl.selection.sources.names import is_test_path, local_name
from cicl.text import TermSplitter, term_key, words

__all__ = ["SIGNALS", "History", "Observer", "PastUse", "observe"]


class PastUse(NamedTuple):
    """What became of a unit's earlier deliveries, as far as receipts tell."""

    successes: int
    failures: int


History = Mapping[str, PastUse]
"""By unit id."""

Seen = tuple[float, str]
"""Strength and detail."""

GRAINS = 2**20
"""Steps into which the weight of a term is cut where sums must not depend on their order."""
FULL_SUBSTANCE_LINES = 100
MAX_DETAIL_TERMS = 5
MAX_UNIT_WORDS = 20_000
"""Of a longer unit the first words are looked at; it is no single thing to act on anyway."""


@dataclass(frozen=True)
class Observer:
    """Everything that signals may look at for one task."""

    graph: InstanceGraph
    retriever: Retriever
    task: Task
    query: Query
    found: Sequence[Found]
    context: Sequence[ContextUnit] = ()
    """C⁻, what the agent already has."""
    history: History = field(default_factory=lambda: MappingProxyType({}))
    splitter: TermSplitter = field(default_factory=TermSplitter)

    @cached_property
    def weights(self) -> dict[str, float]:
        """How much each term of the query says: its weight in the query times its rarity."""
        terms = self.query.terms
        return {term: weight * self.retriever.term_weight(term_key(term)) for term, weight in terms.items()}

    @cached_property
    def matched(self) -> dict[str, frozenset[str]]:
        """The query terms that each unit holds, in its text, name or path."""
        terms = list(self.query.terms)
        holds = self.retriever.holds([item.unit_id for item in self.found], [term_key(t) for t in terms])
        return {
            item.unit_id: frozenset(terms[place] for place in row.nonzero()[0])
            for item, row in zip(self.found, holds, strict=True)
        }

    @cached_property
    def substitutes(self) -> dict[str, float]:
        """The largest share of each unit's evidence that C⁻ or another unit, found as strongly, holds too."""
        order = {term: place for place, term in enumerate(self.weights)}
        # Whole numbers: sums are then the same in whatever order a matrix product takes them.
        grains = np.array([round(weight * GRAINS) for weight in self.weights.values()], np.int64)
        holds = np.zeros((len(self.found), len(grains)), np.int64)
        for row, item in enumerate(self.found):
            holds[row, [order[term] for term in self.matched[item.unit_id]]] = 1
        shared = (holds * grains) @ holds.T
        return {item.unit_id: self._substitute(row, shared[row]) for row, item in enumerate(self.found)}

    def _substitute(self, row: int, shared: NDArray[np.int64]) -> float:
        own, whole = self.found[row], int(shared[row])
        if whole == 0:
            return 0.0
        known = self.matched[own.unit_id] & self.in_context
        held: float = sum(round(self.weights[term] * GRAINS) for term in known)
        past = self.retriever.past if own.unit_id not in self.retriever.past else frozenset[str]()
        for place, other in enumerate(self.found):
            if other.unit_id in past:  # that an earlier run spoke of it replaces nothing
                continue
            if place != row and shared[place] > held and not is_nested(other.unit_id, own.unit_id):
                able = min(1.0, other.rank_score / max(own.rank_score, 1e-9))
                held = max(held, able * int(shared[place]))
        return min(1.0, held / whole)

    @cached_property
    def in_context(self) -> frozenset[str]:
        """The query terms that C⁻ holds."""
        return frozenset(term for unit in self.context for term in self._match(unit))

    @cached_property
    def known_share(self) -> float:
        """How much of what the task's first line says occurs anywhere in the instance."""
        title = [term for term in self.query.title_terms if term in self.weights]
        known = [term for term in title if self.retriever.is_known(term_key(term))]
        whole = self.weigh(title)  # 0 also where plain BM25 finds every word too common
        return self.weigh(known) / whole if whole > 0 else 0.0

    @cached_property
    def coverage(self) -> dict[str, float]:
        """How much of what the task's first line says each unit holds."""
        title = [term for term in self.query.title_terms if term in self.weights]
        whole = self.weigh(title)
        return {
            unit_id: self.weigh(held.intersection(title)) / whole if whole > 0 else 0.0
            for unit_id, held in self.matched.items()
        }

    @cached_property
    def best_coverage(self) -> float:
        """The most that one unit holds of what the task's first line says."""
        return max((self.coverage[item.unit_id] for item in self._measures), default=0.0)

    @cached_property
    def has_code(self) -> bool:
        """Whether code was found that is no test."""
        return any(self.graph.unit(item.unit_id).kind == "symbol" for item in self.found)

    @cached_property
    def named_files(self) -> frozenset[str]:
        """Files that the task names, by themselves or through something in them."""
        return frozenset(item.unit_id.partition("::")[0] for item in self.found if item.mentions)

    @cached_property
    def _measures(self) -> Sequence[Found]:
        """What others are measured by: what stands here, and only without any of that what runs left."""
        past = self.retriever.past
        return [item for item in self.found if item.unit_id not in past] or self.found

    @cached_property
    def best_file_lexical(self) -> float:
        """The best score of a file by its own words."""
        return max((item.file_lexical for item in self._measures), default=0.0)

    @cached_property
    def best_lexical(self) -> float:
        """The best score of a unit by its own words."""
        return max((item.lexical for item in self._measures), default=0.0)

    def _match(self, unit: ContextUnit) -> frozenset[str]:
        seen = set(words(unit.content)[:MAX_UNIT_WORDS])
        seen.update(words(unit.source), words(str(unit.metadata.get("name", ""))))
        terms = {term for word in seen for term in self.splitter.split(word)}
        return frozenset(terms & self.query.terms.keys())

    def weigh(self, terms: Iterable[str]) -> float:
        """Return the sum of what `terms` say."""
        weights = self.weights
        return sum(weights[term] for term in sorted(terms))

    def name_terms(self, terms: Iterable[str]) -> str:
        """Return the most telling of `terms`, for a person."""
        ordered = sorted(terms, key=lambda term: (-self.weights[term], term))
        return ", ".join(f"`{term}`" for term in ordered[:MAX_DETAIL_TERMS])


def observe(observer: Observer) -> tuple[Candidate, ...]:
    """Return the candidates that were found, with everything seen about them, in the order found."""
    candidates = []
    for item in observer.found:
        unit = observer.graph.unit(item.unit_id)
        seen = ((name, signal(observer, item, unit)) for name, signal in SIGNALS.items())
        evidence = [Evidence(name, float(value), detail) for name, (value, detail) in seen if value > 0.0]
        candidates.append(Candidate(unit, tuple(sorted(evidence))))
    return tuple(candidates)


NOTHING: Seen = (0.0, "")


def lexical(observer: Observer, found: Found, unit: ContextUnit) -> Seen:
    """BM25 of the unit's own words, as a share of what a unit that held every word would score."""
    if found.lexical <= 0:
        return NOTHING
    return min(1.0, found.lexical), f"holds {observer.name_terms(observer.matched[found.unit_id])}"


def lexical_rank(observer: Observer, found: Found, unit: ContextUnit) -> Seen:
    """BM25 of the unit's own words, relative to the best unit of this task."""
    if found.lexical <= 0:
        return NOTHING
    share = min(1.0, found.lexical / (observer.best_lexical or found.lexical))
    return share, f"{share:.0%} of the best match by words"


def file_lexical(observer: Observer, found: Found, unit: ContextUnit) -> Seen:
    """BM25 of the whole file the unit stands in, as a share of what a file with every word would score."""
    if found.file_lexical <= 0:
        return NOTHING
    return min(1.0, found.file_lexical), f"its file {unit.source} matches as a whole"


def file_rank(observer: Observer, found: Found, unit: ContextUnit) -> Seen:
    """BM25 of the whole file the unit stands in, relative to the best file of this task."""
    if found.file_lexical <= 0:
        return NOTHING
    share = min(1.0, found.file_lexical / (observer.best_file_lexical or found.file_lexical))
    return share, f"its file is {share:.0%} of the best match among files"


def task_known(observer: Observer, found: Found, unit: ContextUnit) -> Seen:
    """How much of what the task's first line says occurs anywhere here: the same for all units of a task."""
    share = observer.known_share
    return (share, f"{share:.0%} of the first line is known here") if share > 0 else NOTHING


def task_covered(observer: Observer, found: Found, unit: ContextUnit) -> Seen:
    """The best title coverage of any one unit: the same for all units of a task."""
    best = observer.best_coverage
    return (best, f"one unit holds {best:.0%} of the first line") if best > 0 else NOTHING


def task_matched(observer: Observer, found: Found, unit: ContextUnit) -> Seen:
    """The best match of any one file by its words: the same for all units of a task."""
    best = min(1.0, observer.best_file_lexical)
    return (best, f"the best file matches {best:.0%} of what could match") if best > 0 else NOTHING


def title_coverage(observer: Observer, found: Found, unit: ContextUnit) -> Seen:
    """How much of what the task's first line says occurs in the unit, rare words counting more."""
    share = observer.coverage[found.unit_id]
    if share <= 0:
        return NOTHING
    held = observer.matched[found.unit_id].intersection(observer.query.title_terms)
    return share, f"the first line's {observer.name_terms(held)}"


def named(observer: Observer, found: Found, unit: ContextUnit) -> Seen:
    """The task names the unit outright: its path, its dotted name, its identifier, or a traceback frame."""
    if not found.mentions:
        return NOTHING
    best = max(found.mentions, key=lambda item: (mention_score([item]), item.mention.text))
    how = "a traceback passes through it" if best.mention.kind == "frame" else "the task names it"
    return mention_score(found.mentions), f"{how}: `{best.mention.text}`"


def file_named(observer: Observer, found: Found, unit: ContextUnit) -> Seen:
    """The task names the unit's file, or something else in it."""
    if unit.source not in observer.named_files:
        return NOTHING
    return 1.0, f"the task names {unit.source}, or something in it"


def name_match(observer: Observer, found: Found, unit: ContextUnit) -> Seen:
    """How much of the unit's own name is among the task's words, rare words counting more."""
    name = local_name(str(unit.metadata.get("name", "")))
    parts = set(observer.splitter.terms(name))
    held = parts & observer.query.terms.keys()
    if not held or unit.kind not in ("symbol", "test", "file"):
        return NOTHING
    rarity = {part: observer.retriever.term_weight(term_key(part)) for part in sorted(parts)}
    whole = sum(rarity.values())
    if whole <= 0:
        return NOTHING
    share = sum(rarity[part] for part in sorted(held)) / whole
    return share, f"its name shares {observer.name_terms(held)} with the task"


HOP_WORDS: Mapping[tuple[str, bool], str] = MappingProxyType(
    {
        ("contains", True): "is part of",
        ("contains", False): "contains",
        ("calls", True): "is called by",
        ("calls", False): "calls",
        ("tests", True): "is tested by",
        ("tests", False): "tests",
        ("imports", True): "is imported by",
        ("imports", False): "imports",
        ("similar", True): "resembles",
        ("similar", False): "resembles",
        ("requires", True): "is required by",
        ("requires", False): "requires",
        ("conflicts", True): "replaces or contradicts",
        ("conflicts", False): "is replaced or contradicted by",
        ("remembers", True): "is remembered by",
        ("remembers", False): "remembers",
    }
)


def neighbour(observer: Observer, found: Found, unit: ContextUnit) -> Seen:
    """One hop from a unit that was found by itself: that unit's score after the decay of the edge."""
    if not found.hops:
        return NOTHING
    hop = found.hops[0]
    relation = HOP_WORDS.get((hop.kind, hop.outward), hop.kind)
    return min(1.0, float(hop.score)), f"{relation} {hop.seed}"


def in_open_file(observer: Observer, found: Found, unit: ContextUnit) -> Seen:
    """The unit stands in a file that the agent has open."""
    return (1.0, f"{unit.source} is open") if unit.source in observer.task.open_files else NOTHING


def irreplaceable(observer: Observer, found: Found, unit: ContextUnit) -> Seen:
    """How much of what the unit says about the task no other unit says, among those found as strongly."""
    if not observer.matched[found.unit_id]:
        return NOTHING
    share = 1.0 - observer.substitutes[found.unit_id]
    return share, f"{share:.0%} of its evidence is in no other unit found"


def applies(observer: Observer, found: Found, unit: ContextUnit) -> Seen:
    """A rule or memory whose stated scope covers a file that is open or that the task names."""
    scope = tuple(unit.metadata.get("scope", ()))
    if unit.kind not in ("rule", "memory") or not scope:
        return NOTHING
    touched = [*observer.task.open_files, *sorted(observer.named_files)]
    path = next((path for path in touched if covers(scope, path)), None)
    return (1.0, f"it covers {path}") if path is not None else NOTHING


def outdated(observer: Observer, found: Found, unit: ContextUnit) -> Seen:
    """The unit says of itself, in the place for it, that it is stale or superseded."""
    marks = [mark for mark in unit.metadata.get("marks", ()) if mark["kind"] in ("stale", "superseded")]
    if not marks:
        return NOTHING
    return 1.0, f"line {marks[0]['line']}: {marks[0]['text']}" if marks[0]["line"] else str(marks[0]["text"])


def contradicted(observer: Observer, found: Found, unit: ContextUnit) -> Seen:
    """Another unit states that it replaces this one, or the whole file it stands in."""
    for whole in dict.fromkeys((unit.id, unit.source)):
        for edge in observer.graph.contradictions(whole):
            own = edge.source.partition("::")[0] == unit.source
            if not (whole != unit.id and own) and not _is_outdated(observer.graph, edge.source):
                return edge.weight, f"{edge.source} says it replaces {'it' if whole == unit.id else whole}"
    return NOTHING


def _is_outdated(graph: InstanceGraph, unit_id: str) -> bool:
    marks = graph.unit(unit_id).metadata.get("marks", ())
    return any(mark["kind"] in ("stale", "superseded") for mark in marks)


def generated(observer: Observer, found: Found, unit: ContextUnit) -> Seen:
    """The file says that a program writes it: an edit would be lost."""
    marks = [mark for mark in unit.metadata.get("marks", ()) if mark["kind"] == "generated"]
    return (1.0, f"line {marks[0]['line']}: {marks[0]['text']}") if marks else NOTHING


def is_test(observer: Observer, found: Found, unit: ContextUnit) -> Seen:
    """The unit is test code: it shows the behaviour, it does not make it."""
    return (1.0, "test code") if unit.kind == "test" or is_test_path(unit.source) else NOTHING


def is_prose(observer: Observer, found: Found, unit: ContextUnit) -> Seen:
    """The unit is a document, prose or data, where code that runs was found as well."""
    return (1.0, "a document") if unit.kind == "document" and observer.has_code else NOTHING


def is_whole_file(observer: Observer, found: Found, unit: ContextUnit) -> Seen:
    """The unit is a whole file: a place to look in, not yet a place to act on."""
    return (1.0, "a whole file") if unit.kind == "file" else NOTHING


def substance(observer: Observer, found: Found, unit: ContextUnit) -> Seen:
    """How much there is to act on: the unit's lines, 100 or more counting as 1."""
    lines = unit.content.count("\n") + 1
    return min(1.0, lines / FULL_SUBSTANCE_LINES), f"{lines} lines"


def is_memory(observer: Observer, found: Found, unit: ContextUnit) -> Seen:
    """The unit is what an agent wrote down before: a memory, failure, strategy or trace."""
    return (1.0, f"a {unit.kind}") if unit.kind in MEMORY_KINDS else NOTHING


def past_success(observer: Observer, found: Found, unit: ContextUnit) -> Seen:
    """Receipts: runs that were given the unit, acted on it, and succeeded. k of them count as k / (k + 2)."""
    count = observer.history.get(unit.id, PastUse(0, 0)).successes
    return (count / (count + 2), f"acted on in {count} solved runs") if count else NOTHING


def past_harm(observer: Observer, found: Found, unit: ContextUnit) -> Seen:
    """Receipts: runs that were given the unit, acted on it, and failed. k of them count as k / (k + 2)."""
    count = observer.history.get(unit.id, PastUse(0, 0)).failures
    return (count / (count + 2), f"acted on in {count} failed runs") if count else NOTHING


Signal = Callable[[Observer, Found, ContextUnit], Seen]

SIGNALS: Mapping[str, Signal] = MappingProxyType(
    {
        signal.__name__: signal
        for signal in (
            applies,
            contradicted,
            file_lexical,
            file_named,
            file_rank,
            generated,
            in_open_file,
            irreplaceable,
            is_memory,
            is_prose,
            is_test,
            is_whole_file,
            lexical,
            lexical_rank,
            name_match,
            named,
            neighbour,
            outdated,
            past_harm,
            past_success,
            substance,
            task_covered,
            task_known,
            task_matched,
            title_coverage,
        )
    }
)
"""Every signal by name."""
