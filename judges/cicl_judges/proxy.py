"""The proxy judge: a deterministic policy over next actions stands in for the agent.

The policy chooses between searching on and acting on one unit it knows. Adding a candidate to what it knows
moves probability to acting on that candidate, and every field is read off that move. No model is called.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType

from cicl.selection.graph import InstanceGraph
from cicl.selection.records import Candidate, ContextUnit, Judgment, Task, Unjudged

__all__ = ["NEARBY", "Logistic", "ProxyJudge", "ProxyWeights", "load_weights"]

RISKS: Mapping[str, float] = MappingProxyType(
    {"outdated": 0.7, "contradicted": 0.7, "generated": 0.5, "past_harm": 0.6, "is_test": 0.15}
)
"""Chance that acting on a unit of this kind goes wrong; independent causes add up as 1 − Π(1 − risk)."""

NAMED_OUTRIGHT = 0.85
"""From this strength of `named` on, the task itself sends the agent to the unit."""
KNOWN_SHIFT = 0.6
"""What is left to shift when the agent would have gone there anyway, without knowing what it will find."""
CALLED_FOR = 0.1
"""What is left of a risk when the task is about the risky unit itself, as in "remove the deprecated f"; more
the less surely the task means it."""
SEARCH_ODDS = 0.15
"""Weight of searching on, against the odds that a known unit is the right one to act on: an agent that
searches without a lead goes right at its next step about once in eight times."""
UNSEEN_ODDS = 0.1
"""Of a unit of C⁻ that is not among the candidates: it competes, weakly."""

WARNINGS = ("outdated", "contradicted", "past_harm", "generated")
"""Evidence that a reason names before all other."""
CONCRETE = (
    "named",
    "applies",
    "past_success",
    "title_coverage",
    "name_match",
    "neighbour",
    "lexical",
)
"""Evidence that a reason can name, for it shows a place, a word or a unit; the most concrete first."""
OF_ITS_FILE = ("in_open_file", "file_lexical")
"""What a reason names where nothing concrete was seen of the unit itself."""


NEARBY = 0.25
"""What a unit is worth that merely stands in the right file: the agent gets there, and has to look around."""


@dataclass(frozen=True, slots=True)
class Logistic:
    """A logistic model over named evidence."""

    bias: float
    weights: Mapping[str, float]

    def chance(self, candidate: Candidate) -> float:
        """Return the probability, strictly between 0 and 1."""
        logit = self.bias
        for item in candidate.evidence:
            logit += self.weights.get(item.name, 0.0) * item.value
        return 1.0 / (1.0 + math.exp(-max(-30.0, min(30.0, logit))))


@dataclass(frozen=True, slots=True)
class ProxyWeights:
    """How likely a unit is the right one to act on.

    That the task is about this instance at all, then that the unit's file is right, then the unit in it.
    """

    here: Logistic
    file: Logistic
    unit: Logistic

    @property
    def told(self) -> dict[str, float]:
        """The weight of each signal, in either model."""
        return {**self.here.weights, **self.file.weights, **self.unit.weights}

    def chance(self, candidate: Candidate) -> float:
        """Return the probability that acting on the candidate is right; its file alone is a quarter right."""
        inside = NEARBY + (1.0 - NEARBY) * self.unit.chance(candidate)
        return self.here.chance(candidate) * self.file.chance(candidate) * inside


@cache
def load_weights() -> ProxyWeights:
    """Return the weights that the package ships."""
    data = json.loads(files("cicl_judges").joinpath("weights/proxy.json").read_text("utf-8"))
    of_file = {**data["file"]["weights"], **data["set_by_hand"]}
    return ProxyWeights(
        here=Logistic(data["here"]["bias"], MappingProxyType(data["here"]["weights"])),
        file=Logistic(data["file"]["bias"], MappingProxyType(of_file)),
        unit=Logistic(data["unit"]["bias"], MappingProxyType(data["unit"]["weights"])),
    )


class ProxyJudge:
    """Fills the eight fields from named evidence only; the same input gives the same answer."""

    name = "proxy"

    def __init__(self, weights: ProxyWeights | None = None) -> None:
        self._weights = weights or load_weights()

    def judge(
        self,
        task: Task,
        candidates: Sequence[Candidate],
        context: Sequence[ContextUnit],
        graph: InstanceGraph,
    ) -> list[Judgment | Unjudged]:
        """Return one judgment per candidate, each worked out against C⁻ alone."""
        odds = {item.unit.id: _odds(self._weights.chance(item)) for item in candidates}
        known = {unit.id for unit in context}
        context_odds = SEARCH_ODDS + sum(odds.get(unit_id, UNSEEN_ODDS) for unit_id in sorted(known))
        before = _action_before(candidates, odds, known)
        return [self._judge_one(item, odds[item.unit.id], context_odds, before, known) for item in candidates]

    def _judge_one(
        self, candidate: Candidate, odds: float, context_odds: float, before: str, known: set[str]
    ) -> Judgment:
        right = odds / (1.0 + odds)
        risk = _risk(candidate)
        moved = 0.0 if candidate.unit.id in known else odds / (odds + context_odds)
        if candidate.value("named") >= NAMED_OUTRIGHT or candidate.value("file_named"):
            moved *= KNOWN_SHIFT
        return Judgment(
            no_context_action=before,
            with_context_action=before if candidate.unit.id in known else _action(candidate, right),
            action_shift=round(moved, 6),
            necessity=round(right * candidate.value("irreplaceable"), 6),
            expected_outcome_uplift=round(right * (1.0 - risk), 6),
            negative_transfer_risk=round(risk, 6),
            reason=_reason(candidate, self._weights.told),
            confidence=round(abs(right - 0.5) * 2.0, 6),
        )


def _odds(chance: float) -> float:
    return chance / (1.0 - chance)


def _risk(candidate: Candidate) -> float:
    safe = 1.0
    for name, harm in RISKS.items():
        safe *= 1.0 - harm * candidate.value(name)
    called_for = min(1.0, candidate.value("named") / NAMED_OUTRIGHT)
    return (1.0 - safe) * (1.0 - (1.0 - CALLED_FOR) * called_for)


def _action_before(candidates: Sequence[Candidate], odds: Mapping[str, float], known: set[str]) -> str:
    """What the policy does with C⁻: act on the best unit it knows, follow a name in the task, or search."""
    held = [item for item in candidates if item.unit.id in known and odds[item.unit.id] > SEARCH_ODDS]
    if held:
        best = min(held, key=lambda item: (-odds[item.unit.id], item.unit.id))
        return _action(best, 1.0)
    named = [item for item in candidates if item.value("named") >= NAMED_OUTRIGHT]
    if named:
        best = min(named, key=lambda item: (-odds[item.unit.id], item.unit.id))
        return f"open {best.unit.source}, which the task names"
    return "search the repository for the task's words"


CONFIDENT = 0.5
"""From this chance of being right on, the policy edits instead of inspecting."""

VERBS: Mapping[str, str] = MappingProxyType(
    {
        "file": "open",
        "test": "run",
        "document": "read",
        "rule": "follow",
        "memory": "recall",
        "failure": "avoid",
        "strategy": "apply",
        "trace": "compare",
        "commit": "read",
    }
)


def _action(candidate: Candidate, right: float) -> str:
    unit = candidate.unit
    name = str(unit.metadata.get("name", ""))
    if unit.kind == "symbol":
        verb = "edit" if right >= CONFIDENT else "inspect"
        if name == "<module>":
            return f"{verb} the top level of {unit.source}"
        return f"{verb} `{name}` in {unit.source}" if name else f"{verb} {unit.source}"
    if unit.kind == "test":
        return f"run {unit.source}" + (f"::{name.replace('.', '::')}" if name and name != "<module>" else "")
    title = str(unit.metadata.get("title", ""))
    return f"{VERBS[unit.kind]} {unit.source}" + (f", {title}" if title and unit.kind != "file" else "")


def _reason(candidate: Candidate, weights: Mapping[str, float]) -> str:
    """The evidence that moved the policy most; before it, what warns against the unit, and its plain name."""
    for warning in WARNINGS:
        if candidate.value(warning):
            return _detail(candidate, warning)
    if candidate.value("named") >= NAMED_OUTRIGHT:
        return _detail(candidate, "named")
    for names in (CONCRETE, OF_ITS_FILE):
        seen = [name for name in names if candidate.value(name)]
        if seen:
            best = max(seen, key=lambda name: weights.get(name, 0.0) * candidate.value(name))
            return _detail(candidate, best)
    return "nothing concrete was seen"


def _detail(candidate: Candidate, name: str) -> str:
    return next(item.detail for item in candidate.evidence if item.name == name)
