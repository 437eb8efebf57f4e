"""Words, identifiers and the terms they are indexed by."""

import hashlib
import re
from collections.abc import Iterator

__all__ = [
    "STOP_WORDS",
    "TermSplitter",
    "digest_bytes",
    "digest_text",
    "part_scripts",
    "replace_surrogates",
    "term_key",
    "words",
]

_SURROGATE = re.compile("[\ud800-\udfff]")
_WORD = re.compile(r"\w+")
_WORD_OR_END = re.compile(r"\w+|\n")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_WIDE_PART = re.compile(r"[^\W\d_]+|\d+|[^\W_]")
"""Outside ASCII a run of letters stays whole: there is no telling capitals by a range."""
_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f"
# These take milliseconds to compile, which most processes can save: the `re` module keeps them once used.
_CJK_RUN = f"[{_CJK}]+|[^{_CJK}]+"
_IS_CJK = f"[{_CJK}]"
_SCRIPT_EDGE = f"(?<=[{_CJK}])(?=[A-Za-z0-9_])|(?<=[A-Za-z0-9_])(?=[{_CJK}])"

MAX_WORD_CHARS = 100
"""Longer words are encoded data, never a name that a task would use."""

STOP_WORDS = frozenset(
    """
    a about after all also an and any are as at be because been before being both but by can cannot could
    did do does doing done each either else etc even ever every few for from further get gets getting give
    given gives got had has have having he her here his how however i if in instead into is it its itself
    just let like made make makes making may me might more most much must my need needs no nor not now of
    off on once one only or other our out over own per please same see seems shall she should since so some
    still such than that the their them then there these they this those through thus to too two under until
    up upon us use used uses using very via want was way we well were what when where whether which while
    who whose why will with within without would yes yet you your
    """.split()
)
"""Words that say nothing about where to look. They are left out of queries, never out of the index."""


def words(text: str, *, lines: bool = False) -> list[str]:
    """Return the runs of letters, digits and underscores in `text`, in order, case kept.

    With `lines`, each line feed stands among them as an item of its own.
    """
    return (_WORD_OR_END if lines else _WORD).findall(text)


def replace_surrogates(text: str) -> str:
    """Return `text` with each lone surrogate, which no encoding can hold, replaced by U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return _SURROGATE.sub("\ufffd", text)
    return text


def part_scripts(text: str) -> str:
    """Return `text` with a space where Chinese, Japanese or Korean meets a letter or digit of ASCII."""
    return text if text.isascii() else re.sub(_SCRIPT_EDGE, " ", text)


def digest_bytes(data: bytes) -> str:
    """Return a 128-bit digest of `data` in hexadecimal."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def digest_text(text: str) -> str:
    """Return a 128-bit digest of `text` in hexadecimal."""
    return digest_bytes(text.encode("utf-8", "replace"))


def term_key(term: str) -> int:
    """Return the 64-bit key a term is indexed by: stable between processes and machines."""
    return int.from_bytes(hashlib.blake2b(term.encode("utf-8", "replace"), digest_size=8).digest(), "little")


class TermSplitter:
    """Splits words into index terms, remembering each word it has split.

    `HTTPResponse_codes` gives `httpresponse_codes`, `http`, `response`, `code`: the whole identifier, then
    its parts by case, digits and underscores, lower-cased, plural removed. Runs of Chinese, Japanese and
    Korean give overlapping pairs of characters, so that a part of a phrase finds the whole.
    """

    def __init__(self) -> None:
        self._terms: dict[str, tuple[str, ...]] = {}

    def split(self, word: str) -> tuple[str, ...]:
        """Return the terms of one word, each once; empty for a lone letter or an endless run."""
        terms = self._terms.get(word)
        if terms is None:
            terms = self._terms[word] = _split(word)
        return terms

    def terms(self, text: str) -> list[str]:
        """Return the terms of every word of `text`, in order, with repetition."""
        return [term for word in words(text) for term in self.split(word)]


def _split(word: str) -> tuple[str, ...]:
    if len(word) > MAX_WORD_CHARS:
        return ()
    return _split_ascii(word) if word.isascii() else _split_wide(word)


def _split_ascii(word: str) -> tuple[str, ...]:
    """The common case, which is most of the time it takes to read a repository."""
    lower = word.lower()
    if word == lower and word.isalpha():
        return (singular(word),) if len(word) > 1 else ()
    parts = [singular(part.lower()) for part in _PART.findall(word)]
    if len(parts) < 2:
        return tuple(part for part in parts if len(part) > 1)
    return tuple(dict.fromkeys([lower.strip("_"), *(part for part in parts if len(part) > 1)]))


def _split_wide(word: str) -> tuple[str, ...]:
    if re.search(_IS_CJK, word):
        split = (
            tuple(_bigrams(run)) if re.match(_IS_CJK, run) else _split(run)
            for run in re.findall(_CJK_RUN, word)
        )
        return tuple(dict.fromkeys(term for terms in split for term in terms))
    parts = [singular(part.lower()) for part in _WIDE_PART.findall(word)]
    if len(parts) == 1:
        return tuple(part for part in parts if len(part) > 1 or not part.isascii())
    return tuple(dict.fromkeys([word.lower().strip("_"), *(part for part in parts if len(part) > 1)]))


def _bigrams(run: str) -> Iterator[str]:
    if len(run) == 1:
        yield run
    for start in range(len(run) - 1):
        yield run[start : start + 2]


def singular(word: str) -> str:
    """Return `word` without an English plural ending.

    The S-stemmer of Harman, "How effective is suffixing?", JASIS 42(1), 1991, so that `queries` meets
    `query` and `status` is left alone; `classes` and `indexes` lose both letters, which code needs.
    """
    if len(word) < 4 or word[-1] != "s" or word[-2] in "us":
        return word
    if word.endswith(("sses", "xes")):
        return word[:-2]
    if word.endswith("ies"):
        return word if word[-4] in "ae" else word[:-3] + "y"
    if word.endswith("es"):
        return word if word[-3] in "aeo" else word[:-1]
    return word[:-1]
