"""The name that a note points to: what to use instead, what it was superseded by."""

import re

__all__ = ["reference_at", "replacement_in"]

MAX_TEXT_CHARS = 800
MAX_NAME_CHARS = 120

_CUES = (
    re.compile(
        r"\b(?:in favou?r of|super[sc]eded[ -]by:?|replaced (?:by|with)|renamed (?:to|as)|moved (?:to|into)"
        r"|migrated? to|switch(?:ed)? to|alternative(?: is|:))\s+",
        re.IGNORECASE,
    ),
    re.compile(r"\b(?:use|using|prefer|import|call|instantiate)\s+", re.IGNORECASE),
    re.compile(r"\b(?:see|try|read|consult)\s+", re.IGNORECASE),
)
_FILLER = re.compile(r"(?!(?:instead|of|rather|than|without|not|or|and|to|with)\b)[A-Za-z]+[ \t]+")
_MARKED = re.compile(
    r":(?!ref:|term:|issue:)[a-zA-Z][\w:+.-]*:`(?:[^`<>]*<(?P<target>[^`<>]+)>|~?\.?(?P<role>[^`<>]+?))`"
    r"|\[`?(?P<text>[^\]`]+)`?\]\((?P<link>[^)\s]+)[^)]*\)"
    r"|`+\s*(?P<code>[^`]+?)\s*`+"
    r"|[\"“'‘](?P<quoted>[^\"”'’]{1,80})[\"”'’]"
)
_BARE = re.compile(
    r"(?:ADR|RFC|PEP|DEP|KEP)[ -]?\d+|https?://[^\s<>\"')\]]+|[\w./:~@#-]*\w(?:\(\))?", re.IGNORECASE
)
_CODE_LIKE = re.compile(r"(?:\w[./:_]+\w|\w\(\)|[a-z][A-Z]|\d|^[./~@]\w)")
_LOOSE_END = re.compile(r"[.!?](?:\s|$)|[,;)\]]")
_CALL = re.compile(r"\([^()]*\)$")
_STOP = frozenset({"it", "this", "that", "these", "those", "the", "a", "an", "instead", "one", "at"})


def replacement_in(message: str) -> str:
    """Return the name that `message` says to use instead; empty when it gives none that reads as a name."""
    text = " ".join(message[:MAX_TEXT_CHARS].split())
    for cue in _CUES:
        for match in cue.finditer(text):
            if name := reference_at(text, match.end()):
                return name
    return ""


def reference_at(text: str, place: int, *, loose: bool = False) -> str:
    """Return the reference that begins at `place`, after up to four plain words such as `the new`.

    Strictly, a bare word counts only when it looks like code, is a capitalised name, or `instead` follows;
    `loose` takes whatever the clause says.
    """
    start = place
    for _ in range(5):
        if name := _marked(text, place) or _bare(text, place, first=place == start):
            return name
        filler = _FILLER.match(text, place)
        if filler is None:
            break
        place = filler.end()
    return _clause(text, start) if loose else ""


def _marked(text: str, place: int) -> str:
    match = _MARKED.match(text, place)
    if match is None:
        return ""
    if match["link"]:
        return _tidy(match["text"] if match["link"].startswith("#") else match["link"])
    return _tidy(next((match[name] for name in ("target", "role", "code", "quoted") if match[name]), ""))


def _bare(text: str, place: int, *, first: bool) -> str:
    match = _BARE.match(text, place)
    if match is None or match[0].lower() in _STOP:
        return ""
    word = match[0]
    named = word[0].isupper() and word.lower() not in _STOP
    if _CODE_LIKE.search(word) or named or (first and text.startswith(" instead", match.end())):
        return _tidy(word)
    return ""


def _clause(text: str, place: int) -> str:
    end = _LOOSE_END.search(text, place)
    return _tidy(text[place : end.start() if end else len(text)])


def _tidy(name: str) -> str:
    name = name.strip().strip("*_~").lstrip("~").rstrip(".,;:")
    name = _CALL.sub("", name)
    if name.startswith(".") and name[1:2].isalpha():
        name = name[1:]
    return name if len(name) <= MAX_NAME_CHARS else ""
