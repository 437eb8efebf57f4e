import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cicl.selection.queries import MAX_MENTIONS, MAX_WORDS, Mention, Query, parse_task
from cicl.selection.records import Task
from cicl.text import STOP_WORDS, TermSplitter, term_key

quick = settings(deadline=None, max_examples=150, database=None)


def parse(text: str, action: str | None = None) -> Query:
    return parse_task(Task(text=text, proposed_action=action), TermSplitter())


def mentions(text: str) -> set[tuple[str, str, int]]:
    return {(item.kind, item.text, item.line) for item in parse(text).mentions}


# Terms


def test_terms_are_the_words_of_the_task_without_stop_words_and_the_first_line_counts_double() -> None:
    query = parse("Fix the parser\n\nThe parser crashes on parser input, crashes.\n")
    assert list(query.terms) == ["fix", "parser", "crashe", "input"]
    assert query.title_terms == ("fix", "parser")
    assert query.terms["parser"] > query.terms["fix"] == 2.0
    assert query.terms["input"] == 1.0
    assert query.keys == {term_key(term): weight for term, weight in query.terms.items()}
    assert query.title_keys == {term_key(term): query.terms[term] for term in ("fix", "parser")}


@pytest.mark.parametrize("text", ["", "\n\n", "   ", "the of and it", "?!", "a", "The\nwhich\n"])
def test_a_task_without_any_telling_word_has_no_terms_and_no_mentions(text: str) -> None:
    query = parse(text)
    assert (query.terms, query.title_terms, query.mentions) == ({}, (), ())
    assert query.keys == query.title_keys == {}


def test_a_proposed_action_counts_as_part_of_the_task() -> None:
    assert "lexer" in parse("Fix the parser", "edit lexer.py").terms
    assert ("path", "lexer.py", 0) in {item[:3] for item in parse("Fix the parser", "edit lexer.py").mentions}


@pytest.mark.parametrize("text", ["fix {} in {name} and {0!r}", "100% of %s %(x)s", "$HOME ${x} \\d \\"])
def test_braces_and_percent_signs_are_ordinary_text(text: str) -> None:
    assert parse(text).terms


def test_a_lone_surrogate_is_replaced_on_entry() -> None:
    query = parse("broken emoji \ud83d in `na\ud83dme` and 中文\udc00", "act on \ud800.py")
    "".join(query.terms).encode()
    for item in query.mentions:
        item.text.encode()


def test_chinese_text_gives_pairs_of_characters() -> None:
    query = parse("修复连接池超时\n\n数据库连接失败")
    assert {"修复", "连接", "接池", "池超", "超时", "数据", "失败"} <= set(query.terms)
    assert query.terms["连接"] > query.terms["超时"] > query.terms["失败"]


def test_a_query_of_58_000_words_is_capped_and_quick() -> None:
    log = "\n".join(
        f"error{number % 9_973} in module{number} at line{number % 77}.x" for number in range(14_500)
    )
    start = time.perf_counter()
    query = parse("Fix the crash\n" + log + "\nthe final_words matter")
    assert time.perf_counter() - start < 2
    assert len(query.terms) <= MAX_WORDS
    assert len(query.mentions) <= MAX_MENTIONS
    assert {"fix", "crash", "error"} <= set(query.terms)


@pytest.mark.parametrize(
    "piece",
    [
        "a",
        "a.",
        "a/",
        "a@",
        "+a",
        "a-",
        "a_",
        "aB",
        ".a",
        "`",
        "'a",
        '"',
        "\\a",
        "a(",
        'File "',
        "中a",
        "a.b/",
        "-",
        "~/",
        "C:",
    ],
)
def test_no_text_takes_long_to_read(piece: str) -> None:
    start = time.perf_counter()
    parse(piece * (60_000 // len(piece)))
    assert time.perf_counter() - start < 2


@quick
@given(st.text(st.characters(codec=None), max_size=200), st.text(st.characters(codec=None), max_size=50))
def test_any_text_is_a_query(text: str, action: str) -> None:
    query = parse(text, action)
    assert not STOP_WORDS.intersection(query.terms)
    assert all(weight > 0 for weight in query.terms.values())
    assert len(query.terms) <= MAX_WORDS
    assert query == parse(text, action)
    for item in query.mentions:
        item.text.encode()


# Mentions


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("see src/pkg/a.py for it", ("path", "src/pkg/a.py", 0)),
        ("src/pkg/a.py:12: error", ("path", "src/pkg/a.py", 12)),
        ("(src/pkg/a.py)", ("path", "src/pkg/a.py", 0)),
        ("in /home/u/proj/src/a.py:7 it", ("path", "home/u/proj/src/a.py", 7)),
        ("open ./src/a.py", ("path", "./src/a.py", 0)),
        ("open ../src/a.py", ("path", "../src/a.py", 0)),
        ("open ~/proj/a.py", ("path", "proj/a.py", 0)),
        (r"C:\proj\src\a.py:3 failed", ("path", r"proj\src\a.py", 3)),
        (r"see src\pkg\a.py", ("path", r"src\pkg\a.py", 0)),
        ("a.py is wrong", ("path", "a.py", 0)),
        ("数据/模块.py 出错", ("path", "数据/模块.py", 0)),
        ("请修复src/a.py中的错误", ("path", "src/a.py", 0)),
        ("docs/guide.md", ("path", "docs/guide.md", 0)),
        ("@scope/pkg-1.2/x+y.ts", ("path", "@scope/pkg-1.2/x+y.ts", 0)),
        ("call pkg.mod.func() now", ("dotted", "pkg.mod.func", 0)),
        ("调用pkg.mod.func函数", ("dotted", "pkg.mod.func", 0)),
        ("use `helper` here", ("quoted", "helper", 0)),
        ("use ``helper`` here", ("quoted", "helper", 0)),
        ("use `C.method(x)` here", ("dotted", "C.method", 0)),
        ("the 'some_option' key", ("quoted", "some_option", 0)),
        ('the "some_option" key', ("quoted", "some_option", 0)),
        ("the separability_matrix is wrong", ("identifier", "separability_matrix", 0)),
        ("CompoundModel fails", ("identifier", "CompoundModel", 0)),
        ("camelCase fails", ("identifier", "camelCase", 0)),
        ("run() fails", ("identifier", "run", 0)),
        ("函数parse_task出错", ("identifier", "parse_task", 0)),
    ],
)
def test_what_the_task_names_outright_is_a_mention(text: str, expected: tuple[str, str, int]) -> None:
    assert expected in mentions(text)


def test_a_traceback_gives_its_frames_in_order() -> None:
    text = (
        "Traceback (most recent call last):\n"
        '  File "/usr/lib/python3/site-packages/pkg/a.py", line 12, in run\n    f()\n'
        '  File "C:\\\\proj\\\\pkg\\\\b.py", line 3, in <module>\n    g()\n'
        '  File "<string>", line 1\n'
    )
    frames = [item for item in parse(text).mentions if item.kind == "frame"]
    assert frames == [
        Mention("frame", "/usr/lib/python3/site-packages/pkg/a.py", 12, "run"),
        Mention("frame", "C:\\\\proj\\\\pkg\\\\b.py", 3, "<module>"),
        Mention("frame", "<string>", 1, ""),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "it works",
        "e.g. this",
        "see https://example.org/a/b.py",
        "version 1.2.3",
        "a b",
        "Hello World",
        "me@example.org/x",
    ],
)
def test_ordinary_words_addresses_and_numbers_are_no_paths(text: str) -> None:
    assert not [item for item in parse(text).mentions if item.kind == "path" and item.text.endswith(".py")]
    assert not [item for item in parse(text).mentions if item.kind in ("quoted", "identifier", "frame")]


def test_stop_words_and_very_short_names_are_no_mentions() -> None:
    assert mentions("use `is` and `x` and `the` and it()") == set()
