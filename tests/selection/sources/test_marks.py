import json
import re
from pathlib import Path
from typing import Any

import pytest

from cicl.selection.sources.documents import extract_document
from cicl.selection.sources.facts import Mark
from cicl.selection.sources.marks import (
    decorator_mark,
    generated_mark,
    marks_in_comment,
    marks_in_docstring,
    replacement_in,
    shared_marks,
)

CASES: dict[str, list[dict[str, Any]]] = json.loads(
    Path(__file__).with_name("marks_cases.json").read_text("utf-8")
)


def cases(group: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "case", [pytest.param(case, id=str(case["name"])) for case in CASES[group]]
    )


def brief(marks: tuple[Mark, ...]) -> list[list[str]]:
    return [[mark.kind, mark.replacement] for mark in marks]


@cases("documents")
def test_a_document_is_marked_only_where_it_says_so_of_itself(case: dict[str, Any]) -> None:
    units = extract_document(case["path"], "\n".join(case["text"]))
    assert {unit.name: brief(unit.marks) for unit in units if unit.marks} == {
        name: [mark] for name, mark in case["marked"].items()
    }


@cases("documents")
def test_a_mark_shows_the_line_it_was_read_from(case: dict[str, Any]) -> None:
    for unit in extract_document(case["path"], "\n".join(case["text"])):
        for mark in unit.marks:
            assert re.search(
                "deprecat|obsolet|supersed|outdated|reject|withdrawn|maintained|~~|---",
                case["text"][mark.line - 1],
                re.I,
            )


@cases("docstrings")
def test_a_docstring_is_marked_only_where_it_says_so_of_its_owner(case: dict[str, Any]) -> None:
    assert brief(marks_in_docstring(case["text"], 1)) == case["marks"]
    quoted = list(case["text"])
    quoted[0] = '    r"""' + quoted[0]
    quoted[-1] += '"""'
    assert brief(marks_in_docstring(quoted, 1)) == case["marks"]


@cases("decorators")
def test_a_decorator_marks_by_its_own_name(case: dict[str, Any]) -> None:
    mark = decorator_mark(case["text"], 7)
    assert brief((mark,) if mark else ()) == case["marks"]
    assert mark is None or mark.line == 7


@cases("comments")
def test_a_comment_marks_only_with_its_first_words(case: dict[str, Any]) -> None:
    assert brief(marks_in_comment(case["text"], 3)) == case["marks"]


@cases("generated")
def test_a_file_is_generated_only_when_its_header_says_so(case: dict[str, Any]) -> None:
    mark = generated_mark(case["text"])
    assert (mark.line if mark else 0) == case["generated"]


@pytest.mark.parametrize(
    ("message", "name"),
    [
        ("foo() is deprecated, use bar() instead", "bar"),
        ("Use the stdlib importlib.resources module instead.", "importlib.resources"),
        ("deprecated in favor of :class:`~a.b.C`", "a.b.C"),
        ("Superseded by [the guide](docs/guide.md)", "docs/guide.md"),
        ("renamed to new_name", "new_name"),
        ("superseded by ADR-0012, see the log", "ADR-0012"),
        ("see https://example.org/x.", "https://example.org/x"),
        ("Instead of `old` use `new`.", "new"),
        ("use this instead of `foo`", ""),
        ("use it with care", ""),
        ("will be removed in 4.0", ""),
        ("see the documentation", ""),
        ("", ""),
    ],
)
def test_the_replacement_is_a_name_or_nothing(message: str, name: str) -> None:
    assert replacement_in(message) == name


def test_the_marks_every_unit_bears_are_the_marks_of_the_file() -> None:
    all_over, here = Mark("stale", 1, "deprecated"), Mark("stale", 9, "obsolete")
    assert shared_marks([(all_over,), (all_over, here)]) == (all_over,)
    assert shared_marks([]) == ()
