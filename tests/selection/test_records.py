import math
from dataclasses import FrozenInstanceError, fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cicl.errors import JudgmentInvalid
from cicl.selection.records import (
    EDGE_KINDS,
    JUDGMENT_FIELDS,
    JUDGMENT_NUMBERS,
    MEMORY_KINDS,
    UNIT_KINDS,
    Candidate,
    ContextUnit,
    Evidence,
    Judgment,
    Task,
    Unjudged,
    UtilityTerms,
)

GOOD: dict[str, object] = {
    "no_context_action": "search",
    "with_context_action": "edit a.py",
    "action_shift": 0.5,
    "necessity": 0,
    "expected_outcome_uplift": 1,
    "negative_transfer_risk": 0.0,
    "reason": "seen",
    "confidence": 1.0,
}


def judgment(**changed: object) -> Judgment:
    return Judgment(**{**GOOD, **changed})  # type: ignore[arg-type]


def test_a_judgment_has_the_eight_fields_of_the_paper() -> None:
    assert tuple(GOOD) == JUDGMENT_FIELDS
    assert set(JUDGMENT_NUMBERS) < set(JUDGMENT_FIELDS)
    assert judgment().expected_outcome_uplift == 1


@pytest.mark.parametrize("name", JUDGMENT_NUMBERS)
@pytest.mark.parametrize("value", [-0.01, 1.01, math.nan, math.inf, -math.inf])
def test_a_number_outside_its_range_is_refused_by_name_and_never_clamped(name: str, value: float) -> None:
    with pytest.raises(JudgmentInvalid, match=rf"{name} is .*must lie in \[0, 1\]"):
        judgment(**{name: value})


@pytest.mark.parametrize("name", JUDGMENT_NUMBERS)
@pytest.mark.parametrize("value", ["0.5", None, True, [0.5], 0.5 + 0j])
def test_what_is_no_number_is_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(JudgmentInvalid, match=rf"{name} is .*must be a number"):
        judgment(**{name: value})


@pytest.mark.parametrize("name", ["no_context_action", "with_context_action", "reason"])
def test_what_is_no_text_is_refused_by_name(name: str) -> None:
    with pytest.raises(JudgmentInvalid, match=rf"{name} is 3; it must be text"):
        judgment(**{name: 3})


@given(st.floats(0, 1))
def test_every_number_in_the_range_is_kept_as_it_is(value: float) -> None:
    assert judgment(necessity=value).necessity == value


def test_a_failed_judgment_is_no_number() -> None:
    assert not any(isinstance(getattr(Unjudged("timeout"), item.name), float) for item in fields(Unjudged))


def test_the_total_of_a_utility_is_the_sum_of_its_parts() -> None:
    assert UtilityTerms(0.3, 0.2, 0.1, -0.05, -0.01).total == pytest.approx(0.54)


def test_absent_evidence_is_worth_nothing() -> None:
    unit = ContextUnit(id="a", kind="file", source="a", content="")
    candidate = Candidate(unit, (Evidence("named", 0.7, "the task names it"),))
    assert candidate.value("named") == 0.7
    assert candidate.value("lexical") == 0.0


def test_records_are_frozen_and_slotted() -> None:
    task = Task(text="x")
    with pytest.raises(FrozenInstanceError):
        task.text = "y"  # type: ignore[misc]
    assert not hasattr(task, "__dict__")


def test_a_task_has_no_field_that_could_carry_the_answer() -> None:
    assert {item.name for item in fields(Task)} == {
        "text",
        "open_files",
        "already_delivered",
        "proposed_action",
    }


def test_records_with_mappings_can_be_hashed() -> None:
    unit = ContextUnit(id="a", kind="file", source="a", content="", metadata={"name": "a"})
    assert len({unit, unit, Candidate(unit)}) == 2


def test_the_kinds_are_those_of_the_design() -> None:
    assert set(MEMORY_KINDS) == {"memory", "failure", "strategy", "trace"}
    assert set(UNIT_KINDS) > MEMORY_KINDS
    assert len(UNIT_KINDS) == len(EDGE_KINDS) == 10
