import pytest
from hypothesis import given
from hypothesis import strategies as st

from cicl.selection.records import Judgment
from cicl.selection.utility import Admission, UtilityWeights, utility_terms, why_refused

SHARE = st.floats(0, 1)


def judge(
    shift: float = 1.0,
    necessity: float = 1.0,
    uplift: float = 1.0,
    risk: float = 0.0,
    confidence: float = 1.0,
    action: str = "edit a.py",
) -> Judgment:
    return Judgment(
        no_context_action="search",
        with_context_action=action,
        action_shift=shift,
        necessity=necessity,
        expected_outcome_uplift=uplift,
        negative_transfer_risk=risk,
        reason="seen",
        confidence=confidence,
    )


def test_the_utility_is_the_formula_of_the_paper() -> None:
    terms = utility_terms(judge(0.5, 0.4, 0.3, 0.2), 250)
    assert terms.action == pytest.approx(0.34 * 0.5)
    assert terms.necessity == pytest.approx(0.26 * 0.4)
    assert terms.outcome == pytest.approx(0.28 * 0.3)
    assert terms.risk == pytest.approx(-0.22 * 0.2)
    assert terms.cost == pytest.approx(-0.08 * (0.25 + 0.2 * 0.2))
    assert terms.total == pytest.approx(0.17 + 0.104 + 0.084 - 0.044 - 0.0232)


def test_cost_never_exceeds_its_weight() -> None:
    assert utility_terms(judge(risk=1.0), 10**9).cost == pytest.approx(-0.08)
    assert utility_terms(judge(), 0).cost == 0


@given(SHARE, SHARE, SHARE, SHARE, SHARE, st.integers(0, 10_000))
def test_the_utility_lies_in_its_range_and_ignores_confidence(
    shift: float, necessity: float, uplift: float, risk: float, confidence: float, tokens: int
) -> None:
    total = utility_terms(judge(shift, necessity, uplift, risk, confidence), tokens).total
    assert -0.30 - 1e-9 <= total <= 0.88 + 1e-9
    assert total == utility_terms(judge(shift, necessity, uplift, risk, 0.0), tokens).total


def test_an_ablation_is_another_value_of_the_weights() -> None:
    without = utility_terms(judge(), 0, UtilityWeights(action=0.0))
    assert without.action == 0
    assert without.total == pytest.approx(0.26 + 0.28)


def refusal(judgment: Judgment, admission: Admission | None = None) -> str | None:
    return why_refused(judgment, utility_terms(judgment, 0), admission or Admission(min_utility=0.15))


def test_a_unit_that_changes_the_action_for_the_better_is_admitted() -> None:
    assert refusal(judge()) is None


def test_a_unit_that_leaves_the_action_as_it_is_is_refused_however_useful() -> None:
    assert refusal(judge(action="search")) == "it would not change the next action"


@pytest.mark.parametrize(("uplift", "risk"), [(0.4, 0.4), (0.4, 0.7), (0.0, 0.1)])
def test_a_unit_whose_risk_is_not_below_its_uplift_is_refused(uplift: float, risk: float) -> None:
    reason = refusal(judge(uplift=uplift, risk=risk))
    assert reason == f"it may mislead: risk {risk:.2f} against an expected uplift of {uplift:.2f}"


def test_a_unit_of_which_nothing_is_expected_is_not_said_to_mislead() -> None:
    assert refusal(judge(uplift=0.0, risk=0.0)) == "no better outcome is expected of it"


def test_a_unit_below_the_floor_is_refused_and_the_floor_is_an_argument() -> None:
    faint = judge(0.1, 0.1, 0.1)
    assert refusal(faint) == "its utility 0.088 is below 0.150"
    assert refusal(faint, Admission(min_utility=0.05)) is None
    assert refusal(judge(uplift=0.3, risk=0.2), Admission(min_gain=0.2)) is not None
