"""Relations: the typed edges that leave a file or a part, read off the corpus.

Each function answers for one unit and depends on the corpus only, so an edge found from its source is the
same edge found from its target.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from fnmatch import fnmatchcase
from itertools import chain, takewhile
from pathlib import PurePosixPath
from posixpath import join, normpath

import numpy as np

from cicl.selection.corpus import Corpus
from cicl.selection.linking import Linker, Target
from cicl.selection.records import Edge, EdgeKind
from cicl.selection.segments import band_keys
from cicl.selection.sources.facts import UnitFacts
from cicl.selection.sources.names import (
    MODULE,
    is_test_path,
    link_key,
    local_name,
    module_key,
    module_names,
    referred_names,
    written_name,
    written_names,
)

__all__ = [
    "covers",
    "edges_from_file",
    "edges_from_part",
    "is_nested",
    "is_outdated",
    "sources_of",
    "stating",
]

MIN_SIMILARITY = 0.6
"""Estimated Jaccard similarity from which two bodies are said to be similar."""
MAX_SIMILAR = 20
"""A body that resembles more than this is boilerplate."""
TOO_COMMON = 400
"""A name that more units use than this leads nowhere in one hop."""
NAMING_CONVENTION = 0.6
"""`test_x.py` tests `x.py`: right by convention only."""
FIXTURE = 0.5
"""A test needs its fixture to run, but not to be understood."""


def edges_from_file(corpus: Corpus, linker: Linker, file: int) -> Iterator[Edge]:
    """Yield the edges of a file: what it contains and imports, and what it tests by its name."""
    path = corpus.path(file)
    facts = corpus.facts(file)
    for unit in facts.units:
        if unit.name and (unit.kind not in ("symbol", "test") or "." not in unit.name):
            yield Edge(path, f"{path}::{unit.name}", "contains")
    if facts.language == "python":
        for target in linker.imported_files(file):
            yield Edge(path, corpus.path(target.file), "imports", target.weight)
        yield from _tested_by_name(corpus, path)


def edges_from_part(
    corpus: Corpus, linker: Linker, part: int, names: Collection[str] | None = None
) -> Iterator[Edge]:
    """Yield the edges of a part: its members, what it calls or tests, needs, resembles and contradicts.

    With `names`, of the references only those that may mean one of these simple names.
    """
    file = corpus.file_of(part)
    facts, unit = corpus.facts(file), corpus.part_facts(part)
    source = corpus.part_id(part)
    if unit.role == "class":
        for inner in facts.units:
            if inner.name.startswith(unit.name + ".") and "." not in inner.name[len(unit.name) + 1 :]:
                yield Edge(source, f"{facts.path}::{inner.name}", "contains")
    yield from _references(corpus, linker, file, unit, source, names)
    yield from _fixtures(corpus, linker, file, unit, source)
    yield from _stated(corpus, linker, file, unit, source)
    similar = list(_similar(corpus, part, source))
    yield from similar
    yield from _outdated_by_likeness(corpus, unit, similar)


def sources_of(corpus: Corpus, unit_id: str, limit: int | None) -> list[str]:
    """Return the ids of units from which an edge may reach `unit_id`, each once.

    Of those that merely name it or resemble it, the `limit` nearest by path.
    """
    found = corpus.find_unit(unit_id)
    if found is None:
        return []
    file, part = found
    path = corpus.path(file)
    sources = stating(corpus, unit_id)
    if part is None:
        testers = chain.from_iterable(corpus.find_files(link_key("file", name)) for name in _test_names(path))
        rows = [*_importers(corpus, path, limit), *testers]
        sources.extend(corpus.path(row) for row in _nearest(rows, path, limit, corpus.path))
    else:
        unit = corpus.part_facts(part)
        names = names_of(corpus, part)
        rows = list(chain.from_iterable(corpus.find_parts(link_key("refer", name)) for name in names))
        rows.extend(chain.from_iterable(corpus.find_parts(key) for key in _bands(corpus, part)))
        near = _nearest(rows, path, limit, lambda row: corpus.path(corpus.file_of(row)))
        sources.extend(corpus.part_id(row) for row in near)
        owner = unit.name.rpartition(".")[0] if unit.kind in ("symbol", "test") else ""
        sources.append(f"{path}::{owner}" if owner else path)
    return [source for source in dict.fromkeys(sources) if source != unit_id]


def stating(corpus: Corpus, unit_id: str) -> list[str]:
    """Return the ids of units that state something about `unit_id`: that they require or replace it."""
    found = corpus.find_unit(unit_id)
    if found is None:
        return []
    names = _file_names(corpus, unit_id) if found[1] is None else _part_names(corpus, found[1])
    rows = chain.from_iterable(corpus.find_parts(link_key("state", name)) for name in names)
    return [corpus.part_id(row) for row in sorted(set(rows)) if corpus.part_id(row) != unit_id]


def names_of(corpus: Corpus, part: int) -> tuple[str, ...]:
    """Return the simple names by which other units may refer to a part, also where an import renames it."""
    unit = corpus.part_facts(part)
    own = [] if unit.name in ("", MODULE) else [local_name(unit.name)]
    return _with_aliases(corpus, [*own, *unit.defines])


def _part_names(corpus: Corpus, part: int) -> list[str]:
    """The names by which prose may mean a part: also the last part of the slug of a section."""
    return [*written_names(corpus.part_facts(part).name)[-1:], *names_of(corpus, part)]


def _file_names(corpus: Corpus, path: str) -> list[str]:
    """The names by which prose may mean a file: its own with suffix, and the last one of its module."""
    return [path.rpartition("/")[2], *_with_aliases(corpus, module_names(path)[-1:])]


def _with_aliases(corpus: Corpus, names: Iterable[str]) -> tuple[str, ...]:
    """Add the names to which imports, and imports of what they import, bind these names."""
    known = dict.fromkeys(names)
    pending = list(known)
    while pending:
        original = pending.pop()
        for file in corpus.find_files(link_key("alias", original)):
            for alias, originals in corpus.facts(file).aliases.items():
                if original in originals and alias not in known:
                    known[alias] = None
                    pending.append(alias)
    return tuple(known)


def _importers(corpus: Corpus, path: str, limit: int | None) -> Collection[int]:
    """The files that may reach `path` by an import, through re-exports too.

    With a `limit`, of those that re-export it only the packages it lies in: they name the package only.
    """
    names = module_names(path)
    if limit is not None:
        names += tuple(sorted({name.rpartition(".")[0] for name in names} - {""}))
    rows = dict.fromkeys(_importing(corpus, names))
    pending = list(rows) if limit is None else []
    while pending:
        further = _importing(corpus, module_names(corpus.path(pending.pop())))
        new = dict.fromkeys(row for row in further if row not in rows)
        rows |= new
        pending.extend(new)
    return rows


def _importing(corpus: Corpus, names: Iterable[str]) -> Iterable[int]:
    return chain.from_iterable(corpus.find_files(module_key("import", name)) for name in names)


def _nearest(rows: Iterable[int], home: str, limit: int | None, path: Callable[[int], str]) -> list[int]:
    """The rows whose files share the most leading folders with `home`.

    Row numbers depend on the history of the corpus; within one file their order does not.
    """
    unique = sorted(set(rows))
    if limit is None or len(unique) <= limit:
        return unique
    if len(unique) > TOO_COMMON:
        return []
    paths = {row: path(row) for row in unique}
    return sorted(unique, key=lambda row: (-_shared_folders(paths[row], home), paths[row], row))[:limit]


def _shared_folders(one: str, other: str) -> int:
    pairs = zip(one.split("/"), other.split("/"), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _references(
    corpus: Corpus,
    linker: Linker,
    file: int,
    unit: UnitFacts,
    source: str,
    names: Collection[str] | None,
) -> Iterator[Edge]:
    aliases = corpus.facts(file).aliases if names is not None else {}
    for name in (*unit.references, *unit.bases, *unit.decorators):
        if names is not None and not any(item in names for item in referred_names(name, aliases)):
            continue
        for target in linker.resolve(file, unit, name):
            target_id = _id(corpus, target)
            if target_id != source and target.part is not None:
                kind: EdgeKind = "calls"
                if unit.kind == "test" and not is_test_path(corpus.path(target.file)):
                    kind = "tests"
                yield Edge(source, target_id, kind, target.weight)


def _fixtures(corpus: Corpus, linker: Linker, file: int, unit: UnitFacts, source: str) -> Iterator[Edge]:
    for name in unit.parameters if unit.kind == "test" else ():
        target = linker.find_fixture(name, file)
        if target is not None and _id(corpus, target) != source:
            yield Edge(source, _id(corpus, target), "requires", FIXTURE)


def _stated(corpus: Corpus, linker: Linker, file: int, unit: UnitFacts, source: str) -> Iterator[Edge]:
    """Edges that the text itself states: what it requires, what replaces it, what it replaces."""
    stated: list[tuple[EdgeKind, str, UnitFacts | None]] = [
        ("requires", item, None) for item in unit.requires
    ]
    stated += [("conflicts", mark.replacement, unit) for mark in unit.marks if mark.kind != "generated"]
    stated += [("conflicts", item, None) for item in unit.supersedes]
    for kind, written, scope in stated:
        for target in _find_written(corpus, linker, file, written, scope) if written else ():
            if target != source:
                yield Edge(source, target, kind)


def _find_written(
    corpus: Corpus, linker: Linker, file: int, written: str, unit: UnitFacts | None = None
) -> Iterator[str]:
    """Yield the ids that a name in prose means: an id, a path, a sibling, or a name of this file's scope."""
    written = written_name(written)
    folder = corpus.path(file).rpartition("/")[0]
    for candidate in (written, normpath(join(folder, written))):
        if corpus.find_unit(candidate) is not None:
            yield candidate
            return
    owner = unit.name.rpartition(".")[0] if unit is not None else ""
    path = corpus.path(file)
    for name in ((f"{owner}.{written}",) if owner else ()) + (written,):
        if corpus.find_unit(f"{path}::{name}") is not None:
            yield f"{path}::{name}"
            return
    dotted = written.lstrip(".")
    for target in linker.find_dotted(dotted, file) or linker.find_qualified(dotted):
        yield _id(corpus, target)


def _bands(corpus: Corpus, part: int) -> list[int]:
    signature = corpus.signature(part)
    keys: list[int] = band_keys(signature[None, :])[0].tolist() if signature.any() else []
    return keys


def _similar(corpus: Corpus, part: int, source: str) -> Iterator[Edge]:
    signature = corpus.signature(part)
    rows = {row for key in _bands(corpus, part) for row in corpus.find_parts(key)} - {part}
    if len(rows) > MAX_SIMILAR:
        return
    for row in sorted(rows):
        likeness = float(np.mean(signature == corpus.signature(row)))
        if likeness >= MIN_SIMILARITY:
            yield Edge(source, corpus.part_id(row), "similar", likeness)


def _outdated_by_likeness(corpus: Corpus, unit: UnitFacts, similar: Iterable[Edge]) -> Iterator[Edge]:
    """A stale part contradicts the current parts it resembles."""
    if not is_outdated(unit):
        return
    for edge in similar:
        found = corpus.find_unit(edge.target)
        if found and found[1] is not None and not is_outdated(corpus.part_facts(found[1])):
            yield Edge(edge.source, edge.target, "conflicts", edge.weight)


def is_outdated(unit: UnitFacts) -> bool:
    """Say whether a unit states that it is stale or superseded."""
    return any(mark.kind in ("stale", "superseded") for mark in unit.marks)


def _tested_by_name(corpus: Corpus, path: str) -> Iterator[Edge]:
    if not is_test_path(path):
        return
    name = PurePosixPath(path)
    tested = f"{name.stem.removesuffix('_test')}{name.suffix}"
    if name.name.startswith("test_"):
        tested = name.name.removeprefix("test_")
    if tested == name.name:
        return
    rows = [row for row in corpus.find_files(link_key("file", tested)) if not is_test_path(corpus.path(row))]
    for row in rows:
        yield Edge(path, corpus.path(row), "tests", NAMING_CONVENTION / len(rows))


def _test_names(path: str) -> tuple[str, str]:
    name = PurePosixPath(path)
    return f"test_{name.name}", f"{name.stem}_test{name.suffix}"


def _id(corpus: Corpus, target: Target) -> str:
    return corpus.path(target.file) if target.part is None else corpus.part_id(target.part)


def covers(scope: Iterable[str], path: str) -> bool:
    """Say whether a rule of this scope covers `path`; an empty scope covers everything."""
    globs = tuple(scope)
    return not globs or any(
        fnmatchcase(path, item) or fnmatchcase(path, item.replace("**/", "")) for item in globs
    )


def is_nested(one: str, other: str) -> bool:
    """Say whether one of two unit ids names a part of the other, as a method is of its class and its file."""
    inner, outer = (one, other) if len(one) > len(other) else (other, one)
    return inner.startswith((f"{outer}::", f"{outer}.") if "::" in outer else f"{outer}::")
