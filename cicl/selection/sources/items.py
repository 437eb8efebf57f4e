"""The statements of an instruction file: each top-level bullet, numbered item and paragraph on its own."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from cicl.selection.records import Span
from cicl.selection.sources.blocks import trim
from cicl.selection.sources.headings import IN_COMMENT, IN_FENCE, Heading, markdown_outline
from cicl.selection.sources.prose import plain

__all__ = ["Item", "split_items"]

MAX_LEAD_CHARS = 160
"""A longer paragraph, or one of several sentences, stands for itself even when a list follows its colon."""
MAX_TEXT_LINES = 12
MAX_LINE_CHARS = 400

_MARKER = re.compile(r"(\s*)(?:[-*+•]|\d{1,9}[.)])\s+(?=\S)")
_RULE = re.compile(r"\s{0,3}([-*_])[ \t]*(?:\1[ \t]*){2,}$")
_SENTENCE_END = re.compile(r"[.!?]\s")
_CHECKBOX = re.compile(r"\[[ xX]\]\s+")


class Item(NamedTuple):
    """One statement and the lines it takes."""

    span: Span
    """With the headings and the lead-in that stand directly above."""
    line: int
    """Where its own text begins."""
    text: str
    """Its first paragraph without the list marker, markup kept; a fence alone has the text of its heading."""
    titles: tuple[str, ...]
    """Plain headings above it, outermost first, then the lead-in of its list."""
    listed: bool
    comment: bool
    """An HTML comment: agents are not shown it."""


@dataclass(slots=True)
class _Open:
    """The item that is being read."""

    start: int
    first: int
    end: int
    indent: int
    listed: bool
    comment: bool
    titles: tuple[str, ...]
    full: bool = False
    """Its first paragraph is over: what follows is not its text."""
    text: list[str] = field(default_factory=list)


class _Reader:
    """Reads the lines of one file once, from top to bottom."""

    def __init__(self, lines: Sequence[str], first: int) -> None:
        outline = markdown_outline(lines, first)
        self._lines = lines
        self._verbatim = outline.verbatim
        self._headings = {item.line - 1: item for item in outline.headings}
        self._first = first
        self._path: list[Heading] = []
        self._titles: tuple[str, ...] = ()
        self._lead = ""
        self._pending = 0
        self._open: _Open | None = None
        self._items: list[Item] = []

    def read(self) -> list[Item]:
        place = self._first
        blank = True
        while place < len(self._lines):
            heading = self._headings.get(place)
            if heading is not None:
                self._start_section(heading)
                place = heading.end
                blank = True
                continue
            line = self._lines[place]
            if line.strip():
                self._take(place, line, blank)
            blank = not line.strip()
            place += 1
        self._finish()
        return self._items

    def _start_section(self, heading: Heading) -> None:
        self._close()
        while self._path and self._path[-1].level >= heading.level:
            self._path.pop()
        self._path.append(heading)
        self._titles = tuple(item.title for item in self._path)
        self._lead = ""
        self._pending = self._pending or heading.line

    def _take(self, place: int, line: str, blank: bool) -> None:
        kind = self._verbatim[place]
        opened = self._open
        if kind == IN_FENCE:
            self._take_fence(place)
        elif kind == IN_COMMENT:
            self._take_comment(place)
        elif _RULE.match(line):
            self._close()
            self._lead = ""
            self._pending = self._pending or place + 1
        elif opened is not None and self._continues(opened, line, blank):
            self._extend(opened, place, line, blank)
        elif match := _MARKER.match(line):
            self._start_item(place, line, match)
        else:
            self._close()
            self._lead = ""
            self._start(place, _indent(line), line.strip(), listed=False)

    def _continues(self, opened: _Open, line: str, blank: bool) -> bool:
        """Tell whether a line belongs to the open item: deeper than its marker, or in its paragraph."""
        if opened.comment:
            return False
        indent = _indent(line)
        marked = _MARKER.match(line) is not None
        if opened.listed:
            if marked:
                return indent >= opened.indent + 2
            return indent > opened.indent or not (blank or opened.full)
        if marked:
            return False
        return indent >= 4 or not (blank or opened.full)

    def _extend(self, opened: _Open, place: int, line: str, blank: bool) -> None:
        opened.end = place + 1
        if blank or _MARKER.match(line) or opened.full:
            opened.full = True
        elif len(opened.text) < MAX_TEXT_LINES:
            opened.text.append(_said(line))

    def _take_fence(self, place: int) -> None:
        if self._open is None or self._open.comment:
            self._close()
            self._start(place, 0, "", listed=False)
        opened = self._open
        if opened is not None:
            opened.end = place + 1
            opened.full = True

    def _take_comment(self, place: int) -> None:
        if self._open is None or not self._open.comment:
            self._close()
            self._start(place, 0, "", listed=False)
        if self._open is not None:
            self._open.comment = True
            self._open.end = place + 1

    def _start_item(self, place: int, line: str, match: re.Match[str]) -> None:
        start = 0
        opened = self._open
        if opened is not None and not opened.listed and _leads_in(opened):
            self._lead = plain(" ".join(opened.text)).rstrip(":").strip()
            start = opened.start
            self._open = None
        self._close()
        text = _CHECKBOX.sub("", line[match.end() :].strip(), count=1)
        self._start(place, len(match[1].expandtabs(4)), text, listed=True)
        if start and self._open is not None:
            self._open.start = start

    def _start(self, place: int, indent: int, text: str, *, listed: bool) -> None:
        titles = (*self._titles, self._lead) if listed and self._lead else self._titles
        start = self._pending or place + 1
        self._pending = 0
        self._open = _Open(start, place + 1, place + 1, indent, listed, False, titles)
        if text:
            self._open.text.append(_said(text))

    def _close(self) -> None:
        opened, self._open = self._open, None
        if opened is not None:
            text = " ".join(opened.text) or (
                opened.titles[-1] if opened.titles and not opened.comment else ""
            )
            span = Span(opened.start, opened.end)
            self._items.append(Item(span, opened.first, text, opened.titles, opened.listed, opened.comment))

    def _finish(self) -> None:
        """Give headings and rules at the end, which nothing follows, to an item of their own."""
        self._close()
        rest = trim(self._lines, Span(self._pending, len(self._lines))) if self._pending else None
        if rest is None:
            return
        titled = any(place in self._headings for place in range(rest.start - 1, rest.end))
        if self._items and not titled:
            last = self._items.pop()
            self._items.append(last._replace(span=Span(last.span.start, rest.end)))
        else:
            self._items.append(Item(rest, rest.start, "", self._titles, False, False))


def split_items(lines: Sequence[str], first: int = 0) -> list[Item]:
    """Return the statements of a Markdown text from index `first` on; no line that is not blank is left out.

    Nested bullets, continuation lines and the code that follows belong to the statement they stand under.
    """
    return _Reader(lines, first).read()


def _leads_in(opened: _Open) -> bool:
    text = " ".join(opened.text).rstrip("*_ ")
    if opened.full or opened.comment or len(text) > MAX_LEAD_CHARS:
        return False
    return text.endswith(":") and _SENTENCE_END.search(text) is None


def _said(line: str) -> str:
    """Return the start of a line without the bar of a quotation."""
    return line[:MAX_LINE_CHARS].strip().lstrip("> ")


def _indent(line: str) -> int:
    head = line[:200]
    return len(head.expandtabs(4)) - len(head.expandtabs(4).lstrip())
