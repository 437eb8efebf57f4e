"""Lines of a benchmark: what is measured, against what, within which limit; and the table of them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from benchmarks.measuring import Sample, summarise
from benchmarks.results import Row

DIGITS = 4
"""Tenths of a millisecond, and of a multiple."""
HEADER = ("", "n", "median", "min to max", "p95", "peak MB", "against", "must hold", "")


@dataclass(frozen=True, slots=True)
class Limit:
    """A number of a row may be `at_most` so much."""

    of: str
    """`median`, `p95`, `ratio` (to the baseline) or `over` (the baseline)."""
    at_most: float
    data: str = ""
    """How the name of the data begins that this limit is for."""


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that is measured."""

    what: str
    baseline: str | None = None
    """The line whose median the ratio is to."""
    unit: str = "s"
    limits: tuple[Limit, ...] = ()
    """What must hold."""
    aims: tuple[Limit, ...] = ()
    """What it should become."""


@dataclass(slots=True)
class Series:
    """What was measured for one line."""

    values: list[float] = field(default_factory=list)
    peaks: list[float] = field(default_factory=list)
    """MB; empty where no process of its own was measured."""

    def add(self, sample: Sample) -> None:
        self.values.append(sample.seconds)
        self.peaks.append(sample.peak_mb)


def summarise_lines(lines: Iterable[Line], series: Mapping[str, Series]) -> list[dict[str, object]]:
    """The part of each row that is about its line; a line without values has none."""
    return [
        _summarise_line(line, series) for line in lines if line.what in series and series[line.what].values
    ]


def _summarise_line(line: Line, series: Mapping[str, Series]) -> dict[str, object]:
    own = series[line.what]
    summary = summarise(own.values)
    baseline = series.get(line.baseline) if line.baseline else None
    against = summarise(baseline.values).median if baseline and baseline.values else None
    numbers = asdict(summary)
    n = numbers.pop("n")
    return {
        "what": line.what,
        "unit": line.unit,
        "n": n,
        **{name: round(value, DIGITS) for name, value in numbers.items()},
        "peak_mb": round(max(own.peaks), 1) if own.peaks else None,
        "baseline": line.baseline if against else None,
        "ratio": round(summary.median / against, DIGITS) if against else None,
        "over": round(summary.median - against, DIGITS) if against else None,
    }


def is_within(row: Row, limit: Limit) -> bool | None:
    """None when the limit is for other data, or the row does not have that number."""
    value = row[limit.of]
    if value is None or not row["data"]["name"].startswith(limit.data):
        return None
    return bool(value <= limit.at_most)


def render_table(lines: Sequence[Line], rows: Iterable[Row]) -> str:
    """A Markdown table, padded to be read as it is; rows in the order of `lines`."""
    by_name = {row["what"]: row for row in rows}
    cells = [_cells(line, by_name[line.what]) for line in lines if line.what in by_name]
    return _pad([HEADER, *cells])


def _cells(line: Line, row: Row) -> tuple[str, ...]:
    unit = row["unit"]
    limits = [limit for limit in line.limits if is_within(row, limit) is not None]
    return (
        row["what"],
        str(row["n"]),
        _show(row["median"], unit),
        f"{_show(row['min'], unit)} to {_show(row['max'], unit)}",
        _show(row["p95"], unit),
        f"{row['peak_mb']:.0f}" if row["peak_mb"] is not None else "",
        _compare(row, any(limit.of == "over" for limit in limits)),
        "; ".join(_describe(limit, unit) for limit in limits),
        _judge(row, limits, line.aims),
    )


def _compare(row: Row, with_difference: bool) -> str:
    if row["ratio"] is None:
        return ""
    difference = f" ({row['over'] * 1000:+.0f} ms)" if with_difference else ""
    return f"{row['ratio']:.2f} × {row['baseline']}{difference}"


def _judge(row: Row, limits: Sequence[Limit], aims: Sequence[Limit]) -> str:
    if not limits:
        return ""
    if not all(is_within(row, limit) for limit in limits):
        return "**missed**"
    return "held, aim reached" if aims and all(is_within(row, aim) for aim in aims) else "held"


def _describe(limit: Limit, unit: str) -> str:
    if limit.of == "ratio":
        return f"{limit.at_most:g} ×"
    name = {"median": "", "over": "+"}.get(limit.of, f"{limit.of} ")
    return name + _show(limit.at_most, unit)


def _show(value: float, unit: str) -> str:
    if unit == "s" and value < 1:
        return f"{value * 1000:.0f} ms"
    return f"{value:.2f} s" if unit == "s" else f"{value:.0f} {unit}"


def _pad(table: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    lines = ["| " + " | ".join(map(str.ljust, row, widths)) + " |" for row in table]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines) + "\n"
