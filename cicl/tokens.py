"""How many tokens a text has, exactly where a vocabulary is on disk, and never by asking the network."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from cicl.errors import ConfigurationError
from cicl.pieces import SPLITS, PieceTable, split_pieces
from cicl.text import replace_surrogates

if TYPE_CHECKING:
    import tiktoken

__all__ = [
    "DEFAULT_ENCODING",
    "ByteCounter",
    "PieceCounter",
    "TiktokenCounter",
    "TokenCounter",
    "ToktokCounter",
    "counter_for",
    "known_encodings",
    "vocabulary_on_disk",
]

DEFAULT_ENCODING: Final = "o200k_base"

TOKTOK_ENCODINGS: Final = ("cl100k_base", "o200k_base", "o200k_harmony", "qwen3.5")
"""The vocabularies inside toktok-rs 0.3; its ``jev`` is left out, being an estimate."""

_BLOBS: Final = "https://openaipublic.blob.core.windows.net/"

_SHA256: Final[Mapping[str, str]] = {
    "gpt-2/encodings/main/vocab.bpe": "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5",
    "gpt-2/encodings/main/encoder.json": "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783",
    "encodings/r50k_base.tiktoken": "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930",
    "encodings/p50k_base.tiktoken": "94b5ca7dff4d00767bc256fdd1b27e5b17361d7b8a5f968547f9f23eb70d2069",
    "encodings/cl100k_base.tiktoken": "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    "encodings/o200k_base.tiktoken": "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
}
"""The files that tiktoken downloads from there, as `tiktoken_ext.openai_public` has them."""

_FILES: Final[Mapping[str, tuple[str, ...]]] = {
    "gpt2": ("gpt-2/encodings/main/vocab.bpe", "gpt-2/encodings/main/encoder.json"),
    "r50k_base": ("encodings/r50k_base.tiktoken",),
    "p50k_base": ("encodings/p50k_base.tiktoken",),
    "p50k_edit": ("encodings/p50k_base.tiktoken",),
    "cl100k_base": ("encodings/cl100k_base.tiktoken",),
    "o200k_base": ("encodings/o200k_base.tiktoken",),
    "o200k_harmony": ("encodings/o200k_base.tiktoken",),
}


class TokenCounter(Protocol):
    """Counts tokens of one encoding; what looks like a special token is ordinary text."""

    @property
    def encoding(self) -> str: ...

    @property
    def exact(self) -> bool:
        """False when the counts are an upper bound, true when they are the encoder's own."""

    def count(self, text: str) -> int:
        """Count the tokens of `text`; lone surrogates count as U+FFFD, and an empty text as 0."""

    def count_batch(self, texts: Sequence[str]) -> list[int]:
        """Count each of `texts`, in order; much faster than as many single calls."""


@dataclass(frozen=True, slots=True)
class ByteCounter:
    """The length in UTF-8, which no byte-level encoder exceeds: a bound that holds without a vocabulary."""

    encoding: str

    @property
    def exact(self) -> bool:
        return False

    def count(self, text: str) -> int:
        return len(replace_surrogates(text).encode())

    def count_batch(self, texts: Sequence[str]) -> list[int]:
        return [self.count(text) for text in texts]


@dataclass(frozen=True, slots=True)
class ToktokCounter:
    """Counts by toktok-rs, which loads its vocabulary at the first count.

    It has tiktoken's counts, except on characters that the Unicode tables of only one of the two know.
    """

    encoding: str

    @property
    def exact(self) -> bool:
        return True

    def count(self, text: str) -> int:
        return self.count_batch([text])[0]

    def count_batch(self, texts: Sequence[str]) -> list[int]:
        import toktok

        counts: list[int] = toktok.batch_count([replace_surrogates(text) for text in texts], self.encoding)
        return counts


@dataclass(frozen=True, slots=True)
class TiktokenCounter:
    """Counts by tiktoken, from vocabulary files that are already in its cache.

    Raises ConfigurationError when they have left the cache by the time of the first count.
    """

    encoding: str

    @property
    def exact(self) -> bool:
        return True

    def count(self, text: str) -> int:
        return len(self._encoder().encode_ordinary(replace_surrogates(text)))

    def count_batch(self, texts: Sequence[str]) -> list[int]:
        encoder = self._encoder()
        return [len(encoder.encode_ordinary(replace_surrogates(text))) for text in texts]

    def _encoder(self) -> tiktoken.Encoding:
        import tiktoken
        from tiktoken.registry import ENCODINGS

        # tiktoken downloads what it does not find, so it is asked only for what was just seen.
        if self.encoding not in ENCODINGS and not vocabulary_on_disk(self.encoding):
            raise ConfigurationError(
                f"the vocabulary of {self.encoding} has left tiktoken's cache; restore it or start again"
            )
        return tiktoken.get_encoding(self.encoding)


@dataclass(frozen=True, slots=True)
class PieceCounter:
    """Counts by a table of known pieces; `backend` counts, and the table learns, what it does not know.

    Raises ValueError when `backend` is not exact or of another encoding than the table.
    """

    table: PieceTable
    backend: TokenCounter

    def __post_init__(self) -> None:
        self.table.require_fit(self.backend)

    @property
    def encoding(self) -> str:
        return self.table.encoding

    @property
    def exact(self) -> bool:
        return True

    def count(self, text: str) -> int:
        return self.count_batch([text])[0]

    def count_batch(self, texts: Sequence[str]) -> list[int]:
        split = [split_pieces(text, self.encoding) for text in texts]
        counts = self._counts(set().union(*split))
        return [sum(map(counts.__getitem__, pieces)) for pieces in split]

    def _counts(self, pieces: set[str]) -> dict[str, int]:
        counts = self.table.lookup(pieces)
        missing = [piece for piece in pieces if piece not in counts]
        if missing:
            learned = dict(zip(missing, self.backend.count_batch(missing), strict=True))
            self.table.add(learned)
            counts |= learned
        return counts


def counter_for(encoding: str = DEFAULT_ENCODING, pieces: PieceTable | None = None) -> TokenCounter:
    """Choose the best counter that needs no network: exact where a vocabulary is on disk, else by bytes.

    No vocabulary is loaded here. With `pieces` an exact counter loads one only for pieces not in that table;
    encodings without a split pattern here (see `split_pieces`) pass it by.

    Raises ConfigurationError for an encoding that nobody knows, ValueError for a table of another encoding.
    """
    exact = _exact_counter(encoding)
    if exact is None:
        _require_known(encoding)
        return ByteCounter(encoding)
    if pieces is None or encoding not in SPLITS:
        return exact
    return PieceCounter(pieces, exact)


def known_encodings() -> tuple[str, ...]:
    """Return, sorted, the names that `counter_for` takes: those of toktok-rs, tiktoken and its plugins."""
    import tiktoken

    names = {*_FILES, *tiktoken.list_encoding_names()}
    if _toktok_works():
        names.update(TOKTOK_ENCODINGS)
    return tuple(sorted(names))


def _exact_counter(encoding: str) -> TokenCounter | None:
    if encoding in TOKTOK_ENCODINGS and _toktok_works():
        return ToktokCounter(encoding)
    if vocabulary_on_disk(encoding):
        return TiktokenCounter(encoding)
    return None


def _require_known(encoding: str) -> None:
    known = known_encodings()
    if encoding not in known:
        raise ConfigurationError(f"unknown encoding {encoding!r}; known are {', '.join(known)}")


def _toktok_works() -> bool:
    try:
        import toktok  # noqa: F401
    except ImportError:
        return False
    return True


def vocabulary_on_disk(encoding: str) -> bool:
    """Tell whether tiktoken would find every file of `encoding` in its cache, whole, and download nothing."""
    directory = _tiktoken_cache()
    files = _FILES.get(encoding)
    if directory is None or files is None:
        return False
    try:
        return all(_sha256(directory / _cache_name(file)) == _SHA256[file] for file in files)
    except OSError:
        return False


def _tiktoken_cache() -> Path | None:
    for name in ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR"):
        if name in os.environ:
            # To tiktoken an empty value means: no cache, always download.
            return Path(os.environ[name]) if os.environ[name] else None
    import tempfile

    return Path(tempfile.gettempdir()) / "data-gym-cache"


def _cache_name(path: str) -> str:
    return hashlib.sha1((_BLOBS + path).encode(), usedforsecurity=False).hexdigest()


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
