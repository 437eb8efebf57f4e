"""The roof dual: an upper bound of what a set of items adds when pairs of them lose something together.

Charge both of a pair some c <= what it loses and give c back once: whichever of the two are chosen, the sum
is no less than before, and the bound lower wherever both would have been. Let an item hand some of what it
adds to one that it requires: a set that holds both sums to the same, one without the first to no less. The
best charges and subsidies are half of a maximum flow in a graph that holds every item twice (Hammer, Hansen
and Simeone, 1984); the bound is what adding items half at a time could reach.
"""

from collections.abc import Sequence
from itertools import pairwise

from cicl.selection.knapsack.problem import Problem, members

__all__ = ["Pair", "Roof", "Ties"]

Pair = tuple[int, int]
"""Two tied items."""


class Ties:
    """What some of the tied items do to each other, in steps of `GRID`."""

    def __init__(self, problem: Problem, items: Sequence[int]) -> None:
        self.items = items
        self.losses: dict[Pair, int | None] = {}
        """By pair, lower item first; None where it excludes itself."""
        for item in items:
            for other, weight in problem.overlaps[item].items():
                if item < other:
                    self.losses[item, other] = problem.worth(weight)
            for other in members(problem.clashes[item]):
                if item < other:
                    self.losses[item, other] = None
        self.needs = [
            (item, other) for item in items for other in members(problem.needs[item]) if item != other
        ]


class Roof:
    """A maximum flow. Every item has a mirror, `~item`, where all arrows turn round.

    Items give what they add and mirrors take it; where that is negative, the other way round. A loss leads
    from either item to the mirror of the other one, a need from an item to the one that it requires. Found
    in layers, as by Dinic.
    """

    def __init__(self, ties: Ties, adds: Sequence[int]) -> None:
        useful = {item: adds[item] for item in ties.items if adds[item] > 0}
        total = sum(useful.values())
        self.needs = [(item, other) for item, other in ties.needs if item in useful]
        useful |= {other: adds[other] for _, other in self.needs}
        self.items = list(useful)
        """Those that add something, and what they require."""
        self.losses = {
            (one, other): total if loss is None else loss
            for (one, other), loss in ties.losses.items()
            if one in useful and other in useful
        }
        self.most = total + 1
        """More than ever flows."""
        self.gives = {node: max(0, add) for i, a in useful.items() for node, add in ((i, a), (~i, -a))}
        self.takes = {node: self.gives[~node] for node in self.gives}
        self.spare: dict[int, dict[int, int]] = {node: {} for node in self.gives}
        """By node and neighbour: how much more can flow there."""
        self.layers: dict[int, int] = {}
        """By node that one with something left to give can reach: its distance."""
        self.twice_bound = 2 * total
        self._open()
        self._saturate()

    def share(self, item: int) -> int:
        """Return how much of one of `items` a best fractional set holds: 0, 1 for half of it, or 2."""
        return (item in self.layers) + (~item not in self.layers)

    def charges(self) -> dict[Pair, int]:
        """Return what each pair is charged: half of what flows between the two, rounded down."""
        charges = {}
        for (one, other), loss in self.losses.items():
            spare = self.spare[one][~other] + self.spare[other][~one]
            if (charge := loss - (spare + 1) // 2) > 0:
                charges[one, other] = charge
        return charges

    def subsidies(self) -> dict[Pair, int]:
        """Return what items hand to those that they require."""
        subsidies = {}
        for item, other in self.needs:
            spare = self.spare[item][other] + self.spare[~other][~item]
            if (subsidy := self.most - (spare + 1) // 2) > 0:
                subsidies[item, other] = subsidy
        return subsidies

    def _open(self) -> None:
        for (one, other), loss in self.losses.items():
            self._link(one, ~other, loss)
            self._link(other, ~one, loss)
        for item, other in self.needs:
            self._link(item, other, self.most)
            self._link(~other, ~item, self.most)

    def _link(self, giver: int, taker: int, most: int) -> None:
        """Open a way, and send through it at once what can flow."""
        sent = min(self.gives[giver], self.takes[taker], most)
        self.gives[giver] -= sent
        self.takes[taker] -= sent
        self.twice_bound -= sent
        there, back = self.spare[giver], self.spare[taker]
        there[taker] = there.get(taker, 0) + most - sent
        back[giver] = back.get(giver, 0) + sent

    def _saturate(self) -> None:
        while self._lay():
            for start in list(self.gives):
                while self.gives[start] and (path := self._find_path(start)):
                    self._push(path)

    def _lay(self) -> bool:
        """Measure the distances afresh; return whether anything more can flow."""
        queue = [node for node, left in self.gives.items() if left]
        self.layers = dict.fromkeys(queue, 0)
        for node in queue:
            for other, spare in self.spare[node].items():
                if spare and other not in self.layers:
                    self.layers[other] = self.layers[node] + 1
                    queue.append(other)
        return any(self.takes[node] for node in queue)

    def _find_path(self, start: int) -> list[int]:
        """Return a path along the layers that more can flow through; empty where there is none."""
        path = [start]
        while path:
            node = path[-1]
            if self.takes[node]:
                return path
            for other, spare in self.spare[node].items():
                if spare and self.layers.get(other) == self.layers[node] + 1:
                    path.append(other)
                    break
            else:
                path.pop()
                del self.layers[node]
        return []

    def _push(self, path: list[int]) -> None:
        steps = list(pairwise(path))
        sent = min(self.gives[path[0]], self.takes[path[-1]], *(self.spare[a][b] for a, b in steps))
        for giver, taker in steps:
            self.spare[giver][taker] -= sent
            self.spare[taker][giver] += sent
        self.gives[path[0]] -= sent
        self.takes[path[-1]] -= sent
        self.twice_bound -= sent
