"""Utility: one number from a judgment, by the paper's weights, and whether a unit is admitted at all."""

from dataclasses import dataclass

from cicl.selection.records import Judgment, UtilityTerms

__all__ = ["Admission", "UtilityWeights", "utility_terms", "why_refused"]


@dataclass(frozen=True, slots=True, kw_only=True)
class UtilityWeights:
    """The weights of Eq. 3 of CICL (arXiv 2606.08151); an ablation is another value."""

    action: float = 0.34
    necessity: float = 0.26
    outcome: float = 0.28
    risk: float = 0.22
    cost: float = 0.08
    cost_tokens: float = 1000.0
    """A unit of this many tokens costs the full weight."""
    cost_risk: float = 0.2
    """Share of the risk that counts as cost as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """When a unit is worth reading at all. Budget that is left over is no reason."""

    min_utility: float = 0.05
    """Below it a card is more likely to distract: see `benchmarks/README.md`, fit_proxy."""
    min_gain: float = 0.0
    """Expected uplift must exceed risk by more than this: the action must change for the better."""


def utility_terms(judgment: Judgment, token_cost: int, weights: UtilityWeights | None = None) -> UtilityTerms:
    """Return s = 0.34·action_shift + 0.26·necessity + 0.28·uplift − 0.22·risk − 0.08·cost, part by part.

    cost = min(1, token_cost / 1000 + 0.2·risk). The judge's confidence never enters.
    """
    weights = weights or UtilityWeights()
    risk = judgment.negative_transfer_risk
    cost = min(1.0, token_cost / weights.cost_tokens + weights.cost_risk * risk)
    return UtilityTerms(
        action=weights.action * judgment.action_shift,
        necessity=weights.necessity * judgment.necessity,
        outcome=weights.outcome * judgment.expected_outcome_uplift,
        risk=-weights.risk * risk,
        cost=-weights.cost * cost,
    )


def why_refused(judgment: Judgment, terms: UtilityTerms, admission: Admission) -> str | None:
    """Return why a unit is not admitted, or None when it is."""
    uplift, risk = judgment.expected_outcome_uplift, judgment.negative_transfer_risk
    if judgment.no_context_action == judgment.with_context_action:
        return "it would not change the next action"
    if uplift == risk == 0.0:
        return "no better outcome is expected of it"
    if uplift - risk <= admission.min_gain:
        return f"it may mislead: risk {risk:.2f} against an expected uplift of {uplift:.2f}"
    if terms.total < admission.min_utility:
        return f"its utility {terms.total:.3f} is below {admission.min_utility:.3f}"
    return None
