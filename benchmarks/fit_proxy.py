"""Fit the weights of the proxy judge on real issues, and choose the floor below which it abstains.

    python -m benchmarks.fit_proxy --data tune.jsonl --repos DIR [--every N] [--features FILE] [--out FILE]

For each instance the tree at the base commit is written to a scratch work tree and indexed, and candidates
are found and observed as `cicl select` does. The same tree is also asked one issue of another repository, for
which nothing is right: that is what abstaining is fitted on. Every issue is asked whole and by its title
alone, since people write both.

Three logistic models are fitted by Newton's method: is the task about this repository; if so, is the
candidate's file one that the gold patch changes; and in such a file, is the candidate itself changed. A
signal that speaks for a unit by its definition may not count against it: where the data say so, by
collinearity, it is left out. What the models reach is measured by leaving one repository out.
"""

import argparse
import hashlib
import json
import math
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cicl.config import Settings
from cicl.flows.instance import TreeInstance
from cicl.selection.evidence import Observer, observe
from cicl.selection.queries import parse_task
from cicl.selection.records import Candidate, ContextUnit, Evidence, Judgment, Task
from cicl.selection.sources.repository import identify
from cicl.selection.utility import Admission, utility_terms, why_refused
from cicl.text import TermSplitter
from cicl_judges.proxy import NEARBY, Logistic, ProxyJudge, ProxyWeights

SEED = 7
RIDGE = 1.0
CERTAIN = 30.0
"""A logit that leaves no doubt."""
FLOORS = (0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1, 0.12, 0.15, 0.2)

HERE_SIGNALS = ("task_covered", "task_known", "task_matched")
FILE_SIGNALS = (
    "file_lexical",
    "file_named",
    "file_rank",
    "generated",
    "is_prose",
    "is_test",
    "title_coverage",
)
UNIT_SIGNALS = (
    "irreplaceable",
    "lexical",
    "lexical_rank",
    "name_match",
    "named",
    "neighbour",
    "title_coverage",
)
SPEAKS_AGAINST = frozenset({"generated", "is_prose", "is_test"})
SET_BY_HAND = {
    "applies": 3.0,
    "in_open_file": 0.7,
    "is_memory": -0.3,
    "is_prose": -1.5,
    "is_test": -2.0,
    "past_success": 1.0,
}
"""What these issues cannot teach: they come without a session, rules or a past, and their patches never hold
a document or a test, which says nothing about reading one."""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument(
        "--repos", type=Path, required=True, help="git directories named owner__name or owner+name"
    )
    parser.add_argument("--every", type=int, default=1, help="take every Nth instance of a repository")
    parser.add_argument("--features", type=Path, help="keep what was observed here, and go on from it")
    parser.add_argument("--out", type=Path, help="write the weights here")
    options = parser.parse_args()
    rows = list(collect(options))
    report(rows)
    if options.out:
        write_weights(options, rows)
    return 0


Row = dict[str, Any]
"""`key`, `repo`, `own`, `gold` and `candidates`: id, kind, tokens, evidence by name."""


def collect(options: argparse.Namespace) -> Iterator[Row]:
    instances = [json.loads(line) for line in options.data.read_text("utf-8").splitlines()]
    cache = options.features or Path(tempfile.mkdtemp()) / "features.jsonl"
    known = [json.loads(line) for line in cache.read_text("utf-8").splitlines()] if cache.exists() else []
    yield from known
    done = {row["key"] for row in known}
    with cache.open("a", encoding="utf-8") as file, tempfile.TemporaryDirectory() as scratch:
        os.environ["CICL_HOME"] = f"{scratch}/home"
        for repo in sorted({item["repo"] for item in instances}):
            git_dir = find_git_dir(options.repos.resolve(), repo)
            if git_dir is None:
                print(f"{repo}: no git directory under {options.repos}; left out", file=sys.stderr)
                continue
            for row in observe_repository(repo, git_dir, instances, options.every, done, Path(scratch)):
                file.write(json.dumps(row) + "\n")
                file.flush()
                yield row


def find_git_dir(repos: Path, repo: str) -> Path | None:
    owner, name = repo.split("/")
    for folder in sorted(repos.iterdir()):
        if folder.name in (f"{owner}__{name}", f"{owner}+{name}") or folder.name.endswith(
            f"+{owner}__{name}"
        ):
            for git_dir in (folder / "repo", folder / ".git", folder):
                if (git_dir / "objects").is_dir():
                    return git_dir
    return None


def observe_repository(
    repo: str, git_dir: Path, instances: Sequence[Row], every: int, done: set[str], scratch: Path
) -> Iterator[Row]:
    mine = sorted((item for item in instances if item["repo"] == repo), key=lambda item: item["instance_id"])
    others = [item for item in instances if item["repo"] != repo]
    tree = scratch / repo.replace("/", "__")
    tree.mkdir()
    instance = TreeInstance(identify(tree), Settings())
    for item in mine[::every]:
        other = random.Random(f"{SEED} {item['instance_id']}").choice(others)
        asked = list(questions(item, other))
        if done.issuperset(key for key, _, _ in asked):
            continue
        check_out(git_dir, item["base_commit"], tree)
        current = instance.refresh("fielded")
        for key, text, own in asked:
            gold = {*item["gold_functions"], *item["gold_files"]} if own else set()
            candidates = observe_task(current, text)
            yield {
                "key": key,
                "repo": repo,
                "own": own,
                "gold": sorted(gold),
                "candidates": [flatten(candidate) for candidate in candidates],
            }
        print(f"{item['instance_id']}", file=sys.stderr)


def questions(item: Row, other: Row) -> Iterator[tuple[str, str, bool]]:
    """Key, text, and whether the issue is of this repository."""
    for source, own in ((item, True), (other, False)):
        text = source["problem_statement"]
        key = item["instance_id"] if own else f"{item['instance_id']} asked {source['instance_id']}"
        yield key, text, own
        yield f"{key}, title", text.strip().partition("\n")[0], own


def check_out(git_dir: Path, commit: str, tree: Path) -> None:
    environment = {
        **os.environ,
        "GIT_DIR": str(git_dir),
        "GIT_WORK_TREE": str(tree),
        "GIT_INDEX_FILE": f"{tree}.index",
        "GIT_NO_LAZY_FETCH": "1",
    }
    subprocess.run(
        ["git", "read-tree", "-u", "--reset", commit],
        cwd=tree,
        env=environment,
        check=True,
        capture_output=True,
    )


def observe_task(instance: Any, text: str) -> tuple[Candidate, ...]:
    task, splitter = Task(text=text), TermSplitter()
    query = parse_task(task, splitter)
    found = instance.retriever.find(task, query)
    return observe(
        Observer(
            graph=instance.graph,
            retriever=instance.retriever,
            task=task,
            query=query,
            found=found,
            splitter=splitter,
        )
    )


def flatten(candidate: Candidate) -> list[Any]:
    unit = candidate.unit
    evidence = {item.name: round(item.value, 4) for item in candidate.evidence}
    return [unit.id, unit.kind, len(unit.content) // 4, evidence]


@dataclass(frozen=True)
class Table:
    """All candidates of all tasks, one a row."""

    owners: NDArray[Any]
    """The task each belongs to, by its place."""
    evidence: dict[str, NDArray[Any]]
    """Strength by signal."""
    own: NDArray[Any]
    """Whether the task is about the repository."""
    first: NDArray[Any]
    """Whether the row is the first of its task."""
    right_file: NDArray[Any]
    right_unit: NDArray[Any]

    def columns(self, names: Sequence[str]) -> NDArray[Any]:
        return np.stack([self.evidence[name] for name in names], axis=1)


def tabulate(rows: Sequence[Row]) -> Table:
    items = [(place, item, set(row["gold"])) for place, row in enumerate(rows) for item in row["candidates"]]
    return Table(
        owners=np.array([place for place, _, _ in items]),
        evidence={
            name: np.array([item[3].get(name, 0.0) for _, item, _ in items])
            for name in {*HERE_SIGNALS, *FILE_SIGNALS, *UNIT_SIGNALS, "is_whole_file"}
        },
        own=np.array([rows[place]["own"] for place, _, _ in items]),
        first=np.array([item is rows[place]["candidates"][0] for place, item, _ in items]),
        right_file=np.array([float(item[0].partition("::")[0] in gold) for _, item, gold in items]),
        right_unit=np.array([float(item[0] in gold) for _, item, gold in items]),
    )


def fit(table: Table, used: NDArray[Any]) -> ProxyWeights:
    """The weights that the rows `used` teach."""
    of_task, own = used & table.first, used & table.own
    inside = used & (table.right_file == 1) & (table.evidence["is_whole_file"] == 0)
    file = fit_model(FILE_SIGNALS, table.columns(FILE_SIGNALS)[own], table.right_file[own])
    return ProxyWeights(
        here=fit_model(HERE_SIGNALS, table.columns(HERE_SIGNALS)[of_task], table.own[of_task].astype(float)),
        file=Logistic(file.bias, {**file.weights, **SET_BY_HAND}),
        unit=fit_model(UNIT_SIGNALS, table.columns(UNIT_SIGNALS)[inside], table.right_unit[inside]),
    )


def fit_model(names: Sequence[str], evidence: NDArray[Any], labels: NDArray[Any]) -> Logistic:
    kept = list(range(len(names)))
    while True:
        *weights, bias = fit_logistic(evidence[:, kept], labels).tolist()
        wrong = [
            at for at, column in enumerate(kept) if weights[at] < 0 and names[column] not in SPEAKS_AGAINST
        ]
        if not wrong:
            found = {names[column]: round(weight, 4) for column, weight in zip(kept, weights, strict=True)}
            return Logistic(round(bias, 4), found)
        del kept[min(wrong, key=lambda at: weights[at])]


def fit_logistic(evidence: NDArray[Any], labels: NDArray[Any]) -> NDArray[Any]:
    """Weights and bias of a logistic model with a ridge on the weights."""
    design = np.c_[evidence, np.ones(len(evidence))]
    ridge = RIDGE * np.eye(design.shape[1])
    ridge[-1, -1] = 0.0
    weights = np.zeros(design.shape[1])
    for _ in range(40):
        chance = 1 / (1 + np.exp(-design @ weights))
        gradient = design.T @ (chance - labels) + ridge @ weights
        curvature = (design.T * (chance * (1 - chance))) @ design + ridge
        weights -= np.linalg.solve(curvature, gradient)
    return weights


def report(rows: Sequence[Row]) -> None:
    """Print what weights that never saw the repository reach."""
    table = tabulate(rows)
    repos = np.array([rows[place]["repo"] for place in table.owners])
    candidates = [rebuild(item) for row in rows for item in row["candidates"]]
    chance = np.zeros(len(candidates))
    for repo in sorted(set(repos)):
        weights = fit(table, repos != repo)
        for at in np.flatnonzero(repos == repo):
            chance[at] = weights.chance(candidates[at])
    report_calibration(chance, NEARBY * table.right_file + (1 - NEARBY) * table.right_unit)
    for title in (False, True):
        print("asked by title" if title else "asked whole")
        places = [place for place, row in enumerate(rows) if row["key"].endswith(", title") == title]
        report_hits(rows, places, chance, table.owners)
        report_floors(rows, places, chance, table.owners)


def rebuild(item: Sequence[Any]) -> Candidate:
    unit = ContextUnit(id=item[0], kind=item[1], source=item[0].partition("::")[0], content="")
    return Candidate(unit, tuple(Evidence(name, value, "") for name, value in sorted(item[3].items())))


def report_hits(
    rows: Sequence[Row], places: Sequence[int], chance: NDArray[Any], owners: NDArray[Any]
) -> None:
    hits = {1: 0, 5: 0, 10: 0}
    asked = [place for place in places if rows[place]["own"]]
    for place in asked:
        ordered = np.flatnonzero(owners == place)
        ordered = ordered[np.argsort(-chance[ordered], kind="stable")] - ordered[0]
        right = [rows[place]["candidates"][at] for at in ordered]
        files = {item.partition("::")[0] for item in rows[place]["gold"]}
        ranked = list(dict.fromkeys(item[0].partition("::")[0] for item in right))
        for top in hits:
            hits[top] += bool(files.intersection(ranked[:top]))
    shown = ", ".join(f"@{top} {count / len(asked):.3f}" for top, count in hits.items())
    print(f"file any-hit, one repository left out, n={len(asked)}: {shown}")


def report_calibration(chance: NDArray[Any], labels: NDArray[Any]) -> None:
    for low, high in (
        (0, 0.02),
        (0.02, 0.05),
        (0.05, 0.1),
        (0.1, 0.2),
        (0.2, 0.35),
        (0.35, 0.5),
        (0.5, 1.01),
    ):
        inside = (chance >= low) & (chance < high)
        if inside.any():
            print(
                f"said {chance[inside].mean():.3f}, was right {labels[inside].mean():.3f}, n={inside.sum()}"
            )


def report_floors(
    rows: Sequence[Row], places: Sequence[int], chance: NDArray[Any], owners: NDArray[Any]
) -> None:
    """At each floor of utility: how many own tasks get a pack, and how many of another repository."""
    best: dict[bool, list[float]] = {True: [], False: []}
    for place in places:
        row = rows[place]
        pairs = zip(row["candidates"], chance[owners == place].tolist(), strict=True)
        best[row["own"]].append(max((utility(item, right) for item, right in pairs), default=0.0))
    for floor in FLOORS:
        kept = {own: np.mean(np.array(values) >= floor) for own, values in best.items()}
        print(f"floor {floor:.2f}: own tasks answered {kept[True]:.3f}, foreign ones {kept[False]:.3f}")


def utility(item: Sequence[Any], right: float) -> float:
    """What `proxy` makes of a candidate whose chance of being right is given."""
    certain = Logistic(CERTAIN, {})
    judge = ProxyJudge(ProxyWeights(here=certain, file=Logistic(logit(right), {}), unit=certain))
    judgment = judge.judge(Task(text=""), [rebuild(item)], (), None)[0]  # type: ignore[arg-type]
    assert isinstance(judgment, Judgment)
    terms = utility_terms(judgment, item[2])
    return 0.0 if why_refused(judgment, terms, Admission(min_utility=0.0)) else terms.total


def logit(chance: float) -> float:
    return math.log(chance / (1 - chance))


def write_weights(options: argparse.Namespace, rows: Sequence[Row]) -> None:
    table = tabulate(rows)
    weights = fit(table, np.ones(len(table.owners), np.bool_))
    fitted = {name: weight for name, weight in weights.file.weights.items() if name not in SET_BY_HAND}
    every = f" --every {options.every}" if options.every != 1 else ""
    record = {
        "made_by": f"python -m benchmarks.fit_proxy --data {options.data.name} --repos DIR{every} --out FILE",
        "data": {options.data.name: hashlib.sha256(options.data.read_bytes()).hexdigest()},
        "tasks": sum(row["own"] for row in rows) // 2,
        "repositories": sorted({row["repo"] for row in rows}),
        "seed": SEED,
        "here": {"bias": weights.here.bias, "weights": weights.here.weights},
        "file": {"bias": weights.file.bias, "weights": fitted},
        "unit": {"bias": weights.unit.bias, "weights": weights.unit.weights},
        "set_by_hand": SET_BY_HAND,
    }
    options.out.write_text(json.dumps(record, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    sys.exit(main())
