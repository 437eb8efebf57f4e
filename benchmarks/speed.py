"""How long an answer takes: whole processes on two cores, all contestants in one run.

::

    python -m benchmarks.speed --tree PATH [--repeats N] [--aider PYTHON] [--out]

Every round runs all contestants once, in an order that turns round with every round, so that a machine that
slows down or speeds up does it to all of them. The tree itself is only read; what is edited are copies.
"""

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import count, cycle
from pathlib import Path

from benchmarks.lines import Limit, Line, Series, render_table, summarise_lines
from benchmarks.measuring import MAXRSS_PER_MB, ContestantError, Sample, use_cores
from benchmarks.results import PROJECT, RESULTS, Row, append_rows, describe_run, digest_code, make_row
from benchmarks.trees import describe_tree, edit_function, name_tree, read_tasks
from benchmarks.workplace import Command, Workplace

BENCHMARK = "speed"
PEERS = PROJECT / "benchmarks" / "peers"
REPEATS = 5
QUICK_PASSES = 4
"""Passes over the contestants that take about a second, in every round."""
RESIDENT_EDITS = 5
"""In every round."""
MAX_WORKERS = 8
"""Of cicl.flows.extracting."""
SETTLE_SECONDS = 0.2
"""An agent needs longer than this from an edit to its next question; see RACY_NS in cicl.flows.indexing."""

DJANGO = "django"

FIRST = "cicl select, first answer, no state"
SCRIPT = "rank_bm25 script and ast"
AIDER_COLD = "aider repo map, no cache"
AIDER_WARM = "aider repo map, cached, another task"
SECOND = "cicl select, another task"
SAME = "cicl select, the same task again"
EDITED = "cicl select, one file edited, another task"
NUMPY = "python -c 'import numpy'"
RESIDENT = "resident engine, another task"
RESIDENT_EDITED = "resident engine, one file edited, another task"
PEAK = "first answer, memory of the largest process"
PEAK_BOUND = "first answer, memory of all processes, upper bound"
BARE = "python -c pass"
IMPORT = "python -c 'import cicl'"
HELP = "cicl --help"

LINES = (
    Line(SCRIPT),
    Line(FIRST, SCRIPT, limits=(Limit("ratio", 1.0, DJANGO),), aims=(Limit("median", 10.0, DJANGO),)),
    Line(AIDER_COLD, FIRST),
    Line(NUMPY),
    Line(SECOND, NUMPY, limits=(Limit("ratio", 6.0),), aims=(Limit("ratio", 4.0),)),
    Line(SAME, NUMPY),
    Line(EDITED, SECOND, limits=(Limit("ratio", 1.3),)),
    Line(AIDER_WARM, SECOND),
    Line(RESIDENT, limits=(Limit("p95", 0.3),), aims=(Limit("p95", 0.1),)),
    Line(RESIDENT_EDITED, RESIDENT),
    Line(PEAK, unit="MB"),
    Line(PEAK_BOUND, unit="MB", limits=(Limit("max", 1000.0),)),
    Line(BARE),
    Line(IMPORT, BARE, limits=(Limit("over", 0.040),)),
    Line(HELP, BARE, limits=(Limit("median", 0.150),)),
)
"""The speed lines of the project's foundation, each after its baseline."""


class Race:
    """All contestants on one tree, and what was measured of them."""

    def __init__(self, place: Workplace, tasks: Sequence[str], cores: int, aider: Path | None) -> None:
        self.place = place
        self.tasks = list(tasks)
        self.aider = aider
        self.series: dict[str, Series] = defaultdict(Series)
        self.cores = cores
        self._next_task = cycle(tasks)
        self._next_edit = count()
        self._edited_tree = place.copy("edited")
        self._resident_tree = place.copy("resident")
        self._aider_tree = place.copy("aider") if aider else None

    def warm_up(self) -> None:
        """Fill the page cache, the bytecode caches and the states that later contestants start from."""
        for path in self.place.files:
            (self.place.tree / path).read_bytes()
        self.place.select(self.tasks[0])
        self.place.select(self.tasks[0], tree=self._edited_tree)
        self.place.run(self.place.python("-c", "import rank_bm25, ast"))
        self.place.cicl("--help")
        if self.aider:
            self.place.run([self.aider, "-c", "import aider.repomap, networkx, scipy"])

    def run_round(self, number: int) -> None:
        """Run every contestant, the quick ones several times."""
        slow: list[Callable[[], None]] = [self._first, self._script, self._resident, self._peak]
        if self.aider:
            slow.append(self._map)
        _run_all(slow, number)
        for turn in range(QUICK_PASSES):
            _run_all([self._small, self._second_and_same, self._numpy, self._edited], turn)

    def _first(self) -> None:
        self.series[FIRST].add(self.place.select(next(self._next_task), state="cold"))
        shutil.rmtree(self.place.folder / "cold")

    def _script(self) -> None:
        script = PEERS / "rank_bm25_script.py"
        task = next(self._next_task)
        command = self.place.python(script, self.place.tree, self.place.listing, task)
        self.series[SCRIPT].add(self.place.run(command, answers=True))

    def _second_and_same(self) -> None:
        task = next(self._next_task)
        self.series[SECOND].add(self.place.select(task))
        self.series[SAME].add(self.place.select(task))

    def _edited(self) -> None:
        edit_function(self._edited_tree, self.place.files, next(self._next_edit))
        time.sleep(SETTLE_SECONDS)
        self.series[EDITED].add(self.place.select(next(self._next_task), tree=self._edited_tree))

    def _numpy(self) -> None:
        self.series[NUMPY].add(self._python("import numpy"))

    def _small(self) -> None:
        self.series[BARE].add(self._python("pass"))
        self.series[IMPORT].add(self._python("import cicl"))
        self.series[HELP].add(self.place.cicl("--help"))

    def _python(self, code: str) -> Sample:
        return self.place.run(self.place.python("-c", code))

    def _resident(self) -> None:
        orders = {
            "tree": str(self._resident_tree),
            "files": self.place.files,
            "tasks": self.tasks,
            "edits": [next(self._next_edit) for _ in range(RESIDENT_EDITS)],
            "settle": SETTLE_SECONDS,
        }
        file = self.place.folder / "orders.json"
        file.write_text(json.dumps(orders), encoding="utf-8")
        found = self._probe("resident_engine", file)
        self.series[RESIDENT].values.extend(found["answers"])
        self.series[RESIDENT_EDITED].values.extend(found["after_edit"])

    def _peak(self) -> None:
        found = self._probe("select_peak", self.place.tree, next(self._next_task), state="cold")
        shutil.rmtree(self.place.folder / "cold")
        own, child = (peak / MAXRSS_PER_MB for peak in found["own_and_largest_child"])
        self.series[PEAK].values.append(max(own, child))
        self.series[PEAK_BOUND].values.append(own + min(self.cores, MAX_WORKERS) * child)

    def _probe(self, name: str, *arguments: str | Path, state: str = "state") -> dict[str, list[float]]:
        command = self.place.python("-m", f"benchmarks.probes.{name}", *arguments)
        found: dict[str, list[float]] = json.loads(self.place.run(command, state=state).output)
        return found

    def _map(self) -> None:
        assert self.aider is not None
        assert self._aider_tree is not None
        for cache in self._aider_tree.glob(".aider.tags.cache.*"):
            shutil.rmtree(cache)
        for what in (AIDER_COLD, AIDER_WARM):
            script = PEERS / "aider_repo_map.py"
            command: Command = [
                self.aider,
                script,
                self._aider_tree,
                self.place.listing,
                next(self._next_task),
            ]
            self.series[what].add(self.place.run(command, answers=True))


def _run_all(contestants: Sequence[Callable[[], None]], number: int) -> None:
    for contestant in contestants if number % 2 == 0 else reversed(contestants):
        contestant()


def measure(options: argparse.Namespace, folder: Path) -> list[Row]:
    """Run the race that the options describe; return its rows."""
    tree: Path = options.tree
    code, cores = digest_code(PROJECT), use_cores()
    place = Workplace(tree, folder)
    run = describe_run(BENCHMARK, _command(options), describe_tree(tree, place.files), cores)
    race = Race(place, options.task or read_tasks(tree), cores, options.aider)
    race.warm_up()
    for number in range(options.repeats):
        print(f"round {number + 1} of {options.repeats}", file=sys.stderr, flush=True)
        race.run_round(number)
    if digest_code(PROJECT) != code:
        raise ContestantError("cicl itself was changed during the run; nothing was kept")
    return [make_row(run, line) for line in summarise_lines(LINES, race.series)]


def _command(options: argparse.Namespace) -> list[str]:
    """The command that was run, without the paths of this machine and the words of the tasks."""
    aider = ["--aider", "PYTHON"] if options.aider else []
    tasks = ["--task", f"({len(options.task)} given)"] if options.task else []
    repeats = ["--repeats", str(options.repeats)]
    return ["python", "-m", "benchmarks.speed", "--tree", name_tree(options.tree), *repeats, *tasks, *aider]


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed", description=__doc__.splitlines()[0])
    parser.add_argument("--tree", type=Path, required=True, help="what to select from; it is only read")
    parser.add_argument("--task", action="append", help="may be repeated (default: those kept in tasks/)")
    parser.add_argument("--repeats", type=int, default=REPEATS, help=f"rounds (default: {REPEATS})")
    parser.add_argument("--aider", type=Path, metavar="PYTHON", help="of an environment with aider-chat")
    parser.add_argument("--out", type=Path, nargs="?", const=RESULTS, help="append the rows to a file")
    parser.add_argument("--json", action="store_true", help="print the rows, not the table")
    options = parser.parse_args(arguments)
    if len(options.task or read_tasks(options.tree)) < 2:
        parser.error(f"no tasks are kept for {name_tree(options.tree)}: give --task at least twice")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and append when asked."""
    options = _parse(arguments)
    try:
        with tempfile.TemporaryDirectory(prefix="cicl-speed-") as folder:
            rows = measure(options, Path(folder).resolve())
    except ContestantError as error:
        print(f"benchmarks.speed: {error}", file=sys.stderr)
        return 1
    if options.out:
        append_rows(options.out, rows)
    print("\n".join(map(json.dumps, rows)) if options.json else render_table(LINES, rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
