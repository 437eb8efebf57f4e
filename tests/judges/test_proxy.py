import json
import random
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cicl.engine import Engine
from cicl.selection.cards import ACTION_VERBS
from cicl.selection.evidence import SIGNALS
from cicl.selection.graph import InstanceGraph
from cicl.selection.records import (
    UNIT_KINDS,
    Candidate,
    ContextPack,
    ContextUnit,
    Evidence,
    Judgment,
    Task,
    UnitKind,
)
from cicl.testing import ScriptedJudge, make_instance
from cicl_judges.proxy import (
    CONCRETE,
    OF_ITS_FILE,
    RISKS,
    WARNINGS,
    Logistic,
    ProxyJudge,
    ProxyWeights,
    load_weights,
)

GOLDEN = Path(__file__).parent / "golden/proxy.json"
TASK = Task(text="fix it")
GRAPH = InstanceGraph.from_units([])


def weigh(bias: float, **weights: float) -> ProxyWeights:
    """Weights of the tests alone: they say what the policy does, not how the shipped ones were fitted."""
    certain = Logistic(30.0, {})
    return ProxyWeights(here=certain, file=Logistic(bias, weights), unit=certain)


WEIGHTS = weigh(-4.0, lexical=4.0, title_coverage=2.0, named=2.0, name_match=1.0, neighbour=0.5)
STRONG = {"named": 1.0, "name_match": 1.0, "title_coverage": 0.8, "lexical": 0.9, "irreplaceable": 0.9}
WEAK = {"lexical": 0.2, "lexical_rank": 0.2, "irreplaceable": 0.4}


def candidate(name: str, seen: dict[str, float], kind: UnitKind = "symbol", **metadata: Any) -> Candidate:
    unit = ContextUnit(
        id=f"src/a.py::{name}",
        kind=kind,
        source="src/a.py",
        content=name,
        metadata=MappingProxyType({"name": name, **metadata}),
    )
    return Candidate(unit, tuple(Evidence(key, seen[key], f"{key} of {name}") for key in sorted(seen)))


def judge(*candidates: Candidate, context: tuple[ContextUnit, ...] = ()) -> dict[str, Judgment]:
    answers = ProxyJudge(WEIGHTS).judge(TASK, candidates, context, GRAPH)
    assert all(isinstance(answer, Judgment) for answer in answers)
    return {
        item.unit.id.partition("::")[2]: answer
        for item, answer in zip(candidates, answers, strict=True)
        if isinstance(answer, Judgment)
    }


EVIDENCE = st.dictionaries(st.sampled_from(sorted(SIGNALS)), st.floats(0, 1, exclude_min=True))
CANDIDATES = st.lists(st.tuples(EVIDENCE, st.sampled_from(UNIT_KINDS)), max_size=8).map(
    lambda rows: [candidate(f"f{place}", seen, kind) for place, (seen, kind) in enumerate(rows)]  # type: ignore[arg-type]
)


@given(CANDIDATES, st.data())
def test_all_eight_fields_are_filled_whatever_was_seen(candidates: list[Candidate], data: Any) -> None:
    known = data.draw(st.lists(st.sampled_from(candidates)) if candidates else st.just([]))
    answers = judge(*candidates, context=tuple(item.unit for item in known))
    assert len(answers) == len(candidates)
    for answer in answers.values():  # a number outside [0, 1] could not be built
        for text in (answer.no_context_action, answer.with_context_action, answer.reason):
            assert text.strip()
        assert answer.with_context_action.split()[0] in ACTION_VERBS


@given(CANDIDATES, st.randoms(use_true_random=False))
def test_the_same_candidates_in_any_order_get_the_same_answers(
    candidates: list[Candidate], chance: random.Random
) -> None:
    shuffled = chance.sample(candidates, len(candidates))
    assert judge(*candidates) == judge(*candidates) == judge(*shuffled)


def test_more_evidence_shifts_more_and_promises_more() -> None:
    answers = judge(candidate("strong", STRONG), candidate("weak", WEAK))
    for field in ("action_shift", "necessity", "expected_outcome_uplift"):
        assert getattr(answers["strong"], field) > getattr(answers["weak"], field)
    assert answers["strong"].with_context_action == "edit `strong` in src/a.py"
    assert answers["weak"].with_context_action == "inspect `weak` in src/a.py"


def test_without_context_it_searches_or_opens_what_the_task_names() -> None:
    weak, named = candidate("weak", WEAK), candidate("named", STRONG)
    assert judge(weak)["weak"].no_context_action == "search the repository for the task's words"
    assert judge(weak, named)["weak"].no_context_action == "open src/a.py, which the task names"


def test_what_the_agent_has_leaves_less_to_shift() -> None:
    strong, other = candidate("strong", STRONG), candidate("other", {**STRONG, "named": 0.5})
    before = judge(strong, other)["other"]
    after = judge(strong, other, context=(strong.unit,))["other"]
    assert after.action_shift < before.action_shift
    assert after.no_context_action == "edit `strong` in src/a.py"
    assert after.expected_outcome_uplift == before.expected_outcome_uplift


def test_a_weak_unit_that_the_agent_has_leaves_nearly_all() -> None:
    weak, other = candidate("weak", WEAK), candidate("other", STRONG)
    before, after = judge(weak, other)["other"], judge(weak, other, context=(weak.unit,))["other"]
    assert 0.95 * before.action_shift < after.action_shift < before.action_shift


def test_what_the_agent_has_itself_changes_nothing() -> None:
    strong = candidate("strong", STRONG)
    answer = judge(strong, context=(strong.unit,))["strong"]
    assert answer.action_shift == 0.0
    assert answer.with_context_action == answer.no_context_action


def test_where_the_task_itself_sends_the_agent_there_is_less_to_shift() -> None:
    named = judge(candidate("f", {"lexical": 1.0, "title_coverage": 1.0, "named": 0.85}))["f"]
    unnamed = judge(candidate("f", {"lexical": 1.0, "title_coverage": 1.0, "named": 0.84}))["f"]
    assert named.action_shift < 0.7 * unnamed.action_shift


@pytest.mark.parametrize("cause", sorted(RISKS))
def test_each_cause_of_harm_raises_the_risk_and_lowers_the_uplift(cause: str) -> None:
    safe = {**STRONG, "named": 0.0}
    answers = judge(candidate("safe", safe), candidate("risky", {**safe, cause: 1.0}))
    assert answers["safe"].negative_transfer_risk == 0.0
    assert answers["risky"].negative_transfer_risk == pytest.approx(RISKS[cause])
    assert answers["risky"].expected_outcome_uplift < answers["safe"].expected_outcome_uplift
    assert answers["risky"].action_shift <= answers["safe"].action_shift


def test_causes_of_harm_add_up_below_one() -> None:
    seen = dict.fromkeys(RISKS, 1.0)
    answers = judge(candidate("all", seen), candidate("two", {"outdated": 1.0, "past_harm": 1.0}))
    assert answers["two"].negative_transfer_risk == pytest.approx(1 - 0.3 * 0.4)
    assert answers["two"].negative_transfer_risk < answers["all"].negative_transfer_risk < 1.0


def test_a_task_about_the_outdated_unit_itself_risks_less() -> None:
    asked = judge(candidate("f", {"outdated": 1.0, "named": 1.0}))["f"]
    found = judge(candidate("f", {"outdated": 1.0, "named": 0.5}))["f"]
    assert 0.0 < asked.negative_transfer_risk < found.negative_transfer_risk


def test_the_reason_is_the_evidence_that_moved_it_most_after_what_warns() -> None:
    assert judge(candidate("f", {"lexical": 0.5, "name_match": 1.0}))["f"].reason == "lexical of f"
    assert judge(candidate("f", {"lexical": 0.1, "name_match": 1.0}))["f"].reason == "name_match of f"
    assert judge(candidate("f", {"named": 1.0, "past_harm": 0.3}))["f"].reason == "past_harm of f"
    assert judge(candidate("f", {"file_lexical": 1.0, "lexical": 0.1}))["f"].reason == "lexical of f"
    assert judge(candidate("f", {"file_lexical": 1.0, "is_test": 1.0}))["f"].reason == "file_lexical of f"
    assert (
        judge(candidate("f", {"lexical_rank": 1.0, "is_prose": 1.0}))["f"].reason
        == "nothing concrete was seen"
    )


def test_without_weights_the_reason_is_the_most_concrete_evidence() -> None:
    seen = candidate("f", dict.fromkeys(CONCRETE, 1.0))
    (answer,) = ProxyJudge(weigh(0.0)).judge(TASK, [seen], (), GRAPH)
    assert answer.reason == "named of f"


@pytest.mark.parametrize(
    ("kind", "name", "metadata", "action"),
    [
        ("symbol", "<module>", {}, "inspect the top level of src/a.py"),
        ("symbol", "A.f", {}, "inspect `A.f` in src/a.py"),
        ("test", "TestA.test_f", {}, "run src/a.py::TestA::test_f"),
        ("test", "<module>", {}, "run src/a.py"),
        ("file", "", {"title": "src/a.py"}, "open src/a.py"),
        ("document", "", {"title": "Setup"}, "read src/a.py, Setup"),
        ("rule", "", {"title": "Never mock."}, "follow src/a.py, Never mock."),
        ("failure", "", {}, "avoid src/a.py"),
    ],
)
def test_the_action_is_that_of_the_unit(
    kind: UnitKind, name: str, metadata: dict[str, Any], action: str
) -> None:
    assert next(iter(judge(candidate(name, WEAK, kind, **metadata)).values())).with_context_action == action


def test_weights_are_an_argument_and_name_known_evidence_only() -> None:
    shipped = load_weights()
    assert set(shipped.told) <= set(SIGNALS)
    assert {*RISKS, *WARNINGS, *CONCRETE, *OF_ITS_FILE} <= set(SIGNALS)
    sure = weigh(9.0)
    (answer,) = ProxyJudge(sure).judge(TASK, [candidate("f", {})], (), GRAPH)
    assert isinstance(answer, Judgment)
    assert answer.expected_outcome_uplift > 0.99


# In a repository

REPOSITORY = {
    "shop/cart.py": '''\
"""The cart."""


def total_price(items):
    """Sum the price of every item, less its discount."""
    return sum(item.price - item.discount for item in items)


def empty_cart(items):
    items.clear()
''',
    "shop/legacy.py": """\
import warnings


def total_price_v1(items):
    warnings.warn("use total_price", DeprecationWarning)
    return sum(item.price for item in items)
""",
    "shop/prices_pb2.py": """\
# Generated by the protocol buffer compiler.  DO NOT EDIT!
def total_price_message(items):
    return ("total", "price", "discount", items)
""",
    "tests/test_cart.py": """\
from shop.cart import total_price


def test_total_price_subtracts_the_discount():
    assert total_price([]) == 0
""",
    "docs/prices.md": "# Prices\n\nThe total price of a cart is the sum of its items less every discount.\n",
    "AGENTS.md": "- Never round in total_price; round when printing.\n",
}
PRICE_TASK = "total price of a cart ignores the discount of an item"
TOTAL, LEGACY = "shop/cart.py::total_price", "shop/legacy.py::total_price_v1"
GENERATED, TEST = (
    "shop/prices_pb2.py::total_price_message",
    "tests/test_cart.py::test_total_price_subtracts_the_discount",
)


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with make_instance(REPOSITORY) as made:
        yield made


def judged(pack: ContextPack, unit_id: str) -> Judgment:
    answer = pack.judgments[unit_id]
    assert isinstance(answer, Judgment)
    return answer


def test_the_code_that_does_it_is_worth_more_than_what_is_outdated_generated_or_a_test(
    engine: Engine,
) -> None:
    pack = engine.select(PRICE_TASK, judge="proxy")
    best = judged(pack, TOTAL)
    assert best.negative_transfer_risk == 0.0
    for unit_id in (LEGACY, GENERATED, TEST):
        other = judged(pack, unit_id)
        assert other.negative_transfer_risk > 0.0, unit_id
        assert pack.utilities[TOTAL].total > pack.utilities[unit_id].total, unit_id


def test_the_reason_names_a_line_a_word_or_a_unit(engine: Engine) -> None:
    pack = engine.select(PRICE_TASK, judge="proxy")
    assert judged(pack, LEGACY).reason.startswith("line 5: ")
    assert "`" in judged(pack, TOTAL).reason or "test_cart" in judged(pack, TOTAL).reason
    named = judged(engine.select(f"shop.cart.total_price: {PRICE_TASK}"), TOTAL)
    assert named.reason == "the task names it: `shop.cart.total_price`"


def test_a_unit_delivered_before_shifts_nothing_and_leaves_others_less(engine: Engine) -> None:
    fresh = engine.select(PRICE_TASK)
    again = engine.select(Task(text=PRICE_TASK, already_delivered=(TOTAL,)))
    assert judged(again, TOTAL).action_shift == 0.0
    assert judged(again, TEST).action_shift < judged(fresh, TEST).action_shift


def test_necessity_falls_when_another_unit_says_the_same() -> None:
    def necessity(files: dict[str, str]) -> float:
        with make_instance(files) as engine:
            return judged(engine.select(PRICE_TASK), TOTAL).necessity

    only = {"shop/cart.py": REPOSITORY["shop/cart.py"]}
    twin = {"shop/basket.py": only["shop/cart.py"].replace("total_price", "total_price_of_cart")}
    assert necessity({**only, **twin}) < necessity(only)


WORTH = ("action_shift", "expected_outcome_uplift")


def test_a_failed_run_that_acted_on_a_unit_raises_its_risk() -> None:
    with make_instance(REPOSITORY) as engine:
        delivered = engine.select(PRICE_TASK, judge=ScriptedJudge({TOTAL: dict.fromkeys(WORTH, 0.9)}))
        before = engine.select(PRICE_TASK)
        engine.record(delivered.receipt, actions=[f"edit {TOTAL}"], outcome="failed")
        after = engine.select(PRICE_TASK)
    assert "past_harm" in {item.name for item in _candidate(after, TOTAL).evidence}
    assert judged(after, TOTAL).negative_transfer_risk > judged(before, TOTAL).negative_transfer_risk


def _candidate(pack: ContextPack, unit_id: str) -> Candidate:
    return next(item for item in pack.candidates if item.unit.id == unit_id)


def test_evidence_holds_plain_numbers(engine: Engine) -> None:
    """A numpy number would show in every reason for a difference, and in no JSON."""
    for item in engine.select(PRICE_TASK).candidates:
        assert all(type(seen.value) is float for seen in item.evidence)


def test_the_golden_judgments_stand(engine: Engine, assert_golden: Any) -> None:
    tasks = (PRICE_TASK, "Fix `total_price` in shop/cart.py", "remove the deprecated total_price_v1")
    shown = {
        task: {key: asdict(judged(pack, key)) for key in pack.judgments}
        for task in tasks
        if (pack := engine.select(task))
    }
    assert_golden(GOLDEN, json.dumps(shown, ensure_ascii=False, indent=1) + "\n")
