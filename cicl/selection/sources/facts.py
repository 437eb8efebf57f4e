"""Facts: what one file says by itself, before anything is linked.

Facts depend on the path and the bytes of one file and on nothing else, so they are kept by content
digest and a changed file costs that file. They hold no text: spans point into the file.
"""

import json
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from cicl.selection.records import Span, UnitKind

__all__ = [
    "FIELDS",
    "OF_FILE",
    "Extraction",
    "FileFacts",
    "Import",
    "Link",
    "Mark",
    "UnitFacts",
    "decode_facts",
    "encode_facts",
]

FIELDS = ("path", "name", "doc", "body")
"""Fields of the index, in the order of their codes."""


Link = tuple[int, int]
"""A key under which a unit can be looked up, and the unit's place in `FileFacts.units`, or `OF_FILE`."""

OF_FILE = -1


class Mark(NamedTuple):
    """An explicit statement, in the right place, about the standing of a unit."""

    kind: Literal["stale", "superseded", "generated"]
    line: int
    """Where it stands; 0 when it was stated outside the file's lines."""
    text: str
    replacement: str = ""
    """The name that replaces the unit, as written; empty where none is given."""


class Import(NamedTuple):
    """One imported name: ``from module import name as alias`` or ``import module as alias``."""

    module: str
    """Dotted; relative imports keep their leading dots."""
    name: str
    """Empty for ``import module``; ``*`` for a star import."""
    alias: str
    """The name it is bound to in the file; empty for a star import."""
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitFacts:
    """One unit of a file, without its text."""

    name: str
    """Local part of the id: `Class.method`, `<module>`, a section's slug; empty for the file itself."""
    kind: UnitKind
    role: str
    """`module`, `class`, `function`, `method`, `section`, `block`, `instruction`, `note`, `file`."""
    span: Span
    own: tuple[Span, ...] = ()
    """Lines of the span that belong to no nested unit; empty means the whole span."""
    doc: tuple[Span, ...] = ()
    """Lines that are prose: a docstring, a heading."""
    title: str = ""
    """Signature of a symbol, heading path of a section, first words of an instruction."""
    summary: str = ""
    """First sentence of the prose, at most 200 characters."""
    marks: tuple[Mark, ...] = ()
    scope: tuple[str, ...] = ()
    """Path globs that a rule or memory covers, relative to the root; empty: everything."""
    requires: tuple[str, ...] = ()
    """Explicit preconditions, ids or paths as written."""
    supersedes: tuple[str, ...] = ()
    """What it says it replaces, as written."""
    confidence: float = 1.0
    bases: tuple[str, ...] = ()
    """Base classes as written."""
    decorators: tuple[str, ...] = ()
    defines: tuple[str, ...] = ()
    """Names that a module or class body assigns."""
    references: tuple[str, ...] = ()
    """Dotted names that the unit calls or names, as written, in order of first use."""
    parameters: tuple[str, ...] = ()
    """Parameter names of a function: a test's parameters name its fixtures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    """What one file says by itself."""

    path: str
    digest: str
    """Of the file's bytes."""
    language: str
    """`python`, `document`, `instructions`."""
    lines: int
    units: tuple[UnitFacts, ...]
    """The parts in order of their first line; the file itself is not among them."""
    imports: tuple[Import, ...] = ()
    marks: tuple[Mark, ...] = ()
    """About the whole file."""
    problem: str = ""
    """Why the file was read as plain lines, where its own reader failed."""

    @property
    def aliases(self) -> dict[str, tuple[str, ...]]:
        """The originals of each name that imports bind to another."""
        found: dict[str, tuple[str, ...]] = {}
        for item in self.imports:
            original = item.name or item.module
            if item.alias not in ("", original):
                found[item.alias] = (*found.get(item.alias, ()), original.rpartition(".")[2])
        return found


@dataclass(frozen=True, slots=True)
class Extraction:
    """Everything one file contributes to the snapshot."""

    facts: FileFacts
    text: str
    """Decoded; lines end at a line feed."""
    links: tuple[Link, ...] = ()


def encode_facts(facts: FileFacts) -> bytes:
    """Return `facts` as JSON; fields at their default are left out, so the common unit is short."""
    record: dict[str, Any] = {
        "path": facts.path,
        "digest": facts.digest,
        "language": facts.language,
        "lines": facts.lines,
        "units": [_sparse(unit) for unit in facts.units],
    }
    for name in ("imports", "marks", "problem"):
        if value := getattr(facts, name):
            record[name] = value
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def decode_facts(data: bytes) -> FileFacts:
    """Return the facts that `encode_facts` wrote.

    Raises `ValueError`, `KeyError` or `TypeError` for anything else.
    """
    record = json.loads(data)
    return FileFacts(
        path=record["path"],
        digest=record["digest"],
        language=record["language"],
        lines=record["lines"],
        units=tuple(_unit(item) for item in record["units"]),
        imports=tuple(Import(*item) for item in record.get("imports", ())),
        marks=tuple(Mark(*item) for item in record.get("marks", ())),
        problem=record.get("problem", ""),
    )


_UNIT_TUPLES = (
    "scope",
    "requires",
    "supersedes",
    "bases",
    "decorators",
    "defines",
    "references",
    "parameters",
)
_UNIT_SPANS = ("own", "doc")
_UNIT_PLAIN = ("title", "summary")


def _sparse(unit: UnitFacts) -> dict[str, Any]:
    record: dict[str, Any] = {"name": unit.name, "kind": unit.kind, "role": unit.role, "span": unit.span}
    for name in (*_UNIT_PLAIN, *_UNIT_SPANS, *_UNIT_TUPLES, "marks"):
        if value := getattr(unit, name):
            record[name] = value
    if unit.confidence != 1.0:
        record["confidence"] = unit.confidence
    return record


def _unit(record: dict[str, Any]) -> UnitFacts:
    values: dict[str, Any] = dict(record)
    values["span"] = Span(*record["span"])
    for name in _UNIT_SPANS:
        if name in record:
            values[name] = tuple(Span(*item) for item in record[name])
    for name in _UNIT_TUPLES:
        if name in record:
            values[name] = tuple(record[name])
    if "marks" in record:
        values["marks"] = tuple(Mark(*item) for item in record["marks"])
    return UnitFacts(**values)
