"""Packing: which items enter the pack, and shown how.

The one objective: choose items, and one rendering of each, so as to maximise

    the sum of the utilities of the chosen renderings
    less the redundancies of all pairs of which both are chosen

where the tokens of all that is chosen are at most `budget`, and those of its memory items at most
`memory_budget`; of an exclusive pair at most one is chosen; and an item is chosen only together with all
that it requires (a cycle all or none, something that is not on offer never).

Choosing nothing is always allowed and worth 0, so an item that adds nothing is chosen only where another
one requires it. Utilities and redundancies are read to nine decimals and added up exactly.

An item is *tied* when a constraint or a redundancy joins it to another one, or when it is memory beside
such items. With none tied, tables over the tokens are exact. With up to `EXHAUSTIVE`, a search over the tied
ones above a table for the others is. Both report the optimum as the bound, and give ties to fewer tokens,
then to the smaller unit ids, tied ones first. Beyond, exchanges find an answer, the same search with a limit
improves and mostly proves it, and the bound comes from relaxations. So one more item on offer never lowers
the bound, nor does the order of the items change anything.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from cicl.selection.knapsack.branching import branch
from cicl.selection.knapsack.drafting import draft_problem
from cicl.selection.knapsack.exchange import exchange
from cicl.selection.knapsack.offer import Constraints, Item, Rendering, check_constraints, collect_items
from cicl.selection.knapsack.problem import GRID, OUT, Picks, Problem
from cicl.selection.knapsack.reasons import explain
from cicl.selection.knapsack.relaxation import relax
from cicl.selection.knapsack.tables import solve_additive

__all__ = ["EXHAUSTIVE", "Constraints", "Item", "Packing", "Rendering", "pack"]

EXHAUSTIVE = 12
"""Tied items up to which the search has no limit: under 0.1 s for the most hostile sets of 12, 4 s of 16."""
PATIENCE = 3_000
"""Partial sets that the search looks at beyond: some 10 ms. Ten times as many gained 0.1 % on sets of 80."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """A choice, and how good it is."""

    chosen: tuple[tuple[str, int], ...]
    """Unit id and position of the rendering, by unit id; empty where nothing is worth its tokens."""
    value: float
    """The objective reached: at least 0."""
    bound: float
    """No choice is worth more. Equal to `value` while at most `EXHAUSTIVE` items are tied."""
    optimal: bool
    """Whether it is proved that no choice is worth more than `value`, even where `bound` is higher."""
    dropped: Mapping[str, str]
    """The reason for each item that is not chosen, by unit id."""


def pack(items: Iterable[Item], constraints: Constraints) -> Packing:
    """Choose among the items; their order does not matter.

    Raises `ValueError` for what no choice could be right for: a negative budget, token count or redundancy,
    a utility that is not finite, a unit id or a pair given twice, sums beyond exact arithmetic.
    """
    check_constraints(constraints)
    draft = draft_problem(collect_items(items), constraints)
    problem = draft.problem
    outcome = _solve(problem)
    chosen = [
        (problem.unit_ids[item], problem.options[item][pick].rendering)
        for item, pick in enumerate(outcome.picks)
        if pick != OUT
    ]
    dropped = dict(draft.dropped) | dict(explain(problem, outcome.picks))
    return Packing(
        chosen=tuple(sorted(chosen)),
        value=outcome.value / GRID,
        bound=outcome.bound / GRID,
        optimal=outcome.optimal,
        dropped=dict(sorted(dropped.items())),
    )


class _Outcome(NamedTuple):
    picks: Picks
    value: int
    """In steps of `GRID`, like the bound."""
    bound: int
    optimal: bool


def _solve(problem: Problem) -> _Outcome:
    if problem.tied == 0:
        weight, picks = solve_additive(problem)
        value = problem.worth(weight)
        return _Outcome(picks, value, value, optimal=True)
    relaxation = relax(problem)
    floor, picks = exchange(problem, relaxation.price * problem.scale)
    exhaustive = problem.tied <= EXHAUSTIVE
    found = branch(problem, relaxation, floor, patience=None if exhaustive else PATIENCE)
    value = problem.worth(max(floor, found.weight))
    bound = value if exhaustive else min(relaxation.bound, problem.worth(solve_additive(problem)[0]))
    return _Outcome(found.picks or picks, value, bound, found.complete or value == bound)
