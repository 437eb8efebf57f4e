import itertools
import os
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cicl.selection.knapsack.branching import branch
from cicl.selection.knapsack.drafting import draft_problem
from cicl.selection.knapsack.exchange import exchange
from cicl.selection.knapsack.offer import collect_items
from cicl.selection.knapsack.problem import OUT, Problem
from cicl.selection.knapsack.relaxation import relax
from cicl.selection.packing import EXHAUSTIVE, Constraints, Item, Packing, Rendering, pack

GRID = 10**9
SETS = 40_000
"""Most sets that the brute force lists."""


def item(unit_id: str, *renderings: tuple[int, float], memory: bool = False, requires: str = "") -> Item:
    return Item(
        unit_id=unit_id,
        renderings=tuple(Rendering(tokens=tokens, utility=utility) for tokens, utility in renderings),
        memory=memory,
        requires=tuple(requires.split()),
    )


def limits(
    budget: int = 100,
    memory_budget: int = 100,
    *,
    exclusive: Sequence[tuple[str, str]] = (),
    redundancy: dict[tuple[str, str], float] | None = None,
) -> Constraints:
    return Constraints(
        budget=budget, memory_budget=memory_budget, exclusive=tuple(exclusive), redundancy=redundancy or {}
    )


def ids(packing: Packing) -> list[str]:
    return [unit_id for unit_id, _ in packing.chosen]


def steps(value: float) -> int:
    return round(value * GRID)


# The oracle: every set, listed.


def brute_force(items: Sequence[Item], constraints: Constraints) -> tuple[float, int]:
    """Return the optimum and the fewest tokens that reach it."""
    place = {each.unit_id: position for position, each in enumerate(items)}
    values, tokens, memory, holds = (np.zeros(1, dtype=np.int64) for _ in range(4))
    for position, each in enumerate(items):
        ways = [(0, 0, 0), *((r.tokens, steps(r.utility), 1 << position) for r in each.renderings)]
        tokens = np.concatenate([tokens + way[0] for way in ways])
        values = np.concatenate([values + way[1] for way in ways])
        memory = np.concatenate([memory + way[0] * each.memory for way in ways])
        holds = np.concatenate([holds | way[2] for way in ways])
    fits = (tokens <= constraints.budget) & (memory <= constraints.memory_budget)
    for one, other in constraints.exclusive:
        if one in place and other in place:
            fits &= ~((holds >> place[one] & 1) & (holds >> place[other] & 1)).astype(bool)
    for each in items:
        for required in each.requires:
            there = holds >> place[required] & 1 if required in place else 0
            fits &= ((holds >> place[each.unit_id] & 1) <= there).astype(bool)
    for (one, other), loss in constraints.redundancy.items():
        if one in place and other in place:
            values -= steps(loss) * (holds >> place[one] & 1) * (holds >> place[other] & 1)
    best = values[fits].max()
    return best / GRID, int(tokens[fits & (values == best)].min())


def check(packing: Packing, items: Sequence[Item], constraints: Constraints) -> int:
    """Assert that a packing is what it says it is; return its tokens."""
    offer = {each.unit_id: each for each in items}
    shown = {unit_id: offer[unit_id].renderings[position] for unit_id, position in packing.chosen}
    tokens = sum(rendering.tokens for rendering in shown.values())
    value = sum(steps(rendering.utility) for rendering in shown.values())
    for (one, other), loss in constraints.redundancy.items():
        value -= steps(loss) if one in shown and other in shown else 0
    assert tokens <= constraints.budget
    assert sum(shown[name].tokens for name in shown if offer[name].memory) <= constraints.memory_budget
    assert not any(one in shown and other in shown for one, other in constraints.exclusive)
    assert all(required in shown for name in shown for required in offer[name].requires)
    assert packing.value == value / GRID
    assert 0 <= packing.value <= packing.bound
    assert sorted([*shown, *packing.dropped]) == sorted(offer)
    assert list(packing.chosen) == sorted(packing.chosen)
    assert list(packing.dropped) == sorted(packing.dropped)
    assert all(packing.dropped.values())
    return tokens


def check_picks(problem: Problem, picks: Sequence[int], weight: int) -> None:
    taken = {each: problem.options[each][pick] for each, pick in enumerate(picks) if pick != OUT}
    mask = sum(1 << each for each in taken)
    lost = 0
    for each in taken:
        if each < problem.tied:
            assert not problem.clashes[each] & mask
            assert not problem.needs[each] & ~mask
            lost += sum(loss for other, loss in problem.overlaps[each].items() if mask >> other & 1)
    assert sum(option.tokens for option in taken.values()) <= problem.budget
    assert sum(taken[each].tokens for each in taken if problem.memory[each]) <= problem.memory_budget
    assert sum(option.weight for option in taken.values()) - lost // 2 == weight


# Instances.

UTILITIES = st.one_of(st.integers(-3, 9).map(lambda tenths: tenths / 10), st.floats(-0.25, 0.75, width=32))
LOSSES = st.one_of(st.sampled_from([0.0, 0.1, 0.2, 5.0]), st.floats(0, 0.5, width=32))


@st.composite
def offers(
    draw: st.DrawFn, least: int = 0, most: int = 12, joined: bool = True
) -> tuple[list[Item], Constraints]:
    """Items u0, u1, ... with every kind of constraint, few enough sets to list them all."""
    count = draw(st.integers(least, most))
    names = [f"u{position:02}" for position in range(count)]
    items, sets = [], 1
    for position, name in enumerate(names):
        room = SETS // (sets * 2 ** (count - position - 1)) - 1
        shown = draw(st.integers(1, max(1, min(3, room))))
        sets *= shown + 1
        renderings = [(draw(st.integers(0, 12)), draw(UTILITIES)) for _ in range(shown)]
        wanted = draw(st.lists(st.sampled_from([*names, "absent"]), max_size=2)) if joined else []
        requires = " ".join(wanted) if draw(st.integers(0, 3)) == 0 else ""
        items.append(item(name, *renderings, memory=draw(st.integers(0, 3)) == 0, requires=requires))
    pairs = list(itertools.combinations([*names, "elsewhere"], 2)) if joined and count > 1 else []
    picked = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=2 * count)) if pairs else []
    split = draw(st.integers(0, len(picked)))
    constraints = limits(
        draw(st.integers(0, 60)),
        draw(st.integers(0, 20)),
        exclusive=picked[: split // 2],
        redundancy={pair: draw(LOSSES) for pair in picked[split // 2 :]},
    )
    return items, constraints


def realistic(
    seed: int, *, count: int, budget: int, conflicts: int, overlaps: int
) -> tuple[list[Item], Constraints]:
    """Return cards of a few files: a full and a lean rendering, pairs mostly inside a file."""
    dice = random.Random(seed)
    files = [dice.randrange(count // 5) for _ in range(count)]
    items = []
    for position in range(count):
        utility = 0.02 + 0.8 * dice.betavariate(1.2, 3.5) if dice.random() > 0.15 else -0.1
        full, lean = 60 + int(dice.lognormvariate(5.5, 0.6)), dice.randint(70, 130)
        renderings = [(full, utility), (lean, utility - 0.2 * dice.random() * abs(utility))]
        items.append(
            item(
                f"src/{files[position]}.py::f{position}",
                *renderings[: 1 + (lean < full)],
                memory=dice.random() < 0.1,
                requires=items[dice.randrange(position)].unit_id if position and dice.random() < 0.1 else "",
            )
        )
    near = [p for p in itertools.combinations(range(count), 2) if files[p[0]] == files[p[1]]]
    far = dice.sample(list(itertools.combinations(range(count), 2)), conflicts + overlaps)
    pairs = dict.fromkeys(dice.sample(near, min(len(near), (conflicts + overlaps) * 2 // 3)) + far)
    named = [(items[one].unit_id, items[other].unit_id) for one, other in pairs][: conflicts + overlaps]
    dice.shuffle(named)
    redundancy = {pair: 0.3 * dice.random() for pair in named[conflicts:]}
    return items, limits(budget, budget // 4, exclusive=named[:conflicts], redundancy=redundancy)


def greedy(items: Sequence[Item], constraints: Constraints) -> float:
    """Return what taking the densest item that is allowed and adds something comes to."""
    offer = sorted(items, key=lambda each: -each.renderings[0].utility / each.renderings[0].tokens)
    taken: dict[str, float] = {}
    left, memory_left = constraints.budget, constraints.memory_budget
    losses = constraints.redundancy | {(b, a): loss for (a, b), loss in constraints.redundancy.items()}
    barred = set(constraints.exclusive) | {(b, a) for a, b in constraints.exclusive}
    for each in offer:
        shown = each.renderings[0]
        adds = shown.utility - sum(losses.get((each.unit_id, other), 0) for other in taken)
        fits = shown.tokens <= left and (not each.memory or shown.tokens <= memory_left)
        allowed = all(name in taken for name in each.requires)
        if adds > 0 and fits and allowed and not any((each.unit_id, other) in barred for other in taken):
            taken[each.unit_id] = adds
            left -= shown.tokens
            memory_left -= shown.tokens * each.memory
    return sum(taken.values())


# What the packer promises.


@given(offers())
@settings(deadline=None, max_examples=150)
def test_up_to_twelve_items_reach_the_brute_force_optimum(case: tuple[list[Item], Constraints]) -> None:
    items, constraints = case
    packing = pack(items, constraints)
    tokens = check(packing, items, constraints)
    assert (packing.value, tokens) == brute_force(items, constraints)
    assert packing.optimal
    assert packing.bound == packing.value


@given(offers(least=6, joined=False))
@settings(deadline=None, max_examples=60)
def test_items_that_touch_no_other_reach_the_optimum_under_both_budgets(
    case: tuple[list[Item], Constraints],
) -> None:
    items, constraints = case
    packing = pack(items, constraints)
    tokens = check(packing, items, constraints)
    assert (packing.value, tokens) == brute_force(items, constraints)
    assert packing.bound == packing.value


@given(offers(least=EXHAUSTIVE + 1, most=EXHAUSTIVE + 2))
@settings(deadline=None, max_examples=60)
def test_beyond_the_threshold_the_optimum_lies_between_value_and_bound(
    case: tuple[list[Item], Constraints],
) -> None:
    items, constraints = case
    ring = {(one.unit_id, other.unit_id): 0.05 for one, other in itertools.pairwise(items)}
    constraints = replace(constraints, exclusive=(), redundancy=ring)
    items = [
        replace(each, renderings=tuple(replace(r, utility=abs(r.utility) + 0.1) for r in each.renderings))
        for each in items
    ]
    packing = pack(items, constraints)
    check(packing, items, constraints)
    optimum, _ = brute_force(items, constraints)
    assert packing.value <= optimum <= packing.bound
    assert not packing.optimal or packing.value == optimum


@given(offers(least=2))
@settings(deadline=None, max_examples=150)
def test_the_means_for_many_tied_items_hold_for_few_as_well(case: tuple[list[Item], Constraints]) -> None:
    items, constraints = case
    problem = draft_problem(collect_items(items), constraints).problem
    assume(problem.tied)
    optimum = steps(brute_force(items, constraints)[0])
    relaxation = relax(problem)
    weight, picks = exchange(problem, relaxation.price * problem.scale)
    found = branch(problem, relaxation, weight, patience=SETS)
    assert problem.worth(weight) <= optimum <= relaxation.bound
    assert found.complete
    assert problem.worth(found.weight) == optimum
    for chosen, heavy in ((picks, weight), (found.picks, found.weight)):
        assert chosen is not None
        check_picks(problem, chosen, heavy)


@given(offers(least=1, most=18), st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=60)
def test_one_more_candidate_never_lowers_the_bound(
    case: tuple[list[Item], Constraints], dice: random.Random
) -> None:
    items, constraints = case
    dice.shuffle(items)
    bounds = [pack(items[:count], constraints).bound for count in range(len(items) + 1)]
    assert bounds == sorted(bounds)


@pytest.mark.parametrize("seed", range(3))
def test_the_bound_grows_from_proof_to_relaxation(seed: int) -> None:
    items, constraints = realistic(seed, count=40, budget=1_500, conflicts=20, overlaps=60)
    bounds = [pack(items[:count], constraints).bound for count in range(41)]
    assert bounds == sorted(bounds)
    assert bounds[-1] > bounds[8] > 0


@given(offers(most=16), st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=60)
def test_the_order_of_the_items_and_of_the_pairs_changes_nothing(
    case: tuple[list[Item], Constraints], dice: random.Random
) -> None:
    items, constraints = case
    before = pack(items, constraints)
    dice.shuffle(items)
    exclusive = [dice.choice([(one, other), (other, one)]) for one, other in constraints.exclusive]
    losses = [dice.choice([(a, b, loss), (b, a, loss)]) for (a, b), loss in constraints.redundancy.items()]
    dice.shuffle(exclusive)
    dice.shuffle(losses)
    turned = replace(
        constraints,
        exclusive=tuple(exclusive),
        redundancy={(one, other): loss for one, other, loss in losses},
    )
    assert pack(items, turned) == before


@given(offers(), st.integers(0, 20), st.integers(0, 20))
@settings(deadline=None, max_examples=60)
def test_larger_budgets_never_lower_the_value(
    case: tuple[list[Item], Constraints], more: int, more_memory: int
) -> None:
    items, constraints = case
    wider = replace(
        constraints,
        budget=constraints.budget + more,
        memory_budget=constraints.memory_budget + more_memory,
    )
    assert pack(items, wider).value >= pack(items, constraints).value


@given(offers(), st.floats(0, 0.5, width=32))
@settings(deadline=None, max_examples=30)
def test_values_are_read_to_nine_decimals(case: tuple[list[Item], Constraints], noise: float) -> None:
    items, constraints = case
    blurred = [
        replace(
            each,
            renderings=tuple(
                replace(r, utility=(steps(r.utility) + noise * 0.9) / GRID) for r in each.renderings
            ),
        )
        for each in items
    ]
    exact = [
        replace(each, renderings=tuple(replace(r, utility=steps(r.utility) / GRID) for r in each.renderings))
        for each in items
    ]
    assert pack(blurred, constraints) == pack(exact, constraints)


def test_the_hash_seed_changes_nothing() -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import test_packing as t\n"
        "print([t.pack(*t.realistic(s, count=50, budget=2000, conflicts=20, overlaps=80)) for s in (1, 2)])"
    )
    command = [sys.executable, "-c", code, os.path.dirname(__file__)]
    shown = {
        subprocess.run(
            command, env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("0", "1")
    }
    assert len(shown) == 1
    assert "chosen=" in shown.pop()


# Large instances.


@pytest.mark.parametrize("seed", range(4))
def test_a_hundred_tied_items_are_packed_better_than_by_density(seed: int) -> None:
    items, constraints = realistic(seed, count=100, budget=8_000, conflicts=60, overlaps=300)
    start = time.process_time()
    packing = pack(items, constraints)
    assert time.process_time() - start < 0.3
    check(packing, items, constraints)
    assert packing.value >= greedy(items, constraints)
    assert packing.value >= 0.85 * packing.bound


@pytest.mark.parametrize("seed", range(4))
def test_eighty_items_with_some_ties_are_proved(seed: int) -> None:
    items, constraints = realistic(seed, count=80, budget=4_000, conflicts=20, overlaps=40)
    packing = pack(items, constraints)
    check(packing, items, constraints)
    assert packing.optimal
    assert packing.value >= 0.98 * packing.bound


def test_tables_take_a_large_budget() -> None:
    items, constraints = realistic(1, count=120, budget=32_000, conflicts=0, overlaps=0)
    items = [replace(each, requires=()) for each in items]
    constraints = replace(constraints, budget=20_000)
    fastest = float("inf")
    for _ in range(3):
        start = time.process_time()
        packing = pack(items, constraints)
        fastest = min(fastest, time.process_time() - start)
    check(packing, items, constraints)
    assert packing.optimal
    assert fastest < 0.05


# Small cases, said in words.


@pytest.mark.parametrize(
    ("items", "constraints"),
    [
        ([], limits()),
        ([item("a", (5, 0.5))], limits(0)),
        ([item("a", (5, 0.5))], limits(4)),
        ([item("a", (5, 0.5), memory=True)], limits(5, 4)),
        ([item("a", (5, 0.0)), item("b", (5, -0.2))], limits()),
        ([item("a", (5, 0.5), requires="b")], limits()),
        ([item("a", (5, 0.5), requires="b"), item("b", (5, -0.6))], limits()),
        ([item("a", (5, 0.5), requires="b"), item("b", (5, -0.1))], limits(9)),
        ([item("a", (5, 0.5), requires="b"), item("b", (5, 0.0))], limits(exclusive=[("b", "a")])),
    ],
)
def test_nothing_is_chosen_where_nothing_can_be_or_is_worth_it(
    items: list[Item], constraints: Constraints
) -> None:
    packing = pack(items, constraints)
    assert (packing.chosen, packing.value, packing.bound, packing.optimal) == ((), 0.0, 0.0, True)
    assert list(packing.dropped) == [each.unit_id for each in items]


@pytest.mark.parametrize(
    ("items", "constraints", "chosen"),
    [
        # the lean rendering makes room
        ([item("a", (80, 0.9), (40, 0.8)), item("b", (60, 0.5))], limits(), (("a", 1), ("b", 0))),
        # an item without tokens fits a budget of none
        ([item("a", (0, 0.1))], limits(0), (("a", 0),)),
        # what adds nothing comes in with what requires it
        ([item("a", (5, 0.5), requires="b"), item("b", (5, -0.1))], limits(), (("a", 0), ("b", 0))),
        # all of a cycle
        (
            [
                item("a", (5, 0.5), requires="b"),
                item("b", (5, -0.1), requires="c"),
                item("c", (5, 0), requires="a"),
            ],
            limits(15),
            (("a", 0), ("b", 0), ("c", 0)),
        ),
        # an item that requires itself
        ([item("a", (5, 0.5), requires="a")], limits(), (("a", 0),)),
        # the memory budget binds before the budget does
        (
            [item("m1", (30, 0.5), memory=True), item("m2", (30, 0.6), memory=True), item("p", (40, 0.1))],
            limits(100, 50),
            (("m2", 0), ("p", 0)),
        ),
        # two that repeat each other are still worth more than one
        (
            [item("a", (5, 0.5)), item("b", (5, 0.4))],
            limits(redundancy={("b", "a"): 0.3}),
            (("a", 0), ("b", 0)),
        ),
        # an unlimited redundancy is a conflict
        ([item("a", (5, 0.5)), item("b", (5, 0.4))], limits(redundancy={("a", "b"): 1e6}), (("a", 0),)),
        # ties: fewer tokens, then smaller ids, then the earlier rendering
        ([item("a", (6, 0.5)), item("b", (5, 0.5))], limits(6), (("b", 0),)),
        ([item("b", (5, 0.5)), item("a", (5, 0.5))], limits(9), (("a", 0),)),
        ([item("b", (5, 0.5)), item("a", (5, 0.5))], limits(exclusive=[("b", "a")]), (("a", 0),)),
        ([item("b", (5, 0.5), memory=True), item("a", (5, 0.5))], limits(9), (("a", 0),)),
        (
            [item("a", (5, 0.5)), item("b", (5, 0.5), memory=True), item("c", (5, 0.5))],
            limits(10),
            (("a", 0), ("b", 0)),
        ),
        ([item("a", (6, 0.5), (5, 0.5), (5, 0.5))], limits(), (("a", 1),)),
    ],
)
def test_the_choice_is(
    items: list[Item], constraints: Constraints, chosen: tuple[tuple[str, int], ...]
) -> None:
    assert pack(items, constraints).chosen == chosen


def test_equal_sums_are_equal() -> None:
    items = [item(name, (1, 0.1)) for name in "abc"]
    assert pack(items, limits()).value == 0.3


@pytest.mark.parametrize(
    ("items", "constraints", "unit_id", "reason"),
    [
        ([item("a", (9, 1), (7, 1))], limits(5), "a", "over the budget alone: takes at least 7 tokens"),
        (
            [item("a", (7, 1), memory=True)],
            limits(9, 5),
            "a",
            "over the memory budget alone: takes at least 7 tokens",
        ),
        ([item("a", (5, -0.25))], limits(), "a", "adds nothing: its utility is -0.250"),
        ([item("a", (5, 1), requires="z")], limits(), "a", "requires z, which is not on offer"),
        (
            [item("a", (5, 1), requires="b"), item("b", (50, 1))],
            limits(20),
            "a",
            "requires b, which is over budget alone",
        ),
        (
            [item("a", (5, 1), requires="b"), item("b", (5, 1))],
            limits(exclusive=[("a", "b")]),
            "a",
            "requires b, which it conflicts with",
        ),
        (
            [item("a", (5, 1), requires="b c"), item("b", (5, 1)), item("c", (5, 1))],
            limits(exclusive=[("c", "b")]),
            "a",
            "requires b and c, which conflict",
        ),
        (
            [item("a", (5, 1), requires="b"), item("b", (6, 1))],
            limits(10),
            "a",
            "over the budget with all it requires: takes at least 11 tokens",
        ),
        (
            [item("a", (5, 1), requires="b"), item("b", (5, -2))],
            limits(),
            "a",
            "requires b, and together they are not worth their place",
        ),
        (
            [item("a", (5, 1), requires="b"), item("b", (5, -2))],
            limits(),
            "b",
            "adds nothing, and nothing chosen requires it",
        ),
        (
            [item("a", (5, 0.4)), item("b", (5, 0.6))],
            limits(exclusive=[("a", "b")]),
            "a",
            "conflicts with b, which is worth more",
        ),
        (
            [item("a", (5, 0.6)), item("b", (5, 0.5)), item("c", (5, 0.5), requires="b")],
            limits(exclusive=[("a", "b")]),
            "a",
            "conflicts with b, which goes better with the rest",
        ),
        (
            [item("a", (5, 0.4)), item("b", (5, 0.6))],
            limits(redundancy={("a", "b"): 0.4}),
            "a",
            "repeats b",
        ),
        (
            [item("a", (5, 0.4)), item("b", (6, 0.6))],
            limits(8),
            "a",
            "no room left: takes 5 tokens, 2 are left",
        ),
        (
            [item("a", (5, 0.4), memory=True), item("b", (6, 0.6), memory=True), item("c", (20, 0.1))],
            limits(90, 8),
            "a",
            "no room left for memory: takes 5 tokens, 2 are left",
        ),
    ],
)
def test_the_reason_is(items: list[Item], constraints: Constraints, unit_id: str, reason: str) -> None:
    assert pack(items, constraints).dropped[unit_id] == reason


@pytest.mark.parametrize(
    ("items", "constraints", "message"),
    [
        ([], limits(-1), "use 0"),
        ([], limits(5, -1), "use 0"),
        ([item("a", (1, 1)), item("a", (2, 1))], limits(), "a is offered twice"),
        ([item("a")], limits(), "no rendering"),
        ([item("a", *[(1, 1)] * 251)], limits(), "more than 250 renderings"),
        ([item("a", (-1, 1))], limits(), "-1 tokens"),
        ([item("a", (1, float("nan")))], limits(), "utility nan"),
        ([item("a", (1, float("inf")))], limits(), "utility inf"),
        ([item("a", (1, 1e9)), item("b", (100, 1e9))], limits(), "scale them down"),
        ([], limits(exclusive=[("a", "a")]), "paired with itself"),
        ([], limits(redundancy={("a", "b"): -0.1}), "at least 0"),
        ([], limits(redundancy={("a", "b"): float("nan")}), "at least 0"),
        ([], limits(redundancy={("a", "b"): 0.1, ("b", "a"): 0.1}), "given twice"),
    ],
)
def test_what_means_nothing_is_refused(items: list[Item], constraints: Constraints, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        pack(items, constraints)
