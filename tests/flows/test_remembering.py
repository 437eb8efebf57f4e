from collections.abc import Sequence

import pytest

from cicl.flows.remembering import MAX_REMEMBERED, past_uses, remembered
from cicl.selection.corpus import Corpus
from cicl.selection.evidence import PastUse
from cicl.selection.records import Edge
from cicl.selection.segments import build_segment
from cicl.selection.sources.extraction import extract
from cicl.storage.journal import Outcome

FILES = {
    "src/a.py": "class C:\n    def close_all(self): ...\n\n\ndef get(): ...\n",
    "b.md": "# Usage\n\nText.\n",
}
CORPUS = Corpus([build_segment([extract(path, FILES[path], "d") for path in sorted(FILES)])])


def run(
    *actions: str,
    outcome: str = "solved",
    units: Sequence[str] = ("src/a.py::C.close_all", "src/a.py", "b.md::usage"),
    receipt: str = "r1",
    task: str = "close all connections",
    created_at: str = "2026-05-01T12:00:00Z",
) -> Outcome:
    return Outcome(
        receipt=receipt,
        task=task,
        unit_ids=tuple(units),
        actions=actions,
        outcome=outcome,
        created_at=created_at,
    )


@pytest.mark.parametrize(
    ("action", "unit", "acted"),
    [
        ("edit src/a.py", "src/a.py", True),
        ("edit ./src/a.py:12", "src/a.py", True),
        ("open `src/a.py`", "src/a.py::C", True),
        ("edit src/a.pyi", "src/a.py", False),
        ("edit lib/src/a.py", "src/a.py", False),
        ("edit ../src/a.py", "src/a.py", False),
        ("read src/a.py::C.close_all", "src/a.py::C.close_all", True),
        ("call close_all first", "src/a.py::C.close_all", True),
        ("call close_allx", "src/a.py::C.close_all", False),
        ("get it done", "src/a.py::get", False),
        ("use `get`", "src/a.py::get", True),
        ("call a.get", "src/a.py::get", True),
        ("call get()", "src/a.py::get", True),
        ("read the usage", "b.md::usage", False),
        ("run tests", "a(b.md", False),
        ("use {} and \\d", "src/a.py", False),
        ("changed the setter of C.size_limit", "src/a.py::C.size_limit#2", True),
    ],
)
def test_an_action_counts_for_the_delivered_units_it_names(action: str, unit: str, acted: bool) -> None:
    assert (unit in past_uses([run(action, units=[unit])])) is acted


def test_uses_are_counted_by_how_the_run_ended() -> None:
    uses = past_uses(
        [
            run("edit src/a.py"),
            run("edit src/a.py", outcome="Solved"),
            run("edit src/a.py", outcome="failed"),
            run("edit src/a.py", outcome="gave up"),
            run("edit nothing"),
            run(),
        ]
    )
    assert uses == {"src/a.py": PastUse(2, 2), "src/a.py::C.close_all": PastUse(2, 2)}
    assert past_uses([]) == {}


def test_a_run_is_remembered_as_a_trace_and_a_solved_one_as_a_strategy_too() -> None:
    units, edges = remembered([run("edit src/a.py", "run the tests")], "here", CORPUS)
    trace, strategy = units
    assert (trace.kind, strategy.kind) == ("trace", "strategy")
    assert (trace.confidence, strategy.confidence) == (0.82, 0.82)
    assert trace.content == "task: close all connections\noutcome: solved\n- edit src/a.py\n- run the tests"
    assert strategy.content == "what worked for: close all connections\n1. edit src/a.py\n2. run the tests"
    assert {unit.instance_id for unit in units} == {"here"}
    assert trace.metadata == {"title": "close all connections", "receipt": "r1"}
    assert set(edges) == {
        Edge(trace.id, strategy.id, "remembers"),
        *(
            Edge(source.id, target, "remembers", 0.82)
            for source in units
            for target in ("src/a.py", "src/a.py::C.close_all")
        ),
    }


def test_a_failed_run_and_one_without_actions_leave_no_strategy() -> None:
    units, edges = remembered([run("edit src/a.py", outcome="failed"), run()], "here", CORPUS)
    assert [unit.kind for unit in units] == ["trace", "trace"]
    assert [unit.confidence for unit in units] == [0.52, 0.82]
    assert {edge.weight for edge in edges} == {0.52}


def test_units_that_are_gone_are_remembered_no_more() -> None:
    _, edges = remembered([run("edit gone.py", units=["gone.py", "gone.py::f"])], "here", CORPUS)
    assert [edge.target for edge in edges if edge.target.startswith("gone")] == []


def test_only_the_newest_runs_become_units() -> None:
    runs = [run("edit src/a.py", receipt=f"r{number}") for number in range(MAX_REMEMBERED + 5)]
    units, _ = remembered(runs, "here", CORPUS)
    assert len(units) == 2 * MAX_REMEMBERED
    assert {unit.metadata["receipt"] for unit in units} == {f"r{number}" for number in range(5, 205)}
    assert past_uses(runs)["src/a.py"] == PastUse(MAX_REMEMBERED + 5, 0)


def test_the_same_run_has_the_same_ids_and_other_runs_have_others() -> None:
    first, _ = remembered([run("edit src/a.py")], "here", CORPUS)
    again, _ = remembered([run("edit src/a.py"), run("edit src/a.py")], "here", CORPUS)
    later, _ = remembered([run("edit src/a.py", created_at="2026-05-02T12:00:00Z")], "here", CORPUS)
    assert [unit.id for unit in first] == [unit.id for unit in again]
    assert not {unit.id for unit in first} & {unit.id for unit in later}


def test_long_and_broken_texts_become_single_lines() -> None:
    units, _ = remembered([run("edit\n\n  src/a.py " + "x" * 5000, task="a\nb\tc " * 500)], "here", CORPUS)
    for unit in units:
        assert all(len(line) < 450 for line in unit.content.split("\n"))
        assert "\t" not in unit.content
