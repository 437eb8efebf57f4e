"""Where the headings of a document stand: Markdown and reStructuredText."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from cicl.selection.sources.prose import plain

__all__ = ["IN_COMMENT", "IN_FENCE", "Heading", "Outline", "markdown_outline", "restructured_outline"]

IN_FENCE = 1
IN_COMMENT = 2

MAX_HEADING_CHARS = 120
"""Of a heading's text, what is kept; a longer one is a paragraph under a rule."""

_PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_ANCHOR = re.compile(
    r"\.\. _|\.\. (?:index|setting|templatetag|templatefilter|fieldlookup|django-admin)::"
    r"|\([\w:.-]+\)=\s*$|<a (?:name|id)="
)
_HTML_HEADING = re.compile(r"<h([1-6])\b[^>]*>(.{1,400}?)</h\1>", re.IGNORECASE)
_NO_SETEXT_TITLE = ("#", ">", "|", "- ", "* ", "+ ", "=", "---", "<")


class Heading(NamedTuple):
    """A heading and the lines it takes, counted from 1."""

    start: int
    """First line: anchors that stand directly above belong to the heading."""
    line: int
    """Line of its text."""
    end: int
    """Last line: the underline, where there is one."""
    level: int
    """1 is the highest; levels of reStructuredText go by order of appearance."""
    text: str
    """With its markup, at most `MAX_HEADING_CHARS` characters."""
    title: str
    """The text without its markup."""


class Outline(NamedTuple):
    """The headings of a document and where they cannot be."""

    headings: list[Heading]
    verbatim: bytearray
    """By index of the line: 1 in a fenced block, its fences included, 2 in an HTML comment, else 0."""


def markdown_outline(lines: Sequence[str], first: int = 0) -> Outline:
    """Find ATX, setext and one-line HTML headings outside fences and comments, from index `first` on."""
    headings: list[Heading] = []
    verbatim = bytearray(len(lines))
    fence = ""
    comment = False
    for place in range(first, len(lines)):
        line = lines[place].strip()
        if not line:
            continue
        mark = line[0]
        if fence:
            verbatim[place] = IN_FENCE
            fence = "" if _closes(line, fence) else fence
        elif comment:
            verbatim[place] = IN_COMMENT
            comment = "-->" not in line
        elif mark in "`~":
            fence = _fence(line)
            verbatim[place] = IN_FENCE if fence else 0
        elif mark == "#":
            _add(headings, lines, place, _atx(lines[place], line))
        elif mark in "=-" and place > first and not verbatim[place - 1]:
            _add_setext(headings, lines, place, line)
        elif mark == "<":
            verbatim[place] = IN_COMMENT if line.startswith("<!--") else 0
            comment = bool(verbatim[place]) and "-->" not in line
            if match := _HTML_HEADING.match(line[:600]):
                _add(headings, lines, place, (int(match[1]), match[2]))
    return Outline(headings, verbatim)


def restructured_outline(lines: Sequence[str]) -> Outline:
    """Find underlined and overlined section titles; literal blocks are indented and hold none."""
    headings: list[Heading] = []
    styles: dict[tuple[str, bool], int] = {}
    place = 0
    while place < len(lines):
        line = lines[place]
        mark = line[:1]
        if mark not in _PUNCTUATION or not (length := _adornment(line)):
            place += 1
        elif _is_overline(lines, place, mark, length):
            level = styles.setdefault((mark, True), len(styles) + 1)
            _append(headings, lines, (place, place + 1, place + 2), level, lines[place + 1])
            place += 3
        else:
            if _is_underline(lines, place, length) and not (headings and headings[-1].end >= place):
                level = styles.setdefault((mark, False), len(styles) + 1)
                _append(headings, lines, (place - 1, place - 1, place), level, lines[place - 1])
            place += 1
    return Outline(headings, bytearray(len(lines)))


def _fence(line: str) -> str:
    mark = line[0]
    length = len(line) - len(line.lstrip(mark))
    if length < 3 or (mark == "`" and "`" in line[length:]):
        return ""
    return mark * length


def _closes(line: str, fence: str) -> bool:
    return line.startswith(fence) and not line.strip(fence[0])


def _atx(raw: str, line: str) -> tuple[int, str] | None:
    text = line.lstrip("#")
    level = len(line) - len(text)
    if level > 6 or text[:1] not in (" ", "\t") or raw.startswith(("    ", "\t")):
        return None
    text = text.strip()
    bare = text.rstrip("#")
    return level, bare if not bare or bare[-1] in " \t" else text


def _add(headings: list[Heading], lines: Sequence[str], place: int, found: tuple[int, str] | None) -> None:
    if found is not None:
        _append(headings, lines, (place, place, place), found[0], found[1])


def _add_setext(headings: list[Heading], lines: Sequence[str], place: int, line: str) -> None:
    mark = line[0]
    title = lines[place - 1]
    if len(line) < 2 or line.strip(mark) or not title.strip() or title.startswith(("    ", "\t")):
        return
    alone = place < 2 or not lines[place - 2].strip() or bool(headings and headings[-1].end == place - 1)
    if (
        alone
        and not title.lstrip().startswith(_NO_SETEXT_TITLE)
        and not (headings and headings[-1].end >= place)
    ):
        _append(headings, lines, (place - 1, place - 1, place), 1 if mark == "=" else 2, title)


def _append(
    headings: list[Heading], lines: Sequence[str], places: tuple[int, int, int], level: int, text: str
) -> None:
    """Add a heading whose first, text and last line have these indexes, unless it names nothing."""
    text = " ".join(text[: MAX_HEADING_CHARS * 4].split())[:MAX_HEADING_CHARS]
    if not any(character.isalnum() for character in text):
        return
    first, line, last = places
    above = _anchored(lines, first, headings[-1].end if headings else 0)
    headings.append(Heading(above + 1, line + 1, last + 1, level, text, plain(text)))


def _anchored(lines: Sequence[str], first: int, floor: int) -> int:
    """Return the index of the first anchor above `first`, with only blank lines between; at least `floor`."""
    found = place = first
    while place > floor:
        line = lines[place - 1]
        if _ANCHOR.match(line):
            found = place - 1
        elif line.strip():
            break
        place -= 1
    return found


def _adornment(line: str) -> int:
    """Return the length of a line that is one punctuation character repeated; 0 for any other line."""
    line = line.rstrip()
    return len(line) if len(line) > 2 and not line.strip(line[0]) else 0


def _is_overline(lines: Sequence[str], place: int, mark: str, length: int) -> bool:
    if place + 2 >= len(lines) or lines[place + 2][:1] != mark:
        return False
    title = lines[place + 1].strip()
    return (
        bool(title) and not _adornment(title) and _adornment(lines[place + 2]) == length >= min(len(title), 4)
    )


def _is_underline(lines: Sequence[str], place: int, length: int) -> bool:
    title = lines[place - 1].rstrip() if place else ""
    if not title or title[0].isspace() or title.startswith(".. ") or _adornment(title):
        return False
    above = lines[place - 2] if place > 1 else ""
    return (length > 3 or length >= len(title)) and (not above.strip() or above.startswith(".."))
