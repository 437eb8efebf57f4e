import re
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cicl.selection.cards import (
    ACTION_VERBS,
    COMPACT_LINES,
    ELISION,
    EXCERPT_LINES,
    MAX_LINE_CHARS,
    MIN_KEPT_EVIDENCE,
    RAW_LINES,
    Line,
    audit_card,
    excerpt,
    line_weights,
    make_card,
    numbered,
    own_text,
    place_of,
)
from cicl.selection.records import (
    UNIT_KINDS,
    Candidate,
    ContextUnit,
    Evidence,
    Judgment,
    MemoryCard,
    Span,
    UnitKind,
)
from cicl.testing import assert_card_complete
from cicl.text import TermSplitter

JUDGMENT = Judgment(
    no_context_action="search the repository",
    with_context_action="edit `f` in src/a.py",
    action_shift=0.5,
    necessity=0.5,
    expected_outcome_uplift=0.5,
    negative_transfer_risk=0.1,
    reason="the task names it",
    confidence=0.9,
)


def make_unit(
    content: str, *, start: int = 1, kind: UnitKind = "symbol", id: str = "src/a.py::f", **metadata: object
) -> ContextUnit:
    span = Span(start, start + content.count("\n"))
    return ContextUnit(id=id, kind=kind, source="src/a.py", content=content, span=span, metadata=metadata)


def card_of(
    unit: ContextUnit, *evidence: Evidence, weights: Sequence[float] = (), action: str = "edit `f`"
) -> MemoryCard:
    judgment = replace(JUDGMENT, with_context_action=action)
    weights = weights or [0.0] * (unit.content.count("\n") + 1)
    return make_card(Candidate(unit, evidence), judgment, 0.4, weights)


def numbers(lines: Sequence[Line]) -> list[int]:
    return [line.number for line in lines]


def weigh(content: str, *terms: str) -> list[float]:
    return line_weights(make_unit(content), dict.fromkeys(terms, 1.0), TermSplitter())


# -- what a line weighs --


def test_a_line_weighs_what_the_task_terms_in_it_say() -> None:
    unit = make_unit("parse the line\nnothing\nparse")
    assert line_weights(unit, {"parse": 2.0, "line": 1.0}, TermSplitter()) == [3.0, 0.0, 1.0]


def test_a_term_counts_once_in_a_line_and_less_in_every_further_line() -> None:
    assert weigh("parse parse parse\nparse\nparse", "parse") == [1.0, 0.5, 1 / 3]


def test_identifiers_are_weighed_by_their_parts() -> None:
    assert weigh("def parse_line(): ...", "line") == [1.0]


def test_there_is_one_weight_a_line_also_for_an_empty_unit() -> None:
    assert weigh("", "parse") == [0.0]
    assert len(weigh("a\n\nb\n", "parse")) == 4


# -- which lines are shown --


def test_a_short_unit_is_shown_whole_without_trailing_blank_lines() -> None:
    unit = make_unit("one\n\nthree\n\n  \n", start=7)
    assert excerpt(unit, [0.0] * 6) == [Line(7, "one"), Line(8, ""), Line(9, "three")]


@pytest.mark.parametrize("content", ["", "\n", " \n\t\n"])
def test_a_unit_without_text_shows_its_first_line(content: str) -> None:
    unit = make_unit(content, start=3)
    assert numbered(excerpt(unit, [0.0] * 3)) == "3|"


def test_of_a_long_unit_the_decisive_lines_are_shown_with_what_stands_around_them() -> None:
    lines = [f"line {number}" for number in range(1, 101)]
    weights = [0.0] * 100
    weights[49] = 1.0
    shown = excerpt(make_unit("\n".join(lines)), weights)
    assert numbers(shown) == [1, 0, 48, 49, 50, 51, 52, 0]
    assert shown[1] is ELISION


def test_blank_lines_left_out_are_no_elision() -> None:
    content = "\n".join(["head", "", "", *(f"line {number}" for number in range(60))])
    weights = [0.0] * 63
    weights[3] = 1.0
    assert numbers(excerpt(make_unit(content), weights))[:3] == [1, 4, 5]


def test_the_name_below_decorators_is_shown() -> None:
    content = "\n".join(["@one", "@two(", "    3)", "async def f():", *(["    pass"] * 60), "    found"])
    weights = [0.0] * 65
    weights[64] = 1.0
    assert numbers(excerpt(make_unit(content), weights)) == [1, 0, 4, 0, 63, 64, 65]


def test_a_long_unit_that_holds_no_word_of_the_task_shows_its_beginning() -> None:
    content = "\n".join(f"line {number}" for number in range(100))
    shown = excerpt(make_unit(content), [0.0] * 100)
    assert numbers(shown) == [*range(1, EXCERPT_LINES + 1), 0]


def test_where_an_excerpt_would_lose_too_much_evidence_the_unit_is_shown_raw() -> None:
    content = "\n".join(f"line {number}" for number in range(RAW_LINES))
    shown = excerpt(make_unit(content), [1.0] * RAW_LINES)
    assert numbers(shown) == list(range(1, RAW_LINES + 1))


def test_a_raw_unit_that_is_cut_says_so() -> None:
    content = "\n".join(f"line {number}" for number in range(200))
    shown = excerpt(make_unit(content), [1.0] * 200)
    assert numbers(shown) == [*range(1, RAW_LINES + 1), 0]


def test_a_raw_excerpt_never_loses_evidence_that_the_decisive_lines_hold() -> None:
    content = "\n".join(f"line {number}" for number in range(400))
    weights = [0.0] * 200 + [1.0] * 200  # all of it beyond the raw lines
    shown = excerpt(make_unit(content), weights)
    kept = sum(weights[line.number - 1] for line in shown if line.number)
    assert kept >= RAW_LINES - 5


def test_a_compact_excerpt_is_short_even_when_it_loses_evidence() -> None:
    content = "\n".join(f"line {number}" for number in range(100))
    assert len(excerpt(make_unit(content), [1.0] * 100, COMPACT_LINES)) <= COMPACT_LINES + 6


def test_a_module_shows_only_lines_that_belong_to_no_other_unit() -> None:
    content = "import os\n\n\ndef f():\n    found\n\n\nLIMIT = 3"
    own = (Span(1, 3), Span(6, 8))
    unit = make_unit(content, role="module", own=own, id="src/a.py::<module>")
    assert numbered(excerpt(unit, [0.0] * 8)) == "1| import os\n...\n8| LIMIT = 3"
    assert line_weights(unit, {"found": 1.0, "limit": 1.0}, TermSplitter()) == [0] * 7 + [1.0]
    assert "found" not in own_text(unit)


def test_a_class_shows_its_methods_also() -> None:
    content = "class C:\n    def f(self):\n        found"
    unit = make_unit(content, role="class", own=(Span(1, 1),))
    assert own_text(unit) == content
    assert len(excerpt(unit, [0.0] * 3)) == 3


LINES = st.lists(st.sampled_from(["", "  ", "alpha", "beta gamma", "\tdelta", "界 世界", "@x"]), max_size=180)


@given(LINES, st.integers(1, 500), st.data())
def test_every_line_shown_is_the_line_of_that_number(
    lines: list[str], start: int, data: st.DataObject
) -> None:
    weights = data.draw(
        st.lists(
            st.sampled_from([0.0, 0.1, 1.0, 3.0]), min_size=max(1, len(lines)), max_size=max(1, len(lines))
        )
    )
    limit = data.draw(st.sampled_from([1, COMPACT_LINES, EXCERPT_LINES]))
    shown = excerpt(make_unit("\n".join(lines), start=start), weights, limit)
    real = [line for line in shown if line is not ELISION]
    assert real
    assert numbers(real) == sorted(set(numbers(real)))
    for line in real:
        assert line.text.rstrip() == (lines[line.number - start].rstrip() if lines else "")


@given(LINES, st.data())
def test_an_excerpt_keeps_most_of_the_evidence_or_the_unit_is_raw(
    lines: list[str], data: st.DataObject
) -> None:
    count = max(1, len(lines))
    weights = data.draw(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=count, max_size=count))
    unit = make_unit("\n".join(lines))
    weights = [
        weight if line.strip() else 0.0 for weight, line in zip(weights, lines or [""], strict=True)
    ]  # as `line_weights` gives
    shown = [line.number for line in excerpt(unit, weights) if line.number]
    kept = sum(weights[number - 1] for number in shown)
    raw = range(1, min(RAW_LINES, len(unit.content.rstrip().split("\n"))) + 1)
    assert kept >= MIN_KEPT_EVIDENCE * sum(weights) - 1e-9 or shown == list(raw) or len(shown) >= RAW_LINES


# -- numbered lines --


def test_a_long_line_is_cut_after_a_word() -> None:
    text = numbered([Line(1, "word " * 100)])
    assert text.startswith("1| word word")
    assert text.endswith("word ...")
    assert len(text) <= MAX_LINE_CHARS + len("1|  ...")


def test_a_single_endless_word_is_cut_anyway() -> None:
    assert numbered([Line(12, "x" * 5000)]) == "12| " + "x" * MAX_LINE_CHARS + " ..."


def test_an_elision_has_no_number() -> None:
    assert numbered([Line(1, "a"), ELISION, Line(9, "")]) == "1| a\n...\n9|"


# -- the five fields --


@pytest.mark.parametrize("kind", UNIT_KINDS)
@pytest.mark.parametrize("evidence", [(), (Evidence("named", 1.0, "the task names it: `f`"),)])
def test_a_card_of_every_kind_is_complete(kind: UnitKind, evidence: tuple[Evidence, ...]) -> None:
    unit = make_unit("def f():\n    return 1", kind=kind)
    card = card_of(unit, *evidence)
    assert audit_card(card) == []
    assert_card_complete(card)
    assert card.span == unit.span
    assert card.kind == kind


def test_a_unit_with_nothing_but_an_id_gets_a_complete_card() -> None:
    bare = ContextUnit(id="note-1", kind="memory", source="", content="")
    card = card_of(bare, action="")
    assert audit_card(card) == []
    assert card.scope == "note-1"
    assert card.action == "inspect note-1"
    assert card.evidence == "1|"


def test_an_action_that_starts_with_no_verb_is_told_as_what_the_judge_said() -> None:
    card = card_of(make_unit("x"), action="The agent would open src/a.py")
    assert card.action == "inspect src/a.py: The agent would open src/a.py"
    assert audit_card(card) == []


def test_what_called_for_a_unit_is_said_in_the_words_of_the_evidence() -> None:
    unit = make_unit("x")
    assert card_of(unit).trigger == "it was found beside what the task is about"
    named = Evidence("named", 1.0, "the task names it: `f`")
    title = Evidence("title_coverage", 0.5, "the first line's `parse`, `line`")
    near = Evidence("neighbour", 0.3, "is called by src/b.py::g")
    assert card_of(unit, named).trigger == "the task names it"
    assert card_of(unit, title).trigger == "the task is about `parse`, `line`"
    assert card_of(unit, named, title).trigger == "the task names it; the task is about `parse`, `line`"
    assert card_of(unit, near).trigger == "it is called by src/b.py::g"
    assert card_of(unit, Evidence("applies", 1.0, "it covers src/a.py")).trigger == "it covers src/a.py"


def test_a_rule_holds_where_it_says_and_everything_else_where_it_stands() -> None:
    rule = make_unit("- add a test", kind="rule", scope=("src/**", "lib/**"))
    assert card_of(rule).scope == "src/**, lib/**"
    assert card_of(make_unit("x\ny", start=5)).scope == "src/a.py:5-6"
    assert place_of("src/a.py", None) == "src/a.py"


def test_a_consequence_says_what_kind_of_thing_is_lost() -> None:
    assert "rule" in card_of(make_unit("x", kind="rule")).consequence
    assert "test" in card_of(make_unit("x", kind="test")).consequence
    assert "document" in card_of(make_unit("x", kind="document")).consequence
    assert "earlier run" in card_of(make_unit("x", kind="trace")).consequence
    stale = card_of(make_unit("x"), Evidence("outdated", 1.0, "line 1: deprecated"))
    assert "outdated" in stale.consequence


def test_the_audit_names_what_is_missing() -> None:
    card = MemoryCard(
        unit_id="a",
        kind="symbol",
        trigger=" ",
        evidence="...",
        action="ponder it",
        consequence="TODO",
        scope="n/a",
        causal_score=0.1,
        tokens=1,
    )
    assert audit_card(card) == [
        "trigger is empty or a placeholder",
        "evidence is empty or a placeholder",
        "consequence is empty or a placeholder",
        "scope is empty or a placeholder",
        "the action starts with 'ponder', which is no action verb",
    ]


def test_every_verb_that_proxy_uses_is_an_action_verb() -> None:
    from cicl_judges.proxy import VERBS

    assert ACTION_VERBS.issuperset({"edit", "inspect", *VERBS.values()})


@given(st.text(max_size=80), st.text(max_size=40))
def test_a_card_is_complete_whatever_the_judge_and_the_file_say(action: str, content: str) -> None:
    card = card_of(make_unit(content), action=action)
    assert audit_card(card) == []
    assert all(re.match(r"[1-9][0-9]*\||\.\.\.$", line) for line in card.evidence.split("\n"))
