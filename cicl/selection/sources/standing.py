"""What a section of a document says about its own standing, and the paragraph that it opens with."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from cicl.selection.records import Span
from cicl.selection.sources.facts import Mark
from cicl.selection.sources.front_matter import FrontMatter
from cicl.selection.sources.marks import (
    directive_body,
    directive_mark,
    heading_mark,
    paragraph_mark,
    status_mark,
)
from cicl.selection.sources.prose import plain, slug

__all__ = ["Standing", "front_matter_marks", "lead_paragraph", "section_standing"]

MAX_OPENING_LINES = 40
"""Further down than this, nothing opens a section."""
MAX_FIELDS = 15
MAX_PARAGRAPH_LINES = 6
MAX_LINE_CHARS = 400

_FIELD = re.compile(r"\s*(?:[-*+]\s+|:)?[*_]{0,2}([A-Za-z][A-Za-z _-]{0,30}?)[*_]{0,2}\s*:[*_:]{0,2}\s*(.*)$")
_NOISE = re.compile(
    r"\s*(?:\[?!\[|<|\([\w:.-]+\)=\s*$|[-*_=]{3,}\s*$|\.\. _|\.\. \||\{%|\{\{|:orphan:|\[(?:comment|//)\])",
    re.IGNORECASE,
)
_SKIPPED_DIRECTIVE = re.compile(
    r"\.\. (?:versionadded|versionchanged|module|currentmodule|py:module|py:currentmodule|index|highlight"
    r"|setting|contents|sectionauthor|moduleauthor|meta|only|container|class|rst-class|role|default-domain|image|figure)::"
)
_ADMONITION = re.compile(
    r"\.\. (?:warning|note|caution|important|attention|danger|admonition|error|hint|tip|seealso)::(.*)$"
)
_DEPRECATED = re.compile(r"\.\. deprecated::(.*)$")
_FENCED_DEPRECATED = re.compile(r"(?:`{3,}|:{3,}|~{3,})\{deprecated\}(.*)$")
_CALLOUT = re.compile(r"(?:!!!|\?\?\?\+?|:{3,})\s*\{?(\w+)\}?\s*\[?\"?([^\"\]]*)")
_ALERT = re.compile(r"\[!\w+\][+-]?\s*")
_NO_PARAGRAPH = re.compile(r"\s*(?:[-*+]\s|\d+[.)]\s|\||```|~~~|\.\.\s|>>>|:\w[\w ]*:)|(?: {4}|\t)")


class Standing(NamedTuple):
    """What a section says of itself and of what stands above it."""

    own: tuple[Mark, ...] = ()
    above: tuple[Mark, ...] = ()
    """From a section titled `Status`: about the document or section that holds it."""
    supersedes: tuple[str, ...] = ()


def section_standing(lines: Sequence[str], body: Span, heading: str = "", line: int = 0) -> Standing:
    """Read the standing of a section with text in the lines `body`, under `heading` on line `line`."""
    title = plain(heading)
    if slug(title) == "status":
        return _status_section(lines, body)
    fields = {slug(key): (value, number) for key, value, number in _fields(lines, body)}
    replacement = plain(fields.get("superseded-by", fields.get("replaced-by", ("", 0)))[0])
    status = status_mark(*fields["status"], replacement) if "status" in fields else None
    found = (
        heading_mark(heading, line) if heading else None,
        status,
        _opening_mark(lines, body, title),
    )
    supersedes = (plain(fields["supersedes"][0]),) if fields.get("supersedes", ("", 0))[0] else ()
    return Standing(_complete(found), (), supersedes)


def front_matter_marks(matter: FrontMatter) -> tuple[Mark, ...]:
    """Return the mark that `status`, `deprecated` or `superseded_by` sets on the whole file."""
    replacement = matter.first("superseded_by", "replaced_by", "replacement")
    if replacement:
        return (Mark("superseded", 1, f"superseded by {replacement}"[:200], replacement),)
    if matter.first("deprecated", "obsolete").lower() in ("true", "yes"):
        return (Mark("stale", 1, "deprecated"),)
    mark = status_mark(matter.first("status"), 1)
    return (mark,) if mark else ()


def lead_paragraph(lines: Sequence[str], body: Span) -> Span | None:
    """Return the lines of the first prose in `body`; None where a list, table or code comes first."""
    for number, text in _opening_lines(lines, body):
        if _SKIPPED_DIRECTIVE.match(text) or text.startswith((".. ", ">", "!!!", ":::", "???")):
            continue
        if _NO_PARAGRAPH.match(lines[number - 1]):
            return None
        end = number
        while end < body.end and lines[end].strip():
            end += 1
        return Span(number, end)
    return None


def _complete(found: Sequence[Mark | None]) -> tuple[Mark, ...]:
    """Return the first mark, completed by what the others know: its replacement, that it was superseded."""
    marks = [mark for mark in found if mark is not None]
    if not marks:
        return ()
    best = next((mark for mark in marks if mark.kind == "superseded"), marks[0])
    replacement = next((mark.replacement for mark in (best, *marks) if mark.replacement), "")
    return (best._replace(replacement=replacement),)


def _status_section(lines: Sequence[str], body: Span) -> Standing:
    blank = True
    for number in range(body.start, min(body.end, body.start + MAX_FIELDS) + 1):
        line = lines[number - 1]
        if blank and (mark := status_mark(line, number)) is not None:
            return Standing((), (mark,))
        blank = not line.strip()
    return Standing()


def _fields(lines: Sequence[str], body: Span) -> Iterator[tuple[str, str, int]]:
    """Yield the `Key: value` lines that stand first; blank lines between them do not end them."""
    for number in range(body.start, min(body.end, body.start + MAX_FIELDS) + 1):
        line = lines[number - 1][:MAX_LINE_CHARS]
        match = _FIELD.match(line)
        if match is not None:
            yield match[1], match[2], number
        elif line.strip():
            return


def _opening_lines(lines: Sequence[str], body: Span) -> Iterator[tuple[int, str]]:
    """Yield the lines near the top of `body`, without what only decorates and what directives hold."""
    held = False
    for number in range(body.start, min(body.end, body.start + MAX_OPENING_LINES) + 1):
        line = lines[number - 1][:MAX_LINE_CHARS]
        if not line.strip():
            continue
        if held and line[0] in " \t":
            continue
        held = line.startswith(".. ")
        if not _NOISE.match(line):
            yield number, line.strip()


def _opening_mark(lines: Sequence[str], body: Span, subject: str) -> Mark | None:
    """Return the mark set by the first thing that stands under a heading."""
    for number, text in _opening_lines(lines, body):
        place = number - 1
        if _SKIPPED_DIRECTIVE.match(text):
            continue
        if match := _DEPRECATED.match(text) or _FENCED_DEPRECATED.match(text):
            fenced = text[0] != "."
            rest = _until(lines, number, body.end, text) if fenced else directive_body(lines, place, match[1])
            return directive_mark(rest, number, subject)
        if match := _ADMONITION.match(text):
            return paragraph_mark(directive_body(lines, place, match[1]), number, subject)
        if text.startswith(">"):
            first, text = _quotation(lines, place)
            return paragraph_mark(text, first, subject)
        if match := _CALLOUT.match(text):
            if match[1].lower() == "deprecated":
                return directive_mark(match[2], number)
            return paragraph_mark(match[2] or _paragraph(lines, place + 1), number, subject)
        if _NO_PARAGRAPH.match(lines[place]):
            return None
        return paragraph_mark(_paragraph(lines, place), number, subject)
    return None


def _until(lines: Sequence[str], start: int, end: int, opening: str) -> str:
    fence = opening[:3]
    kept: list[str] = []
    for line in lines[start : min(end, start + MAX_PARAGRAPH_LINES)]:
        if line.strip().startswith(fence):
            break
        kept.append(line.strip())
    return " ".join(kept).strip()


def _quotation(lines: Sequence[str], place: int) -> tuple[int, str]:
    """Return the first line and the text of the first paragraph of a quotation, without its alert sign."""
    first = place + 1
    kept: list[str] = []
    for number, line in enumerate(lines[place : place + MAX_PARAGRAPH_LINES], start=first):
        if not line.lstrip().startswith(">"):
            break
        text = _ALERT.sub("", line.lstrip()[1:].strip(), count=1)
        if not text and kept:
            break
        if text:
            first = first if kept else number
            kept.append(text)
    return first, " ".join(kept)


def _paragraph(lines: Sequence[str], place: int) -> str:
    kept: list[str] = []
    for line in lines[place : place + MAX_PARAGRAPH_LINES]:
        if not line.strip():
            break
        kept.append(line[:MAX_LINE_CHARS].strip())
    return " ".join(kept)
