import ast
from pathlib import Path

import pytest

from benchmarks.results import PROJECT
from benchmarks.trees import copy_tree, describe_tree, edit_function, name_tree, read_tasks

SOURCE = '''\
class Tank:
    """Holds water."""

    def fill(self, litres: int) -> int:
        """Fill it."""
        return litres

    @property
    def level(self) -> int:
        """One line."""

    def one_line(self) -> int: return 1


async def drain(tank: Tank) -> None:
    @print
    def inner() -> None: ...
'''


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "tree" / "pkg").mkdir(parents=True)
    (tmp_path / "tree" / "pkg" / "tank.py").write_text(SOURCE)
    (tmp_path / "tree" / "pkg" / "broken.py").write_text("def (:\n")
    (tmp_path / "tree" / "notes.md").write_text("Water.\n")
    return tmp_path / "tree"


FILES = ["notes.md", "pkg/broken.py", "pkg/tank.py"]


@pytest.mark.parametrize("number", range(6))
def test_an_edit_adds_one_statement_to_a_function(tree: Path, number: int) -> None:
    assert edit_function(tree, FILES, number) == "pkg/tank.py"
    edited = (tree / "pkg" / "tank.py").read_text()
    added = f"edited_{number} = {number}"
    assert [line for line in edited.splitlines() if line.strip() != added] == SOURCE.splitlines()
    assert edited.count(added) == 1
    functions = [
        node
        for node in ast.walk(ast.parse(edited))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    assert any(added in map(ast.unparse, node.body) for node in functions)


def test_edits_go_to_several_files(tmp_path: Path) -> None:
    files = [f"m{number}.py" for number in range(5)]
    for file in files:
        (tmp_path / file).write_text("def f():\n    return 1\n")
    assert sorted(edit_function(tmp_path, files, number) for number in range(5)) == files


def test_a_tree_without_functions_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    with pytest.raises(ValueError, match="no Python file with a function"):
        edit_function(tmp_path, ["a.py"], 0)


def test_a_copy_can_be_edited(tree: Path, tmp_path: Path) -> None:
    copy = copy_tree(tree, FILES, tmp_path / "copy")
    edit_function(copy, FILES, 1)
    assert (tree / "pkg" / "tank.py").read_text() == SOURCE
    assert (copy / "notes.md").stat().st_mtime_ns == (tree / "notes.md").stat().st_mtime_ns


def test_a_tree_is_described_by_what_is_read_of_it(tree: Path) -> None:
    data = describe_tree(tree, ["notes.md", "pkg/tank.py"])
    assert (data.name, data.files, data.python_files) == ("tree", 2, 1)
    assert data.bytes == len(SOURCE) + len("Water.\n")


@pytest.mark.parametrize("name", ["django-5.2.19", "Django", "sympy-1.14.0"])
def test_tasks_are_found_by_the_name_of_the_tree(name: str) -> None:
    tasks = read_tasks(Path(name))
    assert len(set(tasks)) == len(tasks) >= 20
    assert all(task.strip() for task in tasks)


def test_this_repository_is_named_after_the_project() -> None:
    assert name_tree(PROJECT) == "cicl"
    assert len(read_tasks(PROJECT)) >= 20
    assert read_tasks(Path("flask")) == []
