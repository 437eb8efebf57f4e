"""Who may import whom: section 3 of the design, held."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

KERNEL = ("errors", "text", "pieces", "tokens", "config")
SELECTION = (
    "records",
    "sources",
    "postings",
    "counting",
    "segments",
    "corpus",
    "merging",
    "linking",
    "relations",
    "graph",
    "index",
    "reference_index",
    "queries",
    "mentions",
    "retrieval",
    "evidence",
    "judging",
    "utility",
    "knapsack",
    "packing",
    "cards",
    "rendering",
    "explanation",
)
FLOWS = ("worker", "extracting", "indexing", "remembering", "instance", "selecting", "inspecting")
ROOMS = ("selection", "storage", "flows", "engine", "testing", "cli", "__main__")
JUDGES_SEE = {
    "cicl.errors",
    "cicl.text",
    "cicl.tokens",
    "cicl.selection.records",
    "cicl.selection.evidence",
    "cicl.selection.judging",
    "cicl.selection.graph",
}
STANDARD_LIBRARY_ONLY = (
    "cicl",
    "cicl.errors",
    "cicl.text",
    "cicl.config",
    "cicl.storage.journal",
    "cicl.cli",
)
"""What the hot paths import before they know that they need more."""


def module_name(path: Path) -> str:
    parts = (
        path.relative_to(ROOT if path.is_relative_to(ROOT / "cicl") else ROOT / "judges")
        .with_suffix("")
        .parts
    )
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def sources(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def imports(path: Path) -> Iterator[str]:
    """Yield every module that a file imports from our packages, also inside functions."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (item.name for item in node.names if item.name.startswith("cicl"))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("cicl"):
            assert node.module is not None
            yield node.module
            yield from (
                f"{node.module}.{item.name}" for item in node.names if is_module(node.module, item.name)
            )


def is_module(package: str, name: str) -> bool:
    home = ROOT / Path(*package.split(".")) if package.startswith("cicl.") or package == "cicl" else ROOT
    return (home / f"{name}.py").exists() or (home / name).is_dir()


def rank(module: str) -> tuple[int, int]:
    """Where a module stands: its room from the left, then its place in the room."""
    parts = module.split(".")[1:]
    if not parts or parts[0] in KERNEL:
        return 0, KERNEL.index(parts[0]) if parts else -1
    room = 1 + ROOMS.index(parts[0])
    places = {"selection": SELECTION, "flows": FLOWS}.get(parts[0], ())
    return room, places.index(parts[1]) if places and len(parts) > 1 else -1


@pytest.mark.parametrize("path", sources("cicl"), ids=module_name)
def test_a_module_imports_only_what_stands_to_its_left(path: Path) -> None:
    own = module_name(path)
    if path.name == "__init__.py" and own == "cicl":
        return  # loads lazily; its imports are for type checkers
    for imported in imports(path):
        if imported == own or imported.startswith(own + ".") or own.rpartition(".")[0] == imported:
            continue
        same_place = rank(imported) == rank(own)
        assert rank(imported) < rank(own) or same_place, f"{own} may not import {imported}"
        assert not imported.startswith("cicl_judges"), f"{own} imports a judge; judges come by entry point"


@pytest.mark.parametrize("path", sources("judges/cicl_judges"), ids=module_name)
def test_a_judge_sees_records_evidence_judging_and_graph_only(path: Path) -> None:
    for imported in imports(path):
        assert imported in JUDGES_SEE or imported.startswith("cicl_judges"), f"{path.name} imports {imported}"


def test_selection_knows_no_store() -> None:
    for path in sources("cicl/selection"):
        assert not any(item.startswith(("cicl.storage", "cicl.flows")) for item in imports(path)), path


@pytest.mark.parametrize("module", STANDARD_LIBRARY_ONLY)
def test_a_room_on_the_hot_path_loads_the_standard_library_only(module: str) -> None:
    code = (
        f"import sys, {module}\n"
        "ours = {'cicl'} | set(sys.stdlib_module_names)\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules} - ours - {'__main__', '__mp_main__'}))"
    )
    shown = subprocess.run(
        [sys.executable, "-S", "-E", "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert shown.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "path", [path for path in sources("cicl") if path.name == "__init__.py"], ids=module_name
)
def test_every_package_init_is_empty_or_lazy(path: Path) -> None:
    body = ast.parse(path.read_text("utf-8")).body
    allowed = (ast.Expr, ast.Assign, ast.AnnAssign, ast.FunctionDef)
    for node in body:
        is_typing = isinstance(node, ast.ImportFrom) and node.module == "typing"
        is_guard = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        assert isinstance(node, allowed) or is_typing or is_guard, f"{path}: {ast.unparse(node)[:60]}"


def test_the_public_names_are_sorted_and_all_load() -> None:
    import cicl

    assert cicl.__all__ == sorted(cicl.__all__)
    assert all(getattr(cicl, name) is not None for name in cicl.__all__)
