"""What is on offer to a pack, and what a choice keeps to."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

__all__ = ["Constraints", "Item", "Rendering", "check_constraints", "collect_items"]

MOST_RENDERINGS = 250
"""Of one item; the tables keep a choice in a byte."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendering:
    """One way to show an item; its position in the item's tuple is its identity."""

    tokens: int
    """What it adds to the pack's text, exactly."""
    utility: float
    """What the item is worth when it is shown this way: any finite number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """Something that could enter the pack."""

    unit_id: str
    renderings: tuple[Rendering, ...]
    """At least one. Of two that cost and are worth the same the first is taken."""
    memory: bool = False
    """Whether its tokens count against the memory budget as well."""
    requires: tuple[str, ...] = ()
    """Unit ids that have to be chosen with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraints:
    """What a choice keeps to. A pair has no order, and is ignored while one of the two is not on offer."""

    budget: int
    memory_budget: int
    exclusive: tuple[tuple[str, str], ...] = ()
    redundancy: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """What the two are worth less when both are chosen: at least 0."""


def collect_items(items: Iterable[Item]) -> dict[str, Item]:
    """Return the items by unit id, sorted, after looking at each of them."""
    offer: dict[str, Item] = {}
    for item in items:
        if item.unit_id in offer:
            raise ValueError(f"{item.unit_id} is offered twice; give each item once, with all its renderings")
        if not item.renderings:
            raise ValueError(f"{item.unit_id} has no rendering; leave it out, or offer at least one")
        if len(item.renderings) > MOST_RENDERINGS:
            raise ValueError(f"{item.unit_id} has more than {MOST_RENDERINGS} renderings; offer fewer")
        for rendering in item.renderings:
            if rendering.tokens < 0:
                raise ValueError(f"{item.unit_id} takes {rendering.tokens} tokens; count them, from 0 up")
            if not math.isfinite(rendering.utility):
                raise ValueError(f"{item.unit_id} has utility {rendering.utility}; leave out what has none")
        offer[item.unit_id] = item
    return dict(sorted(offer.items()))


def check_constraints(constraints: Constraints) -> None:
    """Raise `ValueError` for budgets and pairs that mean nothing."""
    if constraints.budget < 0 or constraints.memory_budget < 0:
        raise ValueError(
            f"the budgets are {constraints.budget} and {constraints.memory_budget} tokens; use 0 for nothing"
        )
    for one, other in (*constraints.exclusive, *constraints.redundancy):
        if one == other:
            raise ValueError(f"{one} is paired with itself; pair different units")
    for (one, other), loss in constraints.redundancy.items():
        if not 0 <= loss < math.inf:
            raise ValueError(f"the redundancy of {one} and {other} is {loss}; it is finite and at least 0")
        if (other, one) in constraints.redundancy:
            raise ValueError(f"the redundancy of {one} and {other} is given twice; give it in one order")
