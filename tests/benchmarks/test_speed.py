import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import speed
from benchmarks.results import PROJECT, load_rows

SCRIPT = PROJECT / "benchmarks" / "peers" / "rank_bm25_script.py"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "toy"
    root.mkdir()
    (root / "tank.py").write_text("class Tank:\n    def fill(self, litres):\n        return litres\n")
    (root / "pump.py").write_text("def start(pump):\n    pump.on = True\n    return pump\n")
    (root / "README.md").write_text("# Water works\n\nA tank, and the pump that fills it.\n")
    return root


def test_every_baseline_is_a_line_that_stands_before() -> None:
    names = [line.what for line in speed.LINES]
    assert len(set(names)) == len(names)
    for line in speed.LINES:
        assert line.baseline is None or names.index(line.baseline) < names.index(line.what)


def test_a_command_names_no_path_of_this_machine(tree: Path) -> None:
    arguments = ["--tree", str(tree), "--task", "one", "--task", "two", "--aider", sys.executable]
    command = speed._command(speed._parse(arguments))
    assert " ".join(command) == (
        "python -m benchmarks.speed --tree toy --repeats 5 --task (2 given) --aider PYTHON"
    )


def test_an_unknown_tree_needs_two_tasks(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        speed._parse(["--tree", str(tree), "--task", "only one"])
    assert "give --task at least twice" in capsys.readouterr().err


def test_the_order_turns_round() -> None:
    seen: list[str] = []
    contestants = [lambda: seen.append("a"), lambda: seen.append("b")]
    speed._run_all(contestants, 0)
    speed._run_all(contestants, 1)
    assert seen == ["a", "b", "b", "a"]


def test_the_plain_script_ranks_files_and_counts_symbols(tree: Path, tmp_path: Path) -> None:
    listing = tmp_path / "listing.json"
    listing.write_text(json.dumps(["README.md", "pump.py", "tank.py"]))
    command = [sys.executable, SCRIPT, tree, listing, "fill litres"]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    assert lines[0].endswith("tank.py")
    assert lines[-1] == "3 symbols in 3 files"


@pytest.mark.soak
def test_a_whole_run_on_a_small_tree(tree: Path, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in tree.rglob("*")}
    out = tmp_path / "rows.jsonl"
    tasks = ["--task", "fill takes litres twice", "--task", "start leaves the pump off"]
    options = ["--tree", tree, *tasks, "--repeats", "1", "--out", out]
    command = [sys.executable, "-m", "benchmarks.speed", *options]
    done = subprocess.run(command, cwd=PROJECT, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows = {row["what"]: row for row in load_rows(out)}
    peers = {speed.AIDER_COLD, speed.AIDER_WARM}
    assert rows.keys() == {line.what for line in speed.LINES} - peers
    assert rows[speed.FIRST]["baseline"] == speed.SCRIPT
    assert all(row["data"]["files"] == 3 and row["median"] > 0 for row in rows.values())
    assert speed.EDITED in done.stdout
    assert {path: path.read_bytes() for path in tree.rglob("*")} == before
