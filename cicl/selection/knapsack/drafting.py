"""From an offer to the problem of what could be chosen of it.

What no choice can hold is left out here, with its reason. That depends on an item and what it requires,
never on what else is on offer, so one more item makes no other one impossible: the bounds rely on it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cicl.selection.knapsack.offer import Constraints, Item
from cicl.selection.knapsack.problem import GRID, Option, Problem

__all__ = ["Draft", "draft_problem"]

MOST_WEIGHT = 2**61
"""Sums of weights stay below it, so that a difference of two fits in 64 bits."""

Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Draft:
    """A problem, and what was left out of it."""

    problem: Problem
    dropped: Mapping[str, str]
    """By unit id: the reason."""


def draft_problem(offer: Mapping[str, Item], constraints: Constraints) -> Draft:
    """Return the items that could be chosen as a problem. Raises `ValueError` where sums would overflow."""
    options = {name: _options(item, constraints) for name, item in offer.items()}
    closures = {name: _closure(name, offer) for name in offer}
    exclusive = _neighbours(constraints.exclusive)
    dropped = {}
    for name in offer:
        reason = _missing(name, closures[name], offer, options) or _quarrel(name, closures[name], exclusive)
        reason = reason or _excess(closures[name], offer, options, constraints)
        if reason:
            dropped[name] = reason
    useful = [name for name in offer if name not in dropped and _top(options[name]) > 0]
    kept = sorted({other for name in useful for other in closures[name]})
    for name, item in offer.items():
        if name not in kept and name not in dropped:
            best = max(rendering.utility for rendering in item.renderings)
            dropped[name] = f"adds nothing: its utility is {best:.3f}"
    options = {name: options[name] for name in kept}
    closures = {name: closures[name] for name in kept}
    return Draft(_formulate(offer, constraints, options, closures), dropped)


def _options(item: Item, constraints: Constraints) -> tuple[Option, ...]:
    """Return the renderings that fit and that no other one beats, with utilities in steps of `GRID`."""
    most = min(constraints.budget, constraints.memory_budget) if item.memory else constraints.budget
    fitting = sorted(
        (rendering.tokens, -round(rendering.utility * GRID), position)
        for position, rendering in enumerate(item.renderings)
        if rendering.tokens <= most
    )
    options: list[Option] = []
    for tokens, negated, position in fitting:
        if not options or -negated > options[-1].weight:
            options.append(Option(tokens, -negated, position))
    return tuple(sorted(options, key=lambda option: option.rendering))


def _closure(name: str, offer: Mapping[str, Item]) -> tuple[str, ...]:
    """Return all that the item requires, directly or not, itself included, sorted."""
    closure, stack = {name}, [name]
    while stack:
        item = offer.get(stack.pop())
        for other in item.requires if item else ():
            if other not in closure:
                closure.add(other)
                stack.append(other)
    return tuple(sorted(closure))


def _neighbours(pairs: Iterable[Pair]) -> dict[str, set[str]]:
    neighbours: dict[str, set[str]] = {}
    for one, other in pairs:
        neighbours.setdefault(one, set()).add(other)
        neighbours.setdefault(other, set()).add(one)
    return neighbours


def _top(options: tuple[Option, ...]) -> int:
    return max(option.weight for option in options)


def _least(options: tuple[Option, ...]) -> int:
    return min(option.tokens for option in options)


def _missing(
    name: str,
    closure: tuple[str, ...],
    offer: Mapping[str, Item],
    options: Mapping[str, tuple[Option, ...]],
) -> str:
    if not options[name]:
        least = min(rendering.tokens for rendering in offer[name].renderings)
        kind = "memory budget" if offer[name].memory else "budget"
        return f"over the {kind} alone: takes at least {least} tokens"
    for other in closure:
        if other not in offer:
            return f"requires {other}, which is not on offer"
        if not options[other]:
            return f"requires {other}, which is over budget alone"
    return ""


def _quarrel(name: str, closure: tuple[str, ...], exclusive: Mapping[str, set[str]]) -> str:
    for one in closure:
        for other in sorted(exclusive.get(one, set()).intersection(closure)):
            if name in (one, other):
                return f"requires {other if name == one else one}, which it conflicts with"
            return f"requires {one} and {other}, which conflict"
    return ""


def _excess(
    closure: tuple[str, ...],
    offer: Mapping[str, Item],
    options: Mapping[str, tuple[Option, ...]],
    constraints: Constraints,
) -> str:
    tokens = sum(_least(options[name]) for name in closure)
    memory_tokens = sum(_least(options[name]) for name in closure if offer[name].memory)
    if tokens > constraints.budget:
        return f"over the budget with all it requires: takes at least {tokens} tokens"
    if memory_tokens > constraints.memory_budget:
        return f"over the memory budget with all it requires: takes at least {memory_tokens} tokens"
    return ""


def _formulate(
    offer: Mapping[str, Item],
    constraints: Constraints,
    options: Mapping[str, tuple[Option, ...]],
    closures: Mapping[str, tuple[str, ...]],
) -> Problem:
    """Put the kept items in order and weigh them."""
    ceiling = sum(max(0, _top(group)) for group in options.values()) + 1
    losses, clashes = _pair_up(constraints, options, ceiling)
    tied = _tie(offer, closures, [*losses, *clashes])
    names = (*(name for name in options if name in tied), *(name for name in options if name not in tied))
    position = {name: index for index, name in enumerate(names)}
    budget, memory_budget = _clip_budgets(offer, constraints, options)
    scale = budget + 1
    _refuse_overflow(options, losses, ceiling, scale)
    excluded = _neighbours(clashes)
    overlaps: dict[str, dict[int, int]] = {name: {} for name in tied}
    for (one, other), loss in losses.items():
        overlaps[one][position[other]] = overlaps[other][position[one]] = loss * scale
    tied_names = names[: len(tied)]
    return Problem(
        unit_ids=names,
        options=tuple(
            tuple(o._replace(weight=max(o.weight, -ceiling) * scale - o.tokens) for o in options[name])
            for name in names
        ),
        memory=tuple(offer[name].memory for name in names),
        tied=len(tied),
        needs=tuple(_mask(closures[name], position) for name in tied_names),
        clashes=tuple(_mask(excluded.get(name, ()), position) for name in tied_names),
        overlaps=tuple(overlaps[name] for name in tied_names),
        budget=budget,
        memory_budget=memory_budget,
        scale=scale,
    )


def _pair_up(
    constraints: Constraints, options: Mapping[str, tuple[Option, ...]], ceiling: int
) -> tuple[dict[Pair, int], list[Pair]]:
    """Return what pairs lose together, at most the ceiling, and the pairs that exclude each other."""
    clashes = [(one, other) for one, other in constraints.exclusive if one in options and other in options]
    excluded = {frozenset(pair) for pair in clashes}
    losses = {}
    for (one, other), redundancy in sorted(constraints.redundancy.items()):
        loss = min(ceiling, round(redundancy * GRID))
        if one in options and other in options and loss and frozenset((one, other)) not in excluded:
            losses[one, other] = loss
    return losses, clashes


def _tie(
    offer: Mapping[str, Item], closures: Mapping[str, tuple[str, ...]], pairs: Iterable[Pair]
) -> set[str]:
    tied = {name for pair in pairs for name in pair}
    for closure in closures.values():
        if len(closure) > 1:
            tied.update(closure)
    if tied:
        tied.update(name for name in closures if offer[name].memory)
    return tied


def _clip_budgets(
    offer: Mapping[str, Item], constraints: Constraints, options: Mapping[str, tuple[Option, ...]]
) -> tuple[int, int]:
    """Return budgets no larger than what all items could use: tables are as long as they are."""
    most = {name: max(option.tokens for option in group) for name, group in options.items()}
    budget = min(constraints.budget, sum(most.values()))
    memory = sum(tokens for name, tokens in most.items() if offer[name].memory)
    return budget, min(budget, constraints.memory_budget, memory)


def _refuse_overflow(
    options: Mapping[str, tuple[Option, ...]], losses: Mapping[Pair, int], ceiling: int, scale: int
) -> None:
    """Raise `ValueError` where weights, at a price of up to the ceiling a budget, could pass 64 bits."""
    utilities = sum(max(min(abs(option.weight), ceiling) for option in group) for group in options.values())
    tokens = sum(max(option.tokens for option in group) for group in options.values())
    if (utilities + 3 * sum(losses.values()) + ceiling * (1 + tokens // scale)) * scale > MOST_WEIGHT:
        raise ValueError(f"utilities of {ceiling / GRID:g} in all do not add up exactly; scale them down")


def _mask(names: Iterable[str], position: Mapping[str, int]) -> int:
    return sum(1 << position[name] for name in names)
