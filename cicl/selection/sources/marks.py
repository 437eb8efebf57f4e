"""Explicit statements about the standing of a unit: stale, superseded, generated.

A marker counts only in its place: a heading's own prefix or suffix, the first paragraph under it, a status
line, a directive that stands first, the header of a file. Text that merely talks about deprecation, quotes a
marker, shows one in a code block or lists what is deprecated says nothing about itself.
"""

import re
from collections.abc import Iterable, Sequence

from cicl.selection.sources.facts import Mark
from cicl.selection.sources.generated import generated_mark
from cicl.selection.sources.prose import first_sentence, plain
from cicl.selection.sources.references import reference_at, replacement_in

__all__ = [
    "decorator_mark",
    "directive_body",
    "directive_mark",
    "generated_mark",
    "heading_mark",
    "marks_in_comment",
    "marks_in_docstring",
    "paragraph_mark",
    "replacement_in",
    "shared_marks",
    "status_mark",
]

MAX_MARK_CHARS = 200
MAX_PARAGRAPH_CHARS = 600

_WORD = r"(?:deprecated|obsoleted?|outdated|super[sc]eded)"
_ANY = re.compile(
    r"~~|deprecat|obsolet|super[sc]ed|out of date|outdated|no longer|replaced by", re.IGNORECASE
)
"""Without one of these, a heading or paragraph sets no mark: most do not, and are done with here."""
_PREFIX = re.compile(rf"(?:[\[(]{_WORD}\b[^\])]*[\])]|{_WORD}(?:\s*:|\s+[-–—]\s|[.!]?$))", re.IGNORECASE)
_SUFFIX = re.compile(
    rf"(?:[\[(]\s*{_WORD}(?:[\s,;:]+(?:since|in|by|as of|use|see|and replaced)\b[^\])]*|)\s*[\])]"
    rf"|\s[-–—]+\s*{_WORD})\s*\.?$",
    re.IGNORECASE,
)
_START = re.compile(
    rf"(?:[\[(]{_WORD}\b[^\])]*[\])]"
    rf"|{_WORD}(?:$|\s*[:;!.](?!\w)|\s+[-–—]+\s|\s+(?:since|as of|by|in (?:version|release|v?\d|favou?r))\b"
    r"|,\s*(?:please|use|see|prefer|replaced|superseded|will|and will|do not|does|kept)\b))",
    re.IGNORECASE,
)
_NOUN = (
    r"(?:page|document|documentation|doc|guide|section|article|file|chapter|tutorial|how-?to|readme|module|package|library"
    r"|project|repository|repo|plugin|extension|tool|script|function|class|method|property|decorator|mixin|api"
    r"|endpoint|feature|command|setting|field|view|model|backend|adr|decision|proposal|spec|specification|rfc|note|plan"
    r"|rule|memory|instruction|exception|helper|alias|service)"
)
_IS = r"(?:is|are|was|has been|have been)\s+(?:(?:now|also|officially|considered|currently|being)\s+)*"
_ENDED = (
    r"(?:deprecated|obsoleted?|outdated|out of date|super[sc]eded|replaced by"
    r"|no longer (?:maintained|supported|valid|accurate|in use))\b"
)
_SELF = re.compile(
    rf"(?:^|[.!]\s+)(?:(?:note|warning):\s*)?this (?:[\w-]+ ){{0,2}}?{_NOUN} {_IS}{_ENDED}", re.IGNORECASE
)
_SUBJECT = re.compile(rf"(?:the )?([\w.:-]+(?:\(\))?)(?: {_NOUN})? {_IS}{_ENDED}", re.IGNORECASE)
_DOC_NOUN = re.compile(
    rf"{_WORD}\s+(?:[\w-]+ ){{0,2}}(?:alias|version|wrapper|name|synonym|class|function|method|module"
    r"|property|shim|mixin|decorator|helper|variant)\b(?! of (?:all|each|every)\b)",
    re.IGNORECASE,
)
_DOC_SUFFIX = re.compile(rf"\({_WORD}\)\.?$", re.IGNORECASE)
_STATUS = re.compile(
    r"(?:super[sc]eded|replaced|deprecated|obsoleted?|rejected|withdrawn|retired|abandoned)\b(?!\s*\?)",
    re.IGNORECASE,
)
_REPLACED = re.compile(r"super[sc]eded|replaced by", re.IGNORECASE)
_BY = re.compile(r"\b(?:by|with)\s+")
_QUOTATION = "\"'“”‘’«»"
_LEAD = re.compile(r"[\W_]*?(?=[\w\[(])")
_PART = re.compile(
    r"(?!every|any|no)(?:[a-z]+ing|support|positional)\b"
    r"|[^.]{0,80}\b(?:parameter|argument|kwarg|keyword|attribute|option|default|values?|aliases|behaviou?r)\b",
    re.IGNORECASE,
)
_WHOLE = re.compile(
    r"(?:use|see|replaced|super[sc]eded|it|this|please|prefer|will|removed|renamed|moved)\b", re.IGNORECASE
)
_SAYS_ENDED = re.compile(rf"\b{_IS}{_ENDED}", re.IGNORECASE)
_DIRECTIVE = re.compile(r"\s*\.\. deprecated::(.*)$")
_DOC_SECTION = re.compile(
    r"\s*(?:(?:args|arguments|parameters|params|keyword args|keyword arguments|returns?|raises|yields"
    r"|attributes|examples?|notes?|see also|references|warnings?)\s*:?\s*$"
    r"|:(?:param|type|returns?|rtype|raises|arg|keyword)\b)",
    re.IGNORECASE,
)
_QUOTES = re.compile(r"\s*[rRuUbBfF]{0,2}(?:\"\"\"|'''|\"|')")
_END_QUOTES = re.compile(r"(?:\"\"\"|'''|\"|')\s*$")
_COMMENT_SIGN = re.compile(r"\s*(?:#+:?|//+[!/]?|/\*+|\*+/?|--|;+|%+|\"+)?\s*")
_DECORATOR = re.compile(
    r"@?\s*((?:\w+\.)*)(deprecated|deprecate|obsolete|superseded)\s*(?:\(|$)", re.IGNORECASE
)
_KEYWORD_REPLACEMENT = re.compile(
    r"\b(?:alternative|replacement|replaced_by|instead|use_instead|new_name)\s*=\s*[\"']([^\"']{1,120})"
)
_STRING = re.compile(r"[\"']([^\"']{1,400})[\"']")


def heading_mark(text: str, line: int) -> Mark | None:
    """Return the mark a heading bears: `Deprecated: X`, `[Deprecated] X`, `X (deprecated)` or `~~X~~`."""
    if _ANY.search(text) is None:
        return None
    stripped = text.strip()
    if stripped.startswith("~~") and stripped.endswith("~~") and len(stripped) > 4:
        return Mark("stale", line, stripped[:MAX_MARK_CHARS])
    bare = _lead_stripped(plain(stripped))
    prefix = _PREFIX.match(bare)
    if prefix is not None and prefix.end() == len(bare) and bare[0] not in "[(":
        return None  # "Deprecated" alone heads a list of what is
    if prefix is None and _SUFFIX.search(bare) is None:
        return None
    return _mark(bare, line, stripped)


def paragraph_mark(text: str, line: int, subject: str = "") -> Mark | None:
    """Return the mark that a first paragraph sets on what it stands under.

    It begins with the marker (`Deprecated. Use x`) or says it of itself (`This page is obsolete`) or of
    `subject`.
    """
    bare = _lead_stripped(plain(text[:MAX_PARAGRAPH_CHARS]))
    if text.startswith(".. ") or _ANY.search(text, 0, MAX_PARAGRAPH_CHARS) is None:
        return None
    if _START.match(bare) or _SELF.search(bare) or (subject and _is_subject(bare, subject)):
        return _mark(bare, line, text)
    return None


def status_mark(value: str, line: int, replacement: str = "") -> Mark | None:
    """Return the mark for the value of a status field; None for `accepted`, `draft` and all others."""
    bare = _lead_stripped(plain(value[:MAX_PARAGRAPH_CHARS]))
    match = _STATUS.match(bare)
    if match is None:
        return None
    superseded = match[0].lower().startswith(("super", "replaced"))
    return Mark(
        "superseded" if superseded else "stale",
        line,
        first_sentence(value),
        replacement or replacement_in(value) or (_by(value) if superseded else ""),
    )


def directive_mark(body: str, line: int, subject: str = "") -> Mark | None:
    """Return the mark of a `deprecated` directive with this body; None when that is about a part."""
    if _partial(body, subject):
        return None
    return Mark("stale", line, first_sentence(body) or "deprecated", replacement_in(body))


def _partial(body: str, subject: str = "") -> bool:
    """Tell whether the text of a deprecation note is about a part (a parameter, a use) and not the whole.

    `subject` is the name of the whole, empty when it is not known.
    """
    bare = plain(body[:MAX_PARAGRAPH_CHARS])
    if not bare or _WHOLE.match(bare) or _SELF.search(bare):
        return False
    if _PART.match(bare):
        return not (subject and _is_subject(bare, subject))
    if not subject or not _SAYS_ENDED.search(bare):
        return False
    return not _is_subject(bare, subject)


def marks_in_docstring(lines: Sequence[str], first_line: int) -> tuple[Mark, ...]:
    """Return what a docstring says of the thing it documents; `lines` may still have their quotes."""
    bare = _unquoted(lines)
    start = next((place for place, line in enumerate(bare) if line.strip()), len(bare))
    paragraph = _paragraph(bare, start)
    text = plain(" ".join(paragraph))
    found = paragraph_mark(text, first_line + start)
    if found is None and (_DOC_NOUN.match(text) or _DOC_SUFFIX.search(text)):
        found = _mark(text, first_line + start, text)
    if found is not None and not paragraph[0].lstrip().startswith(">>>"):
        return (found,)
    return _docstring_directive(bare, start, first_line)


def marks_in_comment(lines: Sequence[str], first_line: int) -> tuple[Mark, ...]:
    """Return what the comment directly above a definition says of it; `lines` have their comment signs."""
    bare = [_COMMENT_SIGN.sub("", line, count=1) for line in lines]
    start = next((place for place, line in enumerate(bare) if line.strip()), len(bare))
    found = paragraph_mark(" ".join(_paragraph(bare, start)), first_line + start)
    return (found,) if found is not None else ()


def decorator_mark(source: str, line: int) -> Mark | None:
    """Return the mark of a decorator by its source, such as `deprecated("Use x")`; None for any other."""
    match = _DECORATOR.match(source)
    if match is None or ".mark." in f".{match[1]}":
        return None
    named = _KEYWORD_REPLACEMENT.search(source)
    said = next((text for text in _STRING.findall(source) if " " in text), "")
    superseded = match[2].lower() == "superseded"
    return Mark(
        "superseded" if superseded else "stale",
        line,
        (said or source)[:MAX_MARK_CHARS],
        named[1] if named else replacement_in(said),
    )


def _mark(bare: str, line: int, text: str) -> Mark:
    head = bare[:80]
    superseded = _REPLACED.search(head) is not None and "deprecated" not in head.lower()
    replacement = replacement_in(text) or (_by(text) if superseded else "")
    return Mark(
        "superseded" if superseded else "stale", line, " ".join(text.split())[:MAX_MARK_CHARS], replacement
    )


def _by(text: str) -> str:
    match = _BY.search(text)
    return reference_at(text, match.end(), loose=True) if match else ""


def _is_subject(bare: str, subject: str) -> bool:
    match = _SUBJECT.match(bare)
    return match is not None and _key(match[1]) == _key(subject)


def _key(name: str) -> str:
    return re.sub(r"\W+", "", name.lower())


def _lead_stripped(text: str) -> str:
    """Drop what may stand before the first word: emoji, bullets, quotation bars; never a quotation mark."""
    match = _LEAD.match(text)
    lead = match[0] if match else ""
    return text if any(quote in lead for quote in _QUOTATION) else text[len(lead) :]


def _unquoted(lines: Sequence[str]) -> list[str]:
    bare = list(lines)
    if bare:
        bare[0] = _QUOTES.sub("", bare[0], count=1)
        bare[-1] = _END_QUOTES.sub("", bare[-1])
    return bare


def _paragraph(lines: Sequence[str], start: int) -> list[str]:
    kept: list[str] = []
    for line in lines[start : start + 8]:
        if not line.strip():
            break
        kept.append(line.strip())
    return kept or [""]


def _docstring_directive(lines: Sequence[str], start: int, first_line: int) -> tuple[Mark, ...]:
    """Find the `deprecated` directive at the docstring's own indentation, before its first section."""
    base = min((_indent(line) for line in lines[1:] if line.strip()), default=0)
    for place in range(start, len(lines)):
        line = lines[place]
        if _DOC_SECTION.match(line) and place > start:
            break
        match = _DIRECTIVE.match(line)
        if match is not None and _indent(line) <= base:
            found = directive_mark(directive_body(lines, place, match[1]), first_line + place)
            return (found,) if found is not None else ()
    return ()


def directive_body(lines: Sequence[str], place: int, argument: str) -> str:
    """Return the first paragraph of the directive at index `place`, after its version number."""
    indent = _indent(lines[place])
    kept = [re.sub(r"^\s*v?[\d.]+\s*", "", argument)]
    for line in lines[place + 1 : place + 16]:
        if not line.strip():
            if any(kept):
                break
            continue
        if _indent(line) <= indent:
            break
        kept.append(line.strip())
    return " ".join(part for part in kept if part).strip()


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def shared_marks(marks: Iterable[Sequence[Mark]]) -> tuple[Mark, ...]:
    """Return the marks that every unit of a file bears, in the order of the first; none for no unit."""
    units = list(marks)
    return tuple(mark for mark in units[0] if all(mark in unit for unit in units)) if units else ()
