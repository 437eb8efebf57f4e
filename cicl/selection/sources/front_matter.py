"""The front matter of a note or rule: a small, tolerant part of YAML, read by hand.

A file that some tool reads as front matter is often no valid YAML (`globs: *.ts, **/*.tsx`), and a YAML
parser is no dependency of the core. What cannot be read is left out; nothing raises.
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

__all__ = ["FrontMatter", "read_front_matter", "split_commas"]

MAX_LINES = 200
"""A block that is not closed by then is a horizontal rule and ordinary text."""

_KEY = re.compile(r"(\s*)([A-Za-z][\w .-]{0,60}?)\s*:(?:\s+(.*)|)$")
_BLOCK_SCALAR = re.compile(r"[|>][+-]?\d?$")


class FrontMatter(NamedTuple):
    """The values between the two `---` lines at the top of a file."""

    values: Mapping[str, tuple[str, ...]]
    """By lower-case key, `-` and spaces turned into `_`; a scalar is a tuple of one, no value is empty."""
    lines: int
    """How many lines the block takes, both rules included; 0 where there is none."""

    def first(self, *keys: str) -> str:
        """Return the first value of the first key that has one; empty when none has."""
        return next((self.values[key][0] for key in keys if self.values.get(key)), "")

    def all(self, *keys: str) -> tuple[str, ...]:
        """Return the values of every key of `keys`, in their order."""
        return tuple(value for key in keys for value in self.values.get(key, ()))


def read_front_matter(lines: Sequence[str]) -> FrontMatter:
    """Return the front matter that `lines` begin with."""
    end = _closing_line(lines)
    if not end:
        return FrontMatter({}, 0)
    values: dict[str, tuple[str, ...]] = {}
    key = ""
    place = 1
    while place < end:
        line = lines[place]
        place += 1
        bare = line.strip()
        if not bare or bare.startswith("#"):
            continue
        if key and (bare == "-" or bare.startswith("- ")):
            values[key] += _clean(_scalar(bare[1:]))
        elif match := _KEY.match(line):
            key = re.sub(r"[ -]", "_", match[2].lower())
            value = (match[3] or "").strip()
            if _BLOCK_SCALAR.match(value):
                value, place = _block(lines, place, end, len(match[1]))
                _set(values, key, _clean(value), nested=bool(match[1]))
            else:
                _set(values, key, _value(value), nested=bool(match[1]))
        elif key and line[0] in " \t" and len(values[key]) == 1:
            values[key] = (f"{values[key][0]} {bare}",)  # a folded scalar
    return FrontMatter(values, end + 1)


def split_commas(text: str) -> list[str]:
    """Split at the commas that stand in no brackets, braces or quotes."""
    parts: list[str] = []
    depth = start = 0
    quote = ""
    for place, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        elif character in "[{(":
            depth += 1
        elif character in "]})":
            depth -= 1
        elif character == "," and depth <= 0:
            parts.append(text[start:place])
            start = place + 1
    parts.append(text[start:])
    return [part.strip() for part in parts if part.strip()]


def _closing_line(lines: Sequence[str]) -> int:
    if not lines or lines[0].rstrip() != "---":
        return 0
    for place in range(1, min(len(lines), MAX_LINES)):
        if lines[place].rstrip() in ("---", "..."):
            return place
    return 0


def _set(values: dict[str, tuple[str, ...]], key: str, value: tuple[str, ...], *, nested: bool) -> None:
    if nested and values.get(key):
        return  # `metadata: {name: ...}` never hides the file's own name
    values[key] = value


def _value(text: str) -> tuple[str, ...]:
    if text.startswith("[") and text.endswith("]"):
        return tuple(item for part in split_commas(text[1:-1]) for item in _clean(_scalar(part)))
    return _clean(_scalar(text))


def _scalar(text: str) -> str:
    text = text.strip()
    if text and text[0] in "\"'":
        end = text.find(text[0], 1)
        after = text[end + 1 :].strip()
        if end > 0 and (not after or after.startswith("#")):
            return text[1:end]
    return re.split(r"\s#", text, maxsplit=1)[0].strip()


def _clean(text: str) -> tuple[str, ...]:
    return (text,) if text and text.lower() not in ("null", "~") else ()


def _block(lines: Sequence[str], place: int, end: int, indent: int) -> tuple[str, int]:
    kept: list[str] = []
    while place < end:
        line = lines[place]
        if line.strip() and len(line) - len(line.lstrip()) <= indent:
            break
        kept.append(line.strip())
        place += 1
    return " ".join(part for part in kept if part), place
