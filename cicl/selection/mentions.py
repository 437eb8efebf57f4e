"""Mentions resolved: from what a task names outright to the units it means, exactly or not at all."""

import re
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from typing import NamedTuple

from cicl.selection.corpus import Corpus
from cicl.selection.graph import InstanceGraph
from cicl.selection.queries import Mention
from cicl.selection.records import Span
from cicl.selection.sources.names import is_test_path, link_key, local_name

__all__ = ["Resolved", "resolve_mentions"]

MAX_MEANINGS = 8
"""A name with more definitions than this means none of them in particular."""


class Resolved(NamedTuple):
    """A unit that a mention means."""

    unit_id: str
    mention: Mention
    weight: float
    """1 / number of units it may mean."""


def resolve_mentions(graph: InstanceGraph, mentions: Iterable[Mention]) -> list[Resolved]:
    """Return the units that mentions mean, by mention and id; what cannot be resolved is left out."""
    resolved: list[Resolved] = []
    for mention in mentions:
        ids = sorted(dict.fromkeys(_meanings(graph, mention)))
        production = [item for item in ids if not is_test_path(item.partition("::")[0])]
        ids = production or ids
        if 0 < len(ids) <= MAX_MEANINGS:
            resolved.extend(Resolved(unit_id, mention, 1 / len(ids)) for unit_id in ids)
    return resolved


def _meanings(graph: InstanceGraph, mention: Mention) -> Iterator[str]:
    corpus = graph.corpus
    if mention.kind in ("frame", "path"):
        for file in _find_path(corpus, mention.text):
            yield _at_line(corpus, file, mention)
    elif mention.kind == "dotted":
        yield from _find_dotted(graph, mention.text)
    else:
        yield from (corpus.part_id(part) for part in corpus.find_parts(link_key("define", mention.text)))
        if mention.text in graph:
            yield mention.text


def _find_path(corpus: Corpus, text: str) -> list[int]:
    """Return the files whose path ends in `text`, or else in its longest end that any path has.

    A traceback names paths of the machine it ran on: `/usr/lib/python3/site-packages/pkg/a.py`.
    """
    parts = [part for part in re.split(r"[\\/]", text) if part not in ("", ".", "..")]
    if not parts:
        return []
    rows = corpus.find_files(link_key("file", parts[-1]))
    best, length = [], 0
    for row in rows:
        shared = _shared_end(PurePosixPath(corpus.path(row)).parts, parts)
        if shared > length:
            best, length = [row], shared
        elif shared == length:
            best.append(row)
    if length == len(parts):
        return best
    whole = [row for row in best if length == len(PurePosixPath(corpus.path(row)).parts)]
    return whole or (best if length > 1 else [])


def _shared_end(path: Iterable[str], parts: list[str]) -> int:
    shared = 0
    for one, other in zip(reversed(list(path)), reversed(parts), strict=False):
        if one != other:
            break
        shared += 1
    return shared


def _at_line(corpus: Corpus, file: int, mention: Mention) -> str:
    """The innermost unit around the line whose name agrees with the frame's; else the nearest so named.

    Where no unit is so named, as for a function inside a function, the innermost unit around the line.
    """
    path, line, function = corpus.path(file), mention.line, mention.function.rpartition(".")[2]
    units = corpus.facts(file).units
    named = [unit for unit in units if function and local_name(unit.name) == function]
    around = [unit for unit in units if unit.span.start <= line <= unit.span.end]
    nearest = sorted(named, key=lambda unit: (_distance(unit.span, line), unit.span))[:1]
    pool = [unit for unit in around if unit in named] or nearest or around
    if not pool:
        return path
    inner = min(pool, key=lambda unit: (unit.span.end - unit.span.start, unit.name))
    return f"{path}::{inner.name}" if inner.name else path


def _distance(span: Span, line: int) -> int:
    return max(span.start - line, line - span.end, 0)


def _find_dotted(graph: InstanceGraph, text: str) -> Iterator[str]:
    """Units that a dotted name means: by import path, or by its last two parts where those are defined."""
    corpus = graph.corpus
    for target in graph.linker.find_qualified(text):
        yield corpus.path(target.file) if target.part is None else corpus.part_id(target.part)
    owner, _, name = text.rpartition(".")
    owner = owner.rpartition(".")[2]
    for part in corpus.find_parts(link_key("define", name)):
        unit = corpus.part_facts(part)
        holder = unit.name if name in unit.defines else unit.name.rpartition(".")[0]
        if owner and local_name(holder) == owner:
            yield corpus.part_id(part)
    for part in corpus.find_parts(link_key("define", owner)):
        unit = corpus.part_facts(part)
        if unit.role != "class":
            continue
        for target in graph.linker.resolve(corpus.file_of(part), unit, f"self.{name}"):
            if target.part is not None:
                yield corpus.part_id(target.part)
