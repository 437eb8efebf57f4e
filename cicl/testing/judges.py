"""Judges whose answers a test knows beforehand."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cicl.errors import JudgmentInvalid
from cicl.selection.graph import InstanceGraph
from cicl.selection.judging import Judge, load_judge
from cicl.selection.records import (
    JUDGMENT_FIELDS,
    JUDGMENT_NUMBERS,
    Candidate,
    ContextUnit,
    Judgment,
    Task,
    Unjudged,
)

__all__ = ["Call", "ScriptedJudge", "deterministic_judge"]

Answer = Judgment | Unjudged | Mapping[str, str | float]
"""A mapping names the fields that matter; texts are filled in, and numbers with 0."""

_NOT_SCRIPTED = Unjudged("the script does not name this unit")


def deterministic_judge() -> Judge:
    """Return the proxy judge: no model, no network, the same answer to the same input.

    It comes by the entry point that every judge comes by. Raises `JudgeNotFound` where it is not installed.
    """
    return load_judge("proxy")


class Call(NamedTuple):
    """What a judge was asked once."""

    task: Task
    candidates: tuple[Candidate, ...]
    context: tuple[ContextUnit, ...]
    """C⁻, what the agent already has."""
    graph: InstanceGraph

    @property
    def unit_ids(self) -> tuple[str, ...]:
        """Of the candidates, in the order they were asked about."""
        return tuple(item.unit.id for item in self.candidates)


class ScriptedJudge:
    """Answers by unit id, and remembers what it was asked in `calls`.

    `default` answers for units that the script does not name. Raises `JudgmentInvalid` at once for a field
    that no judgment has and a number outside [0, 1].
    """

    def __init__(
        self,
        script: Mapping[str, Answer] | None = None,
        *,
        default: Answer = _NOT_SCRIPTED,
        name: str = "scripted",
    ) -> None:
        self.name = name
        self.calls: list[Call] = []
        self._script = {unit_id: _complete(unit_id, answer) for unit_id, answer in (script or {}).items()}
        self._default = default
        _complete("default", default)

    def judge(
        self,
        task: Task,
        candidates: Sequence[Candidate],
        context: Sequence[ContextUnit],
        graph: InstanceGraph,
    ) -> list[Judgment | Unjudged]:
        """Return the scripted answers."""
        self.calls.append(Call(task, tuple(candidates), tuple(context), graph))
        return [self._answer(item.unit.id) for item in candidates]

    def _answer(self, unit_id: str) -> Judgment | Unjudged:
        return self._script.get(unit_id) or _complete(unit_id, self._default)


def _complete(unit_id: str, answer: Answer) -> Judgment | Unjudged:
    if isinstance(answer, Judgment | Unjudged):
        return answer
    strange = sorted(set(answer) - set(JUDGMENT_FIELDS))
    if strange:
        raise JudgmentInvalid(f"script, unit {unit_id}: a judgment has no field {strange[0]!r}")
    texts = {
        "no_context_action": "search the repository",
        "with_context_action": f"inspect {unit_id}",
        "reason": "the script says so",
    }
    fields: dict[str, object] = {**texts, **dict.fromkeys(JUDGMENT_NUMBERS, 0.0), **answer}
    try:
        return Judgment(**fields)  # type: ignore[arg-type]  # Judgment itself refuses a wrong type
    except JudgmentInvalid as error:
        raise JudgmentInvalid(f"script, unit {unit_id}: {error}") from error
