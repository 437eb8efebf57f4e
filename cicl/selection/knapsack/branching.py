"""The exact answer, depth first over the tied items with a table for the free ones."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from cicl.selection.knapsack.problem import OUT, Option, Picks, Problem, members
from cicl.selection.knapsack.relaxation import Relaxation
from cicl.selection.knapsack.tables import Row, add_group, fill_table, read_picks

__all__ = ["Branching", "branch"]


class Branching(NamedTuple):
    """What the search came to."""

    weight: int
    picks: Picks | None
    """The heaviest set seen that weighs no less than the floor; None where none was seen in time."""
    complete: bool
    """Whether every set was looked at or ruled out."""


def branch(problem: Problem, relaxation: Relaxation, floor: int, *, patience: int | None) -> Branching:
    """Search for a set that weighs `floor` or more.

    The nearer `floor` is to the answer, the sooner the search ends. `patience` is the number of partial sets
    to look at, those of the most charged items first. Without it all are, in the order of the items, and of
    equal sets the first is found: an item in before the item out, an earlier option before a later one. Then
    the time can double with every tied item.
    """
    clusters = relaxation.clusters if patience is not None else ((tuple(range(problem.tied)), 0),)
    search = _Search(problem, relaxation, floor, clusters)
    complete = search.run(patience)
    if search.best < floor:
        return Branching(floor, None, complete)
    picks = dict(zip(search.order, search.leaf.picks, strict=True))
    free = read_picks(search.rest, problem.options[problem.tied :], search.leaf.room)
    return Branching(search.best, tuple(picks[item] for item in range(problem.tied)) + free, complete)


class _Node(NamedTuple):
    """A decision on the first items of the order."""

    picks: Picks
    taken: int
    forced: int
    """What was taken and all it requires."""
    barred: int
    """Clashes with what is forced, or requires what was left out."""
    weight: int
    room: int
    memory_room: int
    gains: tuple[int, ...]
    """By tied item: the most it adds beside what was taken, less price and charges."""


class _Stage(NamedTuple):
    """What is the same for all nodes of a depth."""

    undecided: tuple[int, ...]
    """Of the cluster that is being decided."""
    settled: int
    """The most that free items and later clusters add at the price, and the charges in this one."""


class _Search:
    """The best leaf so far, and what tells that a node leads to no better one."""

    def __init__(
        self,
        problem: Problem,
        relaxation: Relaxation,
        floor: int,
        clusters: Sequence[tuple[Sequence[int], int]],
    ) -> None:
        self.problem = problem
        self.best = floor - 1  # so that a leaf as heavy as the floor is kept
        self.leaf = _Node((), 0, 0, 0, 0, 0, 0, ())
        self.order = [item for items, _ in clusters for item in items]
        self.rest = fill_table(problem.options[problem.tied :], problem.budget)
        self.rows = _stack(self.rest.row, [problem.options[item] for item in self.order])
        self.plain_rows, self.memory_rows = _stack_apart(problem, self.rest.row, self.order)
        self.books = _Books(problem, relaxation, self.order)
        self.stages = list(_stages(clusters, self.books, problem.scale))
        tied = range(problem.tied)
        self.clashes = [_union(problem.clashes, needs) for needs in problem.needs]
        self.dependants = [sum(1 << j for j in tied if problem.needs[j] >> i & 1) for i in tied]

    def run(self, patience: int | None) -> bool:
        """Look at nodes, at most `patience` of them; return whether none is left."""
        budget, memory_budget = self.problem.budget, self.problem.memory_budget
        stack = [_Node((), 0, 0, 0, 0, budget, memory_budget, tuple(self.books.gains))]
        while stack and patience != 0:
            node = stack.pop()
            depth = len(node.picks)
            if depth == self.problem.tied:
                self._keep(node)
            elif self._promises(node, depth):
                stack.extend(self._ways(node, self.order[depth]))
            patience = None if patience is None else patience - 1
        return not stack

    def _keep(self, leaf: _Node) -> None:
        weight = leaf.weight + self.rest.row.item(leaf.room)
        if weight > self.best:
            self.best, self.leaf = weight, leaf

    def _promises(self, node: _Node, depth: int) -> bool:
        """Return whether a leaf under the node may be heavier than the best."""
        missing = self.best - node.weight
        split = self.plain_rows[depth].item(node.room) + self.memory_rows[depth].item(node.memory_room)
        if split <= missing or self.rows[depth].item(node.room) <= missing:
            return False
        stage = self.stages[depth]
        missing -= self.books.price * node.room + stage.settled
        for item in stage.undecided:
            gain = node.gains[item]
            if (gain > 0 and not node.barred >> item & 1) or node.forced >> item & 1:
                missing -= gain
        return missing < 0

    def _ways(self, node: _Node, item: int) -> list[_Node]:
        """Return the decisions on `item`, the one to look at first last."""
        gains = list(node.gains)
        for other, amount in self.books.returns[item]:
            gains[other] += amount
        ways = []
        if not node.forced >> item & 1:
            picks, taken, forced, barred, weight, room, memory_room, _ = node
            picks, barred = (*picks, OUT), barred | self.dependants[item]
            ways.append(_Node(picks, taken, forced, barred, weight, room, memory_room, tuple(gains)))
        if not node.barred >> item & 1:
            ways.extend(self._takings(node, item, gains))
        return ways

    def _takings(self, node: _Node, item: int, gains: list[int]) -> Iterator[_Node]:
        forced, barred = node.forced | self.problem.needs[item], node.barred | self.clashes[item]
        if forced & barred:
            return
        weight, taken = node.weight, node.taken | 1 << item
        for other, overlap in self.problem.overlaps[item].items():
            gains[other] -= overlap
            if node.taken >> other & 1:
                weight -= overlap
        left = tuple(gains)
        options = self.problem.options[item]
        for pick in range(len(options) - 1, -1, -1):
            tokens, more, _ = options[pick]
            room = node.room - tokens
            memory_room = node.memory_room - self.problem.memory[item] * tokens
            if room >= 0 and memory_room >= 0:
                picks, heavier = (*node.picks, pick), weight + more
                yield _Node(picks, taken, forced, barred, heavier, room, memory_room, left)


class _Books:
    """The relaxation as weights, kept so that a decision on an item undoes what it paid and was paid."""

    def __init__(self, problem: Problem, relaxation: Relaxation, order: Sequence[int]) -> None:
        self.price = relaxation.price * problem.scale
        adds = [max(o.weight - self.price * o.tokens for o in options) for options in problem.options]
        self.surplus = sum(add for add in adds[problem.tied :] if add > 0)
        self.gains = adds[: problem.tied]
        self.returns: list[list[tuple[int, int]]] = [[] for _ in self.gains]
        """By item: who gets back how much when it is decided, of those decided later."""
        self.charged = [0 for _ in self.gains]
        """By item: the charges on pairs of which it is decided first."""
        self._rank = {item: depth for depth, item in enumerate(order)}
        for (one, other), charge in relaxation.charges.items():
            amount = charge * problem.scale
            first = self._move(one, other, -amount, -amount)
            self.charged[first] += amount
        for (one, other), subsidy in relaxation.subsidies.items():
            amount = subsidy * problem.scale
            self._move(one, other, -amount, amount)

    def _move(self, one: int, other: int, to_one: int, to_other: int) -> int:
        """Enter what two items gain until the first of them is decided; return that one."""
        self.gains[one] += to_one
        self.gains[other] += to_other
        if self._rank[one] < self._rank[other]:
            self.returns[one].append((other, -to_other))
            return one
        self.returns[other].append((one, -to_one))
        return other


def _stages(clusters: Sequence[tuple[Sequence[int], int]], books: _Books, scale: int) -> Iterator[_Stage]:
    """Yield the stage of each depth."""
    later = books.surplus + sum(worth * scale for _, worth in clusters)
    for items, worth in clusters:
        later -= worth * scale
        for depth in range(len(items)):
            undecided = tuple(items[depth:])
            yield _Stage(undecided, later + sum(books.charged[item] for item in undecided))


def _stack(last: Row, groups: Sequence[Sequence[Option]]) -> list[Row]:
    """Return by depth the most that the groups from there on can add to the last row."""
    rows = [last]
    for group in reversed(groups):
        rows.append(add_group(rows[-1], group))
    return rows[::-1]


def _stack_apart(problem: Problem, last: Row, order: Sequence[int]) -> tuple[list[Row], list[Row]]:
    """Return the stacks of the plain and of the memory items, each as if the other were not there."""
    plain = [() if problem.memory[item] else problem.options[item] for item in order]
    memory = [problem.options[item] if problem.memory[item] else () for item in order]
    nothing = np.zeros(problem.memory_budget + 1, dtype=np.int64)
    return _stack(last, plain), _stack(nothing, memory)


def _union(sets: Sequence[int], chosen: int) -> int:
    mask = 0
    for item in members(chosen):
        mask |= sets[item]
    return mask
