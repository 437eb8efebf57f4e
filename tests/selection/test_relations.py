from collections import defaultdict
from collections.abc import Mapping

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cicl.selection.corpus import Corpus
from cicl.selection.graph import InstanceGraph
from cicl.selection.records import Edge
from cicl.selection.relations import covers, is_nested
from cicl.selection.segments import build_segment
from cicl.selection.sources.extraction import extract

quick = settings(deadline=None, max_examples=60, database=None, suppress_health_check=[HealthCheck.too_slow])


def graph_of(files: Mapping[str, str]) -> InstanceGraph:
    return InstanceGraph(Corpus([build_segment([extract(path, files[path], "d") for path in sorted(files)])]))


def leaving(graph: InstanceGraph, unit_id: str, kind: str) -> dict[str, float]:
    return {edge.target: edge.weight for edge in graph.edges_from(unit_id) if edge.kind == kind}


def reaching(graph: InstanceGraph, unit_id: str, kind: str) -> dict[str, float]:
    return {edge.source: edge.weight for edge in graph.edges_to(unit_id) if edge.kind == kind}


def assert_inverse(graph: InstanceGraph) -> None:
    """What reaches a unit is exactly what leaves the others for it."""
    expected: defaultdict[str, set[Edge]] = defaultdict(set)
    for unit_id in graph:
        for edge in graph.edges_from(unit_id):
            assert edge.source == unit_id
            assert edge.target in graph, edge
            assert edge.target != unit_id, edge
            assert 0 < edge.weight <= 1
            expected[edge.target].add(edge)
    fresh = InstanceGraph(graph.corpus)
    for unit_id in graph:
        assert set(fresh.edges_to(unit_id)) == expected[unit_id], unit_id
        near = InstanceGraph(graph.corpus).edges_to(unit_id, limit=2)
        assert set(near) <= expected[unit_id]


# Each kind of edge


def test_a_file_contains_its_definitions_a_class_its_members_and_a_document_its_sections() -> None:
    graph = graph_of(
        {
            "a.py": (
                "x = 1\n\nclass C:\n    class D:\n        def m(self): ...\n\n"
                "class C:\n    def n(self): ...\n"
            ),
            "b.md": "# One\n\nText.\n\n## Two\n\nText.\n",
        }
    )
    assert set(leaving(graph, "a.py", "contains")) == {"a.py::<module>", "a.py::C", "a.py::C#2"}
    assert set(leaving(graph, "a.py::C", "contains")) == {"a.py::C.D"}
    assert set(leaving(graph, "a.py::C.D", "contains")) == {"a.py::C.D.m"}
    assert set(leaving(graph, "a.py::C#2", "contains")) == {"a.py::C#2.n"}
    assert set(leaving(graph, "b.md", "contains")) == {"b.md::one", "b.md::two"}
    assert_inverse(graph)


PROJECT = {
    "shop/__init__.py": "from .cart import Cart\nfrom .prices import total as sum_up\n",
    "shop/cart.py": (
        "from .prices import total\nfrom .base import Base\n\n\nclass Cart(Base):\n"
        "    def total(self):\n        return total(self.items) + self.shipping()\n\n"
        "    def clear(self):\n        super().clear()\n"
    ),
    "shop/base.py": "class Base:\n    def shipping(self): ...\n\n    def clear(self): ...\n",
    "shop/prices.py": "RATE = 1\n\n\ndef total(items): ...\n",
    "tests/conftest.py": "import pytest\n\n\n@pytest.fixture\ndef cart(): ...\n",
    "tests/test_cart.py": (
        "from shop import Cart, sum_up as s\n\n\ndef test_total(cart):\n    Cart().total()\n    s()\n\n\n"
        "class TestClear:\n    def test_clear(self, cart):\n        Cart.clear(cart)\n"
    ),
}


def test_calls_tests_imports_and_fixtures_of_a_small_project() -> None:
    graph = graph_of(PROJECT)
    assert leaving(graph, "shop/cart.py::Cart", "calls") == {"shop/base.py::Base": 1.0}
    assert leaving(graph, "shop/cart.py::Cart.total", "calls") == {
        "shop/prices.py::total": 1.0,
        "shop/base.py::Base.shipping": 0.8,
    }
    assert leaving(graph, "shop/cart.py::Cart.clear", "calls")["shop/base.py::Base.clear"] == 0.8
    tested = leaving(graph, "tests/test_cart.py::test_total", "tests")
    assert {"shop/cart.py::Cart", "shop/prices.py::total"} <= set(tested)
    assert (
        leaving(graph, "tests/test_cart.py::TestClear.test_clear", "tests")["shop/cart.py::Cart.clear"] == 0.9
    )
    assert leaving(graph, "tests/test_cart.py::test_total", "requires") == {"tests/conftest.py::cart": 0.5}
    assert leaving(graph, "tests/test_cart.py", "tests") == {"shop/cart.py": 0.6}
    assert set(leaving(graph, "tests/test_cart.py", "imports")) == {
        "shop/__init__.py",
        "shop/cart.py",
        "shop/prices.py",
    }
    assert "tests/test_cart.py::test_total" in reaching(graph, "shop/prices.py::total", "tests")
    assert_inverse(graph)


@pytest.mark.parametrize(
    ("test", "tested"),
    [
        ("tests/test_x.py", {"src/x.py", "lib/x.py"}),
        ("lib/x_test.py", {"src/x.py", "lib/x.py"}),
        ("tests/x.py", set()),
        ("tests/test_missing.py", set()),
        ("tests/conftest.py", set()),
        ("tests/__init__.py", set()),
    ],
)
def test_a_test_file_tests_the_files_it_is_named_after(test: str, tested: set[str]) -> None:
    files = dict.fromkeys(("src/x.py", "lib/x.py", "src/conftest.py", "src/__init__.py", "tests/x/y.py"), "")
    graph = graph_of({**files, test: ""})
    assert set(leaving(graph, test, "tests")) == tested
    assert_inverse(graph)


@pytest.mark.parametrize(
    ("written", "target"),
    [
        ("new", "pkg/a.py::new"),
        ("`new()`", "pkg/a.py::new"),
        ("C.m", "pkg/a.py::C.m"),
        ("pkg.b.other", "pkg/b.py::other"),
        ("b.other", "pkg/b.py::other"),
        ("pkg/b.py", "pkg/b.py"),
        ("b.py", "pkg/b.py"),
        ("pkg/b.py::other", "pkg/b.py::other"),
        ("alias", "pkg/b.py::other"),
        ("module.other", "pkg/b.py::other"),
        ("old", None),
        ("nowhere", None),
    ],
)
def test_a_deprecated_definition_conflicts_with_what_replaces_it(written: str, target: str | None) -> None:
    graph = graph_of(
        {
            "pkg/__init__.py": "",
            "pkg/a.py": (
                "from pkg.b import other as alias\nimport pkg.b as module\n\n\n"
                f'@deprecated("Use `{written.strip("`")}` instead")\ndef old(): ...\n\n\ndef new(): ...\n\n\n'
                "class C:\n    def m(self): ...\n"
            ),
            "pkg/b.py": "def other(): ...\n",
        }
    )
    assert set(leaving(graph, "pkg/a.py::old", "conflicts")) == ({target} if target else set())
    assert_inverse(graph)


def test_a_deprecated_method_is_replaced_by_its_sibling() -> None:
    method = '    @deprecated("Use new instead")\n    def old(self): ...\n'
    graph = graph_of({"a.py": f"class C:\n{method}\n    def new(self): ...\n\ndef new(): ...\n"})
    assert set(leaving(graph, "a.py::C.old", "conflicts")) == {"a.py::C.new"}
    assert_inverse(graph)


@pytest.mark.parametrize(
    ("written", "target"),
    [
        ("other.md", ".claude/memory/other.md"),
        ("./other.md", ".claude/memory/other.md"),
        ("../../docs/settings.toml", "docs/settings.toml"),
        ("docs/settings.toml", "docs/settings.toml"),
        (".claude/memory/other.md::note", ".claude/memory/other.md::note"),
        ("Makefile", "Makefile"),
        ("docs.py", "docs.py"),
        ("docs.run", "docs.py::run"),
        ("note", None),
    ],
)
def test_a_note_may_require_and_supersede_files_and_units(written: str, target: str | None) -> None:
    for kind, key in (("requires", "requires"), ("conflicts", "supersedes")):
        graph = graph_of(
            {
                ".claude/memory/this.md": f"---\nname: this\n{key}: {written}\n---\n\nRemember.\n",
                ".claude/memory/other.md": "---\nname: other\n---\n\nSomething else.\n",
                "docs/settings.toml": "x = 1\n",
                "Makefile": "all:\n\ttrue\n",
                "docs.py": "def run(): ...\n",
            }
        )
        assert set(leaving(graph, ".claude/memory/this.md::note", kind)) == ({target} if target else set())
        assert_inverse(graph)


SIMILAR = """\
def {name}(items):
    total = 0
    for item in items:
        price = item.price * item.quantity
        discount = price * item.rate
        total += price - discount
    return round(total, 2)
"""


def test_bodies_that_share_most_words_are_similar_and_a_stale_one_conflicts_with_the_current() -> None:
    graph = graph_of(
        {
            "a.py": SIMILAR.format(name="charge"),
            "b.py": "@deprecated\n" + SIMILAR.format(name="charge_old"),
            "c.py": "def other():\n    alpha = beta(gamma, delta, epsilon, zeta, eta, theta, iota)\n",
        }
    )
    assert set(leaving(graph, "a.py::charge", "similar")) == {"b.py::charge_old"}
    assert leaving(graph, "a.py::charge", "conflicts") == {}
    assert leaving(graph, "b.py::charge_old", "conflicts") == leaving(graph, "b.py::charge_old", "similar")
    assert set(leaving(graph, "b.py::charge_old", "similar")) == {"a.py::charge"}
    assert_inverse(graph)


def test_what_resembles_very_many_is_boilerplate() -> None:
    files = {f"m{number}.py": SIMILAR.format(name="charge") for number in range(30)}
    graph = graph_of(files)
    assert leaving(graph, "m0.py::charge", "similar") == {}
    assert_inverse(graph)


# All of them: what reaches a unit is what leaves the others


MODULES = (
    "a.py",
    "b.py",
    "pkg/__init__.py",
    "pkg/a.py",
    "pkg/c.py",
    "pkg/sub/__init__.py",
    "pkg/sub/d.py",
    "src/lib/e.py",
    "src/lib/__init__.py",
    "tests/conftest.py",
    "tests/test_a.py",
    "pkg/c_test.py",
)
DOTTED = ("a", "b", "pkg", "pkg.a", "pkg.c", "pkg.sub", "pkg.sub.d", "lib.e", "lib", "json", "e")
RELATIVE = (".", "..", ".a", ".c", ".sub", "..a", ".sub.d", ".e", "...a")
NAMES = ("f", "g", "C", "D", "m", "x", "a", "c", "fix")
WRITTEN = (
    *NAMES,
    *MODULES,
    *DOTTED,
    "pkg/a.py::f",
    "a.f",
    "pkg.f",
    "C.m",
    "pkg.a.C.m",
    "./other.md",
    "other.md",
    "../rules/use-f.md",
    "docs/guide.md",
    "guide.md",
    "docs/guide.md::part",
    "note",
    "Makefile",
    "docs/conf.toml",
)

names = st.sampled_from(NAMES)
written = st.sampled_from(WRITTEN)


@st.composite
def imports(draw: st.DrawFn) -> str:
    module = draw(st.sampled_from((*DOTTED, *RELATIVE)))
    name, alias = draw(names), draw(names)
    forms = [
        f"from {module} import {name}",
        f"from {module} import {name} as {alias}",
        f"from {module} import *",
    ]
    if not module.startswith("."):
        forms += [f"import {module}", f"import {module} as {alias}"]
    return draw(st.sampled_from(forms))


@st.composite
def calls(draw: st.DrawFn) -> str:
    one, two, dotted = draw(names), draw(names), draw(st.sampled_from(DOTTED))
    return draw(
        st.sampled_from(
            [
                f"{one}()",
                f"{one}.{two}()",
                f"{dotted}.{one}({two})",
                f"self.{one}.{two}()",
                f"self.{one}()",
                f"super().{one}()",
                f"thing.{one}()",
                f"cls.{one}",
                f"{one}.{two}.nothing.more()",
            ]
        )
    )


@st.composite
def functions(draw: st.DrawFn, indent: str = "") -> list[str]:
    decorators = draw(
        st.lists(
            st.one_of(
                st.sampled_from(["@pytest.fixture", "@property", "@deprecated"]),
                written.map(lambda name: f"@deprecated('Use `{name}` instead')"),
                names.map(lambda name: f"@{name}"),
            ),
            max_size=1,
        )
    )
    parameters = ", ".join(dict.fromkeys(draw(st.lists(names, max_size=2))))
    body = draw(st.lists(calls(), min_size=1, max_size=3))
    head = f"def {draw(names)}({parameters}):"
    return [*(indent + line for line in (*decorators, head)), *(f"{indent}    {line}" for line in body)]


@st.composite
def classes(draw: st.DrawFn) -> list[str]:
    bases = ", ".join(
        dict.fromkeys(draw(st.lists(st.one_of(names, st.sampled_from(["a.C", "pkg.D", "c.C"])), max_size=2)))
    )
    lines = [f"class {draw(st.sampled_from('CD'))}({bases}):", f"    {draw(names)} = {draw(calls())}"]
    for method in draw(st.lists(functions(indent="    "), max_size=2)):
        lines += method
    return lines


@st.composite
def modules(draw: st.DrawFn) -> str:
    lines = draw(st.lists(imports(), max_size=3))
    lines += [f"{name} = {draw(calls())}" for name in draw(st.lists(names, max_size=1))]
    for part in draw(st.lists(st.one_of(functions(), classes()), max_size=2)):
        lines += part
    return "\n".join([*lines, ""])


@st.composite
def notes(draw: st.DrawFn) -> str:
    lines = ["---", "name: n"]
    lines += [
        f"{key}: {draw(written)}"
        for key in draw(st.lists(st.sampled_from(["requires", "supersedes"]), unique=True))
    ]
    return "\n".join([*lines, "---", "", f"# Part\n\nUse `{draw(names)}`.\n"])


@st.composite
def documents(draw: st.DrawFn) -> str:
    first = f"# Part\n\nDeprecated. Use `{draw(written)}` instead.\n\n"
    return first + f"# Note\n\n- Always read @{draw(written)} first.\n"


trees = st.fixed_dictionaries(
    {},
    optional={
        **{path: modules() for path in MODULES},
        ".claude/memory/this.md": notes(),
        ".claude/memory/other.md": notes(),
        ".claude/rules/use-f.md": documents(),
        "AGENTS.md": documents(),
        "docs/guide.md": documents(),
        "docs/conf.toml": st.just("f = 1\n"),
        "Makefile": st.just("all:\n\ttrue\n"),
    },
)


@quick
@given(trees)
def test_what_reaches_a_unit_is_what_leaves_the_others(files: dict[str, str]) -> None:
    assert_inverse(graph_of(files))


# Ids and scopes


@pytest.mark.parametrize(
    ("one", "other", "nested"),
    [
        ("a.py", "a.py::f", True),
        ("a.py::C", "a.py::C.m", True),
        ("a.py::C", "a.py::C.m#2", True),
        ("a.py::C", "a.py::C#2", False),
        ("a.py::C#2", "a.py::C#2.m", True),
        ("a.py::C", "a.py::C#2.m", False),
        ("a.py::C", "a.py::Class", False),
        ("a.py", "a.pyi", False),
        ("docs/a", "docs/a.md", False),
        ("Makefile", "Makefile.am", False),
        ("a.py", "a.py", False),
        ("a.py", "b.py::f", False),
    ],
)
def test_a_unit_is_nested_in_what_its_id_begins_with(one: str, other: str, nested: bool) -> None:
    assert is_nested(one, other) is nested
    assert is_nested(other, one) is nested


@pytest.mark.parametrize(
    ("scope", "path", "covered"),
    [
        ((), "anything", True),
        (("src/**",), "src/a/b.py", True),
        (("src/**",), "lib/a.py", False),
        (("**/*.py",), "a.py", True),
        (("**/*.py",), "a/b.py", True),
        (("src/**/x.py",), "src/x.py", True),
        (("*.md", "*.py"), "docs/a.py", True),
        (("[ab].py",), "c.py", False),
    ],
)
def test_a_scope_covers_the_paths_its_globs_match(scope: tuple[str, ...], path: str, covered: bool) -> None:
    assert covers(scope, path) is covered
