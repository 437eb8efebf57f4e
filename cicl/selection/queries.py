"""Queries: what a task's words say about where to look."""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

from cicl.selection.records import Task
from cicl.text import STOP_WORDS, TermSplitter, part_scripts, replace_surrogates, term_key, words

__all__ = ["Mention", "MentionKind", "Query", "parse_task"]

MentionKind = Literal["frame", "path", "dotted", "quoted", "identifier"]

MAX_CHARS = 60_000
"""Of a longer task the beginning and the end are read: a pasted log says what it says there."""
MAX_WORDS = 400
"""Distinct words kept: those of the first line, the most frequent, then the earliest; more only dilute."""
MAX_MENTIONS = 120
TITLE_WEIGHT = 2.0
"""A word of the first line counts as two: on the 207 tune issues titles alone rank better than bodies."""
MAX_TITLE_CHARS = 300
"""A longer first line is no title."""

_FRAME = re.compile(r'File "([^"\n]{1,400})", line (\d{1,7})(?:, in ([\w.<>]+))?')
_PATH = re.compile(
    r"(?<![\w/\\.@+~-])(?:[A-Za-z]:[\\/]|~?[\\/])?"
    r"(?P<path>(?:[\w.@+-]+[\\/])*[\w@+-][\w.@+-]*\.[A-Za-z][A-Za-z0-9]{0,7})(?![\w/])(?::(?P<line>\d{1,7}))?"
)
_DOTTED = re.compile(r"(?<![\w./@-])[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+(?![\w/@])")
_QUOTED = re.compile(r"`{1,2}([^`\n]{1,120})`{1,2}|'([A-Za-z_][\w.]{2,80})'|\"([A-Za-z_][\w.]{2,80})\"")
_IDENTIFIER = re.compile(
    r"(?<![\w.])(?:[A-Za-z_]\w*_\w+|[A-Z]?[a-z0-9]+[A-Z]\w*|[A-Z][a-z]+[A-Z]\w*|[A-Za-z_]\w+(?=\(\)?))"
)
_NAME = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")


class Mention(NamedTuple):
    """Something the task names outright."""

    kind: MentionKind
    text: str
    line: int = 0
    """Of a frame or a path; 0 where none is given."""
    function: str = ""
    """Of a frame."""


@dataclass(frozen=True)
class Query:
    """A task taken apart."""

    terms: Mapping[str, float]
    """Weight by term, in order of first occurrence; no stop words."""
    title_terms: tuple[str, ...]
    """Those of the first line."""
    mentions: tuple[Mention, ...]

    @cached_property
    def keys(self) -> dict[int, float]:
        """Weight by term key."""
        return {term_key(term): weight for term, weight in self.terms.items()}

    @cached_property
    def title_keys(self) -> dict[int, float]:
        """Weight by term key, of the first line's terms only."""
        return {term_key(term): self.terms[term] for term in self.title_terms if term in self.terms}


def parse_task(task: Task, splitter: TermSplitter) -> Query:
    """Return the query of a task; one without any word has no terms and no mentions."""
    text = _cut(replace_surrogates(task.text))
    if task.proposed_action:
        text = f"{text}\n{replace_surrogates(task.proposed_action)}"
    title = next((line for line in text.splitlines() if line.strip()), "")[:MAX_TITLE_CHARS]
    title_terms = dict.fromkeys(_terms(words(title), splitter))
    return Query(_weigh(text, title_terms, splitter), tuple(title_terms), tuple(_mentions(text)))


def _cut(text: str) -> str:
    if len(text) <= MAX_CHARS:
        return text
    return text[: MAX_CHARS * 2 // 3] + "\n" + text[-MAX_CHARS // 3 :]


def _terms(found: Iterable[str], splitter: TermSplitter) -> Iterable[str]:
    for word in found:
        if word.lower() not in STOP_WORDS:
            yield from (term for term in splitter.split(word) if term not in STOP_WORDS)


def _weigh(text: str, title_terms: Iterable[str], splitter: TermSplitter) -> dict[str, float]:
    """Weight 1 + ln(count), doubled in the title: a long issue repeats itself."""
    counts: dict[str, int] = {}
    for term in _terms(words(text), splitter):
        counts[term] = counts.get(term, 0) + 1
    in_title = set(title_terms)
    if len(counts) > MAX_WORDS:
        kept = set(sorted(counts, key=lambda term: (term not in in_title, -counts[term]))[:MAX_WORDS])
        counts = {term: count for term, count in counts.items() if term in kept}
    return {
        term: (1 + math.log(count)) * (TITLE_WEIGHT if term in in_title else 1.0)
        for term, count in counts.items()
    }


def _mentions(text: str) -> list[Mention]:
    found: dict[Mention, None] = {}
    for version in dict.fromkeys((text, part_scripts(text))):  # a name may stand in Chinese without spaces
        found |= _find_mentions(version)
    return list(found)[:MAX_MENTIONS]


def _find_mentions(text: str) -> dict[Mention, None]:
    found: dict[Mention, None] = {}
    for match in _FRAME.finditer(text):
        found[Mention("frame", match[1], int(match[2]), match[3] or "")] = None
    for match in _PATH.finditer(text):
        found[Mention("path", match["path"], int(match["line"] or 0))] = None
    for match in _DOTTED.finditer(text):
        found[Mention("dotted", match[0])] = None
    for match in _QUOTED.finditer(text):
        quoted = match[1] or match[2] or match[3]
        for name in _NAME.findall(quoted)[:4]:
            if len(name) > 2 and name.lower() not in STOP_WORDS:
                found[Mention("dotted" if "." in name else "quoted", name)] = None
    for match in _IDENTIFIER.finditer(text):
        name = match[0]
        if len(name) > 2 and Mention("quoted", name) not in found and name.lower() not in STOP_WORDS:
            found[Mention("identifier", name)] = None
    return found
