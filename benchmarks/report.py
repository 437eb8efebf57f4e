"""Tables of the latest rows, put between markers: `python -m benchmarks.report [--check]`.

A page has the tables of a benchmark between `<!-- generated:NAME -->` and `<!-- /generated:NAME -->`.
"""

import argparse
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks import speed
from benchmarks.lines import Line, render_table
from benchmarks.results import PROJECT, RESULTS, Row, latest_rows, load_rows

PAGES = (
    PROJECT / "README.md",
    PROJECT / "benchmarks" / "README.md",
    PROJECT / "docs" / "benchmarks.md",
)
BENCHMARKS: Mapping[str, Sequence[Line]] = {speed.BENCHMARK: speed.LINES}
"""A new benchmark adds its name and lines here."""
NOTHING = "Not measured yet.\n"


def render_benchmark(name: str, rows: Sequence[Row]) -> str:
    """One table for each data, newest rows only, with where they come from."""
    latest = latest_rows(rows, name)
    data = dict.fromkeys(row["data"]["name"] for row in latest)
    parts = [_render_data(name, [row for row in latest if row["data"]["name"] == item]) for item in data]
    return "\n".join(parts) or NOTHING


def _render_data(name: str, rows: Sequence[Row]) -> str:
    data = rows[-1]["data"]
    title = (
        f"**{data['name']}**: {data['files']:,} files, {data['python_files']:,} of them Python, "
        f"{data['bytes'] / 1e6:.1f} MB"
    )
    return f"{title}\n\n{render_table(BENCHMARKS[name], rows)}\n{_render_runs(rows)}\n"


def _render_runs(rows: Sequence[Row]) -> str:
    """One item for each run that rows come from; ratios are always within one run."""
    runs: dict[str, list[Row]] = {}
    for row in rows:
        runs.setdefault(row["date"], []).append(row)
    return "\n".join(_render_run(runs[date], len(runs) > 1) for date in sorted(runs))


def _render_run(rows: Sequence[Row], named: bool) -> str:
    row = rows[0]
    lines = ": " + ", ".join(row["what"] for row in rows) if named else ""
    return (
        f"- {row['date'][:10]}, commit `{row['commit']}`, Python {row['python']}, {row['cpus']} cores, "
        f"load before {row['load']:.2f}, `{row['command']}`{lines}"
    )


def update_page(text: str, blocks: Mapping[str, str]) -> str:
    """Replace what stands between the markers; blocks that a page does not have are left out."""
    for name, block in blocks.items():
        start, end = f"<!-- generated:{name} -->", f"<!-- /generated:{name} -->"
        parts = re.split(re.escape(start) + ".*?" + re.escape(end), text, flags=re.DOTALL)
        text = f"{start}\n\n{block}\n{end}".join(parts)
    return text


def stale_pages(pages: Sequence[Path], results: Path) -> dict[Path, str]:
    """The pages that differ from the results, with the text they should have."""
    rows = load_rows(results)
    blocks = {name: render_benchmark(name, rows) for name in BENCHMARKS}
    texts = {page: page.read_text(encoding="utf-8") for page in pages}
    updated = {page: update_page(text, blocks) for page, text in texts.items()}
    return {page: text for page, text in updated.items() if text != texts[page]}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.report", description="Regenerate the tables.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a page is out of date")
    options = parser.parse_args(arguments)
    stale = stale_pages(PAGES, RESULTS)
    for page, text in stale.items():
        print(page.relative_to(PROJECT))
        if not options.check:
            page.write_text(text, encoding="utf-8")
    return int(options.check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
