"""The contract of a judge as a test suite that anyone can run on theirs."""

import io
import random
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass

from cicl.errors import CiclError
from cicl.selection.judging import Judge, ask, load_judge
from cicl.selection.records import JUDGMENT_FIELDS, Judgment, Unjudged
from cicl.testing.cases import Case, open_cases
from cicl.testing.judges import Call

__all__ = ["check_judge"]

Answers = dict[str, Judgment | Unjudged]
"""By unit id."""

SEED = 2606
"""Of the one order that is neither given nor reversed."""
SHOWN_CHARS = 80
TEXTS = ("no_context_action", "with_context_action", "reason")


def check_judge(judge: str | Judge, *, counterfactual: bool = False) -> None:
    """Hold a judge to the contract of `Judge` on built-in instances.

    It is asked some thirty times: about a repository, with nothing and with something in C⁻, about units
    built by hand, text that is not ASCII, one candidate, candidates without evidence, and none. With
    `counterfactual` a candidate that stands in C⁻ may not shift the next action more than it does when it
    is new: claim it where your judge reads C⁻.

    Raises `AssertionError`, naming the judge, the instance, the check and the field. Raises `JudgeError` for
    a judge that cannot be loaded.
    """
    judge = load_judge(judge)
    checks = (*CHECKS, shifts_less_what_is_known) if counterfactual else CHECKS
    with open_cases() as cases:
        for case in cases:
            trial = _try(judge, case)
            for check in checks:
                for fault in check(trial):
                    raise AssertionError(_complaint(trial.name, case, check.__name__, fault))


@dataclass(frozen=True, slots=True)
class _Trial:
    """A judge asked once, and what was seen of it."""

    judge: Judge
    name: str
    """Before it was asked."""
    case: Case
    answers: Answers
    before: dict[str, str]
    """All that the judge was handed, in writing."""
    after: dict[str, str]
    printed: str


def _try(judge: Judge, case: Case) -> _Trial:
    name, printed = judge.name, io.StringIO()
    before = _write_down(case.call)
    with redirect_stdout(printed):
        answers = _ask(judge, name, case, case.call)
    by_id = {item.unit.id: answer for item, answer in zip(case.call.candidates, answers, strict=True)}
    return _Trial(judge, name, case, by_id, before, _write_down(case.call), printed.getvalue())


def _ask(judge: Judge, name: str, case: Case, call: Call) -> list[Judgment | Unjudged]:
    try:
        return ask(judge, call.task, call.candidates, call.context, call.graph)
    except CiclError as error:
        raise AssertionError(_complaint(name, case, "answers_each_candidate", str(error))) from error


def _ask_again(trial: _Trial, call: Call) -> Answers:
    with redirect_stdout(io.StringIO()):
        answers = _ask(trial.judge, trial.name, trial.case, call)
    return {item.unit.id: answer for item, answer in zip(call.candidates, answers, strict=True)}


def _write_down(call: Call) -> dict[str, str]:
    graph = call.graph.to_networkx()
    return {
        "the task": repr(call.task),
        **{f"candidate {item.unit.id}": repr(item) for item in call.candidates},
        "the context": repr(call.context),
        "the graph": repr((list(graph.nodes(data=True)), list(graph.edges(data=True)))),
    }


def _complaint(name: str, case: Case, check: str, fault: str) -> str:
    return f"judge {name!r} breaks its contract on {case.title}, check {check}: {fault}"


def keeps_its_name(trial: _Trial) -> Iterator[str]:
    """The name is one line of visible text and does not change: receipts and errors go by it."""
    if not trial.name.isprintable() or trial.name != trial.name.strip():
        yield f"name is {trial.name!r}; it must be one line of visible text"
    if trial.judge.name != trial.name:
        yield f"name was {trial.name!r} before it was asked and {trial.judge.name!r} after"


def says_why(trial: _Trial) -> Iterator[str]:
    """No text is empty: a card is made of them, and a failure has a reason."""
    for unit_id, answer in trial.answers.items():
        names = ("reason",) if isinstance(answer, Unjudged) else TEXTS
        for name in names:
            text = getattr(answer, name)
            if not isinstance(text, str) or not text.strip():
                yield f"unit {unit_id}: {name} of its {type(answer).__name__} is {text!r}; it must be text"


def leaves_what_it_is_given(trial: _Trial) -> Iterator[str]:
    """Task, candidates, context and graph are as they were."""
    for part, before in trial.before.items():
        if trial.after[part] != before:
            yield f"{part} was {before[:SHOWN_CHARS]} and is {trial.after[part][:SHOWN_CHARS]} afterwards"


def prints_nothing(trial: _Trial) -> Iterator[str]:
    """Standard output is data: `cicl select --json` would no longer be JSON."""
    if trial.printed:
        yield f"it wrote {trial.printed[:SHOWN_CHARS]!r} to standard output; log or use standard error"


def answers_alike_twice(trial: _Trial) -> Iterator[str]:
    """Same input, same answer."""
    yield from _differences(trial, _ask_again(trial, trial.case.call), "asked again")


def ignores_the_order(trial: _Trial) -> Iterator[str]:
    """What is said of a candidate does not depend on where it stands."""
    call = trial.case.call
    shuffled = random.Random(SEED).sample(call.candidates, len(call.candidates))
    for how, candidates in (("reversed", call.candidates[::-1]), ("shuffled", tuple(shuffled))):
        again = _ask_again(trial, call._replace(candidates=candidates))
        yield from _differences(trial, again, f"asked with the candidates {how}")


def shifts_less_what_is_known(trial: _Trial) -> Iterator[str]:
    """A candidate that is in C⁻ shifts the next action no more than it does with an empty C⁻."""
    call = trial.case.call
    if not call.context:
        return
    unknown = _ask_again(trial, call._replace(context=()))
    for unit_id in sorted({unit.id for unit in call.context} & unknown.keys()):
        now, then = trial.answers[unit_id], unknown[unit_id]
        if isinstance(now, Judgment) and isinstance(then, Judgment) and now.action_shift > then.action_shift:
            yield (
                f"unit {unit_id}: action_shift is {now.action_shift!r} when the agent already has it "
                f"and {then.action_shift!r} when it does not"
            )


Check = Callable[[_Trial], Iterator[str]]

CHECKS: tuple[Check, ...] = (
    keeps_its_name,
    says_why,
    leaves_what_it_is_given,
    prints_nothing,
    answers_alike_twice,
    ignores_the_order,
)


def _differences(trial: _Trial, again: Answers, how: str) -> Iterator[str]:
    for unit_id, answer in trial.answers.items():
        other = again[unit_id]
        if type(answer) is not type(other):
            yield f"unit {unit_id}: a {type(answer).__name__} became a {type(other).__name__} when {how}"
        elif answer != other:
            names = ("reason",) if isinstance(answer, Unjudged) else JUDGMENT_FIELDS
            name = next(name for name in names if getattr(answer, name) != getattr(other, name))
            yield (
                f"unit {unit_id}: {name} was {getattr(answer, name)!r} "
                f"and is {getattr(other, name)!r} when {how}"
            )
