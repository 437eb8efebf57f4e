"""Files written for agents: rule files, one unit for each instruction, and a project's memory notes.

A unit here is context, never an enforceable rule: only words that the user typed can authorise one.
"""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import PurePosixPath
from typing import Literal, NamedTuple

from cicl.selection.records import Span
from cicl.selection.sources.blocks import WHOLE_LINES, cut_blocks, trim
from cicl.selection.sources.documents import TOP, extract_document
from cicl.selection.sources.facts import UnitFacts
from cicl.selection.sources.front_matter import FrontMatter, read_front_matter, split_commas
from cicl.selection.sources.imperatives import instructs
from cicl.selection.sources.items import Item, split_items
from cicl.selection.sources.marks import heading_mark
from cicl.selection.sources.prose import Names, first_sentence, first_words, plain, slug, split_lines
from cicl.selection.sources.standing import front_matter_marks

__all__ = ["extract_instructions", "instruction_place"]

RULE_NAMES = frozenset(
    {
        ".clinerules",
        ".cursorrules",
        ".windsurfrules",
        "AGENTS.md",
        "AGENTS.override.md",
        "CLAUDE.local.md",
        "CLAUDE.md",
        "GEMINI.md",
    }
)
NAME_WORDS = 6
TITLE_WORDS = 10
MAX_TITLE_CHARS = 240

_RULE_FOLDERS = re.compile(
    r"(?P<base>(?:.*?/)??)(?:\.claude/rules/.+\.md|\.cursor/rules/.+\.mdc?|\.windsurf/rules/.+\.md"
    r"|\.clinerules/.+\.md"
    r"|\.github/copilot-instructions\.md|\.github/instructions/.+\.instructions\.md"
    r"|\.(?:claude|codex|gemini)/(?:CLAUDE|AGENTS|GEMINI)(?:\.local|\.override)?\.md)$"
)
_MEMORY_FOLDERS = re.compile(
    r"(?P<base>(?:.*?/)??)(?:\.claude/(?:agent-)?memory/.+\.md|\.claude/projects/[^/]+/memory/.+\.md"
    r"|\.serena/memories/.+\.md|\.cicl/memory/.+\.md|memory-bank/.+\.md|(?P<plain>memory/[^/]+\.md)|MEMORY\.md)$"
)
_IMPORT = re.compile(
    r"(?:^|[\s(])@((?:[\w.~-]+/)*[\w.-]+\.(?:mdc?|mdx|txt|rst|json|ya?ml|toml))(?=$|[\s).,;:])"
)
_SUPERSEDED = re.compile(r"[(\[]super[sc]eded\b[^)\]]*[)\]]\W*$", re.IGNORECASE)
_CODE_SPAN = re.compile(r"`[^`]*`")
_TO_ANCHOR = re.compile(r"\[[^\]]*\]\(#[^)]*\)\s*$")


class InstructionPlace(NamedTuple):
    """What a path says about a file for agents."""

    kind: Literal["rule", "memory"]
    base: str
    """Folder that the file speaks about, relative to the root; empty for the root itself."""
    needs_front_matter: bool = False
    """A folder name that others use too: without front matter the file is an ordinary document."""


def instruction_place(path: str) -> InstructionPlace | None:
    """Return what a file for agents speaks about, by its path alone; None for every other path."""
    if match := _RULE_FOLDERS.match(path):
        return InstructionPlace("rule", match["base"].rstrip("/"))
    file = PurePosixPath(path)
    parent = "" if str(file.parent) == "." else str(file.parent)
    if file.name in RULE_NAMES:
        return InstructionPlace("rule", parent)
    if match := _MEMORY_FOLDERS.match(path):
        plain_folder = match["plain"] is not None and file.name != "MEMORY.md"
        return InstructionPlace("memory", match["base"].rstrip("/"), plain_folder)
    return None


def extract_instructions(path: str, text: str) -> tuple[UnitFacts, ...] | None:
    """Return one unit for each instruction of a rule file, or the note of a memory file; None for others.

    What a rule file only describes becomes sections of kind `document`. An index of memories (`MEMORY.md`)
    gives one note for each bullet; any other memory is one note, cut at its headings when it is long.
    """
    place = instruction_place(path)
    if place is None:
        return None
    lines = split_lines(text)
    matter = read_front_matter(lines)
    if place.needs_front_matter and not matter.first("name", "type", "confidence", "supersedes"):
        return None
    items = split_items(lines, matter.lines)
    if place.kind == "rule" or (
        PurePosixPath(path).name == "MEMORY.md" and any(item.listed for item in items)
    ):
        units = _statements(lines, items, matter, place.kind)
    else:
        units = _note(path, text, lines, matter)
    return tuple(_with_front_matter(units, matter, _scope(path, place, matter)))


def _statements(
    lines: Sequence[str], items: Iterable[Item], matter: FrontMatter, kind: Literal["rule", "memory"]
) -> list[UnitFacts]:
    names = Names()
    units = [_top(matter)] if matter.lines else []
    for (counts, titles), run in groupby(items, lambda item: (_counts(item, kind), item.titles)):
        if counts:
            units.extend(_statement(lines, item, kind, names) for item in run)
        else:
            units.extend(_description(lines, list(run), titles, names))
    return units


def _top(matter: FrontMatter) -> UnitFacts:
    return UnitFacts(
        name=TOP,
        kind="document",
        role="section",
        span=Span(1, matter.lines),
        title=matter.first("name", "title"),
        summary=first_sentence(matter.first("description")),
    )


def _counts(item: Item, kind: str) -> bool:
    """Tell whether an item instructs, or in an index of memories, remembers."""
    if item.comment or not item.text or item.text[0] == "|" or _TO_ANCHOR.search(item.text[-400:]):
        return False
    if item.listed or kind != "rule":
        return item.listed
    return instructs(plain(item.text)) or _IMPORT.search(item.text) is not None


def _statement(lines: Sequence[str], item: Item, kind: Literal["rule", "memory"], names: Names) -> UnitFacts:
    text = plain(item.text)
    mark = heading_mark(item.text, item.line)
    return UnitFacts(
        name=names.take(slug(first_words(text, NAME_WORDS)) or "instruction"),
        kind=kind,
        role="instruction" if kind == "rule" else "note",
        span=item.span,
        title=_title(item.titles, text),
        summary=first_sentence(item.text),
        marks=(mark,) if mark is not None and _is_own_mark(item.text) else (),
        requires=tuple(_imports(lines[item.span.start - 1 : item.span.end])),
    )


def _is_own_mark(text: str) -> bool:
    """Tell a rule that is deprecated, `[deprecated] Use x`, from one about a thing that is."""
    return text.lstrip()[:1] in "[(~" or _SUPERSEDED.search(text[-200:]) is not None


def _description(
    lines: Sequence[str], run: Sequence[Item], titles: tuple[str, ...], names: Names
) -> Iterator[UnitFacts]:
    """Yield what a rule file describes between two instructions, in blocks where it is long."""
    text = next((item.text for item in run if item.text), "")
    heading = titles[-1] if titles else ""
    name = names.take(slug(heading) or slug(first_words(plain(text), NAME_WORDS)) or "section")
    span = Span(run[0].span.start, run[-1].span.end)
    for count, part in enumerate(cut_blocks(lines, span), start=1):
        yield UnitFacts(
            name=name if count == 1 else f"{name}.{count}",
            kind="document",
            role="section" if count == 1 else "block",
            span=part,
            title=_title(titles, ""),
            summary=first_sentence(text if count == 1 else lines[part.start - 1]),
        )


def _title(titles: Sequence[str], text: str) -> str:
    parts = [first_words(title, TITLE_WORDS) for title in titles]
    if text and text != (titles[-1] if titles else ""):
        parts.append(first_words(text, TITLE_WORDS))
    return " > ".join(part for part in parts if part)[-MAX_TITLE_CHARS:]


def _imports(lines: Iterable[str]) -> Iterator[str]:
    """Yield the files that lines outside of code spans import with `@path`."""
    fenced = False
    for line in lines:
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        elif not fenced and "@" in line:
            yield from _IMPORT.findall(_CODE_SPAN.sub("", line[:1000]))


def _note(path: str, text: str, lines: Sequence[str], matter: FrontMatter) -> list[UnitFacts]:
    span = trim(lines, Span(1, len(lines)))
    if span is None:
        return []
    sections = extract_document(str(PurePosixPath(path).with_suffix(".md")), text)
    if span.end - span.start >= WHOLE_LINES:
        return [replace(section, kind="memory", role="note") for section in sections]
    head = sections[0]
    return [
        UnitFacts(
            name="note",
            kind="memory",
            role="note",
            span=span,
            title=matter.first("name", "title") or head.title or PurePosixPath(path).stem,
            summary=first_sentence(matter.first("description")) or head.summary,
            marks=head.marks,
            supersedes=head.supersedes,
        )
    ]


def _with_front_matter(
    units: Iterable[UnitFacts], matter: FrontMatter, scope: tuple[str, ...]
) -> Iterator[UnitFacts]:
    """Yield the units with what the front matter says of all of them."""
    marks = front_matter_marks(matter)
    requires = _list(matter, "requires", "depends_on")
    supersedes = _list(matter, "supersedes", "replaces")
    confidence = _confidence(matter)
    for unit in units:
        yield replace(
            unit,
            scope=scope,
            marks=marks or unit.marks,
            requires=_merge(requires, unit.requires),
            supersedes=_merge(supersedes, unit.supersedes),
            confidence=confidence,
        )


def _merge(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*first, *second)))


def _list(matter: FrontMatter, *keys: str) -> tuple[str, ...]:
    return tuple(part.strip("\"'") for value in matter.all(*keys) for part in split_commas(value))


def _confidence(matter: FrontMatter) -> float:
    """Return the confidence that a note gives itself; 1 where it gives none or one outside [0, 1]."""
    try:
        value = float(matter.first("confidence"))
    except ValueError:
        return 1.0
    return value if math.isfinite(value) and 0.0 <= value <= 1.0 else 1.0


def _scope(path: str, place: InstructionPlace, matter: FrontMatter) -> tuple[str, ...]:
    """Return the globs a file covers: its own below the folder it speaks about, else that whole folder."""
    everywhere = (f"{place.base}/**",) if place.base else ()
    if matter.first("alwaysapply", "always_apply").lower() == "true":
        return everywhere
    cursor = path.endswith(".mdc")
    globs = [_glob(part, cursor) for part in _list(matter, "paths", "globs", "applyto", "apply_to", "scope")]
    globs = [glob for glob in globs if glob]
    if not globs or "**" in globs or "**/*" in globs:
        return everywhere
    prefix = f"{place.base}/" if place.base else ""
    return tuple(dict.fromkeys(prefix + glob for glob in globs))


def _glob(text: str, cursor: bool) -> str:
    """Return one glob as the other tools mean it; Cursor reads `*.ts` as a name in any folder."""
    glob = text.strip("\"'").removeprefix("./").lstrip("/")
    if glob.endswith("/"):
        glob += "**"
    return f"**/{glob}" if cursor and "/" not in glob and glob.strip("*") else glob
