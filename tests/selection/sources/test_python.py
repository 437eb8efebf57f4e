import ast
import subprocess
import sys
import warnings
from collections import Counter
from textwrap import dedent

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cicl.selection.records import Span
from cicl.selection.sources.decoding import split_lines
from cicl.selection.sources.facts import Import, UnitFacts
from cicl.selection.sources.python import PARSE_ERRORS, PythonFacts, extract_python

quick = settings(deadline=None, max_examples=150, database=None, suppress_health_check=[HealthCheck.too_slow])


def facts_of(text: str, path: str = "pkg/a.py") -> PythonFacts:
    text = dedent(text)
    return extract_python(path, text, split_lines(text))


def units_of(text: str, path: str = "pkg/a.py") -> dict[str, UnitFacts]:
    units = facts_of(text, path).units
    assert len({unit.name for unit in units}) == len(units)
    return {unit.name: unit for unit in units}


def spans_of(text: str) -> dict[str, tuple[int, int]]:
    return {name: tuple(unit.span) for name, unit in units_of(text).items()}


def titles_of(text: str) -> dict[str, str]:
    return {name: unit.title for name, unit in units_of(text).items()}


def references_of(text: str) -> dict[str, set[str]]:
    return {name: set(unit.references) for name, unit in units_of(text).items()}


# Spans


def test_symbols_have_their_exact_lines_from_the_first_decorator_to_the_last_statement() -> None:
    text = """\
        import os

        @first
        @second(
            1,
        )
        def f(
            x,
        ):
            return x  # end

        # not f's
        class C:
            \"\"\"Doc.\"\"\"

            limit = 1

            @property
            def m(self): ...

            async def n(self):
                def inner():
                    pass
                return inner
        """
    assert spans_of(text) == {
        "<module>": (1, 24),
        "f": (3, 10),
        "C": (13, 24),
        "C.m": (18, 19),
        "C.n": (21, 24),
    }
    units = units_of(text)
    assert units["C"].own == (Span(13, 17), Span(20, 20))
    assert units["<module>"].own == (Span(1, 2), Span(11, 12))
    assert units["f"].own == ()
    assert {name: unit.role for name, unit in units.items()} == {
        "<module>": "module",
        "f": "function",
        "C": "class",
        "C.m": "method",
        "C.n": "method",
    }


def test_a_decorator_in_brackets_belongs_to_its_function_from_its_sign_on() -> None:
    assert spans_of("x = 1\n@(\n    a\n    .b\n)\n@c\ndef f(): ...\n") == {"<module>": (1, 7), "f": (2, 7)}


def test_definitions_inside_functions_stay_inside() -> None:
    text = """\
        def f():
            class C:
                def m(self): ...
            if x:
                def g(): ...
        """
    assert spans_of(text) == {"f": (1, 5)}


def test_conditional_definitions_are_found_in_every_branch_and_numbered_by_line() -> None:
    text = """\
        if A:
            def f(): ...
        else:
            def f(): ...
        try:
            class C: ...
        except E:
            class C: ...
        else:
            class C: ...
        finally:
            class D: ...
        for x in y:
            def g(): ...
        while x:
            def h(): ...
        with x:
            async def i(): ...
        match x:
            case 1:
                def j(): ...
        class E:
            if A:
                def m(self): ...
            else:
                def m(self): ...
        """
    spans = spans_of(text)
    assert list(spans)[1:] == "f f#2 C C#2 C#3 D g h i j E E.m E.m#2".split()
    assert [spans[name][0] for name in list(spans)[1:]] == [2, 4, 6, 8, 10, 12, 14, 16, 18, 21, 22, 24, 26]


def test_a_property_and_its_setter_have_different_names() -> None:
    text = """\
        class C:
            @property
            def x(self): ...

            @x.setter
            def x(self, value): ...

            @x.deleter
            def x(self): ...
        """
    assert list(spans_of(text)) == ["C", "C.x", "C.x#2", "C.x#3"]
    assert units_of(text)["C.x#2"].decorators == ("x.setter",)


def test_overloads_and_redefinitions_have_different_names_and_so_have_their_members() -> None:
    text = "class C:\n    def m(self): ...\n\nclass C:\n    def m(self): ...\n    def m(self): ...\n"
    assert list(spans_of(text)) == ["C", "C.m", "C#2", "C#2.m", "C#2.m#2"]


def test_a_file_of_definitions_only_has_no_unit_for_the_module() -> None:
    assert list(spans_of("def f(): ...\n\n\ndef g(): ...\n")) == ["f", "g"]
    assert list(spans_of("")) == []
    assert list(spans_of("\n\n")) == []


def test_a_file_without_definitions_is_its_module() -> None:
    (module,) = facts_of("x = 1\n\nprint(x)\n").units
    assert (module.name, module.span, module.own, module.defines) == ("<module>", Span(1, 3), (), ("x",))


def test_docstrings_are_prose_wherever_they_stand() -> None:
    text = '''\
        """Module.

        More."""
        def f(): "On the line."
        class C:
            r"""Raw

            text. And more.
            """
            def m(self):
                b"no docstring"
        def g():
            f"no {docstring}"
        '''
    units = units_of(text)
    assert {name: unit.doc for name, unit in units.items()} == {
        "<module>": (Span(1, 3),),
        "f": (Span(4, 4),),
        "C": (Span(6, 9),),
        "C.m": (),
        "g": (),
    }
    assert [units[name].summary for name in ("<module>", "f", "C", "C.m")] == [
        "Module",
        "On the line",
        "Raw",
        "",
    ]


def test_a_docstring_with_a_lone_surrogate_can_be_saved() -> None:
    unit = units_of('def f():\n    "Cuts \\ud83d off."\n')["f"]
    assert unit.summary == "Cuts \ufffd off"
    (mark,) = units_of('@deprecated("Use \\udc00 instead")\ndef g(): ...\n')["g"].marks
    assert mark.text == "Use \ufffd instead"


# Signatures


@pytest.mark.parametrize(
    ("header", "title"),
    [
        ("def f(x): return x", "def f(x)"),
        ("def f(x: int = 1, *, y: 'a:b' = ':') -> dict[str, int]: ...", None),
        ("def f(x=lambda: 0, y=a[1:2], z={1: 2}): ...", "def f(x=lambda: 0, y=a[1:2], z={1: 2})"),
        ("def f(x=')', y: int = 1): ...", "def f(x=')', y: int = 1)"),
        ("def f(x='(') -> int: ...", "def f(x='(') -> int"),
        ("def f() -> 'a:b': ...", "def f() -> 'a:b'"),
        ("def f(x='''a)\n:b''', y=\"\\\")\"): ...", "def f(x='''a) :b''', y=\"\\\")\")"),
        ("async def f(self): ...", "async def f(self)"),
        ("class C(Base[int], metaclass=M): x = 1", "class C(Base[int], metaclass=M)"),
        ("class C: ...", "class C"),
        (
            "def f(\n    a: int,  # first: (one\n    b: str = ':',  # it's\n) -> None:\n    ...",
            "def f(a: int, b: str = ':') -> None",
        ),
        ("@x.y(1)\ndef f(a,\n      b): ...", "def f(a, b)"),
        ("def f(a, b):  # comment: x\n    pass", "def f(a, b)"),
    ],
)
def test_a_title_is_the_header_up_to_its_colon(header: str, title: str | None) -> None:
    expected = title or header.removesuffix(": ...")
    assert list(titles_of(header + "\n").values()) == [expected]


def test_a_title_is_never_longer_than_its_limit() -> None:
    (title,) = titles_of(
        f"def f({', '.join(f'parameter_{number}' for number in range(500))}): ...\n"
    ).values()
    assert len(title) == 200
    lines = "".join(f"    parameter_{number},\n" for number in range(500))
    (title,) = titles_of(f"def f(\n{lines}): ...\n").values()
    assert title.startswith("def f(parameter_0, parameter_1,")
    assert len(title) <= 200


def test_parameters_are_named_in_order_without_self() -> None:
    unit = units_of("class C:\n    def m(self, a, /, b=1, *args, c, **more): ...\n")["C.m"]
    assert unit.parameters == ("a", "b", "c")


# Names


def test_imports_are_listed_wherever_they_stand() -> None:
    text = """\
        import a.b, c as d
        from . import e
        from ..f.g import h as i, j
        from k import *

        def f():
            from l import m

        if TYPE_CHECKING:
            import n
        """
    assert facts_of(text).imports == (
        Import("a.b", "", "a.b", 1),
        Import("c", "", "d", 1),
        Import(".", "e", "e", 2),
        Import("..f.g", "h", "i", 3),
        Import("..f.g", "j", "j", 3),
        Import("k", "*", "", 4),
        Import("l", "m", "m", 7),
        Import("n", "", "n", 10),
    )


def test_references_are_the_names_that_the_file_imports_or_defines_and_called_attributes() -> None:
    text = """\
        import numpy as np
        from m import helper, Base
        value = helper()

        class C(Base):
            size = helper(2)

            def run(self, x):
                y = np.zeros(3)
                self.walk(unknown)
                x.items().close()
                return C.make(x.attribute)

        def other():
            return C()
        """
    assert references_of(text) == {
        "<module>": {"np", "helper", "Base"},
        "C": {"Base", "helper"},
        "C.run": {"np.zeros", "self.walk", "C.make", ".zeros", ".walk", ".items", ".close", ".make"},
        "other": {"C"},
    }


def test_a_method_may_call_the_function_it_is_named_after() -> None:
    text = """\
        from m import run

        class C:
            def run(self):
                return run(self)

        def go(): ...

        class D:
            def go(self): ...
        """
    references = references_of(text)
    assert references["C.run"] == {"run"}
    assert references["D.go"] == set()


def test_a_star_import_makes_no_attribute_a_reference() -> None:
    assert references_of("from m import *\n\ndef f(x):\n    return (x).attribute + x.call()\n")["f"] == {
        ".call"
    }


def test_calls_of_super_are_references_to_the_bases() -> None:
    text = "class C(B):\n    def m(self):\n        super().m()\n        super(C, self).n()\n"
    assert {"super.m", "super.n"} <= references_of(text)["C.m"]


def test_assignments_of_modules_and_classes_are_definitions() -> None:
    text = """\
        a = b = 1
        c, (d) = 1, 2
        e: int = 3
        f += 1
        g.h = 1
        if x:
            i = 1

        class C:
            j = 1
            k: int

            def m(self):
                l = 1
        """
    units = units_of(text)
    assert units["<module>"].defines == ("a", "b", "c", "d", "e", "f", "i")
    assert units["C"].defines == ("j", "k")
    assert units["C.m"].defines == ()


def test_symbols_of_test_files_are_tests() -> None:
    assert {unit.kind for unit in facts_of("x = 1\n\ndef test_a(): ...\n", "tests/test_a.py").units} == {
        "test"
    }
    assert {unit.kind for unit in facts_of("x = 1\n\ndef test_a(): ...\n", "pkg/a.py").units} == {"symbol"}


# Standing


@pytest.mark.parametrize(
    ("text", "replacement"),
    [
        ('@deprecated("Use `new` instead")\ndef old(): ...\n', "new"),
        ("@deprecated\ndef old(): ...\n", ""),
        ('def old():\n    """Old.\n\n    .. deprecated:: 1.2\n       Use `new` instead.\n    """\n', "new"),
        ('def old():\n    warnings.warn("Use new() instead", DeprecationWarning, stacklevel=2)\n', "new"),
        ('def old():\n    "Doc."\n    warn(f"Use new() {x}", category=RemovedInDjango60Warning)\n', "new"),
    ],
)
def test_a_deprecated_definition_says_so_and_names_its_replacement(text: str, replacement: str) -> None:
    (mark,) = units_of(text)["old"].marks
    assert (mark.kind, mark.replacement) == ("stale", replacement)


@pytest.mark.parametrize(
    "text",
    [
        'def old(x):\n    if x:\n        warnings.warn("Use new", DeprecationWarning)\n',
        'def old():\n    warnings.warn("Slow", RuntimeWarning)\n',
        'def old():\n    log("deprecated: use new")\n',
        '@pytest.mark.filterwarnings("ignore::DeprecationWarning")\ndef old(): ...\n',
    ],
)
def test_what_is_deprecated_in_part_or_only_spoken_of_is_current(text: str) -> None:
    assert units_of(text)["old"].marks == ()


# Files that people have: robustness.md, part III


@pytest.mark.parametrize(
    "text",
    [
        'print "x"\n',
        "if x:\n\ty = 1\n        z = 2\n",
        "x = 1\0\n",
        "\ufeffx = 1\n",
        "x = '\ud800'\n",
        f"x = {'1' * 5000}\n",
        "(" * 300 + ")" * 300 + "\n",
        "x = " + "+".join(["1"] * 5000) + "\n",
        "a" + ".b()" * 2000 + "\n",
        "x = " + "-" * 5000 + "1\n",
        "x = " + "[" * 5000 + "]" * 5000 + "\n",
        "def f(:\n",
    ],
    ids=lambda text: text[:12],
)
def test_what_python_cannot_parse_raises_one_of_the_known_errors(text: str) -> None:
    try:
        extract_python("a.py", text, text.split("\n"))
    except PARSE_ERRORS:
        return
    ast.parse(text)  # this version of Python can


@pytest.mark.parametrize(
    "text",
    [
        "x = " + "+".join(["1"] * 900) + "\n",
        "if x:\n    pass\n" + "elif y:\n    pass\n" * 2000,
        "def f():\n" + "".join("    " * depth + "if x:\n" for depth in range(1, 95)) + "    " * 95 + "pass\n",
        "class C:\n" + "    def m(self): ...\n" * 3000,
    ],
    ids=["long sum", "2,000 elif", "nested", "many methods"],
)
def test_what_exhausts_a_recursive_walk_is_read(text: str) -> None:
    facts = facts_of(text)
    assert facts.units
    assert len({unit.name for unit in facts.units}) == len(facts.units)


def test_warnings_about_foreign_code_are_nobodys_business() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert facts_of('x = "\\d"\nassert (1, "always true")\ny = 1 is 1\n').units


def test_foreign_code_is_read_under_w_error() -> None:
    code = """if True:
        from cicl.selection.sources.python import extract_python
        text = r'x = "\\d"'
        print(len(extract_python("a.py", text, [text]).units))
        """
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("1\n", "")


# Every line belongs to one unit


names = st.sampled_from("abcde")


@st.composite
def sources(draw: st.DrawFn) -> str:
    lines: list[str] = []

    def block(depth: int, budget: int) -> None:
        indent = "    " * depth
        for _ in range(draw(st.integers(1, 3))):
            kind = draw(st.integers(0, 9)) if budget else 0
            lines.extend([""] * draw(st.integers(0, 2)))
            if draw(st.booleans()):
                lines.append(f"{indent}# a comment")
            if kind <= 2:
                lines.append(f"{indent}{draw(names)} = 1; {draw(names)}()")
            elif kind <= 6:
                lines.extend(f"{indent}@{draw(names)}" for _ in range(draw(st.integers(0, 2))))
                head = draw(
                    st.sampled_from(["def {}():", "async def {}(\n{indent}    x,\n{indent}):", "class {}:"])
                )
                lines.extend((indent + head.format(draw(names), indent=indent)).split("\n"))
                if draw(st.booleans()):
                    lines.extend([f'{indent}    """Doc.', "", f'{indent}    more"""'])
                block(depth + 1, budget - 1)
            elif kind == 7:
                lines.append(f"{indent}if {draw(names)}:")
                block(depth + 1, budget - 1)
                lines.append(f"{indent}else:")
                block(depth + 1, budget - 1)
            elif kind == 8:
                lines.append(f"{indent}try:")
                block(depth + 1, budget - 1)
                lines.append(f"{indent}except {draw(names)}:")
                block(depth + 1, budget - 1)
            else:
                lines.extend([f'{indent}x = """', "def not_one():", '"""'])

    block(0, 3)
    return "\n".join(lines) + draw(st.sampled_from(["", "\n", "\n\n\n"]))


@quick
@given(sources())
def test_every_line_belongs_to_exactly_one_unit(text: str) -> None:
    lines = split_lines(text)
    units = extract_python("a.py", text, lines).units
    owned = Counter(
        line
        for unit in units
        for span in unit.own or (unit.span,)
        for line in range(span.start, span.end + 1)
    )
    assert all(count == 1 for count in owned.values())
    missing = [number for number in range(1, len(lines) + 1) if number not in owned]
    assert not any(lines[number - 1].strip() for number in missing)
    assert not missing or units[0].name != "<module>"
    assert len({unit.name for unit in units}) == len(units)
    for unit in units:
        assert all(
            unit.span.start <= span.start <= span.end <= unit.span.end for span in (*unit.own, *unit.doc)
        )


@quick
@given(sources())
def test_each_span_holds_the_whole_definition_and_nothing_else(text: str) -> None:
    lines = split_lines(text)
    for unit in extract_python("a.py", text, lines).units:
        if unit.role == "module":
            continue
        own = lines[unit.span.start - 1 : unit.span.end]
        indented = own[0].startswith(" ")
        (node,) = ast.parse("\n".join(["if indented:", *own] if indented else own)).body
        (node,) = node.body if isinstance(node, ast.If) else (node,)
        assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        assert unit.name.rpartition(".")[2].partition("#")[0] == node.name
