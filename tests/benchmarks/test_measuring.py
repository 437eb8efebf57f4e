import sys
from pathlib import Path

import pytest

from benchmarks.measuring import ContestantError, run_process, summarise


def test_summary_of_made_up_timings() -> None:
    summary = summarise([0.5, 0.1, 0.3, 0.2])
    assert (summary.n, summary.median, summary.min, summary.max) == (4, 0.25, 0.1, 0.5)


@pytest.mark.parametrize(("n", "rank"), [(1, 1), (19, 19), (20, 19), (100, 95)])
def test_p95_is_by_nearest_rank(n: int, rank: int) -> None:
    assert summarise([float(value) for value in range(n, 0, -1)]).p95 == rank


def test_nothing_has_no_summary() -> None:
    with pytest.raises(ValueError, match="no values"):
        summarise([])


def test_a_process_is_timed_and_its_output_kept(tmp_path: Path) -> None:
    sample = run_process([sys.executable, "-c", "print('é')"], cwd=tmp_path)
    assert sample.seconds > 0
    assert sample.peak_mb > 1
    assert sample.output == "é\n"


def test_peak_is_of_a_descendant_when_that_is_larger(tmp_path: Path) -> None:
    child = "b'x' * 100_000_000"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}], check=True)"
    assert run_process([sys.executable, "-c", parent], cwd=tmp_path).peak_mb > 100


def test_the_environment_is_added_to(tmp_path: Path) -> None:
    code = "import os; print(os.environ['CICL_HOME'], 'PATH' in os.environ)"
    sample = run_process([sys.executable, "-c", code], cwd=tmp_path, environment={"CICL_HOME": "there"})
    assert sample.output == "there True\n"


def test_a_failure_has_no_time(tmp_path: Path) -> None:
    with pytest.raises(ContestantError, match=r"(?s)ended with 3.*sorry") as caught:
        run_process(
            [sys.executable, "-c", "import sys; print('sorry', file=sys.stderr); sys.exit(3)"], cwd=tmp_path
        )
    assert str(Path(sys.executable).parent) not in str(caught.value)


def test_silence_is_no_answer(tmp_path: Path) -> None:
    assert run_process([sys.executable, "-c", "pass"], cwd=tmp_path).output == ""
    with pytest.raises(ContestantError, match="gave no answer"):
        run_process([sys.executable, "-c", "pass"], cwd=tmp_path, answers=True)
