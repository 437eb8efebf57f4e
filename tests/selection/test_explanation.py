import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from cicl.selection.explanation import explain, to_data
from cicl.selection.records import (
    Candidate,
    ContextPack,
    ContextUnit,
    Dropped,
    Evidence,
    Judgment,
    Skipped,
    Task,
    Unjudged,
    UtilityTerms,
)
from cicl.testing import ScriptedJudge
from cicl.testing.fixtures import InstanceFactory

Golden = Callable[[Path, str], None]
GOLDEN = Path(__file__).parent / "golden"
FILES = {
    "shop/cart.py": (
        "from shop.tax import add_tax\n\n\n"
        "def total(prices, country):\n"
        '    """Return what a cart costs, tax included."""\n'
        "    return add_tax(sum(prices), country)\n"
    ),
    "shop/tax.py": (
        "RATES = {'de': 0.19, 'fr': 0.2}\n\n\n"
        "def add_tax(price, country):\n"
        "    return price * (1 + RATES[country])\n"
    ),
    "tests/test_cart.py": (
        "from shop.cart import total\n\n\ndef test_total():\n    assert total([1, 2], 'de') == 3.57\n"
    ),
    "AGENTS.md": "# Rules\n\n- Round every price to cents\n- Run the tests before a commit\n",
    "logo.png": b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4,
}
TASK = "the total of a cart is not rounded to cents when tax is added"
STRONG = {"action_shift": 0.8, "necessity": 0.6, "expected_outcome_uplift": 0.7}
SCRIPT = {
    "shop/cart.py::total": STRONG,
    "AGENTS.md::round-every-price-to-cents": {"action_shift": 0.5, "expected_outcome_uplift": 0.6},
    "shop/tax.py::add_tax": {**STRONG, "negative_transfer_risk": 0.9},
    "tests/test_cart.py::test_total": Unjudged("timeout"),
}
KEYS = [
    "task",
    "budget",
    "tokens",
    "encoding",
    "exact",
    "utility",
    "utility_bound",
    "cards",
    "judgments",
    "evidence",
    "dropped",
    "skipped_files",
    "notes",
    "text",
    "receipt",
]
CARD_KEYS = [
    "unit_id",
    "kind",
    "trigger",
    "evidence",
    "action",
    "consequence",
    "scope",
    "causal_score",
    "tokens",
    "span",
]


@pytest.fixture
def pack(cicl_instance: InstanceFactory) -> ContextPack:
    judge = ScriptedJudge(SCRIPT, default={"action_shift": 0.1})
    return cicl_instance(FILES).select(TASK, budget=400, judge=judge)


def made_up(**fields: object) -> ContextPack:
    unit = ContextUnit(id="a\nb.py", kind="file", source="a\nb.py", content="x", token_cost=7)
    evidence = (Evidence("lexical", 0.5, "holds\x1b[31m `x`"), Evidence("task_known", 1.0, "all known"))
    values: dict[str, object] = {
        "task": Task(text="x"),
        "cards": (),
        "text": "",
        "budget": 10,
        "tokens": 0,
        "encoding": "gpt2",
        "exact": False,
        "utility": 0.996,
        "utility_bound": 1.0,
        "candidates": (Candidate(unit, evidence),),
        "judgments": {unit.id: Unjudged("no answer")},
        "utilities": {},
        "dropped": (Dropped(unit.id, "not judged: no\nanswer"),),
        "skipped_files": (Skipped("c\r.bin", "binary"), Skipped("d", "gone"), Skipped("e", "gone")),
        "notes": ("one\nnote",),
        "receipt": "0123456789abcdef",
    }
    return ContextPack(**{**values, **fields})  # type: ignore[arg-type]


def test_the_table_reads_like_this(pack: ContextPack, assert_golden: Golden) -> None:
    assert_golden(GOLDEN / "explanation.txt", explain(replace(pack, receipt="0" * 32)))


def test_the_text_reads_like_this(pack: ContextPack, assert_golden: Golden) -> None:
    assert_golden(GOLDEN / "pack.txt", pack.text)


def test_every_unit_in_the_pack_is_explained_by_its_evidence(pack: ContextPack) -> None:
    shown = explain(pack)
    assert pack.cards
    for card in pack.cards:
        block = shown.partition(f"\n  {card.unit_id}\n")[2].partition("\n\n")[0]
        candidate = next(item for item in pack.candidates if item.unit.id == card.unit_id)
        assert re.findall(r"^    (\w+) ", block, re.MULTILINE)[0] in {
            item.name for item in candidate.evidence
        }


def test_what_holds_of_every_unit_is_not_shown_as_the_reason() -> None:
    candidate = made_up().candidates[0]
    shown = explain(made_up(cards=(), candidates=(candidate,)))
    assert "task_known" not in shown.partition("left out")[0]


def test_what_is_left_out_stands_with_its_reason(pack: ContextPack) -> None:
    shown = explain(pack)
    assert "not judged: timeout" in shown
    assert "it may mislead: risk 0.90 against an expected uplift of 0.70" in shown
    assert f"left out ({len(pack.dropped)}):" in shown


def test_no_more_than_a_dozen_of_what_is_left_out_is_shown_and_the_rest_is_counted() -> None:
    units = [ContextUnit(id=f"u{number}", kind="file", source="u", content="") for number in range(20)]
    pack = made_up(
        candidates=tuple(map(Candidate, units)),
        dropped=tuple(Dropped(unit.id, "no room left") for unit in units),
        utilities={unit.id: UtilityTerms(0.1, 0, 0, -0.0, 0) for unit in units},
    )
    shown = explain(pack)
    assert shown.count("no room left") == 12
    assert "and 8 more; --json has them all" in shown
    assert "-0.000" not in shown


def test_the_share_of_the_best_possible_is_never_rounded_up() -> None:
    assert "at least 99% of the best possible 1.000" in explain(made_up())
    assert "at least 100%" in explain(made_up(utility=1.0))
    assert "at least 100%" in explain(made_up(utility=0.0, utility_bound=0.0))


def test_a_count_that_is_a_bound_is_called_one() -> None:
    assert "(bytes, a bound for gpt2)" in explain(made_up())
    assert "(gpt2)" in explain(made_up(exact=True))


def test_foreign_text_begins_no_line_and_drives_no_terminal() -> None:
    shown = explain(made_up())
    assert "\x1b" not in shown
    assert "\r" not in shown
    assert "a b.py: not judged: no answer" in shown
    assert "note: one note" in shown
    assert "not read: 3, among them c .bin (binary), d (gone)" in shown
    assert len(shown.splitlines()) == shown.count("\n")


def test_the_table_of_an_empty_pack_is_short() -> None:
    bare = made_up(candidates=(), dropped=(), skipped_files=(), notes=(), utility=0.0, utility_bound=0.0)
    assert explain(bare).count("\n") == 1


def test_the_data_has_the_documented_keys_in_their_order(pack: ContextPack) -> None:
    data = to_data(pack)
    assert list(data) == KEYS
    assert [list(card) for card in data["cards"]] == [CARD_KEYS] * len(pack.cards)
    page = Path(__file__).parents[2].joinpath("docs/cli.md").read_text("utf-8")
    described = page.partition("The object has")[2].partition("every\noutput format")[0]
    assert set(re.findall(r"`(\w+)`", described)) - {"unjudged"} == {*KEYS, *CARD_KEYS}


def test_the_data_is_the_pack(pack: ContextPack) -> None:
    data = json.loads(json.dumps(to_data(pack)))
    assert data["text"] == pack.text
    assert [card["unit_id"] for card in data["cards"]] == [card.unit_id for card in pack.cards]
    assert data["cards"][0]["span"] == list(pack.cards[0].span or ())
    assert data["dropped"] == [item._asdict() for item in pack.dropped]
    assert {item["path"] for item in data["skipped_files"]} == {"logo.png"}
    assert data["judgments"]["tests/test_cart.py::test_total"] == {"unjudged": "timeout"}
    judged = [answer for answer in pack.judgments.values() if isinstance(answer, Judgment)]
    assert judged
    for unit_id, answer in pack.judgments.items():
        if isinstance(answer, Judgment):
            assert Judgment(**data["judgments"][unit_id]) == answer
    assert set(data["evidence"]) == set(data["judgments"])
