"""Cards: what the agent reads of one unit, cut down to the lines that decide."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from cicl.selection.records import MEMORY_KINDS, Candidate, ContextUnit, Judgment, MemoryCard, Span
from cicl.text import TermSplitter, words

__all__ = [
    "ACTION_VERBS",
    "COMPACT_LINES",
    "CONSEQUENCES",
    "ELISION",
    "Line",
    "audit_card",
    "excerpt",
    "line_weights",
    "make_card",
    "numbered",
    "own_text",
    "place_of",
]

ACTION_VERBS = frozenset(
    """
    add adapt apply ask avoid call change check compare delete edit fix follow inspect keep look move open
    read recall remove rename replace run search test update use verify
    """.split()
)

WHOLE_UNIT_LINES = 40
"""A unit this short is shown whole: cutting it would save less than the reader loses."""
EXCERPT_LINES = 30
"""Of a longer unit."""
COMPACT_LINES = 8
"""Of the shorter rendering, for small budgets."""
CONTEXT_LINES = 2
"""Around a decisive line: a condition without its branch decides nothing."""
MIN_KEPT_EVIDENCE = 0.6
"""Share of the task's evidence in a unit that its excerpt must keep; below it the unit is shown raw."""
RAW_LINES = 120
"""Of a raw unit; where it is cut here all the same, the excerpt says so."""
MAX_LINE_CHARS = 300
"""Of a line that is shown; a longer one is cut after a word and ends in three dots."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a file."""

    number: int
    text: str


ELISION = Line(0, "")
"""Stands for lines left out that are not all blank."""

_DEFINITION = re.compile(r"\s*(?:async\s+def|def|class)\b")


def make_card(
    candidate: Candidate,
    judgment: Judgment,
    score: float,
    weights: Sequence[float],
    lines: int = EXCERPT_LINES,
) -> MemoryCard:
    """Return the card of a unit; `tokens` is 0 until it is rendered.

    `weights` are those of `line_weights`; `lines` is about how many an excerpt shows.
    """
    unit = candidate.unit
    return MemoryCard(
        unit_id=unit.id,
        kind=unit.kind,
        trigger=_trigger(candidate),
        evidence=numbered(excerpt(unit, weights, lines)),
        action=_action(unit, judgment.with_context_action),
        consequence=_consequence(candidate),
        scope=_scope(unit),
        causal_score=score,
        tokens=0,
        span=unit.span,
    )


def line_weights(unit: ContextUnit, terms: Mapping[str, float], splitter: TermSplitter) -> list[float]:
    """Return how much of the task's evidence each line of the unit's content holds.

    `terms` is what each query term says. A term counts once in a line, and less in every further line that
    holds it: the first occurrence says most. A line that belongs to another unit holds nothing.
    """
    weights: list[float] = []
    seen: dict[str, int] = {}
    own = frozenset(_own_places(unit))
    for place, line in enumerate(unit.content.split("\n")):
        if place not in own:
            weights.append(0.0)
            continue
        held = {term for word in words(line) for term in splitter.split(word) if term in terms}
        weights.append(sum(terms[term] / (1 + seen.get(term, 0)) for term in sorted(held)))
        for term in held:
            seen[term] = seen.get(term, 0) + 1
    return weights


def excerpt(unit: ContextUnit, weights: Sequence[float], limit: int = EXCERPT_LINES) -> list[Line]:
    """Return the decisive lines of a unit, in order, `ELISION` where some are left out; at least one line.

    The first line, and the name below decorators, is always there: it says what the rest belongs to. When a
    full excerpt would hold less than `MIN_KEPT_EVIDENCE` of the weight, the unit is shown raw, up to
    `RAW_LINES`; of a unit longer than that the first lines or the decisive ones, whichever hold more.
    """
    lines = unit.content.rstrip().split("\n")
    places = [place for place in _own_places(unit) if place < len(lines)] or [0]
    if len(places) <= (WHOLE_UNIT_LINES if limit >= EXCERPT_LINES else limit):
        return _number(unit, lines, places)
    chosen = _choose(lines, places, weights, limit)
    if limit >= EXCERPT_LINES and _held(chosen, weights) < MIN_KEPT_EVIDENCE * _held(places, weights):
        raw, decisive = set(places[:RAW_LINES]), _choose(lines, places, weights, RAW_LINES)
        chosen = max(raw, decisive, key=lambda shown: _held(shown, weights))
    return _number(unit, lines, sorted(chosen))


def _own_places(unit: ContextUnit) -> Sequence[int]:
    """The lines of `content` that are its own: no functions of a module, no methods of a long class."""
    count = unit.content.count("\n") + 1
    own = unit.metadata.get("own")
    role = unit.metadata.get("role")
    is_split = role == "module" or (role == "class" and count > WHOLE_UNIT_LINES)
    if not is_split or not own or unit.span is None:
        return range(count)
    lines = unit.content.split("\n")
    places = (line - unit.span.start for span in own for line in range(span.start, span.end + 1))
    return [place for place in places if place < count and lines[place].strip()]


def own_text(unit: ContextUnit) -> str:
    """Return the content of a unit, less the lines that belong to other units."""
    places = _own_places(unit)
    if isinstance(places, range):
        return unit.content
    lines = unit.content.split("\n")
    return "\n".join(lines[place] for place in places)


def _held(places: Iterable[int], weights: Sequence[float]) -> float:
    return sum(weights[place] for place in sorted(places))


def _choose(lines: Sequence[str], places: Sequence[int], weights: Sequence[float], limit: int) -> set[int]:
    chosen = _head(lines, places)
    least, own = len(chosen), set(places)
    for place in sorted(places, key=lambda place: (-weights[place], place)):
        if weights[place] <= 0 or len(chosen) >= limit:
            break
        near = range(place - CONTEXT_LINES, place + CONTEXT_LINES + 1)
        chosen.update(line for line in near if line in own and lines[line].strip())
    if len(chosen) == least:
        chosen.update(places[:limit])
    return chosen


def _head(lines: Sequence[str], places: Sequence[int]) -> set[int]:
    """What says what the unit is: its first line, and where that is a decorator, the name below it too."""
    first = places[0]
    if lines[first].lstrip().startswith("@"):
        named = next((place for place in places[:EXCERPT_LINES] if _DEFINITION.match(lines[place])), first)
        return {first, named}
    return {first}


def _number(unit: ContextUnit, lines: Sequence[str], places: Sequence[int]) -> list[Line]:
    first = unit.span.start if unit.span else 1
    shown: list[Line] = []
    previous = -1
    for place in places:
        if any(line.strip() for line in lines[previous + 1 : place]):
            shown.append(ELISION)
        shown.append(Line(first + place, lines[place]))
        previous = place
    if any(line.strip() for line in lines[previous + 1 :]):
        shown.append(ELISION)
    return shown


def numbered(lines: Sequence[Line]) -> str:
    """Return lines as text, each with its number, so that no foreign line begins a line of ours."""
    return "\n".join(
        f"{line.number}| {_shorten(line.text)}".rstrip() if line.number else "..." for line in lines
    )


def _shorten(text: str) -> str:
    """Cut a long line after a word, where a token ends as well; a word without end anywhere."""
    if len(text) <= MAX_LINE_CHARS:
        return text
    end = text.rfind(" ", MAX_LINE_CHARS // 2, MAX_LINE_CHARS)
    return f"{text[:end] if end > 0 else text[:MAX_LINE_CHARS]} ..."


def _action(unit: ContextUnit, said: str) -> str:
    """What the judge says to do; where that starts with no verb of action, what it says about the unit."""
    verb = said.split(maxsplit=1)[0].lower() if said.strip() else ""
    if verb in ACTION_VERBS:
        return said
    return f"inspect {unit.source or unit.id}" + (f": {said}" if said.strip() else "")


def _trigger(candidate: Candidate) -> str:
    """What in the task called for the unit, without repeating the task's own words at length."""
    said = []
    if candidate.value("named"):
        said.append("the task names it")
    for name in ("title_coverage", "lexical", "name_match"):
        detail = next((item.detail for item in candidate.evidence if item.name == name), "")
        terms = [part for part in detail.split("`")[1::2] if part]
        if terms:
            said.append("the task is about " + ", ".join(f"`{term}`" for term in terms[:4]))
            break
    for name in ("applies", "in_open_file", "neighbour"):
        detail = next((item.detail for item in candidate.evidence if item.name == name), "")
        if detail and len(said) < 2:
            said.append(f"it {detail}" if name == "neighbour" else detail)
    return "; ".join(said) or "it was found beside what the task is about"


CONSEQUENCES: Mapping[str, str] = MappingProxyType(
    {
        "outdated": "what it says is outdated; following it repeats what was replaced",
        "rule": "the change would break a rule this project wrote down",
        "memory": "an earlier run's finding would have to be made again",
        "test": "a behaviour that this test pins could break unseen",
        "document": "the change may contradict what is documented here",
        "named": "the behaviour that the task names is made here; a change elsewhere would leave it",
        "other": "the behaviour that the task is about may be made here; a change elsewhere would leave it",
    }
)
"""What goes wrong when a card is ignored, by what kind of thing its unit is."""


def _consequence(candidate: Candidate) -> str:
    unit = candidate.unit
    if candidate.value("outdated") or candidate.value("contradicted"):
        return CONSEQUENCES["outdated"]
    if unit.kind in MEMORY_KINDS:
        return CONSEQUENCES["memory"]
    if unit.kind in CONSEQUENCES:
        return CONSEQUENCES[unit.kind]
    return CONSEQUENCES["named" if candidate.value("named") else "other"]


def _scope(unit: ContextUnit) -> str:
    globs = tuple(unit.metadata.get("scope", ()))
    if globs:
        return ", ".join(globs)
    return place_of(unit.source or unit.id, unit.span)


def place_of(source: str, span: Span | None) -> str:
    """Return where a unit stands: `path:first-last`."""
    return f"{source}:{span.start}-{span.end}" if span else source


PLACEHOLDERS = frozenset({"todo", "tbd", "n/a", "none", "unknown", "..."})


def audit_card(card: MemoryCard) -> list[str]:
    """Return what is wrong with a card; empty when it is complete.

    Every field of text is there and no placeholder, and the action starts with a verb.
    """
    faults = []
    for name in ("trigger", "evidence", "action", "consequence", "scope"):
        text = getattr(card, name).strip()
        if not text or text.lower() in PLACEHOLDERS:
            faults.append(f"{name} is empty or a placeholder")
    verb = card.action.split(maxsplit=1)[0].lower() if card.action.split() else ""
    if verb not in ACTION_VERBS:
        faults.append(f"the action starts with {verb!r}, which is no action verb")
    return faults
