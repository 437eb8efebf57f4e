import subprocess
from pathlib import Path

from benchmarks.results import (
    Data,
    append_rows,
    describe_run,
    digest_code,
    latest_rows,
    load_rows,
    make_row,
    read_commit,
)

DATA = Data(name="toy", files=3, python_files=2, bytes=120)


def git(project: Path, *arguments: str) -> None:
    who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", "-C", str(project), *who, *arguments], check=True, capture_output=True)


def make_project(project: Path) -> Path:
    (project / "cicl").mkdir()
    (project / "cicl" / "engine.py").write_text("one = 1\n")
    git(project, "init", "-q")
    return project


def test_a_row_says_where_it_comes_from() -> None:
    row = make_row(
        describe_run("speed", ["python", "-m", "benchmarks.speed"], DATA, 2), {"what": "bare", "n": 5}
    )
    assert row["command"] == "python -m benchmarks.speed"
    assert row["data"] == {"name": "toy", "files": 3, "python_files": 2, "bytes": 120}
    assert {"benchmark", "commit", "date", "python", "cpus", "load", "what", "n"} <= row.keys()


def test_rows_are_only_appended(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    assert load_rows(file) == []
    append_rows(file, [{"what": "größer"}])
    before = file.read_bytes()
    append_rows(file, [{"what": "b"}, {"what": "c"}])
    assert file.read_bytes().startswith(before)
    assert [row["what"] for row in load_rows(file)] == ["größer", "b", "c"]


def test_the_latest_row_of_each_line_and_data() -> None:
    def row(benchmark: str, data: str, what: str, n: int) -> dict[str, object]:
        return {"benchmark": benchmark, "data": {"name": data}, "what": what, "n": n}

    rows = [
        row("speed", "a", "x", 1),
        row("speed", "b", "x", 2),
        row("speed", "a", "x", 3),
        row("other", "a", "x", 4),
    ]
    assert [item["n"] for item in latest_rows(rows, "speed")] == [3, 2]


def test_commit_is_none_then_clean_then_dirty(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    assert read_commit(project) == "none"
    git(project, "add", "-A")
    git(project, "commit", "-qm", "one")
    clean = read_commit(project)
    (project / "notes.txt").write_text("not measured\n")
    assert read_commit(project) == clean
    (project / "cicl" / "engine.py").write_text("one = 2\n")
    assert read_commit(project) == f"{clean}-dirty"


def test_the_digest_changes_with_the_code(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    before = digest_code(project)
    (project / "README.md").write_text("words\n")
    assert digest_code(project) == before
    (project / "cicl" / "engine.py").write_text("one = 2\n")
    assert digest_code(project) != before
