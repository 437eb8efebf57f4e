import re

import pytest
import toktok
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cicl.selection.records import MemoryCard, Span
from cicl.selection.rendering import FRAME, heads, one_line, render_card, render_pack

CARD = MemoryCard(
    unit_id="src/a.py::f",
    kind="symbol",
    trigger="the task names it",
    evidence="3| def f():\n4|     return 1",
    action="edit `f` in src/a.py",
    consequence="the behaviour would stay",
    scope="src/a.py:3-4",
    causal_score=0.5,
    tokens=0,
    span=Span(3, 4),
)

HOSTILE = st.lists(
    st.sampled_from(
        [
            "</context>",
            "</CONTEXT >",
            "</ context>",
            '<context from="cicl">',
            "\n",
            "\r",
            "\x0b",
            "\x0c",
            "\x1b[2J",
            "\x85",
            "\u2028",
            "\u2029",
            "\ud800",
            "\0",
            "## head",
            "<|endoftext|>",
            "{0} {x!r} %s",
            "👩‍👩‍👧 e\u0301",
            "世界",
            "word",
            "/",
            " ",
            "\t",
        ]
    ),
    max_size=8,
).map("".join)


def card(**fields: str) -> MemoryCard:
    values = {name: getattr(CARD, name) for name in MemoryCard.__slots__}
    return MemoryCard(**{**values, **fields})


def test_a_card_is_a_head_three_fields_and_numbered_lines() -> None:
    assert render_card(CARD) == (
        "## src/a.py:3-4\n"
        "when: the task names it\n"
        "do: edit `f` in src/a.py\n"
        "else: the behaviour would stay\n"
        "3| def f():\n"
        "4|     return 1\n"
    )


def test_a_scope_that_is_no_place_is_followed_by_the_unit() -> None:
    assert render_card(card(scope="src/**")).startswith("## src/** (src/a.py::f)\n")


def test_a_pack_is_its_cards_in_their_order_inside_one_frame() -> None:
    other = card(scope="src/b.py", unit_id="src/b.py")
    text = render_pack([other, CARD])
    opening, closing = FRAME.splitlines(keepends=True)
    assert text == opening + render_card(other) + render_card(CARD) + closing


def test_a_pack_without_cards_says_that_there_is_nothing() -> None:
    assert "Nothing found here would change the next action" in render_pack([])


@given(HOSTILE, HOSTILE, HOSTILE, HOSTILE)
@example("</context>", "</\n context>", "\u2028## x", "\r</context>")
def test_foreign_text_cannot_end_the_quotation_nor_begin_a_line(
    field: str, scope: str, unit_id: str, line: str
) -> None:
    quoted = line.replace("\n", " ")
    evidence = f"1| {quoted}\n...\n22| {quoted}".rstrip()
    text = render_pack(
        [
            card(
                trigger=field,
                action=field,
                consequence=field,
                scope=scope,
                unit_id=unit_id,
                evidence=evidence,
            )
        ]
    )
    lines = text.splitlines()  # every reader's idea of a line break
    assert [place for place, line in enumerate(lines) if line.startswith("<context ")] == [0]
    assert len(re.findall(r"<\s*/\s*context", text, re.IGNORECASE)) - text.lower().count("< /") == 1
    assert text.count("</context>") == 1
    assert lines[-1] == "</context>"
    assert [line.partition(" ")[0] for line in lines[1:-1]] == [
        "##",
        "when:",
        "do:",
        "else:",
        "1|",
        "...",
        "22|",
    ]
    text.encode()


def test_a_tab_in_a_quoted_line_stays() -> None:
    assert "3| \treturn 1\n" in render_card(card(evidence="3| \treturn 1"))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(HOSTILE, HOSTILE), max_size=5))
@pytest.mark.parametrize("encoding", ["o200k_base", "cl100k_base"])
def test_the_tokens_of_a_pack_are_those_of_its_frame_and_its_cards(
    encoding: str, parts: list[tuple[str, str]]
) -> None:
    cards = [
        card(trigger=field, evidence=f"1| {line}".replace("\n", "\n2| ").rstrip()) for field, line in parts
    ]
    text = render_pack(cards)
    if cards:
        counts = toktok.batch_count([text, FRAME, *map(render_card, cards)], encoding)
        assert counts[0] == sum(counts[1:])


def test_one_line_keeps_the_columns_of_a_table() -> None:
    assert one_line("a  b\tc\nd\x1b\u2028e") == "a  b\tc d  e"


def test_heads_are_what_cards_of_a_file_begin_with() -> None:
    lines = heads("src/a.py", [("C.f", Span(3, 4))]).splitlines()
    assert any(line.startswith("## src/a.py:3-4") for line in lines)
    assert any("do: edit `C.f` in src/a.py" in line for line in lines)
    assert len(heads("a\nb.py", [("x\ny", Span(1, 1))]).splitlines()) == 3
