"""A process that extracts batches of files: one JSON line in, one segment file and one JSON line out.

It is started with the interpreter and the module path of its parent. It is a process of its own, and not a
pool of `concurrent.futures`, because a pool either forks a host program that may run threads, or imports
the host's main module again; and because a file that crashes the parser then costs one batch, not the host.
"""

import contextlib
import gc
import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cicl.pieces import as_written, distinct_pieces, shown_lines
from cicl.selection.cards import CONSEQUENCES
from cicl.selection.counting import Vocabulary
from cicl.selection.records import Skipped
from cicl.selection.rendering import FRAME, heads
from cicl.selection.segments import Segment, build_segment
from cicl.selection.sources.decoding import decode
from cicl.selection.sources.documents import ALL
from cicl.selection.sources.extraction import extract
from cicl.selection.sources.facts import Extraction, FileFacts
from cicl.selection.sources.files import FileEntry, Limits, read_file
from cicl.storage.arrays import write_arrays
from cicl.text import digest_bytes

__all__ = ["Batch", "Memory", "extract_batch", "main"]

MAX_REASON_CHARS = 200


@dataclass(frozen=True, slots=True)
class Memory:
    """What a worker need not work out again: words it has split, and lines it has seen, by their hash."""

    vocabulary: Vocabulary = field(default_factory=Vocabulary)
    lines: set[int] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Batch:
    """What a batch of files yielded."""

    segment: Segment
    skipped: dict[str, str]
    """Reason by path."""
    partly: dict[str, str]
    """Reason by path, of files that were read as plain lines because their own reader failed."""
    pieces: frozenset[str]
    """The distinct pieces that an encoding splits the shown lines into, for the token table."""


def extract_batch(
    root: Path, entries: Iterable[FileEntry], limits: Limits, encoding: str, memory: Memory
) -> Batch:
    """Read and extract files in the order of their paths."""
    extractions: list[Extraction] = []
    skipped: dict[str, str] = {}
    pieces: set[str] = set()
    for entry in entries:
        data = read_file(root, entry, limits)
        decoded = data if isinstance(data, Skipped) else decode(data, entry.path, limits)
        if isinstance(decoded, Skipped) or isinstance(data, Skipped):
            assert isinstance(decoded, Skipped)
            skipped[entry.path] = decoded.reason
            continue
        try:
            extractions.append(extract(entry.path, decoded.text, digest_bytes(data)))
        except Exception as error:  # whatever an extractor stumbles over, a file costs no more than itself
            skipped[entry.path] = f"reading it failed: {type(error).__name__}: {error}"[:MAX_REASON_CHARS]
            continue
        if encoding:
            texts = _texts_of_cards(decoded.text, extractions[-1].facts, memory)
            pieces |= distinct_pieces(texts, encoding)
    known = len(memory.vocabulary.terms)
    segment = build_segment(extractions, memory.vocabulary)
    if encoding and extractions:
        quoted = " ".join(f"`{term}`," for term in memory.vocabulary.terms[known:])
        pieces |= distinct_pieces([quoted, FRAME, *CONSEQUENCES.values()], encoding)
        pieces |= as_written(pieces)
    partly = {item.facts.path: item.facts.problem for item in extractions if item.facts.problem}
    return Batch(segment, skipped, partly, frozenset(pieces))


def _texts_of_cards(text: str, facts: FileFacts, memory: Memory) -> list[str]:
    """What cards may quote of a file: its names, where it stands, and, of what people write, its lines."""
    texts = [heads(facts.path, ((unit.name, unit.span) for unit in facts.units))]
    if not any(unit.name == ALL for unit in facts.units):
        new = {hash(line): line for line in text.split("\n") if hash(line) not in memory.lines}
        memory.lines.update(new)
        texts.append(shown_lines("\n".join(new.values())))
        raw = [line for line in new.values() if not line[:1].isspace() or not line.isascii()]
        texts.append("\n".join(raw) + "\n")
    return texts


def main() -> int:
    """Serve batches until standard input ends."""
    gc.disable()  # syntax trees hold no cycles, and looking for some took a sixth of the time
    memory, seen = Memory(), set[str]()
    for order in _orders(sys.stdin):
        entries = [FileEntry(*item) for item in order["entries"]]
        limits = Limits(*order["limits"])
        batch = extract_batch(Path(order["root"]), entries, limits, order["encoding"], memory)
        meta = {
            "skipped": batch.skipped,
            "partly": batch.partly,
            "pieces": sorted(batch.pieces - seen),
        }
        seen |= batch.pieces
        with contextlib.suppress(OSError):  # a full disk: who asked will find no file, and do it himself
            write_arrays(Path(order["out"]), batch.segment.to_arrays(), meta)
        sys.stdout.write("done\n")
        sys.stdout.flush()
    return 0


def _orders(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    for line in lines:
        yield json.loads(line)


if __name__ == "__main__":
    sys.exit(main())
