"""results.jsonl: one row a line of a benchmark, only ever appended to."""

import hashlib
import json
import os
import platform
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[1]
RESULTS = PROJECT / "benchmarks" / "results.jsonl"
MEASURED = ("cicl", "judges", "pyproject.toml")
"""A row is of a commit when these are as they are in it."""

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Data:
    """What a benchmark ran on."""

    name: str
    files: int
    python_files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Run:
    """Where the rows of one run come from; part of each of them."""

    benchmark: str
    commit: str
    command: str
    date: str
    python: str
    cpus: int
    load: float
    """The machine's load average just before: above 0.5, something else was running."""
    data: Data


def describe_run(benchmark: str, command: Sequence[str], data: Data, cpus: int) -> Run:
    """`command` without paths of this machine: results are published."""
    return Run(
        benchmark=benchmark,
        commit=read_commit(PROJECT),
        command=" ".join(command),
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        python=platform.python_version(),
        cpus=cpus,
        load=round(os.getloadavg()[0], 2),
        data=data,
    )


def read_commit(project: Path) -> str:
    """The short hash, with `-dirty` when what is measured differs from it; `none` before the first commit."""
    commit = _git(project, "rev-parse", "--short", "--verify", "HEAD")
    if not commit:
        return "none"
    return commit + ("-dirty" if _git(project, "status", "--porcelain", "--", *MEASURED) else "")


def digest_code(project: Path) -> str:
    """A digest of what is measured; another one after a run says that its rows are of no one program."""
    paths = (path for top in MEASURED for path in [project / top, *(project / top).rglob("*.py")])
    digest = hashlib.blake2b(digest_size=16)
    for path in sorted(path for path in paths if path.is_file()):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _git(project: Path, *arguments: str) -> str:
    command = ["git", "-C", str(project), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def make_row(run: Run, line: Mapping[str, object]) -> Row:
    return {**asdict(run), **line}


def append_rows(path: Path, rows: Iterable[Row]) -> None:
    lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
    with path.open("a", encoding="utf-8") as file:
        file.writelines(lines)


def load_rows(path: Path) -> list[Row]:
    """All rows, oldest first; none when nothing was measured yet."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def latest_rows(rows: Iterable[Row], benchmark: str) -> list[Row]:
    """The last row of every line of a benchmark on every data, in the order of the first ones."""
    latest: dict[tuple[str, str], Row] = {}
    for row in rows:
        if row["benchmark"] == benchmark:
            latest[row["data"]["name"], row["what"]] = row
    return list(latest.values())
