"""Judging: the contract of a judge, how judges are found, and what is refused of their answers."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from cicl.errors import CiclError, JudgeError, JudgeNotFound, JudgmentInvalid
from cicl.selection.graph import InstanceGraph
from cicl.selection.records import JUDGMENT_FIELDS, Candidate, ContextUnit, Judgment, Task, Unjudged

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["DEFAULT_JUDGE", "GROUP", "Judge", "ask", "find_judges", "load_judge"]

GROUP = "cicl.judges"
"""Entry-point group. Built-in judges stand in it like everybody else's."""

DEFAULT_JUDGE = "proxy"


@runtime_checkable
class Judge(Protocol):
    """Says what each candidate would do to the agent's next action."""

    name: str

    def judge(
        self,
        task: Task,
        candidates: Sequence[Candidate],
        context: Sequence[ContextUnit],
        graph: InstanceGraph,
    ) -> Sequence[Judgment | Unjudged]:
        """Return one answer per candidate, in their order; what an answer says must not depend on that order.

        `context` is C⁻: what the agent already has. A candidate that cannot be judged gets
        `Unjudged(reason)`.
        """


def find_judges() -> dict[str, "EntryPoint"]:
    """Return the entry points of all installed judges by name; of two packages the first by name wins."""
    from importlib.metadata import entry_points

    found: dict[str, EntryPoint] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda item: (item.name, item.value)):
        found.setdefault(point.name, point)
    return found


def load_judge(judge: "str | Judge") -> Judge:
    """Return the judge of an entry-point name or of a dotted path `package.module:Class`; others as they are.

    Raises `JudgeNotFound` for an unknown name and `JudgeError` for one that cannot be imported or made.
    """
    if not isinstance(judge, str):
        return _checked(judge, type(judge).__name__)
    try:
        factory = _import(judge) if ":" in judge else _installed(judge).load()
        made = factory()
    except JudgeError:
        raise
    except (Exception, SystemExit) as error:  # a stranger's module may do anything while it is imported
        raise JudgeError(f"judge {judge!r} cannot be made: {type(error).__name__}: {error}") from error
    return _checked(made, judge)


def _installed(name: str) -> "EntryPoint":
    found = find_judges()
    if name not in found:
        known = ", ".join(found) or "none"
        raise JudgeNotFound(f"no judge is called {name!r}; installed: {known}. `cicl judges list` shows them")
    return found[name]


def _import(path: str) -> type[Judge]:
    from importlib import import_module

    module, _, attribute = path.partition(":")
    factory: type[Judge] = getattr(import_module(module), attribute)
    return factory


def _checked(judge: object, name: str) -> Judge:
    if isinstance(judge, type):
        raise JudgeError(f"judge {judge.__name__!r} is a class; give an object made from it")
    if not isinstance(judge, Judge) or not isinstance(judge.name, str) or not judge.name:
        raise JudgeError(f"judge {name!r} lacks a name or a judge(task, candidates, context, graph) method")
    return judge


def ask(
    judge: Judge,
    task: Task,
    candidates: Sequence[Candidate],
    context: Sequence[ContextUnit],
    graph: InstanceGraph,
) -> list[Judgment | Unjudged]:
    """Return the judge's answers, checked.

    Raises `JudgmentInvalid`, naming the judge and the field, when there is not one answer per candidate or
    an answer is no `Judgment`, no mapping of its eight fields and no `Unjudged`. Raises `JudgeError` when
    the judge itself fails.
    """
    answers = _answers(judge, task, candidates, context, graph)
    if len(answers) != len(candidates):
        raise JudgmentInvalid(
            f"judge {judge.name!r} gave {len(answers)} answers to {len(candidates)} candidates; "
            "one each is needed, Unjudged(reason) where there is none"
        )
    return [_check_answer(judge.name, item, answer) for item, answer in zip(candidates, answers, strict=True)]


def _answers(
    judge: Judge,
    task: Task,
    candidates: Sequence[Candidate],
    context: Sequence[ContextUnit],
    graph: InstanceGraph,
) -> list[object]:
    try:
        # Tuples: a judge that sorted or emptied a list of ours would give its answers to the wrong units.
        given: object = judge.judge(task, tuple(candidates), tuple(context), graph)
        if isinstance(given, Iterable) and not isinstance(given, str | Mapping):
            return list(given)
    except JudgmentInvalid as error:
        raise JudgmentInvalid(f"judge {judge.name!r}: {error}") from error
    except CiclError:
        raise
    except Exception as error:  # a stranger's code; its traceback stays chained for whoever mends it
        raise JudgeError(f"judge {judge.name!r} failed: {type(error).__name__}: {error}") from error
    raise JudgmentInvalid(f"judge {judge.name!r} gave a {type(given).__name__}, not a sequence of answers")


def _check_answer(name: str, candidate: Candidate, answer: object) -> Judgment | Unjudged:
    where = f"judge {name!r}, unit {candidate.unit.id}"
    if isinstance(answer, Judgment | Unjudged):
        return answer
    if isinstance(answer, Mapping):
        missing = [field for field in JUDGMENT_FIELDS if field not in answer]
        if missing:
            raise JudgmentInvalid(f"{where}: the field {missing[0]} is missing")
        try:
            return Judgment(**{field: answer[field] for field in JUDGMENT_FIELDS})
        except JudgmentInvalid as error:
            raise JudgmentInvalid(f"{where}: {error}") from error
    raise JudgmentInvalid(f"{where}: the answer is a {type(answer).__name__}, not a Judgment")
