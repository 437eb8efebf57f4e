import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cicl.errors import CiclError, JudgeError, JudgeNotFound, JudgmentInvalid
from cicl.selection.graph import InstanceGraph
from cicl.selection.judging import DEFAULT_JUDGE, Judge, ask, find_judges, load_judge
from cicl.selection.records import (
    JUDGMENT_FIELDS,
    JUDGMENT_NUMBERS,
    Candidate,
    ContextUnit,
    Judgment,
    Task,
    Unjudged,
)

TASK = Task(text="fix it")
UNITS = [ContextUnit(id=name, kind="document", source=name, content=name) for name in "abc"]
CANDIDATES = [Candidate(unit) for unit in UNITS]
GRAPH = InstanceGraph.from_units(UNITS)

FIELDS: dict[str, Any] = {
    "no_context_action": "search",
    "with_context_action": "read a",
    "action_shift": 0.5,
    "necessity": 0,
    "expected_outcome_uplift": 1,
    "negative_transfer_risk": 0.0,
    "reason": "it says so",
    "confidence": 1.0,
}


class Fixed:
    """Gives what it was told to give, whatever it is asked."""

    name = "fixed"

    def __init__(self, answers: Any) -> None:
        self.answers = answers

    def judge(self, task: Task, candidates: Any, context: Any, graph: InstanceGraph) -> Any:
        if isinstance(self.answers, Exception):
            raise self.answers
        return self.answers


def answer(answers: Any, candidates: Sequence[Candidate] = CANDIDATES) -> list[Judgment | Unjudged]:
    return ask(Fixed(answers), TASK, candidates, (), GRAPH)


def test_the_fields_of_a_judgment_are_the_eight_of_the_design() -> None:
    assert tuple(FIELDS) == JUDGMENT_FIELDS


@given(st.sampled_from(JUDGMENT_NUMBERS), st.floats(0, 1) | st.integers(0, 1))
def test_every_number_from_0_to_1_is_taken_as_it_is(name: str, number: float) -> None:
    (judged,) = answer([{**FIELDS, name: number}], CANDIDATES[:1])
    assert getattr(judged, name) == number


OUTSIDE = (
    st.floats(max_value=0, exclude_max=True)
    | st.floats(min_value=1, exclude_min=True)
    | st.integers(max_value=-1)
    | st.integers(min_value=2)
    | st.just(math.nan)
)
NO_NUMBER = st.none() | st.text() | st.booleans() | st.complex_numbers() | st.lists(st.floats(0, 1))


@given(st.sampled_from(JUDGMENT_NUMBERS), OUTSIDE | NO_NUMBER)
def test_every_other_number_is_refused_by_judge_unit_and_field(name: str, number: Any) -> None:
    with pytest.raises(JudgmentInvalid, match=f"^judge 'fixed', unit a: {name} is "):
        answer([{**FIELDS, name: number}], CANDIDATES[:1])


@given(st.sampled_from(JUDGMENT_FIELDS))
def test_a_missing_field_is_refused_by_name(name: str) -> None:
    fields = {key: FIELDS[key] for key in FIELDS if key != name}
    with pytest.raises(JudgmentInvalid, match=f"^judge 'fixed', unit b: the field {name} is missing$"):
        answer([Unjudged("later"), fields, fields])


@given(st.integers(0, 8).filter(lambda count: count != len(CANDIDATES)))
def test_a_wrong_number_of_answers_is_refused(count: int) -> None:
    with pytest.raises(JudgmentInvalid, match=f"judge 'fixed' gave {count} answers to 3 candidates"):
        answer([Unjudged("no time")] * count)


@pytest.mark.parametrize("wrong", [None, 0.5, "abc", {"a": 1, "b": 2, "c": 3}])
def test_what_is_no_sequence_of_answers_is_refused(wrong: Any) -> None:
    with pytest.raises(JudgmentInvalid, match=f"judge 'fixed' gave a {type(wrong).__name__}, not a sequence"):
        answer(wrong)


@pytest.mark.parametrize("wrong", [None, 0.5, "edit a", ("edit", "a"), [FIELDS]])
def test_what_is_no_answer_is_refused(wrong: Any) -> None:
    with pytest.raises(
        JudgmentInvalid, match=f"unit c: the answer is a {type(wrong).__name__}, not a Judgment"
    ):
        answer([Unjudged("no"), FIELDS, wrong])


def test_judgments_mappings_and_unjudged_may_be_mixed_and_come_one_by_one() -> None:
    class Row(Mapping[str, Any]):
        def __getitem__(self, key: str) -> Any:
            return FIELDS[key]

        def __iter__(self) -> Any:
            return iter(FIELDS)

        def __len__(self) -> int:
            return len(FIELDS)

    judgment = Judgment(**FIELDS)
    assert answer(item for item in (judgment, Row(), Unjudged("no"))) == [judgment, judgment, Unjudged("no")]


def test_a_judge_that_raises_is_named_and_its_error_kept() -> None:
    with pytest.raises(JudgeError, match=r"^judge 'fixed' failed: KeyError: 'model'$") as failed:
        answer(KeyError("model"))
    assert isinstance(failed.value.__cause__, KeyError)
    assert not isinstance(failed.value, JudgmentInvalid)


def test_an_error_of_ours_keeps_its_kind() -> None:
    with pytest.raises(CiclError, match=r"^set the key$") as failed:
        answer(CiclError("set the key"))
    assert type(failed.value) is CiclError


def test_a_bad_judgment_made_by_the_judge_itself_is_refused_by_its_name() -> None:
    class Wild(Fixed):
        def judge(self, task: Task, candidates: Any, context: Any, graph: InstanceGraph) -> Any:
            return [replace(Judgment(**FIELDS), necessity=7.0) for _ in candidates]

    with pytest.raises(JudgmentInvalid, match=r"^judge 'fixed': necessity is 7\.0"):
        ask(Wild(()), TASK, CANDIDATES, (), GRAPH)


def test_a_judge_cannot_reorder_what_it_is_handed() -> None:
    class Sorting(Fixed):
        def judge(self, task: Task, candidates: Any, context: Any, graph: InstanceGraph) -> Any:
            candidates.reverse()

    candidates = list(CANDIDATES)
    with pytest.raises(JudgeError, match="failed: AttributeError: 'tuple'"):
        ask(Sorting(()), TASK, candidates, (), GRAPH)
    assert candidates == CANDIDATES


# load_judge


def test_the_default_judge_is_installed_by_the_same_door_as_all() -> None:
    assert DEFAULT_JUDGE in find_judges()
    assert load_judge(DEFAULT_JUDGE).name == DEFAULT_JUDGE
    assert isinstance(load_judge("cicl_judges.proxy:ProxyJudge"), Judge)


def test_an_object_is_taken_as_it_is() -> None:
    judge = Fixed(())
    assert load_judge(judge) is judge


@pytest.mark.parametrize(
    ("judge", "error", "message"),
    [
        ("oracle", JudgeNotFound, "no judge is called 'oracle'; installed: .*proxy"),
        ("", JudgeNotFound, "no judge is called ''"),
        ("no_such_module:Judge", JudgeError, "'no_such_module:Judge' cannot be made: ModuleNotFoundError"),
        ("json:NoJudge", JudgeError, "'json:NoJudge' cannot be made: AttributeError"),
        ("json:", JudgeError, "'json:' cannot be made"),
        (":Judge", JudgeError, "':Judge' cannot be made"),
        ("json:JSONDecoder", JudgeError, "lacks a name or a judge"),
        (Fixed, JudgeError, "'Fixed' is a class; give an object made from it"),
        (object(), JudgeError, "judge 'object' lacks a name"),
    ],
)
def test_what_is_no_judge_is_refused(judge: Any, error: type[JudgeError], message: str) -> None:
    with pytest.raises(error, match=message):
        load_judge(judge)


@pytest.mark.parametrize("name", ["", None, 3])
def test_a_judge_needs_a_name(name: Any) -> None:
    judge = Fixed(())
    judge.name = name
    with pytest.raises(JudgeError, match="lacks a name"):
        load_judge(judge)
