"""Time one engine that stays open; print JSON seconds: `python -m benchmarks.probes.resident_engine ORDERS`.

ORDERS is a JSON file: `tree` (which is edited), `files`, `tasks`, `edits` (the numbers of the edits to make)
and `settle` (seconds between an edit and the next question).
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import cicl
from benchmarks.trees import edit_function


def main(orders: dict[str, Any]) -> None:
    engine = cicl.open(orders["tree"])
    tasks: list[str] = orders["tasks"]
    engine.select(tasks[-1])  # reads the state from disk, or makes it
    answers = [time_select(engine, task) for task in tasks]
    after_edit = [time_after_edit(engine, orders, number) for number in orders["edits"]]
    json.dump({"answers": answers, "after_edit": after_edit}, sys.stdout)


def time_select(engine: cicl.Engine, task: str) -> float:
    started = time.perf_counter()
    engine.select(task)
    return time.perf_counter() - started


def time_after_edit(engine: cicl.Engine, orders: dict[str, Any], number: int) -> float:
    edit_function(Path(orders["tree"]), orders["files"], number)
    time.sleep(orders["settle"])
    return time_select(engine, orders["tasks"][number % len(orders["tasks"])])


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
