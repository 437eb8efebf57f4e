"""An upper bound where too many items are tied for an exact answer: items at a price per token.

At a price p no set that fits is worth more than ``p * budget`` and the most that any set is worth when it
pays for its tokens. That most falls apart into free items and clusters: small ones are solved exactly, large
ones bounded by their roof dual. For each price the sum can only grow as items come, also where one joins two
clusters to a large one; and the prices are fixed: so one more item never lowers the bound. It knows no
memory budget, and is weak in large clusters where many items overlap all with each other.
"""

from typing import NamedTuple

from cicl.selection.knapsack.clusters import EXACT, Cluster, find_clusters
from cicl.selection.knapsack.problem import GRID, Problem
from cicl.selection.knapsack.roof import Pair, Roof, Ties

__all__ = ["Relaxation", "relax"]

STEPS_PER_DOUBLING = 16
"""Prices are 4.4 % apart: the best of them is off by 2 % at most of what one item costs."""
STEPS = 24 * STEPS_PER_DOUBLING
"""From nothing by way of 1 / 2**24 of a unit for a token to a whole unit."""


class Relaxation(NamedTuple):
    """The lowest bound, and what the search for the answer can know from it; all in steps of `GRID`."""

    bound: int
    """A utility that no feasible set exceeds."""
    price: int
    """Of a token."""
    charges: dict[Pair, int]
    """By pair of tied items, lower first: what each of the two is charged; 0 is left out."""
    subsidies: dict[Pair, int]
    """By item and one that it requires: what the first hands to the second; 0 is left out."""
    clusters: tuple[tuple[tuple[int, ...], int], ...]
    """The tied items by cluster, and the most that each cluster adds at the price. What is charged most comes
    first, as it decides most about the others."""


class _Quote(NamedTuple):
    price: int
    twice_bound: int
    slope: int
    """Of twice the bound over the price: twice the tokens left over, negative where there are too few."""


def relax(problem: Problem) -> Relaxation:
    """Return the lowest bound over all prices."""
    market = _Market(problem)
    quotes = []
    low, high = 0, STEPS
    while low <= high:
        middle = (low + high) // 2
        quotes.append(market.quote(_price(middle)))
        if quotes[-1].slope >= 0:  # the bound is convex in the price
            high = middle - 1
        else:
            low = middle + 1
    return market.settle(min(quotes, key=lambda quote: quote.twice_bound))


def _price(step: int) -> int:
    """Return a price in steps of `GRID`. Never chosen by the input: the bound could fall as items come."""
    return round(GRID * 2 ** ((step - STEPS) / STEPS_PER_DOUBLING)) if step else 0


class _Market:
    """Offers, clusters and ties, ready to be priced."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.offers = [
            [(problem.worth(option.weight), option.tokens) for option in options]
            for options in problem.options
        ]
        self.clusters = find_clusters(problem)
        self.small = [Cluster(problem, items) for items in self.clusters if len(items) <= EXACT]
        self.large = Ties(problem, [i for items in self.clusters if len(items) > EXACT for i in items])

    def quote(self, price: int) -> _Quote:
        """Return the bound at that price."""
        adds, tokens = self._shop(price)
        free = [item for item in range(self.problem.tied, len(adds)) if adds[item] > 0]
        total, used = sum(adds[item] for item in free), sum(tokens[item] for item in free)
        for cluster in self.small:
            added, taken = cluster.best(adds, tokens)
            total, used = total + added, used + taken
        roof = Roof(self.large, adds)
        twice_used = 2 * used + sum(tokens[item] * roof.share(item) for item in roof.items)
        twice_bound = 2 * (price * self.problem.budget + total) + roof.twice_bound
        return _Quote(price, twice_bound, 2 * self.problem.budget - twice_used)

    def settle(self, quote: _Quote) -> Relaxation:
        """Return all there is to know about a quote."""
        adds, tokens = self._shop(quote.price)
        exact = {cluster.items[0]: cluster.best(adds, tokens)[0] for cluster in self.small}
        charges: dict[Pair, int] = {}
        subsidies: dict[Pair, int] = {}
        clusters = []
        for items in self.clusters:
            roof = Roof(Ties(self.problem, items), adds)
            charges |= roof.charges()
            subsidies |= roof.subsidies()
            clusters.append((items, exact.get(items[0], (roof.twice_bound + 1) // 2)))
        charged = [0] * self.problem.tied
        for pair, charge in charges.items():
            for item in pair:
                charged[item] += charge
        clusters.sort(key=lambda cluster: (-sum(charged[item] for item in cluster[0]), cluster[0][0]))
        ordered = tuple(
            (tuple(sorted(items, key=lambda item: (-charged[item], item))), worth)
            for items, worth in clusters
        )
        return Relaxation(quote.twice_bound // 2, quote.price, charges, subsidies, ordered)

    def _shop(self, price: int) -> tuple[list[int], list[int]]:
        """Return what each item adds at most when it pays for its tokens, and those tokens."""
        best = [max((worth - price * tokens, -tokens) for worth, tokens in offer) for offer in self.offers]
        return [added for added, _ in best], [-negated for _, negated in best]
