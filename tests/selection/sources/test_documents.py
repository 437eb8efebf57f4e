import time
from pathlib import PurePosixPath

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cicl.selection.sources.documents import ALL, TOP, extract_document
from cicl.selection.sources.facts import UnitFacts

WRITTEN = """\
# A
## B
### C
A
B (deprecated)
===
---
~~~~
=====
```
~~~
- item
  - nested
1. one
    code
<!--
-->
<h2>T</h2>
.. _label:
.. deprecated:: 1
   body
> quote
| a | b |
Status: superseded by x
key: value
#
}
def f():
é中文。"""
ODD = ["", " ", "\t", "# ", "\x00", "\ud800", "\r", "\u2028x", "x" * 300]
LINE_PARTS = st.sampled_from([*WRITTEN.split("\n"), *ODD])
DOCUMENTS = st.lists(LINE_PARTS, max_size=200).map("\n".join) | st.text(max_size=400)
PATHS = st.sampled_from(
    ["a.md", "a.rst", "docs/a.txt", "README", "a.js", "CHANGELOG.md", "a.po", "x/AGENTS.md"]
)


def covered(units: tuple[UnitFacts, ...]) -> list[int]:
    return [
        line
        for unit in units
        for span in unit.own or (unit.span,)
        for line in range(span.start, span.end + 1)
    ]


def written(text: str) -> set[int]:
    return {number for number, line in enumerate(text.split("\n"), start=1) if line.strip()}


def names(units: tuple[UnitFacts, ...]) -> list[str]:
    return [unit.name for unit in units]


def titles(units: tuple[UnitFacts, ...]) -> list[str]:
    return [unit.title for unit in units]


@given(PATHS, DOCUMENTS)
@example("a.md", "")
@example("a.md", "---\na: b\n---\n")
@example("a.rst", "===\nA\n===\n===\nB\n===\n")
def test_every_written_line_is_in_exactly_one_unit(path: str, text: str) -> None:
    units = extract_document(path, text)
    lines = covered(units)
    assert len(lines) == len(set(lines))
    assert lines == sorted(lines)
    assert written(text) <= set(lines) <= set(range(1, text.count("\n") + 2))


@given(PATHS, DOCUMENTS)
def test_names_are_unique_and_units_are_well_formed(path: str, text: str) -> None:
    units = extract_document(path, text)
    assert len(set(names(units))) == len(units)
    for unit in units:
        assert unit.name
        assert unit.kind == "document"
        assert unit.role in ("section", "block")
        assert len(unit.summary) <= 200
        assert 1 <= unit.span.start <= unit.span.end
        assert all(unit.span.start <= doc.start <= doc.end <= unit.span.end for doc in unit.doc)
        assert unit.span.end - unit.span.start < 80 or unit.name == ALL


@given(DOCUMENTS)
def test_the_same_text_gives_the_same_units(text: str) -> None:
    assert extract_document("a.md", text) == extract_document("a.md", text)


def test_a_markdown_section_has_the_path_of_its_headings() -> None:
    text = (
        "Intro.\n\n# Guide\n\nHello there. More.\n\n## Install\n\nRun it.\n\n"
        "### From source\n\nMake it.\n\n## Use\n\nUse it.\n"
    )
    units = extract_document("docs/guide.md", text)
    assert names(units) == [TOP, "guide", "install", "from-source", "use"]
    assert titles(units) == ["", "Guide", "Guide > Install", "Guide > Install > From source", "Guide > Use"]
    assert units[1].summary == "Hello there."
    assert [tuple(span) for span in units[1].doc] == [(3, 3), (5, 5)]
    assert tuple(units[3].span) == (11, 13)


def test_setext_and_html_headings_count_and_fences_comments_and_rules_do_not() -> None:
    text = (
        "Title\n=====\n\nText.\n\nPart\n----\n\n```\n# no\nno\n==\n```\n\n~~~md\n## no\n~~~\n\n"
        "<!--\n# no\n-->\n\n"
        '    # no\n\n#no\n\n---\n\n- no\n---\n\n<h2 align="center">Yes</h2>\n\nText.\n'
    )
    assert titles(extract_document("a.md", text)) == ["Title", "Title > Part", "Title > Yes"]


def test_levels_of_restructured_text_go_by_order_of_appearance() -> None:
    text = (
        "=====\nTitle\n=====\n\nText.\n\n.. _part:\n\nPart\n====\n\nText::\n\n    Not this\n    --------\n\n"
        "Smaller\n~~~~~~~\n\nText.\n\nPart two\n========\n\n=====  =====\na      b\n=====  =====\n"
    )
    units = extract_document("docs/a.txt", text)
    assert titles(units) == ["Title", "Title > Part", "Title > Part > Smaller", "Title > Part two"]
    assert tuple(units[1].span) == (7, 15), "the label belongs to its heading"


def test_a_heading_without_text_stands_with_its_first_child() -> None:
    units = extract_document(
        "a.md", "---\ntitle: x\n---\n# A\n\n## B\n\n### C\n\nText.\n\n## Empty\n\n## D\n\nText.\n"
    )
    assert names(units) == ["c", "empty", "d"]
    assert units[0].title == "A > B > C"
    assert units[0].span.start == 1


def test_a_new_release_on_top_leaves_the_names_below_as_they_were() -> None:
    old = "# Changelog\n\nAll.\n\n## 1.1.0\n\n### Added\n\n- a\n\n### Fixed\n\n- b\n"
    old += "\n## 1.0.0\n\n### Added\n\n- c\n"
    new = old.replace("## 1.1.0", "## 1.2.0\n\n### Added\n\n- new\n\n### Fixed\n\n- new\n\n## 1.1.0")
    before = names(extract_document("CHANGELOG.md", old))
    after = names(extract_document("CHANGELOG.md", new))
    assert {"1-1-0/added", "1-0-0/added"} <= set(before)
    assert {"1-1-0/added", "1-0-0/added", "1-2-0/added"} <= set(after)


def test_names_do_not_change_with_edits_elsewhere() -> None:
    text = "# A\n\nText.\n\n## B\n\nText.\n\n## C\n\nText.\n"
    longer = text.replace("# A\n", "# A\n\nMore.\n\nMore.\n")
    assert names(extract_document("a.md", text)) == names(extract_document("a.md", longer))


def test_the_second_of_two_equal_headings_has_a_number() -> None:
    units = extract_document("a.md", "# A\n\nx\n\n# A\n\nx\n\n# A 2\n\nx\n\n# A\n\nx\n")
    assert names(units) == ["a", "a-2", "a-2-2", "a-3"]


def test_a_long_section_is_cut_at_blank_lines_and_not_inside_a_fence() -> None:
    prose = "\n\n".join(f"Sentence {number} of the prose.\nIts second line." for number in range(40))
    code = "```\n" + "\n\n".join(f"code {number}" for number in range(12)) + "\n```"
    text = f"# Long\n\n{prose}\n\n{code}\n\n{prose}\n"
    units = extract_document("a.md", text)
    lines = text.split("\n")
    assert names(units)[:3] == ["long", "long.2", "long.3"]
    assert set(titles(units)) == {"Long"}
    assert all(not lines[unit.span.start - 2].strip() for unit in units[1:])
    start = lines.index("```") + 1
    assert not any(start < unit.span.start <= start + 24 for unit in units)


def test_code_without_headings_is_cut_where_a_definition_begins() -> None:
    function = "function f%d() {\n" + "  work();\n" * 12 + "}\n\n"
    units = extract_document("src/a.js", "".join(function % number for number in range(20)))
    lines = "".join(function % number for number in range(20)).split("\n")
    assert len(units) > 4
    assert all(lines[unit.span.start - 1].startswith("function") for unit in units)
    assert units[0].name == f"L1-{units[0].span.end}"
    assert units[0].role == "block"


def test_indented_code_is_cut_at_its_least_indented_lines() -> None:
    method = "    void f%d() {\n" + "        work();\n" * 10 + "    }\n"
    text = "class A {\n" + "".join(method % number for number in range(30)) + "}\n"
    lines = text.split("\n")
    assert all(
        lines[unit.span.start - 1].startswith("    void") for unit in extract_document("A.java", text)[1:]
    )


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("a.po", 'msgid "x"'),
        ("data.csv", "1,2"),
        ("poetry.lock", "x = 1"),
        ("package-lock.json", "  {}"),
        ("a.svg", "<g/>"),
    ],
)
def test_a_long_catalogue_is_one_unit(path: str, line: str) -> None:
    units = extract_document(path, f"{line}\n" * 500)
    assert names(units) == [ALL]
    assert tuple(units[0].span) == (1, 500)
    assert len(extract_document(path, f"{line}\n" * 300)) > 1


def test_a_minified_file_is_one_unit() -> None:
    assert names(extract_document("a.min.js", ("x" * 500 + "\n") * 100)) == [ALL]


@pytest.mark.parametrize("text", ["", "\n", " \n\t\n"])
def test_a_blank_file_has_no_units(text: str) -> None:
    assert extract_document("a.md", text) == ()


def test_what_a_record_supersedes_is_read_and_is_no_mark() -> None:
    units = extract_document(
        "docs/adr/4.md", "---\nsupersedes: [ADR-2, ADR-3]\n---\n# Use x\n\nText.\n\n## More\n\nText.\n"
    )
    assert [unit.supersedes for unit in units] == [("ADR-2", "ADR-3"), ()]
    assert not any(unit.marks for unit in units)
    assert extract_document("a.md", "# Use x\n\nSupersedes: ADR-2\n")[0].supersedes == ("ADR-2",)


ADVERSARIAL = {
    "hashes": "#\n" * 100_000,
    "headings": "# a\n" * 15_000,
    "unclosed fence": "```\n" + "# a\n" * 100_000,
    "one long line": "#" + "a" * 1_000_000,
    "one long heading": "# " + "[a](" * 250_000,
    "underlines": "=\n==\n===\n====\n" * 10_000,
    "nested bullets": "".join(" " * (number % 200) + "- a\n" for number in range(30_000)),
    "deep bullets": "".join(" " * number + "- a\n" for number in range(2_000)),
    "blank lines": "\n" * 200_000 + "a",
    "anchors": ".. _a:\n" * 100_000 + "A\n===\n",
    "comment": "<!--\n" + "a\n" * 100_000,
    "quotes": "> " * 200_000,
    "setext": "a\n---\n" * 10_000,
    "brackets": "# a\n\n" + "[" * 500_000,
    "no closing rule": "---\n" + "a: b\n" * 100_000,
}


@pytest.mark.parametrize("name", ADVERSARIAL)
@pytest.mark.parametrize("path", ["a.md", "a.rst", "a.xyz"])
def test_time_is_linear_on_hostile_text(name: str, path: str) -> None:
    text = ADVERSARIAL[name]
    start = time.process_time()
    units = extract_document(path, text)
    assert time.process_time() - start < 2.0
    assert written(text) <= set(covered(units))


def test_no_path_is_refused() -> None:
    for path in ("a", ".env", "weird name", "a.b.c", "数据/说明.md", "Makefile", "LICENSE"):
        assert extract_document(path, "x\n"), PurePosixPath(path)
