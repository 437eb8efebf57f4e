"""Text files without a language of their own: sections of documents, blocks of lines.

Documents are cut at their headings, everything else at the least indented lines. A name is the slug of its
heading, because line numbers change with every edit above; only where there is no heading is it `L12-40`.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from cicl.selection.records import Span
from cicl.selection.sources.blocks import WHOLE_LINES, cut_blocks, trim
from cicl.selection.sources.facts import Mark, UnitFacts
from cicl.selection.sources.front_matter import FrontMatter, read_front_matter
from cicl.selection.sources.headings import Heading, Outline, markdown_outline, restructured_outline
from cicl.selection.sources.prose import Names, first_sentence, plain, slug, split_lines
from cicl.selection.sources.standing import Standing, front_matter_marks, lead_paragraph, section_standing

__all__ = ["ALL", "TOP", "extract_document"]

TOP = "<top>"
"""Name of what stands above the first heading."""
ALL = "<all>"
"""Name of the one unit of a catalogue."""

MARKDOWN_SUFFIXES = frozenset({".md", ".mdx", ".markdown", ".mdown", ".mkd", ".mdc", ".qmd", ".rmd"})
RESTRUCTURED_SUFFIXES = frozenset({".rst", ".rest", ".txt", ".text"})
CATALOGUE_SUFFIXES = frozenset(
    {
        ".csv",
        ".geojson",
        ".jsonl",
        ".lock",
        ".map",
        ".ndjson",
        ".po",
        ".pot",
        ".svg",
        ".tsv",
        ".xlf",
        ".xliff",
    }
)
CATALOGUE_NAMES = frozenset(
    {"go.sum", "npm-shrinkwrap.json", "package-lock.json", "packages.lock.json", "pnpm-lock.yaml"}
)
CATALOGUE_LINES = 400
MINIFIED_LINE_CHARS = 400
"""Mean length of a line from which a text was not written by hand."""
MINIFIED_CHARS = 8_000
_TELLS_OF_OTHERS = re.compile(
    r"(?:^|/)(?:changelogs?|changes|history|news|releases?|release[-_]notes|whatsnew|[^/]*deprecat[^/]*)(?:[./]|$)"
)
"""Files and folders that report what was deprecated and are themselves current."""


class _Section(NamedTuple):
    span: Span
    """Its headings and text, up to the next heading."""
    head: int
    """Last line of its headings; 0 where it has none."""
    name: str
    title: str
    marks: tuple[Mark, ...]
    supersedes: tuple[str, ...]


def extract_document(path: str, text: str) -> tuple[UnitFacts, ...]:
    """Return the sections or blocks of a text file, in order; every line that is not blank is in one of them.

    Translation catalogues, lock files, tables and the like are one unit from 400 lines on, and minified files
    at any length: nobody reads their parts. A blank file has no units.
    """
    lines = split_lines(text)
    whole = trim(lines, Span(1, len(lines)))
    if whole is None:
        return ()
    if _is_catalogue(path, len(text), len(lines)):
        return (_unit(lines, whole, ALL, "block"),)
    outline = _read_outline(path, lines)
    if outline is None:
        return tuple(
            _unit(lines, span, f"L{span.start}-{span.end}", "block") for span in cut_blocks(lines, whole)
        )
    matter = read_front_matter(lines)
    sections = _sections(path, lines, outline.headings, matter)
    return tuple(unit for section in sections for unit in _cut(lines, section, outline.verbatim))


def _is_catalogue(path: str, chars: int, lines: int) -> bool:
    if chars >= MINIFIED_CHARS and chars > lines * MINIFIED_LINE_CHARS:
        return True
    if lines < CATALOGUE_LINES:
        return False
    file = PurePosixPath(path)
    return file.suffix.lower() in CATALOGUE_SUFFIXES or file.name in CATALOGUE_NAMES


def _read_outline(path: str, lines: Sequence[str]) -> Outline | None:
    """Return the headings of a document; None for a file that is none."""
    file = PurePosixPath(path)
    suffix = file.suffix.lower()
    if suffix in MARKDOWN_SUFFIXES:
        return markdown_outline(lines, read_front_matter(lines).lines)
    if suffix in RESTRUCTURED_SUFFIXES or (not suffix and file.name[:1] != "." and file.name.isupper()):
        return restructured_outline(lines)
    return None


def _sections(
    path: str, lines: Sequence[str], headings: Sequence[Heading], matter: FrontMatter
) -> Iterator[_Section]:
    """Yield the sections in order; a heading with no text of its own stands with its first child."""
    first = headings[0].start if headings else len(lines) + 1
    top = section_standing(lines, Span(matter.lines + 1, first - 1))
    everywhere = front_matter_marks(matter) or top.own
    marks, supersedes = _standings(path, lines, headings, everywhere)
    names, titles = _names(headings), _titles(headings)
    start = 1
    if trim(lines, Span(matter.lines + 1, first - 1)) or not headings:
        yield _Section(Span(1, first - 1), 0, TOP, matter.first("title", "name"), everywhere, top.supersedes)
        start = first
    claims = matter.all("supersedes", "replaces")
    for place, heading in enumerate(headings):
        end = _end(lines, headings, place)
        if (
            place + 1 < len(headings)
            and headings[place + 1].level > heading.level
            and not trim(lines, Span(heading.end + 1, end))
        ):
            continue
        yield _Section(
            Span(start, end),
            heading.end,
            names[place],
            titles[place],
            marks[place],
            claims + supersedes[place],
        )
        start, claims = end + 1, ()


def _end(lines: Sequence[str], headings: Sequence[Heading], place: int) -> int:
    return headings[place + 1].start - 1 if place + 1 < len(headings) else len(lines)


def _parents(headings: Sequence[Heading]) -> list[int]:
    """Return for each heading the index of the heading that holds it; -1 for none."""
    parents: list[int] = []
    opened: list[int] = []
    for place, heading in enumerate(headings):
        while opened and headings[opened[-1]].level >= heading.level:
            opened.pop()
        parents.append(opened[-1] if opened else -1)
        opened.append(place)
    return parents


def _standings(
    path: str, lines: Sequence[str], headings: Sequence[Heading], everywhere: tuple[Mark, ...]
) -> tuple[list[tuple[Mark, ...]], list[tuple[str, ...]]]:
    """Return the marks of each section, inherited ones included, and what each supersedes."""
    parents = _parents(headings)
    found = [
        Standing()
        if _TELLS_OF_OTHERS.search(path.lower())
        else section_standing(lines, Span(item.end + 1, _end(lines, headings, place)), item.text, item.line)
        for place, item in enumerate(headings)
    ]
    own = [item.own for item in found]
    for place, item in enumerate(found):
        if item.above and parents[place] >= 0:
            own[parents[place]] += item.above
        elif item.above:
            everywhere += item.above
    marks: list[tuple[Mark, ...]] = []
    for place, parent in enumerate(parents):
        inherited = marks[parent] if parent >= 0 else everywhere
        marks.append(inherited or own[place][:1])
    return marks, [item.supersedes for item in found]


def _names(headings: Sequence[Heading]) -> list[str]:
    """Return the slugs of the headings; one that occurs twice follows the slug of what holds it.

    So a new `Added` on top of a change log leaves the names of the others as they were.
    """
    slugs = [slug(heading.title) or "section" for heading in headings]
    counts = Counter(slugs)
    names = Names()
    taken: list[str] = []
    for place, parent in enumerate(_parents(headings)):
        name = slugs[place]
        taken.append(names.take(f"{slugs[parent]}/{name}" if counts[name] > 1 and parent >= 0 else name))
    return taken


def _titles(headings: Sequence[Heading]) -> list[str]:
    titles: list[str] = []
    for heading, parent in zip(headings, _parents(headings), strict=True):
        titles.append(f"{titles[parent]} > {heading.title}" if parent >= 0 else heading.title)
    return titles


def _cut(lines: Sequence[str], section: _Section, verbatim: Sequence[int]) -> Iterator[UnitFacts]:
    """Yield the section as one unit, or as blocks where it is long."""
    span = trim(lines, section.span)
    if span is None:
        return
    spans = [span] if span.end - span.start < WHOLE_LINES else cut_blocks(lines, span, verbatim)
    for count, part in enumerate(spans, start=1):
        yield _part(lines, section, part, count)


def _part(lines: Sequence[str], section: _Section, span: Span, count: int) -> UnitFacts:
    opening = lead_paragraph(lines, Span(max(span.start, section.head + 1), span.end)) if count == 1 else None
    doc = [Span(span.start, min(section.head, span.end))] if count == 1 and section.head >= span.start else []
    if opening is not None:
        doc.append(opening)
    return UnitFacts(
        name=section.name if count == 1 else f"{section.name}.{count}",
        kind="document",
        role="section" if count == 1 else "block",
        span=span,
        doc=tuple(doc),
        title=section.title,
        summary=_summary(lines, opening, span),
        marks=section.marks,
        supersedes=section.supersedes if count == 1 else (),
    )


def _unit(lines: Sequence[str], span: Span, name: str, role: str) -> UnitFacts:
    return UnitFacts(
        name=name, kind="document", role=role, span=span, summary=plain(lines[span.start - 1])[:200]
    )


def _summary(lines: Sequence[str], opening: Span | None, span: Span) -> str:
    if opening is None:
        return plain(lines[span.start - 1].lstrip("#"))[:200]
    return first_sentence(" ".join(line[:400].strip() for line in lines[opening.start - 1 : opening.end][:8]))
