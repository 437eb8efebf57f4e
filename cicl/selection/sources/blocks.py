"""Lines cut into blocks that an agent can read on their own."""

import re
from collections.abc import Sequence

from cicl.selection.records import Span

__all__ = ["WHOLE_LINES", "cut_blocks", "trim"]

WHOLE_LINES = 60
"""A stretch up to this length stays whole."""
TARGET_LINES = 40
LEAST_LINES = 20
MOST_LINES = 60
"""A block is cut between these two, as near to the target as a good place allows."""

_CLOSER = re.compile(r"[})\]]|</|\*/|(?:end|else|elif|except|finally|catch|fi|done|esac)\b")
_INDENT_READ = 200
"""Deeper indentation reads as this deep, so that one endless line costs no more than another."""


def cut_blocks(lines: Sequence[str], span: Span, verbatim: Sequence[int] = b"") -> list[Span]:
    """Cut `span` into blocks that start and end on a line that is not blank and cover all of those.

    A block starts at the least indented line in reach, rather after a blank line and not inside a fence.
    """
    spans: list[Span] = []
    rest = trim(lines, span)
    while rest is not None:
        if rest.end - rest.start < WHOLE_LINES:
            spans.append(rest)
            break
        cut = _best_cut(lines, rest.start, verbatim)
        head = trim(lines, Span(rest.start, cut - 1))
        if head is not None:
            spans.append(head)
        rest = trim(lines, Span(cut, rest.end))
    return spans


def trim(lines: Sequence[str], span: Span) -> Span | None:
    """Return `span` without the blank lines at its two ends; None when all of it is blank."""
    start, end = span
    while start <= end and not lines[start - 1].strip():
        start += 1
    while end > start and not lines[end - 1].strip():
        end -= 1
    return Span(start, end) if start <= end else None


def _best_cut(lines: Sequence[str], start: int, verbatim: Sequence[int]) -> int:
    """Return the line in reach of `start` where the next block best begins."""
    best: tuple[bool, bool, int, bool, int] | None = None
    cut = start + MOST_LINES
    target = start + TARGET_LINES
    blank_before = False
    for number in range(start + LEAST_LINES, start + MOST_LINES + 1):
        head = lines[number - 1][:_INDENT_READ]
        bare = head.lstrip()
        if not bare:
            blank_before = True
            continue
        inside = bool(verbatim) and verbatim[number - 1] != 0 and verbatim[number - 2] != 0
        closer = _CLOSER.match(bare) is not None
        key = (inside, closer, len(head) - len(bare), not blank_before, abs(number - target))
        if best is None or key < best:
            best, cut = key, number
        blank_before = False
    return cut
