"""Wall time and peak memory of whole processes, and what is said about a series of numbers."""

import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

CORES = 2
"""What every figure of this folder is measured on."""
MAXRSS_PER_MB = 1_000_000 if sys.platform == "darwin" else 1_000_000 / 1024
"""getrusage(2) counts KiB on Linux and bytes on macOS; MB here are 10**6 bytes."""
SHOWN_ERROR_CHARS = 2000


class ContestantError(Exception):
    """A process that was measured did not do its job; its time means nothing."""


@dataclass(frozen=True, slots=True)
class Sample:
    seconds: float
    peak_mb: float
    """Of the process or one of its descendants, whichever was larger."""
    output: str = ""


@dataclass(frozen=True, slots=True)
class Summary:
    n: int
    median: float
    min: float
    max: float
    p95: float
    """By nearest rank: with fewer than 20 values it is the largest."""


def summarise(values: Sequence[float]) -> Summary:
    """Raises `ValueError` for no values."""
    if not values:
        raise ValueError("no values to summarise")
    ordered = sorted(values)
    p95 = ordered[math.ceil(0.95 * len(ordered)) - 1]
    return Summary(len(ordered), statistics.median(ordered), ordered[0], ordered[-1], p95)


def use_cores(count: int = CORES) -> int:
    """Keep this process and all it starts on `count` cores; return how many it has.

    Where the system cannot do that, the number returned says so in every row. `PYTHON_CPU_COUNT` tells
    Python 3.13 and later, which otherwise count the cores of the machine.
    """
    if not hasattr(os, "sched_setaffinity"):
        return os.cpu_count() or 1
    cores = sorted(os.sched_getaffinity(0))[:count]
    os.sched_setaffinity(0, cores)
    os.environ["PYTHON_CPU_COUNT"] = str(len(cores))
    return len(cores)


def run_process(
    command: Sequence[str | Path],
    *,
    cwd: Path,
    environment: Mapping[str, str] | None = None,
    answers: bool = False,
) -> Sample:
    """Run a command to its end.

    The caller must be a small process: Linux counts the memory of the parent at the time of the fork into
    the peak of the child. Raises `ContestantError` for an exit code that is not 0, and for a silent process
    when it should have given an answer.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        started = time.perf_counter()
        process = subprocess.Popen(
            list(map(str, command)),
            cwd=cwd,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
        )
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        output, errors = _read(out), _read(err)
    if process.returncode != 0:
        raise ContestantError(
            f"{_name(command)} ended with {process.returncode}: {errors[-SHOWN_ERROR_CHARS:]}"
        )
    if answers and not (output or errors):
        raise ContestantError(f"{_name(command)} gave no answer")
    return Sample(seconds, usage.ru_maxrss / MAXRSS_PER_MB, output)


def _read(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode("utf-8", "replace")


def _name(command: Sequence[str | Path]) -> str:
    return " ".join(Path(part).name if os.path.isabs(part) else str(part) for part in command)
