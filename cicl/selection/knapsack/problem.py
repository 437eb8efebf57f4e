"""The packing problem in whole numbers.

A utility is read to nine decimals, and the tokens it costs are subtracted in the last place:
``weight = utility * GRID * scale - tokens``, where `scale` exceeds any sum of tokens that fits.
So equal sets weigh the same in whatever order they are added up, the heaviest set is the cheapest of
the most useful ones, and a bound is a bound to the last digit.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["GRID", "OUT", "Option", "Picks", "Problem", "members"]

GRID = 10**9
"""Steps in one unit of utility. Judges give two or three digits; nine keep every sum exact in 64 bits."""

OUT = -1
"""The pick of an item that is not chosen."""

Picks = tuple[int, ...]
"""For every item the position of the option taken, or `OUT`."""


class Option(NamedTuple):
    """One way to show an item."""

    tokens: int
    weight: int
    rendering: int
    """Position among the renderings that the caller gave."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Items that could enter some pack. An item is a position; a set of items is a bit mask."""

    unit_ids: tuple[str, ...]
    """The tied items, then the free ones; each part sorted."""
    options: tuple[tuple[Option, ...], ...]
    """In the order of the renderings; none is beaten by another in both tokens and weight."""
    memory: tuple[bool, ...]
    tied: int
    """Items whose worth or right to be chosen depends on others; 0 where the problem is additive.

    Where there are any, the memory items are among them, so that free items share one budget only.
    """
    needs: tuple[int, ...]
    """By tied item: all that it requires, directly or not, itself included."""
    clashes: tuple[int, ...]
    """By tied item: what may not be chosen beside it."""
    overlaps: tuple[dict[int, int], ...]
    """By tied item: the weight lost when it is chosen together with another one."""
    budget: int
    memory_budget: int
    scale: int

    def worth(self, weight: int) -> int:
        """Return the utility, in steps of `GRID`, of the most useful set that weighs `weight`."""
        return -(-weight // self.scale)


def members(mask: int) -> Iterator[int]:
    """Yield the items of a set, lowest first."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest
