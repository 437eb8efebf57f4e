"""The tied items apart: sets of them that touch no other tied item."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cicl.selection.knapsack.problem import Problem, members

__all__ = ["EXACT", "Cluster", "find_clusters"]

EXACT = 10
"""Items up to which all sets of a cluster are listed: 1,024 sets, 0.1 ms."""


def find_clusters(problem: Problem) -> list[list[int]]:
    """Return the tied items, those that touch each other in some way together; in order of their first."""
    touched = [
        sum(1 << other for other in problem.overlaps[item]) | problem.clashes[item] | problem.needs[item]
        for item in range(problem.tied)
    ]
    for item, needs in enumerate(problem.needs):
        for other in members(needs):
            touched[other] |= 1 << item
    clusters, left = [], (1 << problem.tied) - 1
    while left:
        cluster, fresh = 0, left & -left
        while fresh:
            cluster |= fresh
            reached = 0
            for item in members(fresh):
                reached |= touched[item]
            fresh = reached & ~cluster
        clusters.append(list(members(cluster)))
        left &= ~cluster
    return clusters


class Cluster:
    """All feasible sets of a small cluster, budgets left aside. Utilities in steps of `GRID`."""

    def __init__(self, problem: Problem, items: Sequence[int]) -> None:
        self.items = list(items)
        sets = np.arange(1 << len(items), dtype=np.int64)
        holds = [sets >> place & 1 for place in range(len(items))]
        feasible = np.ones(len(sets), dtype=np.bool_)
        losses = np.zeros(len(sets), dtype=np.int64)
        for place, item in enumerate(items):
            for other_place, other in enumerate(items):
                if problem.clashes[item] >> other & 1:
                    feasible &= holds[place] + holds[other_place] < 2
                if problem.needs[item] >> other & 1:
                    feasible &= holds[place] <= holds[other_place]
                if other_place < place and other in problem.overlaps[item]:
                    loss = problem.worth(problem.overlaps[item][other])
                    losses += loss * (holds[place] & holds[other_place])
        self.holds: NDArray[np.int64] = np.stack(holds, axis=1)[feasible]
        self.losses: NDArray[np.int64] = losses[feasible]

    def best(self, adds: Sequence[int], tokens: Sequence[int]) -> tuple[int, int]:
        """Return the most that a set adds, given what each item does, and the tokens of that set."""
        if len(self.items) == 1:
            item = self.items[0]
            return (adds[item], tokens[item]) if adds[item] > 0 else (0, 0)
        totals = self.holds @ np.array([adds[item] for item in self.items], dtype=np.int64) - self.losses
        first = int(totals.argmax())
        held = self.holds[first].tolist()
        return int(totals[first]), sum(tokens[i] for i, holds in zip(self.items, held, strict=True) if holds)
