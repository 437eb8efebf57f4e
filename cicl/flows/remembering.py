"""From the journal's outcomes to units and counts: what past runs say to the next selection."""

import re
from collections.abc import Iterable, Sequence
from types import MappingProxyType

from cicl.selection.corpus import Corpus
from cicl.selection.evidence import History, PastUse
from cicl.selection.records import ContextUnit, Edge
from cicl.selection.sources.names import local_name
from cicl.storage.journal import Outcome
from cicl.text import digest_text

__all__ = ["SUCCESSES", "past_uses", "remembered"]

SUCCESSES = frozenset({"solved", "success", "succeeded", "passed", "resolved"})
"""Outcomes that count as success; every other word counts as failure."""

MAX_REMEMBERED = 200
"""Newest runs that become units; older ones still count in `past_uses`."""
MAX_TASK_CHARS = 400
SUCCESS_CONFIDENCE = 0.82
FAILURE_CONFIDENCE = 0.52
"""The paper's confidence in a trajectory that succeeded and in one that failed."""


def past_uses(outcomes: Iterable[Outcome]) -> History:
    """Return by unit how many runs that acted on it succeeded and failed.

    Only a delivered unit that an action names counts: what was shown and not used proves nothing.
    """
    counts: dict[str, PastUse] = {}
    for outcome in outcomes:
        for unit_id in _acted_on(outcome):
            seen = counts.get(unit_id, PastUse(0, 0))
            won = outcome.outcome.lower() in SUCCESSES
            counts[unit_id] = PastUse(seen.successes + won, seen.failures + (not won))
    return MappingProxyType(counts)


def remembered(
    outcomes: Sequence[Outcome], instance_id: str, corpus: Corpus
) -> tuple[tuple[ContextUnit, ...], tuple[Edge, ...]]:
    """Return past runs as `trace` units, solved ones also as `strategy` units, and their edges.

    A trace remembers its strategy and every delivered unit that the run acted on and that is still there.
    """
    units: dict[str, ContextUnit] = {}
    edges: list[Edge] = []
    for outcome in outcomes[-MAX_REMEMBERED:]:
        trace = _unit("trace", outcome, instance_id, _trace_text(outcome))
        units[trace.id] = trace
        sources = [trace.id]
        if outcome.outcome.lower() in SUCCESSES and outcome.actions:
            strategy = _unit("strategy", outcome, instance_id, _strategy_text(outcome))
            units[strategy.id] = strategy
            edges.append(Edge(trace.id, strategy.id, "remembers"))
            sources.append(strategy.id)
        for unit_id in _acted_on(outcome):
            if corpus.find_unit(unit_id) is not None:
                edges.extend(Edge(source, unit_id, "remembers", trace.confidence) for source in sources)
    return tuple(units.values()), tuple(edges)


def _unit(kind: str, outcome: Outcome, instance_id: str, content: str) -> ContextUnit:
    won = outcome.outcome.lower() in SUCCESSES
    digest = digest_text(f"{outcome.receipt}\0{outcome.created_at}\0{content}")
    return ContextUnit(
        id=f"{kind}/{digest[:16]}",
        instance_id=instance_id,
        kind="trace" if kind == "trace" else "strategy",
        source=f"{kind}/{digest[:16]}",
        content=content,
        confidence=SUCCESS_CONFIDENCE if won else FAILURE_CONFIDENCE,
        digest=digest_text(content),
        metadata=MappingProxyType({"title": _one_line(outcome.task), "receipt": outcome.receipt}),
    )


def _trace_text(outcome: Outcome) -> str:
    steps = "\n".join(f"- {_one_line(action)}" for action in outcome.actions)
    return f"task: {_one_line(outcome.task)}\noutcome: {_one_line(outcome.outcome)}\n{steps}".rstrip()


def _strategy_text(outcome: Outcome) -> str:
    steps = "\n".join(f"{place}. {_one_line(action)}" for place, action in enumerate(outcome.actions, 1))
    return f"what worked for: {_one_line(outcome.task)}\n{steps}"


def _one_line(text: str) -> str:
    return " ".join(text.split())[:MAX_TASK_CHARS]


def _acted_on(outcome: Outcome) -> list[str]:
    text = "\n".join(outcome.actions)
    return [unit_id for unit_id in outcome.unit_ids if _is_named(unit_id, text)]


def _is_named(unit_id: str, text: str) -> bool:
    """An action names a unit by its id, its path from the root, or its own name as a whole word.

    A name that may be plain English, as `get`, has to stand where code stands: `` `get` ``, `a.get`, `get(`.
    """
    path, _, name = unit_id.partition("::")
    if any(re.search(rf"(?<![\w/])(?:(?<!\.)\./)?{re.escape(item)}(?!\w)", text) for item in (unit_id, path)):
        return True
    own = local_name(name)
    if not own or not own.isidentifier():
        return False
    if own.isalpha() and own.islower():
        return re.search(rf"[`'\".:]{own}(?!\w)|(?<!\w){own}\(", text) is not None
    return re.search(rf"(?<!\w){own}(?!\w)", text) is not None
