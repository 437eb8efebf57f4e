from collections.abc import Mapping

import pytest

from cicl.selection.corpus import Corpus
from cicl.selection.linking import Linker
from cicl.selection.segments import build_segment
from cicl.selection.sources.extraction import extract
from cicl.text import digest_text


class Tree:
    """Files in memory, and what names in them mean, as unit ids."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self.corpus = Corpus(
            [build_segment([extract(path, files[path], digest_text(files[path])) for path in sorted(files)])]
        )
        self.linker = Linker(self.corpus)

    def row(self, path: str) -> int:
        row = self.corpus.file_row(path)
        assert row is not None
        return row

    def imports(self, path: str) -> dict[str, float]:
        return {
            self.corpus.path(item.file): item.weight for item in self.linker.imported_files(self.row(path))
        }

    def module(self, name: str, path: str | None = None) -> str | None:
        row = self.linker.find_module(name, None if path is None else self.row(path))
        return None if row is None else self.corpus.path(row)

    def resolve(self, unit_id: str, name: str) -> dict[str, float]:
        found = self.corpus.find_unit(unit_id)
        assert found is not None
        assert found[1] is not None
        targets = self.linker.resolve(found[0], self.corpus.part_facts(found[1]), name)
        return {
            self.corpus.path(item.file) if item.part is None else self.corpus.part_id(item.part): item.weight
            for item in targets
        }


# Modules


def test_absolute_imports_are_found_from_the_root_and_from_src() -> None:
    tree = Tree({"pkg/__init__.py": "", "pkg/a.py": "", "src/lib/b.py": "", "main.py": "import pkg.a, lib.b"})
    assert tree.module("pkg.a", "main.py") == "pkg/a.py"
    assert tree.module("pkg", "main.py") == "pkg/__init__.py"
    assert tree.module("lib.b", "main.py") == "src/lib/b.py"
    assert tree.imports("main.py") == {"pkg/a.py": 1.0, "src/lib/b.py": 1.0}


@pytest.mark.parametrize(
    ("statement", "imported"),
    [
        ("from . import x", {"p/q/x.py"}),
        ("from .x import f", {"p/q/x.py"}),
        ("from .. import b", {"p/b.py"}),
        ("from ..b import g", {"p/b.py"}),
        ("from ..r.c import h", {"p/r/c.py"}),
        ("from . import missing", {"p/q/__init__.py"}),
        ("from ....b import g", set()),
        ("from ..... import b", set()),
    ],
)
def test_relative_imports_go_by_the_folder_of_the_file(statement: str, imported: set[str]) -> None:
    files = dict.fromkeys(
        ("p/__init__.py", "p/b.py", "p/q/__init__.py", "p/q/x.py", "p/r/c.py", "b.py", "q/x.py"), ""
    )
    tree = Tree({**files, "p/q/here.py": statement + "\n"})
    assert set(tree.imports("p/q/here.py")) == imported


def test_a_relative_import_never_means_a_file_of_another_folder() -> None:
    tree = Tree({"one/pkg/a.py": "from .b import f\n", "two/pkg/b.py": "def f(): ...\n"})
    assert tree.imports("one/pkg/a.py") == {}


def test_a_relative_import_at_the_root_finds_its_sibling() -> None:
    tree = Tree({"a.py": "from .b import f\nfrom . import c\n", "b.py": "def f(): ...\n", "c.py": ""})
    assert set(tree.imports("a.py")) == {"b.py", "c.py"}


def test_relative_imports_work_in_folders_with_dots_and_below_many_folders() -> None:
    deep = "/".join("abcdefghij")
    tree = Tree(
        {
            "v1.2/pkg/a.py": "from .b import f\n",
            "v1.2/pkg/b.py": "def f(): ...\n",
            f"{deep}/x.py": "from .y import f\n",
            f"{deep}/y.py": "def f(): ...\n",
        }
    )
    assert tree.imports("v1.2/pkg/a.py") == {"v1.2/pkg/b.py": 1.0}
    assert tree.imports(f"{deep}/x.py") == {f"{deep}/y.py": 1.0}


def test_a_module_below_many_folders_is_found_by_its_whole_name() -> None:
    deep = "abcdefghij"
    tree = Tree({"/".join(deep) + "/y.py": "", "main.py": f"import {'.'.join(deep)}.y\n"})
    assert tree.imports("main.py") == {"/".join(deep) + "/y.py": 1.0}


def test_of_two_files_with_the_same_module_name_the_nearer_is_meant() -> None:
    tree = Tree(
        {
            "src/pkg/util.py": "",
            "src/pkg/a.py": "import pkg.util\n",
            "vendor/pkg/util.py": "",
            "vendor/pkg/a.py": "import pkg.util\n",
            "tests/test_a.py": "import pkg.util\n",
        }
    )
    assert tree.imports("src/pkg/a.py") == {"src/pkg/util.py": 1.0}
    assert tree.imports("vendor/pkg/a.py") == {"vendor/pkg/util.py": 1.0}
    assert tree.imports("tests/test_a.py") == {"src/pkg/util.py": 1.0}, (
        "as near as the other: the first by path"
    )


def test_a_module_inside_a_package_does_not_stand_for_one_outside_of_the_tree() -> None:
    tree = Tree(
        {
            "pkg/__init__.py": "",
            "pkg/json.py": "def dumps(): ...\n",
            "pkg/redis.py": "class Redis: ...\n",
            "pkg/a.py": "import json\nimport redis\nfrom json import dumps\n\n\ndef f():\n    dumps()\n",
            "scripts/logging.py": "",
            "scripts/run.py": "import logging\n",
            "main.py": "import logging\n",
        }
    )
    assert tree.imports("pkg/a.py") == {}
    assert tree.resolve("pkg/a.py::f", "dumps") == {}
    assert tree.imports("main.py") == {}, "the standard library's"
    assert tree.imports("scripts/run.py") == {"scripts/logging.py": 1.0}, "a script's own folder comes first"


def test_what_somebody_writes_may_leave_out_the_first_packages() -> None:
    tree = Tree({"lib/pkg/__init__.py": "", "lib/pkg/core/__init__.py": "", "lib/pkg/core/json.py": ""})
    assert tree.module("core.json") == "lib/pkg/core/json.py"
    assert tree.module("json") == "lib/pkg/core/json.py"
    assert tree.module("nowhere") is None
    assert tree.module("") is None
    assert tree.module(".core") is None


def test_code_wins_over_a_stub_and_a_stub_over_nothing() -> None:
    tree = Tree({"a.py": "", "a.pyi": "", "b.pyi": "", "main.py": "import a, b\nfrom . import b\n"})
    assert tree.imports("main.py") == {"a.py": 1.0, "b.pyi": 1.0}


# Names


CHAIN = {
    "pkg/__init__.py": "from .api import run, helper as assist\nfrom .stars import *\n",
    "pkg/api.py": "from pkg.deep.impl import run\nfrom .tools import helper\n",
    "pkg/deep/__init__.py": "",
    "pkg/deep/impl.py": "def run(): ...\n",
    "pkg/tools.py": "def helper(): ...\n",
    "pkg/stars.py": "from .constants import *\n\n\ndef star(): ...\n",
    "pkg/constants.py": "LIMIT = 3\n",
}


def test_a_re_exported_name_is_followed_to_its_definition() -> None:
    use = "from pkg import run, assist as a, star, LIMIT\n\n\ndef f():\n    run(a(), star(LIMIT))\n"
    tree = Tree({**CHAIN, "use.py": use})
    assert tree.resolve("use.py::f", "run") == {"pkg/deep/impl.py::run": 0.9}
    assert tree.resolve("use.py::f", "a") == {"pkg/tools.py::helper": 0.9}
    assert tree.resolve("use.py::f", "star") == {"pkg/stars.py::star": 0.9}
    assert tree.resolve("use.py::f", "LIMIT") == {"pkg/constants.py::<module>": 0.9}
    assert tree.imports("use.py") == {
        "pkg/__init__.py": 1.0,
        "pkg/deep/impl.py": 0.9,
        "pkg/tools.py": 0.9,
        "pkg/stars.py": 0.9,
        "pkg/constants.py": 0.9,
    }


def test_a_name_that_a_package_exports_wins_over_its_module_of_the_same_name() -> None:
    tree = Tree(
        {
            "pkg/__init__.py": "from .compute import compute\n",
            "pkg/compute.py": "def compute(): ...\n",
            "use.py": "from pkg import compute\n\n\ndef f():\n    compute()\n",
        }
    )
    assert tree.resolve("use.py::f", "compute") == {"pkg/compute.py::compute": 0.9}


def test_names_are_found_through_modules_under_other_names() -> None:
    use = (
        "import pkg.deep.impl as i\nimport pkg.tools\nfrom pkg import tools as t\n\n\n"
        "def f():\n    i.run(); pkg.tools.helper(); t.helper()\n"
    )
    tree = Tree({**CHAIN, "use.py": use})
    assert tree.resolve("use.py::f", "i.run") == {"pkg/deep/impl.py::run": 1.0}
    assert tree.resolve("use.py::f", "pkg.tools.helper") == {"pkg/tools.py::helper": 1.0}
    assert tree.resolve("use.py::f", "t.helper") == {"pkg/tools.py::helper": 1.0}
    assert tree.resolve("use.py::f", "pkg.run") == {"pkg/deep/impl.py::run": 0.9}
    assert tree.resolve("use.py::f", "os.path") == {}


def test_imports_in_a_circle_come_to_an_end() -> None:
    files = {
        f"m{number}.py": "".join(f"from m{other} import *\n" for other in range(12)) for number in range(12)
    }
    tree = Tree(
        {
            **files,
            "m7.py": files["m7.py"] + "\n\ndef found(): ...\n",
            "use.py": "from m0 import found, lost\n",
        }
    )
    assert tree.imports("use.py") == {"m0.py": 1.0, "m7.py": 0.9}
    again = Tree({"a.py": "from b import x\n", "b.py": "from a import x\n", "use.py": "from a import x\n"})
    assert again.imports("use.py") == {"a.py": 1.0}


def test_a_long_chain_of_re_exports_neither_recurses_too_deep_nor_takes_long() -> None:
    files = {f"m{number}.py": f"from m{number + 1} import *\n" for number in range(1500)}
    tree = Tree({**files, "use.py": "from m0 import f\n"})
    assert tree.imports("use.py") == {"m0.py": 1.0}


# Members


CLASSES = {
    "base.py": "class Base:\n    limit = 1\n\n    def run(self): ...\n\n    def stop(self): ...\n",
    "middle.py": "import base\n\n\nclass Middle(base.Base):\n    def stop(self): ...\n",
    "leaf.py": (
        "from middle import Middle\n\n\nclass Leaf(Middle):\n"
        "    def run(self):\n        self.run(); super().stop(); self.limit; self.other.run()\n\n"
        "    def other(self): ...\n"
    ),
}


def test_a_method_is_found_via_self_and_via_base_classes_of_other_modules() -> None:
    tree = Tree(CLASSES)
    assert tree.resolve("leaf.py::Leaf.run", "self.run") == {"leaf.py::Leaf.run": 1.0}
    assert tree.resolve("leaf.py::Leaf.run", "self.stop") == {"middle.py::Middle.stop": 0.8}
    assert tree.resolve("leaf.py::Leaf.run", "self.limit") == {"base.py::Base": 0.8}
    assert tree.resolve("leaf.py::Leaf.run", "self.other.run") == {"leaf.py::Leaf.other": 1.0}
    assert tree.resolve("leaf.py::Leaf.run", "self.nothing") == {}
    assert tree.resolve("leaf.py::Leaf", "cls.stop") == {"middle.py::Middle.stop": 0.8}


def test_super_means_the_bases_only() -> None:
    tree = Tree(CLASSES)
    assert tree.resolve("leaf.py::Leaf.run", "super.run") == {"base.py::Base.run": 0.8}
    assert tree.resolve("base.py::Base.run", "super.run") == {}


def test_a_member_of_a_class_is_found_by_its_dotted_name() -> None:
    tree = Tree(
        {**CLASSES, "use.py": "from leaf import Leaf\n\n\ndef f():\n    Leaf.stop(Leaf.nothing.more)\n"}
    )
    assert tree.resolve("use.py::f", "Leaf.stop") == {"middle.py::Middle.stop": 0.8}
    assert tree.resolve("use.py::f", "Leaf.nothing.more") == {"leaf.py::Leaf": 1.0}


def test_classes_that_inherit_in_a_circle_come_to_an_end() -> None:
    tree = Tree({"a.py": "class A(B):\n    def f(self): ...\n\n\nclass B(A): ...\n\n\nclass C(C): ...\n"})
    assert tree.resolve("a.py::A.f", "self.g") == {}
    assert tree.resolve("a.py::B", "self.f") == {"a.py::A.f": 0.8}
    assert tree.resolve("a.py::C", "self.f") == {}


def test_an_attribute_of_an_unknown_object_is_found_by_name_where_the_name_is_rare() -> None:
    files = {f"m{number}.py": "class A:\n    def common(self): ...\n" for number in range(4)}
    tree = Tree(
        {**files, "x.py": "class X:\n    def rare(self): ...\n", "use.py": "def f(x):\n    x.rare()\n"}
    )
    assert tree.resolve("use.py::f", ".rare") == {"x.py::X.rare": 0.4}
    assert tree.resolve("use.py::f", ".common") == {}
    assert tree.resolve("use.py::f", ".nowhere") == {}


def test_a_name_that_one_unit_defines_twice_counts_once() -> None:
    tree = Tree({"x.py": "class Rare:\n    Rare = 1\n", "use.py": "def f(x):\n    x.Rare()\n"})
    assert tree.resolve("use.py::f", ".Rare") == {"x.py::Rare": 0.4}


def test_members_of_a_class_defined_twice_are_told_apart() -> None:
    first = "if x:\n    class C:\n        def m(self): ...\n"
    text = first + "else:\n    class C:\n        def n(self):\n            self.n()\n"
    tree = Tree({"a.py": text, "use.py": "def f(x):\n    x.n()\n"})
    assert tree.resolve("a.py::C#2.n", "self.n") == {"a.py::C#2.n": 1.0}
    assert tree.resolve("use.py::f", ".n") == {"a.py::C#2.n": 0.4}


# Fixtures


FIXTURE = "import pytest\n\n\n@pytest.fixture\ndef {}(): ...\n"


def test_a_fixture_is_its_own_files_or_that_of_the_nearest_conftest() -> None:
    tree = Tree(
        {
            "conftest.py": FIXTURE.format("far") + "\n\n@pytest.fixture\ndef both(): ...\n",
            "tests/conftest.py": FIXTURE.format("both"),
            "tests/test_a.py": FIXTURE.format("own") + "\n\ndef test_a(own, both, far, tmp_path): ...\n",
            "other/conftest.py": FIXTURE.format("tmp_path"),
        }
    )

    def home(name: str) -> str | None:
        target = tree.linker.find_fixture(name, tree.row("tests/test_a.py"))
        return None if target is None else tree.corpus.path(target.file)

    assert [home(name) for name in ("own", "both", "far", "tmp_path")] == [
        "tests/test_a.py",
        "tests/conftest.py",
        "conftest.py",
        None,
    ]
