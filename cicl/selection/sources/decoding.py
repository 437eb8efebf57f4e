"""Turning the bytes of a file into text, or into the reason why it is none."""

import codecs
import io
import tokenize
from dataclasses import dataclass
from typing import NamedTuple

from cicl.selection.records import Skipped
from cicl.selection.sources.files import DEFAULT_LIMITS, Limits
from cicl.text import replace_surrogates

__all__ = ["Decoded", "decode", "split_lines"]

MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16: its mark begins with that of UTF-16-LE
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
"""Byte-order marks."""

PYTHON_SUFFIXES = (".py", ".pyi", ".pyw")
COOKIE_BYTES = 1024
"""In which a PEP 263 comment, which stands in one of the first two lines, is looked for."""

ESCAPING_CODECS = (
    "idna",
    "punycode",
    "raw-unicode-escape",
    "undefined",
    "unicode-escape",
    "utf-16",
    "utf-32",
    "utf-7",
)
"""A comment that names one of these is not believed. They read ASCII as something else than ASCII, so that
comment could not have been found; and some make line breaks and lone surrogates out of letters."""

FALLBACK = "cp1252"
"""For bytes that are not UTF-8: latin-1 with letters and quotes instead of control characters."""

MAX_ODD_SHARE = 0.1
"""Of a text, what may be control characters or unreadable. Bytes without meaning have as many control
characters by chance (26 of 256), and far more that are no UTF-8."""

MAX_FALLBACK_SHARE = 0.3
"""Of a text in `FALLBACK`, what may be outside ASCII: European prose stays below a tenth, while Chinese in
GBK, which cannot be told from it, lies above a half."""

MIN_WIDE_SHARE = 0.9
"""Of every other byte, what is NUL in UTF-16 without a mark."""

LONG_LINE_SHARE = 0.5
"""Of a text, what may stand in lines that are too long; one pasted image must not cost a whole document."""

REPLACEMENT = "\ufffd"
_WIDE = ("utf-16", "utf-32")
_CONTROLS = bytes(set(range(32)) - set(b"\t\n\f\r\b\x1b") | {127})


@dataclass(frozen=True, slots=True)
class Decoded:
    """The text of a file: lines end at a line feed; no byte-order mark, NUL or lone surrogate is left."""

    text: str
    encoding: str
    """The codec that read it, by Python's name for it; `cp1252` is a guess."""
    replaced: int = 0
    """How many characters could not be read and stand as U+FFFD."""


def decode(data: bytes, path: str, limits: Limits = DEFAULT_LIMITS) -> Decoded | Skipped:
    """Return the text of the file `path`, or why it is not read: binary, minified, encoding unknown.

    Tried in this order: a byte-order mark; a PEP 263 comment in a Python file; UTF-16 without a mark; UTF-8,
    also with some bytes broken; cp1252 where most of the text is ASCII.
    """
    reading = _read_marked(data)
    if reading is None and b"\0\0" in data:  # common in binary formats, rare in broken text, cheap to find
        return Skipped(path, "binary: runs of NUL bytes")
    reading = reading or _read_declared(data, path) or _read_unmarked(data)
    text = _normalise_lines(reading.text)
    if reason := _refuse_characters(data, reading) or _refuse_lines(text, limits):
        return Skipped(path, reason)
    nuls = text.count("\0")
    return Decoded(text.replace("\0", REPLACEMENT), reading.encoding, reading.replaced + nuls)


def split_lines(text: str) -> list[str]:
    r"""Return the lines of `text` without their ends; the empty text has none.

    A line ends at \n, \r\n or \r and at nothing else, unlike `str.splitlines`: editors, git and Python's own
    parser count so.
    """
    lines = _normalise_lines(text).split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


class _Reading(NamedTuple):
    text: str
    encoding: str
    replaced: int = 0


def _read_marked(data: bytes) -> _Reading | None:
    for mark, encoding in MARKS:
        if data.startswith(mark):
            reading = _read_as(data, encoding)
            return reading._replace(text=reading.text.lstrip("\ufeff"))
    return None


def _read_declared(data: bytes, path: str) -> _Reading | None:
    if not path.endswith(PYTHON_SUFFIXES) or b"coding" not in data[:COOKIE_BYTES]:
        return None
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        name = codecs.lookup(encoding).name
        if name == "utf-8" or name.startswith(ESCAPING_CODECS):
            return None
        text = data.decode(encoding)
    except (SyntaxError, LookupError, ValueError):  # what is declared is unknown, or not true
        return None
    return _Reading(replace_surrogates(text), name) if "coding" in text[:COOKIE_BYTES] else None


def _read_unmarked(data: bytes) -> _Reading:
    if b"\0" in data and (wide := _read_unmarked_wide(data)):
        return wide
    reading = _read_as(data, "utf-8")
    if reading.replaced == 0:
        return reading
    good = len(reading.text) - len(reading.text.encode("ascii", "ignore")) - reading.replaced
    return reading if good > reading.replaced else _read_as(data, FALLBACK)


def _read_unmarked_wide(data: bytes) -> _Reading | None:
    """UTF-16 of mostly ASCII has a NUL for every other byte."""
    for first, encoding in ((1, "utf-16-le"), (0, "utf-16-be")):
        high = data[first::2]
        if len(data) % 2 == 0 and high.count(0) > MIN_WIDE_SHARE * len(high):
            return _read_as(data, encoding)
    return None


def _read_as(data: bytes, encoding: str) -> _Reading:
    try:
        return _Reading(data.decode(encoding), encoding)
    except UnicodeDecodeError:
        text = data.decode(encoding, "replace")
        return _Reading(text, encoding, text.count(REPLACEMENT))


def _refuse_characters(data: bytes, reading: _Reading) -> str | None:
    if reading.encoding.startswith(_WIDE):
        data = reading.text.encode()
    odd = len(data) - len(data.translate(None, _CONTROLS)) + reading.replaced
    if odd > MAX_ODD_SHARE * len(data):
        return f"binary: {odd:,} control characters and unreadable bytes in {len(data):,}"
    if reading.encoding == FALLBACK:
        foreign = len(data) - len(data.decode("ascii", "ignore"))
        if foreign > MAX_FALLBACK_SHARE * len(data):
            return "neither UTF-8 nor an encoding that can be told; saved as UTF-8 it would be read"
    return None


def _refuse_lines(text: str, limits: Limits) -> str | None:
    if not _has_long_line(text, limits.max_line_chars):
        return None
    lengths = [len(line) for line in text.split("\n")]
    share = sum(length for length in lengths if length > limits.max_line_chars) / len(text)
    if share <= LONG_LINE_SHARE:
        return None
    return (
        f"minified or generated: {share:.0%} of it stands in lines longer than the limit of "
        f"{limits.max_line_chars:,} characters, the longest has {max(lengths):,}"
    )


def _has_long_line(text: str, limit: int) -> bool:
    # Looks back from the far end of what a line may hold: a few searches a file instead of one a line.
    start = 0
    while len(text) - start > limit:
        end = text.rfind("\n", start, start + limit + 1)
        if end < 0:
            return True
        start = end + 1
    return False


def _normalise_lines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text
