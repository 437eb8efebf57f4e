"""A good answer where too many items are tied for an exact one: a search that is never content.

Every round the item that gains most at the price of a token goes in, with what it requires, and out goes
what clashes with it, what the budget has no room for, and what adds nothing beside the others, even where
the whole gets worse. What moved stays put for some rounds, so that the search leaves a local best behind
instead of going back to it. A price decides how each item is shown; the tables put that right at the end.
"""

import numpy as np
from numpy.typing import NDArray

from cicl.selection.knapsack.problem import OUT, Option, Picks, Problem, members
from cicl.selection.knapsack.tables import fill_table, solve_groups

__all__ = ["exchange"]

PATIENCE = 60
"""Rounds without a better set before the search ends. Twice as many gained 0.05 % on sets of 60 to 100."""
OUTSIDE, INSIDE = 8, 4
"""Rounds for which what went out stays out, and what came in stays in where it can; tried from 3 to 20."""

NEVER = np.iinfo(np.int64).min
Vector = NDArray[np.int64]


def exchange(problem: Problem, price: int) -> tuple[int, Picks]:
    """Return a heavy feasible set, its weight first.

    At least one item is tied. `price` is the weight that a token is worth.
    """
    rest = fill_table(problem.options[problem.tied :], problem.budget).row
    tray = _Tray(problem, price)
    best, mask, stale = rest.item(problem.budget), 0, 0
    while stale < PATIENCE:
        stale += 1
        if tray.exchange():
            weight = tray.weight + rest.item(tray.room)
            if weight > best:
                best, mask, stale = weight, tray.mask, 0
    return _top_up(problem, *_show_best(problem, mask))


def _show_best(problem: Problem, mask: int) -> tuple[int, Picks]:
    """Return the heaviest set with exactly these tied items, which have to fit in their leanest form."""
    leanest = {item: min(problem.options[item]) for item in members(mask)}
    groups, weight, tokens, memory_tokens = [], 0, 0, 0
    for item, options in enumerate(problem.options):
        lean = leanest.get(item)
        if lean is not None:
            weight += lean.weight
            tokens += lean.tokens
            memory_tokens += lean.tokens if problem.memory[item] else 0
            weight -= sum(
                loss for other, loss in problem.overlaps[item].items() if other < item and mask >> other & 1
            )
            groups.append(tuple(Option(o.tokens - lean.tokens, o.weight - lean.weight, 0) for o in options))
        else:
            groups.append(() if item < problem.tied else options)
    more, upgrades = solve_groups(
        groups, problem.memory, problem.budget - tokens, problem.memory_budget - memory_tokens
    )
    picks = tuple(
        problem.options[item].index(leanest[item]) if pick == OUT and item in leanest else pick
        for item, pick in enumerate(upgrades)
    )
    return weight + more, picks


def _top_up(problem: Problem, weight: int, picks: Picks) -> tuple[int, Picks]:
    """Put in what still fits and adds something: at its price it may have seemed not to be worth it."""
    filled = list(picks)
    inside = sum(1 << item for item, pick in enumerate(picks) if pick != OUT)
    room = {False: problem.budget, True: problem.memory_budget}
    for item in members(inside):
        _take(room, problem.memory[item], problem.options[item][picks[item]].tokens)
    for item in range(problem.tied):
        if inside >> item & 1 or problem.clashes[item] & inside or problem.needs[item] & ~inside != 1 << item:
            continue
        lost = sum(loss for other, loss in problem.overlaps[item].items() if inside >> other & 1)
        most = min(room.values()) if problem.memory[item] else room[False]
        gains = [(o.weight - lost, -k) for k, o in enumerate(problem.options[item]) if o.tokens <= most]
        gain, position = max(gains, default=(0, 0))
        if gain > 0:
            filled[item] = -position
            weight += gain
            inside |= 1 << item
            _take(room, problem.memory[item], problem.options[item][-position].tokens)
    return weight, tuple(filled)


def _take(room: dict[bool, int], memory: bool, tokens: int) -> None:
    room[False] -= tokens
    if memory:
        room[True] -= tokens


class _Tray:
    """The tied items that are in, and for the others what their coming in would bring."""

    def __init__(self, problem: Problem, price: int) -> None:
        self.problem = problem
        tied = range(problem.tied)
        shown = [max(problem.options[i], key=lambda o: o.weight - price * o.tokens) for i in tied]
        self.tokens = [option.tokens for option in shown]
        self.weights = [option.weight for option in shown]
        self.priced = np.array([option.weight - price * option.tokens for option in shown])
        self.memory = np.array(problem.memory[: problem.tied])
        self.overlaps = np.zeros((problem.tied, problem.tied), dtype=np.int64)
        self.clashes = np.zeros((problem.tied, problem.tied), dtype=np.int64)
        for i in tied:
            self.clashes[i, list(members(problem.clashes[i]))] = 1
            self.overlaps[i, list(problem.overlaps[i])] = list(problem.overlaps[i].values())
        self.dependants = [sum(1 << j for j in tied if problem.needs[j] >> i & 1) for i in tied]
        self.needy = [i for i in tied if problem.needs[i] != 1 << i]
        self.needed = [i for i in tied if self.dependants[i] != 1 << i]
        self.inside = np.zeros(problem.tied, dtype=np.bool_)
        self.mask = 0
        self.weight = 0
        self.lost = np.zeros(problem.tied, dtype=np.int64)
        self.room, self.memory_room = problem.budget, problem.memory_budget
        self.round = 0
        self.free_from = np.zeros(problem.tied, dtype=np.int64)
        """The round from which an item may move again."""

    def exchange(self) -> bool:
        """Make the best exchange that is allowed; return whether there was one."""
        self.round += 1
        gains = self._gains()
        item = int(gains.argmax())
        if gains[item] == NEVER:
            return False
        needs = self.problem.needs[item]
        for other in members(needs):
            for clashing in members(self.problem.clashes[other] & self.mask):
                self._evict(clashing)
        for other in members(needs & ~self.mask):
            self._move(other, 1)
        self.free_from[item] = self.round + INSIDE
        self._make_room(needs)
        self._weed(needs)
        return True

    def _gains(self) -> Vector:
        """Return by item what its coming in would gain at the price, clashing items going out."""
        adds = self.priced - self.lost - self.clashes @ np.where(self.inside, self.priced - self.lost, 0)
        gains = np.where(self.inside | (self.free_from > self.round), NEVER, adds)
        for item in self.needy:
            if self.problem.needs[item] & ~self.mask != 1 << item and gains[item] != NEVER:
                gains[item] += self._bring(item, adds)
        return gains

    def _bring(self, item: int, adds: Vector) -> int:
        """Return what the missing items that `item` requires would gain, coming in with it."""
        total, coming = 0, [item]
        for other in members(self.problem.needs[item] & ~self.mask & ~(1 << item)):
            total += int(adds[other] - self.overlaps[other, coming].sum())
            coming.append(other)
        return total

    def _make_room(self, wanted: int) -> None:
        """Put out what loses least until both budgets hold; what is wanted only where all else is out."""
        while self.room < 0 or self.memory_room < 0:
            inside = self.inside if self.room < 0 else self.inside & self.memory
            others = inside.copy()
            others[list(members(wanted))] = False
            movable = others & (self.free_from <= self.round)
            candidates = next(group for group in (movable, others, inside) if group.any())
            self._evict(self._cheapest(candidates)[0])

    def _weed(self, wanted: int) -> None:
        """Put out what no longer adds anything beside the others."""
        movable = self.inside & (self.free_from <= self.round)
        movable[list(members(wanted))] = False
        while movable.any():
            item, loss = self._cheapest(movable)
            if loss >= 0:
                return
            self._evict(item)
            movable &= self.inside

    def _cheapest(self, candidates: NDArray[np.bool_]) -> tuple[int, int]:
        """Return the item that loses least by leaving, with all that requires it, and what it loses."""
        alone = self.priced - self.lost
        losses = np.where(candidates, alone, np.iinfo(np.int64).max)
        for item in self.needed:
            others = self.dependants[item] & self.mask & ~(1 << item)
            if others and candidates[item]:
                losses[item] += alone[list(members(others))].sum()
        item = int(losses.argmin())
        return item, int(losses[item])

    def _evict(self, item: int) -> None:
        for other in members(self.dependants[item] & self.mask):
            self._move(other, -1)
            self.free_from[other] = self.round + OUTSIDE

    def _move(self, item: int, sign: int) -> None:
        """Put an item in (1) or out (-1)."""
        if sign < 0:
            self.lost -= self.overlaps[item]
        self.weight += sign * (self.weights[item] - int(self.lost[item]))
        if sign > 0:
            self.lost += self.overlaps[item]
        self.mask ^= 1 << item
        self.inside[item] = sign > 0
        self.room -= sign * self.tokens[item]
        if self.memory[item]:
            self.memory_room -= sign * self.tokens[item]
