"""The records that pass between the stages of selection.

All are frozen. Line numbers count from 1, spans include both ends, tokens are tokens of the
encoding the engine was opened with, and every score is a float in [0, 1] unless its line says otherwise.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, get_args

from cicl.errors import JudgmentInvalid

__all__ = [
    "EDGE_KINDS",
    "JUDGMENT_FIELDS",
    "JUDGMENT_NUMBERS",
    "MEMORY_KINDS",
    "UNIT_KINDS",
    "Candidate",
    "ContextPack",
    "ContextUnit",
    "Dropped",
    "Edge",
    "EdgeKind",
    "Evidence",
    "Judgment",
    "MemoryCard",
    "Receipt",
    "Skipped",
    "Span",
    "Task",
    "UnitKind",
    "Unjudged",
    "UtilityTerms",
]

UnitKind = Literal[
    "file", "symbol", "test", "document", "memory", "rule", "failure", "strategy", "trace", "commit"
]
EdgeKind = Literal[
    "contains",
    "imports",
    "calls",
    "tests",
    "similar",
    "conflicts",
    "requires",
    "changed_with",
    "remembers",
    "evidence",
]

UNIT_KINDS: tuple[str, ...] = get_args(UnitKind)
EDGE_KINDS: tuple[str, ...] = get_args(EdgeKind)
MEMORY_KINDS = frozenset({"memory", "failure", "strategy", "trace"})
"""Kinds that an agent's own past wrote; they compete under the memory sub-budget."""


def _nothing() -> Mapping[str, Any]:
    return MappingProxyType({})


class Span(NamedTuple):
    """Lines `start` to `end` of a file, both included, counted from 1."""

    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextUnit:
    """Something an agent could read: a file, a symbol, a note, a rule, a past failure."""

    id: str
    """`src/a.py`, `src/a.py::Class.method`, `src/a.py::<module>`; unique in its instance."""
    instance_id: str = ""
    """The repository or environment the unit belongs to."""
    kind: UnitKind
    source: str
    """Where it comes from: a path relative to the root, or any name in an environment built by hand."""
    content: str
    span: Span | None = None
    """Lines of `source` that `content` is; None where there are no lines."""
    token_cost: int = 0
    """Tokens of `content`, without the parts that are units themselves; of a very long one those of its first
    20,000 characters. 0 means not counted yet."""
    confidence: float = 1.0
    """How far the unit itself can be trusted, in [0, 1]."""
    digest: str = ""
    """Digest of `content`; empty means not computed yet."""
    metadata: Mapping[str, Any] = field(default_factory=_nothing, hash=False)
    """Values that JSON can hold: `name`, `role`, `signature`, `summary`, `marks`, `scope`, ..."""


@dataclass(frozen=True, slots=True)
class Edge:
    """A typed, directed relation between two units."""

    source: str
    target: str
    kind: EdgeKind
    weight: float = 1.0
    """In (0, 1]: how sure the relation is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What the agent is about to do. There is no field that could carry the answer."""

    text: str
    open_files: tuple[str, ...] = ()
    """Paths the agent has open, relative to the root: part of what it already knows."""
    already_delivered: tuple[str, ...] = ()
    """Ids of units that reached this agent before: never delivered twice."""
    proposed_action: str | None = None
    """What the agent says it will do next, in its own words."""


class Evidence(NamedTuple):
    """One named observation about a unit and a task."""

    name: str
    """A key of `cicl.selection.evidence.SIGNALS`, where its meaning is written down."""
    value: float
    """Strength in [0, 1]."""
    detail: str
    """What was seen, in words for a person: the matched path, term, frame or neighbour."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A unit that may matter, and why it was found."""

    unit: ContextUnit
    evidence: tuple[Evidence, ...] = ()
    """Sorted by name, each name once; an absent name means nothing was seen."""

    def value(self, name: str) -> float:
        """Return the strength of the evidence `name`; 0.0 where there is none."""
        return next((item.value for item in self.evidence if item.name == name), 0.0)


JUDGMENT_NUMBERS = (
    "action_shift",
    "necessity",
    "expected_outcome_uplift",
    "negative_transfer_risk",
    "confidence",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgment:
    """The eight fields a judge fills for one candidate.

    Raises `JudgmentInvalid` when a number is missing or outside [0, 1]: nothing is clamped in silence.
    """

    no_context_action: str
    """What the agent would do next with C⁻, the context it already has."""
    with_context_action: str
    """What it would do next with C⁻ and this candidate."""
    action_shift: float
    """0: the next action stays the same; 1: a clear new file, function, test or edit."""
    necessity: float
    """0: optional background; 1: without it, and with everything else, the task is unlikely to succeed."""
    expected_outcome_uplift: float
    """0: none; 1: strongly raises the chance of success."""
    negative_transfer_risk: float
    """0: safe; 1: likely to mislead."""
    reason: str
    """The strongest concrete evidence."""
    confidence: float
    """Of the judge in its own judgment. It never enters the score."""

    def __post_init__(self) -> None:
        for name in JUDGMENT_NUMBERS:
            number = getattr(self, name)
            if isinstance(number, bool) or not isinstance(number, int | float):
                raise JudgmentInvalid(f"{name} is {number!r}; it must be a number in [0, 1]")
            if not 0.0 <= number <= 1.0:  # also refuses NaN
                raise JudgmentInvalid(f"{name} is {number!r}; it must lie in [0, 1]")
        for name in ("no_context_action", "with_context_action", "reason"):
            if not isinstance(getattr(self, name), str):
                raise JudgmentInvalid(f"{name} is {getattr(self, name)!r}; it must be text")


JUDGMENT_FIELDS: tuple[str, ...] = tuple(item.name for item in fields(Judgment))


@dataclass(frozen=True, slots=True)
class Unjudged:
    """A judgment that failed. It never counts as a score of zero."""

    reason: str


@dataclass(frozen=True, slots=True)
class UtilityTerms:
    """The signed parts of one candidate's utility; `total` is their sum."""

    action: float
    necessity: float
    outcome: float
    risk: float
    """At most 0."""
    cost: float
    """At most 0."""

    @property
    def total(self) -> float:
        """The utility s of the design, in [-0.30, 0.88] with the paper's weights."""
        return self.action + self.necessity + self.outcome + self.risk + self.cost


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryCard:
    """What the agent reads of one unit. The five fields of text are required."""

    unit_id: str
    kind: UnitKind
    trigger: str
    """When the card applies: what in the task called for it."""
    evidence: str
    """The decisive lines, each with its line number."""
    action: str
    """What to do next; starts with a verb."""
    consequence: str
    """What goes wrong when the card is ignored."""
    scope: str
    """Where it holds: path and lines, or the paths a rule covers."""
    causal_score: float
    """The utility of the unit."""
    tokens: int
    """Tokens of the rendered card, exactly as it stands in the pack's text."""
    span: Span | None = None


class Dropped(NamedTuple):
    """A candidate that is not in the pack."""

    unit_id: str
    reason: str


class Skipped(NamedTuple):
    """A file that was not read, or not whole."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextPack:
    """The answer: cards inside a budget, and everything needed to ask why."""

    task: Task
    cards: tuple[MemoryCard, ...]
    """In the order they are rendered."""
    text: str
    """What the agent reads; the same in every output format. Empty only for a budget of 0."""
    budget: int
    tokens: int
    """Tokens of `text`; never more than `budget`."""
    encoding: str
    exact: bool
    """False where no vocabulary was at hand and `tokens` is the UTF-8 byte count, an upper bound."""
    utility: float
    """The objective that packing reached."""
    utility_bound: float
    """No pack of these candidates inside this budget can reach more."""
    candidates: tuple[Candidate, ...]
    """By unit id."""
    judgments: Mapping[str, Judgment | Unjudged] = field(hash=False)
    """By unit id: the eight fields, or the reason there are none."""
    utilities: Mapping[str, UtilityTerms] = field(hash=False)
    """By unit id, for every candidate that was judged."""
    dropped: tuple[Dropped, ...]
    """Every candidate that is not a card, by unit id."""
    skipped_files: tuple[Skipped, ...]
    notes: tuple[str, ...] = ()
    """What a user should know: why the pack is empty, that the index could not be saved."""
    receipt: str = ""
    """Digest of the pack: what `Engine.record` takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What was delivered, to which session, and later what the agent did with it."""

    id: str
    instance_id: str
    session: str | None
    task: str
    unit_ids: tuple[str, ...]
    tokens: int
    created_at: str
    """ISO 8601, UTC."""
    actions: tuple[str, ...] = ()
    outcome: str | None = None
    """None until the agent's run was recorded: `solved`, `failed`, or the host's own word."""
