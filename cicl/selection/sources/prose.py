"""Plain words out of marked-up text: names, titles and first sentences."""

import re

__all__ = ["MAX_SUMMARY_CHARS", "Names", "first_sentence", "first_words", "plain", "slug", "split_lines"]

MAX_SUMMARY_CHARS = 200
MAX_PLAIN_CHARS = 1000
"""Of a marked-up line, what is read; the patterns below then cost the same on any line."""
MAX_SLUG_CHARS = 60

_IMAGE = re.compile(r"!\[([^\]]*)\]\([^)]*\)")
_LINK = re.compile(r"\[([^\[\]]+)\](?:\([^)]*\)|\[[^\]]*\])")
_ROLE = re.compile(r":[a-zA-Z][\w:+.-]*:`~?\.?([^`<]+?)(?:\s*<[^`>]*>)?`")
_TAG = re.compile(
    r"</?(?:a|b|i|p|br|em|h[1-6]|hr|kbd|li|ol|td|th|tr|ul|div|img|sub|sup|code|span|small|strong|table|center"
    r"|details|summary|picture|source)\b[^<>]*>|<!--|-->",
    re.IGNORECASE,
)
_RST_LINK = re.compile(r"`([^`<]+?)\s*<[^`>]*>`_{0,2}")
_MARKUP = re.compile(r"[*`]+|~~|(?<![^\s(\[*])_{1,3}(?=[\w*])|(?<=[\w.!?*)])_{1,3}(?![\w.(`])")
_NOT_WORD = re.compile(r"[\W_]+")
_SENTENCE_END = re.compile(r"[.!?](?=\s)|[。！？]")
_ABBREVIATION = re.compile(r"\b(?:e\.g|i\.e|etc|vs|cf|no|[A-Z])\.$", re.IGNORECASE)


def split_lines(text: str) -> list[str]:
    """Return the lines of `text` without their line feeds; the empty text has none."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


def plain(text: str) -> str:
    """Return one line of Markdown or reStructuredText without its markup, spaces collapsed."""
    text = text[:MAX_PLAIN_CHARS]
    if "[" in text:
        text = _LINK.sub(r"\1", _IMAGE.sub(r"\1", text))
    if "`" in text:
        text = _RST_LINK.sub(r"\1", _ROLE.sub(r"\1", text))
    if "<" in text:
        text = _TAG.sub(" ", text)
    return " ".join(_MARKUP.sub("", text).split())


def slug(text: str) -> str:
    """Return the letters and digits of `text`, lower-cased and joined by `-`; empty when it has none."""
    words = _NOT_WORD.sub("-", text[:MAX_PLAIN_CHARS].lower()).strip("-")
    return (
        words
        if len(words) <= MAX_SLUG_CHARS
        else words[:MAX_SLUG_CHARS].rpartition("-")[0] or words[:MAX_SLUG_CHARS]
    )


def first_words(text: str, count: int) -> str:
    """Return the first `count` words of plain text."""
    return " ".join(text[:MAX_PLAIN_CHARS].split(None, count)[:count])


def first_sentence(text: str) -> str:
    """Return the first sentence of `text` without markup, at most `MAX_SUMMARY_CHARS` characters."""
    text = plain(text)
    for end in _SENTENCE_END.finditer(text):
        if not _ABBREVIATION.search(text[: end.end()]):
            text = text[: end.end()]
            break
    if len(text) <= MAX_SUMMARY_CHARS:
        return text
    return text[: MAX_SUMMARY_CHARS - 1].rpartition(" ")[0].rstrip() + "…"


class Names:
    """Gives out names that are unique in one file: the second `setup` is `setup-2`."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def take(self, name: str) -> str:
        """Return `name`, or `name` with the next free number; a name taken so is never given again."""
        count = self._counts.get(name, 0)
        taken = name
        while taken in self._counts:
            count += 1
            taken = f"{name}-{count + 1}" if count else name
        self._counts[name] = count
        self._counts.setdefault(taken, 0)
        return taken
