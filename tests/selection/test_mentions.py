from collections.abc import Mapping

import pytest

from cicl.selection.corpus import Corpus
from cicl.selection.graph import InstanceGraph
from cicl.selection.mentions import MAX_MEANINGS, resolve_mentions
from cicl.selection.queries import parse_task
from cicl.selection.records import ContextUnit, Task
from cicl.selection.segments import build_segment
from cicl.selection.sources.extraction import extract
from cicl.text import TermSplitter

FILES = {
    "src/pkg/__init__.py": "from .core import run as start\n",
    "src/pkg/core.py": (
        "LIMIT = 1\n\n\ndef run(x):\n    def inner():\n        return x\n    return inner\n\n\n"
        "class Base:\n    size = 2\n\n    def close(self):\n        pass\n\n\n"
        "class Widget(Base):\n    @property\n    def width(self):\n        return 1\n\n"
        "    @width.setter\n    def width(self, value):\n        self.w = value\n"
    ),
    "src/pkg/utils.py": "def helper(): ...\n",
    "src/other/utils.py": "def helper(): ...\n\n\nclass MyWidget:\n    def width(self): ...\n",
    "setup.py": "NAME = 1\n",
    "tests/test_core.py": "def run(): ...\n\n\ndef only_here(): ...\n",
    "docs/guide.md": "# Guide\n\nText.\n\n# Usage\n\nMore.\n",
    "数据/模块.py": "def 处理(): ...\n",
}


def graph_of(files: Mapping[str, str]) -> InstanceGraph:
    return InstanceGraph(Corpus([build_segment([extract(path, files[path], "d") for path in sorted(files)])]))


GRAPH = graph_of(FILES)


def resolve(
    text: str, kinds: str = "frame path dotted quoted identifier", graph: InstanceGraph = GRAPH
) -> set[str]:
    query = parse_task(Task(text=text), TermSplitter())
    wanted = [item for item in query.mentions if item.kind in kinds.split()]
    return {item.unit_id for item in resolve_mentions(graph, wanted)}


def frame(path: str, line: int, function: str = "") -> str:
    return f'  File "{path}", line {line}' + (f", in {function}" if function else "")


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        (frame("src/pkg/core.py", 19, "width"), "src/pkg/core.py::Widget.width"),
        (frame("/usr/lib/python3/site-packages/pkg/core.py", 14, "close"), "src/pkg/core.py::Base.close"),
        (frame("C:\\\\Users\\\\me\\\\pkg\\\\core.py", 14, "close"), "src/pkg/core.py::Base.close"),
        (frame("src/pkg/core.py", 23, "width"), "src/pkg/core.py::Widget.width#2"),
        (frame("src/pkg/core.py", 500, "close"), "src/pkg/core.py::Base.close"),
        (frame("src/pkg/core.py", 6, "inner"), "src/pkg/core.py::run"),
        (frame("src/pkg/core.py", 6, "<lambda>"), "src/pkg/core.py::run"),
        (frame("src/pkg/core.py", 1, "<module>"), "src/pkg/core.py::<module>"),
        (frame("src/pkg/core.py", 14), "src/pkg/core.py::Base.close"),
        (frame("src/pkg/core.py", 14, "Base.close"), "src/pkg/core.py::Base.close"),
        (frame("src/pkg/utils.py", 900, "gone"), "src/pkg/utils.py"),
        (frame("/somewhere/setup.py", 1, "<module>"), "setup.py::<module>"),
    ],
)
def test_a_frame_means_the_innermost_unit_around_its_line_that_has_its_name(text: str, unit: str) -> None:
    assert resolve(text, "frame") == {unit}


def test_of_several_units_of_a_name_a_frame_with_an_old_line_means_the_nearest() -> None:
    text = "".join(f"class C{number}:\n    def m(self): ...\n\n\n" for number in range(5))
    graph = graph_of({"a.py": text})
    assert resolve(frame("a.py", 12, "m"), "frame", graph) == {"a.py::C2.m"}


@pytest.mark.parametrize(
    "text",
    [
        frame("/usr/lib/python3.11/json/decoder.py", 355, "raw_decode"),
        frame("/usr/lib/elsewhere/utils.py", 1, "helper"),
        frame("<frozen importlib._bootstrap>", 241, "run"),
        frame("<string>", 1),
        frame("/", 1),
    ],
)
def test_a_frame_of_a_foreign_file_means_nothing(text: str) -> None:
    assert resolve(text, "frame") == set()


@pytest.mark.parametrize(
    ("text", "units"),
    [
        ("src/pkg/core.py", {"src/pkg/core.py"}),
        ("./src/pkg/core.py", {"src/pkg/core.py"}),
        ("pkg/core.py", {"src/pkg/core.py"}),
        ("core.py", {"src/pkg/core.py"}),
        (r"src\pkg\core.py:14", {"src/pkg/core.py::Base.close"}),
        ("/home/me/checkout/src/pkg/core.py:14: in close", {"src/pkg/core.py::Base.close"}),
        ("src/pkg/core.py:1", {"src/pkg/core.py::<module>"}),
        ("src/pkg/core.py:9999", {"src/pkg/core.py"}),
        ("utils.py", {"src/pkg/utils.py", "src/other/utils.py"}),
        ("docs/guide.md:6", {"docs/guide.md::usage"}),
        ("test_core.py", {"tests/test_core.py"}),
        ("数据/模块.py", {"数据/模块.py"}),
        ("请看src/pkg/utils.py，谢谢", {"src/pkg/utils.py"}),
        ("missing.py", set()),
        ("lib/missing/core.py.bak", set()),
    ],
)
def test_a_path_means_the_files_that_end_in_it(text: str, units: set[str]) -> None:
    assert resolve(text, "path") == units


def test_a_longer_path_means_the_files_that_share_most_of_its_end() -> None:
    graph = graph_of({"utils.py": "", "a/utils.py": "", "b/pkg/utils.py": "", "c/pkg/utils.py": ""})
    assert resolve("/root/pkg/utils.py", "path", graph) == {"b/pkg/utils.py", "c/pkg/utils.py"}
    assert resolve("/root/nowhere/utils.py", "path", graph) == {"utils.py"}


@pytest.mark.parametrize(
    ("text", "units"),
    [
        ("pkg.core.run", {"src/pkg/core.py::run"}),
        ("pkg.start", {"src/pkg/core.py::run"}),
        ("core.run", {"src/pkg/core.py::run"}),
        ("pkg.core", {"src/pkg/core.py"}),
        ("pkg.core.Widget.close", {"src/pkg/core.py::Base.close"}),
        ("Widget.close", {"src/pkg/core.py::Base.close"}),
        ("Widget.size", {"src/pkg/core.py::Base"}),
        ("core.LIMIT", {"src/pkg/core.py::<module>"}),
        ("Widget.width", {"src/pkg/core.py::Widget.width", "src/pkg/core.py::Widget.width#2"}),
        ("`run.close`", set()),
        ("numpy.zeros", set()),
        ("json.loads", set()),
    ],
)
def test_a_dotted_name_means_what_it_names(text: str, units: set[str]) -> None:
    assert resolve(text, "dotted") == units


@pytest.mark.parametrize(
    ("text", "units"),
    [
        ("`Widget`", {"src/pkg/core.py::Widget"}),
        ("`LIMIT`", {"src/pkg/core.py::<module>"}),
        ("`helper`", {"src/pkg/utils.py::helper", "src/other/utils.py::helper"}),
        ("MyWidget fails", {"src/other/utils.py::MyWidget"}),
        ("helper() fails", {"src/pkg/utils.py::helper", "src/other/utils.py::helper"}),
        ("`Makefile`", set()),
        ("`nothing`", set()),
    ],
)
def test_a_name_means_every_definition_of_it(text: str, units: set[str]) -> None:
    assert resolve(text, "quoted identifier") == units


def test_production_code_is_meant_rather_than_a_test_of_the_same_name() -> None:
    assert resolve("`run`", "quoted") == {"src/pkg/core.py::run"}
    assert resolve("`only_here`", "quoted") == {"tests/test_core.py::only_here"}


def test_a_name_with_too_many_meanings_means_none_of_them() -> None:
    files = {f"m{number}.py": "def common(): ...\n" for number in range(MAX_MEANINGS + 1)}
    assert resolve("`common`", "quoted", graph_of(files)) == set()
    files.pop("m0.py")
    assert len(resolve("`common`", "quoted", graph_of(files))) == MAX_MEANINGS


def test_the_weight_of_a_mention_is_shared_between_its_meanings() -> None:
    mentions = parse_task(Task(text="`helper` and `Widget`"), TermSplitter()).mentions
    weights = {item.unit_id: item.weight for item in resolve_mentions(GRAPH, mentions)}
    assert weights["src/pkg/utils.py::helper"] == 0.5
    assert weights["src/pkg/core.py::Widget"] == 1.0


def test_a_unit_given_by_hand_is_found_by_its_id() -> None:
    graph = InstanceGraph.from_units([ContextUnit(id="playbook", kind="memory", source="log", content="x")])
    assert resolve("see `playbook`", "quoted", graph) == {"playbook"}
