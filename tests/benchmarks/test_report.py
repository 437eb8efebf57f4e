from pathlib import Path

from benchmarks import speed
from benchmarks.lines import Series, summarise_lines
from benchmarks.report import BENCHMARKS, NOTHING, PAGES, render_benchmark, stale_pages, update_page
from benchmarks.results import RESULTS, Data, Row, append_rows, describe_run, make_row

DATA = Data(name="toy", files=3, python_files=2, bytes=1_500_000)


def make_rows(command: str, date: str, **seconds: list[float]) -> list[Row]:
    run = describe_run("speed", [command], DATA, 2)
    lines = summarise_lines(speed.LINES, {what: Series(values) for what, values in seconds.items()})
    return [{**make_row(run, line), "date": date} for line in lines]


def test_the_pages_are_up_to_date() -> None:
    assert stale_pages(PAGES, RESULTS) == {}, "run `python -m benchmarks.report`"


def test_every_page_has_room_for_every_benchmark() -> None:
    for page in PAGES:
        for name in BENCHMARKS:
            assert f"<!-- generated:{name} -->" in page.read_text(encoding="utf-8")


def test_only_what_stands_between_the_markers_is_replaced() -> None:
    page = "before\n<!-- generated:speed -->\nold\n<!-- /generated:speed -->\nafter\n"
    expected = "before\n<!-- generated:speed -->\n\nnew \\1\n\n<!-- /generated:speed -->\nafter\n"
    once = update_page(page, {"speed": "new \\1\n", "other": "nothing"})
    assert once == update_page(once, {"speed": "new \\1\n"}) == expected


def test_a_page_is_stale_until_it_is_rendered_again(tmp_path: Path) -> None:
    page, results = tmp_path / "page.md", tmp_path / "results.jsonl"
    page.write_text("<!-- generated:speed -->\n<!-- /generated:speed -->\n")
    page.write_text(stale_pages([page], results)[page])
    assert NOTHING in page.read_text()
    assert stale_pages([page], results) == {}
    append_rows(results, make_rows("one", "2026-01-01T00:00:00+00:00", **{speed.BARE: [0.01]}))
    page.write_text(stale_pages([page], results)[page])
    assert "10 ms" in page.read_text()
    assert stale_pages([page], results) == {}


def test_every_run_that_rows_come_from_is_named() -> None:
    old = make_rows("old", "2026-01-01T00:00:00+00:00", **{speed.BARE: [0.01], speed.HELP: [0.05]})
    new = make_rows("new", "2026-01-02T00:00:00+00:00", **{speed.BARE: [0.02]})
    text = render_benchmark("speed", [*old, *new])
    assert "**toy**: 3 files, 2 of them Python, 1.5 MB" in text
    assert "`old`: cicl --help\n" in text
    assert "`new`: python -c pass\n" in text
    assert "5.00 × python -c pass" in text, "a ratio stays the one of its own run"
