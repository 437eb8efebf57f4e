from benchmarks.lines import Limit, Line, Series, is_within, render_table, summarise_lines
from benchmarks.results import Row

LINES = (
    Line("bare"),
    Line("import", "bare", limits=(Limit("over", 0.04),)),
    Line("select", "bare", limits=(Limit("ratio", 6.0),), aims=(Limit("ratio", 4.0),)),
    Line("memory", unit="MB", limits=(Limit("max", 1000.0, data="big"),)),
    Line("peer", "select"),
)


def make_rows(data: str = "big", **values: list[float]) -> list[Row]:
    series = {what: Series(found) for what, found in values.items()}
    return [{**line, "data": {"name": data}} for line in summarise_lines(LINES, series)]


def test_a_line_is_compared_with_its_baseline() -> None:
    bare, select = make_rows(bare=[0.1, 0.2, 0.3], select=[1.0, 0.5, 1.5])
    assert (bare["baseline"], bare["ratio"], bare["over"]) == (None, None, None)
    assert (select["baseline"], select["ratio"], select["over"]) == ("bare", 5.0, 0.8)
    assert (select["n"], select["median"], select["min"], select["max"]) == (3, 1.0, 0.5, 1.5)


def test_what_was_not_measured_has_no_row_and_is_no_baseline() -> None:
    rows = make_rows(peer=[3.0], bare=[])
    assert [row["what"] for row in rows] == ["peer"]
    assert rows[0]["baseline"] is None


def test_the_largest_peak_is_kept() -> None:
    rows = summarise_lines(LINES, {"bare": Series([0.1, 0.1], [20.0, 31.0])})
    assert rows[0]["peak_mb"] == 31.0


def test_a_limit_is_for_its_data() -> None:
    limit = Limit("max", 1000.0, data="big")
    (big,) = make_rows(memory=[1200.0])
    (small,) = make_rows("small", memory=[1200.0])
    assert is_within(big, limit) is False
    assert is_within(small, limit) is None
    assert is_within(big, Limit("ratio", 1.0)) is None


def test_the_table_says_what_held() -> None:
    table = render_table(LINES, make_rows(bare=[0.01], **{"import": [0.03]}, select=[0.05], memory=[2000.0]))
    header, rule, *rows = table.splitlines()
    assert len({len(line) for line in (header, rule, *rows)}) == 1
    cells = {row.split("|")[1].strip(): [cell.strip() for cell in row.split("|")[2:-1]] for row in rows}
    assert cells["bare"][-2:] == ["", ""]
    assert cells["import"][-3:] == ["3.00 × bare (+20 ms)", "+40 ms", "held"]
    assert cells["select"][-3:] == ["5.00 × bare", "6 ×", "held"]
    assert cells["memory"][-2:] == ["max 1000 MB", "**missed**"]


def test_an_aim_is_said_when_reached() -> None:
    assert "held, aim reached" in render_table(LINES, make_rows(bare=[1.0], select=[4.0]))


def test_a_missing_baseline_makes_no_verdict() -> None:
    table = render_table(LINES, make_rows(select=[4.0]))
    assert "held" not in table.replace("must hold", "")
    assert "missed" not in table
