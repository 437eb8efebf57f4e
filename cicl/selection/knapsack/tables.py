"""What is exact by tables alone: the multiple-choice knapsack, with and without a memory sub-budget."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cicl.selection.knapsack.problem import OUT, Option, Picks, Problem

__all__ = ["Row", "Table", "add_group", "fill_table", "read_picks", "solve_additive", "solve_groups"]

Row = NDArray[np.int64]
"""The heaviest weight for every capacity from 0 up."""


class Table(NamedTuple):
    """The heaviest choice of at most one option of each group, for every capacity."""

    row: Row
    choices: NDArray[np.uint8]
    """By group and capacity: 1 + the option taken, 0 for none, with the groups before it left out."""


def add_group(row: Row, group: Sequence[Option]) -> Row:
    """Return the row after one more group may give one of its options."""
    if not group:
        return row
    wider = row.copy()
    for tokens, weight, _ in group:
        if weight > 0 and tokens < len(row):
            np.maximum(wider[tokens:], row[: len(row) - tokens] + weight, out=wider[tokens:])
    return wider


def fill_table(groups: Sequence[Sequence[Option]], capacity: int) -> Table:
    """Solve for every capacity up to the one given. Ties go to earlier groups, then to earlier options."""
    row = np.zeros(capacity + 1, dtype=np.int64)
    choices = np.zeros((len(groups), capacity + 1), dtype=np.uint8)
    for position in range(len(groups) - 1, -1, -1):
        before = row.copy()
        for code in range(len(groups[position]), 0, -1):
            tokens, weight, _ = groups[position][code - 1]
            if weight > 0 and tokens <= capacity:
                gained = before[: capacity + 1 - tokens] + weight
                better = gained >= row[tokens:]
                np.copyto(row[tokens:], gained, where=better)
                np.copyto(choices[position, tokens:], np.uint8(code), where=better)
    return Table(row, choices)


def read_picks(table: Table, groups: Sequence[Sequence[Option]], capacity: int) -> Picks:
    """Return the options that the table takes within `capacity`."""
    picks = []
    for position, group in enumerate(groups):
        pick = int(table.choices[position, capacity]) - 1
        picks.append(pick)
        if pick != OUT:
            capacity -= group[pick].tokens
    return tuple(picks)


def solve_additive(problem: Problem) -> tuple[int, Picks]:
    """Return the heaviest weight and the picks that reach it, as if no item touched another."""
    return solve_groups(problem.options, problem.memory, problem.budget, problem.memory_budget)


def solve_groups(
    groups: Sequence[Sequence[Option]], memory: Sequence[bool], budget: int, memory_budget: int
) -> tuple[int, Picks]:
    """Return the heaviest weight of at most one option a group, and the picks that reach it.

    Exact under both budgets: memory groups and the others are solved apart, then every split is tried.
    Ties go to earlier groups, then to earlier options.
    """
    plain = fill_table(
        [group for group, is_memory in zip(groups, memory, strict=True) if not is_memory], budget
    )
    kept = [group for group, is_memory in zip(groups, memory, strict=True) if is_memory]
    remembered = fill_table(kept, min(budget, memory_budget) if kept else 0)
    shares = np.arange(len(remembered.row))
    totals = remembered.row + plain.row[budget - shares]
    heaviest = int(totals.max())
    room = {True: shares[totals == heaviest], False: budget - shares[totals == heaviest]}
    return heaviest, _read_splits(groups, memory, {True: remembered, False: plain}, room)


def _read_splits(
    groups: Sequence[Sequence[Option]],
    memory: Sequence[bool],
    tables: dict[bool, Table],
    room: dict[bool, NDArray[np.intp]],
) -> Picks:
    """Walk all splits that tie at once, keeping at each group those that take the earliest option."""
    rows = {kind: iter(table.choices) for kind, table in tables.items()}
    picks = []
    for group, kind in zip(groups, memory, strict=True):
        codes = next(rows[kind])[room[kind]]
        if not codes.any():
            picks.append(OUT)
            continue
        code = int(codes[codes > 0].min())
        room = {other: left[codes == code] for other, left in room.items()}
        room[kind] = room[kind] - group[code - 1].tokens
        picks.append(code - 1)
    return tuple(picks)
