"""Trees to measure on: their tasks, copies of them, and edits like those of an agent."""

import ast
import hashlib
import shutil
from collections.abc import Sequence
from pathlib import Path

from benchmarks.results import PROJECT, Data

TASKS = PROJECT / "benchmarks" / "tasks"


def name_tree(tree: Path) -> str:
    return "cicl" if tree.resolve() == PROJECT else tree.resolve().name


def describe_tree(tree: Path, files: Sequence[str]) -> Data:
    """`files` are those that cicl reads, relative to `tree`."""
    return Data(
        name=name_tree(tree),
        files=len(files),
        python_files=sum(path.endswith(".py") for path in files),
        bytes=sum((tree / path).stat().st_size for path in files),
    )


def read_tasks(tree: Path) -> list[str]:
    """The tasks kept for a tree: those of the file whose name its own begins with, one a line; else none."""
    name = name_tree(tree).lower()
    for file in sorted(TASKS.glob("*.txt")):
        if name.startswith(file.stem):
            return file.read_text(encoding="utf-8").splitlines()
    return []


def copy_tree(tree: Path, files: Sequence[str], target: Path) -> Path:
    """Copy what is read, and git's directory where it lists the files, so that the copy is listed alike."""
    for path in files:
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(tree / path, target / path)
    if (tree / ".git").is_dir():
        shutil.copytree(tree / ".git", target / ".git", symlinks=True)
    return target


def edit_function(root: Path, files: Sequence[str], number: int) -> str:
    """Put a new line into a function of some Python file; return the file's path.

    Equal numbers pick the same file, neighbouring numbers files far apart. Raises `ValueError` when no file
    has a function.
    """
    candidates = sorted((path for path in files if path.endswith(".py")), key=_shuffled)
    for offset in range(len(candidates)):
        path = candidates[(number + offset) % len(candidates)]
        edited = _with_line((root / path).read_bytes(), number)
        if edited is not None:
            (root / path).write_bytes(edited)
            return path
    raise ValueError("no Python file with a function to edit")


def _shuffled(path: str) -> bytes:
    return hashlib.blake2b(path.encode(), digest_size=8).digest()


def _with_line(source: bytes, number: int) -> bytes | None:
    """The source with one more statement in one of its functions; None when it has none or is no Python."""
    lines = source.splitlines(keepends=True)
    places = [place for place in _last_statements(source) if not lines[place[0]][: place[1]].strip()]
    if not places:
        return None
    line, column = places[number % len(places)]
    indent = lines[line][:column]
    lines.insert(line, indent + f"edited_{number} = {number}\n".encode())
    return b"".join(lines)


def _last_statements(source: bytes) -> list[tuple[int, int]]:
    """Line (from 0) and column of the last statement of every function, its decorators included."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return []
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return [(_first_line(node.body[-1]) - 1, node.body[-1].col_offset) for node in functions]


def _first_line(statement: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(decorator.lineno for decorator in decorators)])
