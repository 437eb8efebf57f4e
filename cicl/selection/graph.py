"""The instance context graph: all that an agent could read in one environment, and how it hangs together."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from cicl.errors import GraphError
from cicl.selection.corpus import Corpus
from cicl.selection.linking import Linker
from cicl.selection.records import ContextUnit, Edge, EdgeKind, Span
from cicl.selection.relations import edges_from_file, edges_from_part, names_of, sources_of, stating
from cicl.selection.segments import build_segment
from cicl.selection.sources.facts import Extraction, FileFacts, Mark, UnitFacts
from cicl.text import digest_text

if TYPE_CHECKING:
    import networkx as nx

__all__ = ["InstanceGraph", "ReadLines", "extract_unit"]

ReadLines = Callable[[str], Sequence[str]]
"""Returns the decoded lines of a path; raises `OSError` or `UnicodeError` when that is no longer possible."""


def _read_nothing(path: str) -> Sequence[str]:
    raise FileNotFoundError(path)


class InstanceGraph:
    """An immutable snapshot of units and typed edges.

    Units and edges of files are worked out when they are asked for; `to_networkx` works out all of them.
    Two snapshots of the same tree answer alike, however they came about.
    """

    def __init__(
        self,
        corpus: Corpus,
        *,
        instance_id: str = "",
        read_lines: ReadLines = _read_nothing,
        given: Mapping[str, ContextUnit] | None = None,
        edges: Iterable[Edge] = (),
        refresher: Callable[[], "InstanceGraph"] | None = None,
    ) -> None:
        self.corpus = corpus
        self.instance_id = instance_id
        self.linker = Linker(corpus)
        self._read_lines = read_lines
        self._given = MappingProxyType(dict(given or {}))
        self._refresher = refresher
        self._lines: dict[str, Sequence[str]] = {}
        self._units: dict[str, ContextUnit] = {}
        self._out: dict[str, tuple[Edge, ...]] = {}
        self._explicit_out: dict[str, list[Edge]] = {}
        self._explicit_in: dict[str, list[Edge]] = {}
        for edge in edges:
            self._explicit_out.setdefault(edge.source, []).append(edge)
            self._explicit_in.setdefault(edge.target, []).append(edge)

    @classmethod
    def from_units(
        cls, units: Iterable[ContextUnit], edges: Iterable[Edge] = (), *, instance_id: str = ""
    ) -> "InstanceGraph":
        """Build a graph by hand; no file is read.

        Raises `GraphError` for an id given twice, an edge whose end is not among the units, and a weight
        outside (0, 1].
        """
        given: dict[str, ContextUnit] = {}
        for unit in units:
            if not unit.id or "\0" in unit.id or unit.id in given:
                raise GraphError(
                    f"unit id {unit.id!r} is empty, given twice or holds a NUL; ids must be unique"
                )
            given[unit.id] = unit
        edges = tuple(edges)
        for edge in edges:
            for end in (edge.source, edge.target):
                if end not in given:
                    raise GraphError(
                        f"edge {edge.kind} {edge.source} -> {edge.target}: no unit has the id {end!r}"
                    )
            if not 0.0 < edge.weight <= 1.0:
                raise GraphError(
                    f"edge {edge.source} -> {edge.target}: weight {edge.weight!r} is not in (0, 1]"
                )
        corpus = Corpus([build_segment([extract_unit(given[key]) for key in sorted(given)])])
        return cls(corpus, instance_id=instance_id, given=given, edges=edges)

    @property
    def given(self) -> Mapping[str, ContextUnit]:
        """The units that stand in no file, by id."""
        return self._given

    def __contains__(self, unit_id: str) -> bool:
        return unit_id in self._given or self.corpus.find_unit(unit_id) is not None

    def __iter__(self) -> Iterator[str]:
        """Yield every unit id: files in order of path, each followed by its parts."""
        for path in self.corpus.paths:
            row = self.corpus.file_row(path)
            assert row is not None
            yield path
            for unit in self.corpus.facts(row).units:
                if unit.name:
                    yield f"{path}::{unit.name}"

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def refresh(self) -> "InstanceGraph":
        """Return a snapshot of the tree as it is now; a graph built by hand is its own refresh."""
        return self if self._refresher is None else self._refresher()

    def unit(self, unit_id: str) -> ContextUnit:
        """Return the unit, with its text; raises `KeyError` when there is none.

        `token_cost` is 0 for units of files: counting needs an encoding, which the graph does not know.
        """
        unit = self._given.get(unit_id) or self._units.get(unit_id)
        if unit is None:
            found = self.corpus.find_unit(unit_id)
            if found is None:
                raise KeyError(unit_id)
            unit = self._units[unit_id] = self._read_unit(unit_id, *found)
        return unit

    def edges_from(self, unit_id: str) -> tuple[Edge, ...]:
        """Return the edges that leave a unit, by kind and target."""
        edges = self._out.get(unit_id)
        if edges is None:
            edges = self._out[unit_id] = self._edges_from(unit_id)
        return edges

    def edges_to(self, unit_id: str, limit: int | None = None) -> tuple[Edge, ...]:
        """Return the edges that reach a unit, by kind and source.

        `limit` bounds how many places that merely name the unit are looked at, the nearest paths first.
        """
        sources = sources_of(self.corpus, unit_id, limit)
        found = self.corpus.find_unit(unit_id)
        names = names_of(self.corpus, found[1]) if found and found[1] is not None else ()
        derived = [
            edge for source in sources for edge in self._edges_naming(source, names) if edge.target == unit_id
        ]
        return _sorted([*derived, *self._explicit_in.get(unit_id, ())])

    def _edges_naming(self, source: str, names: Collection[str]) -> Iterable[Edge]:
        """The edges of `source`, less those of references that cannot mean any of `names`."""
        found = self.corpus.find_unit(source)
        if source in self._out or found is None or found[1] is None or source in self._given:
            return self.edges_from(source)
        return edges_from_part(self.corpus, self.linker, found[1], names)

    def contradictions(self, unit_id: str) -> tuple[Edge, ...]:
        """Return the `conflicts` edges that reach a unit because their source states so, by source."""
        sources = stating(self.corpus, unit_id)
        derived = [edge for source in sources for edge in self.edges_from(source) if edge.target == unit_id]
        edges = [*derived, *self._explicit_in.get(unit_id, ())]
        return _sorted(edge for edge in edges if edge.kind == "conflicts")

    def requirements(self, unit_id: str) -> tuple[str, ...]:
        """Return the ids of what a unit says it cannot do without: its `requires` edges of full weight."""
        found = self.corpus.find_unit(unit_id)
        part = found[1] if found is not None else None
        stated = part is not None and bool(self.corpus.part_facts(part).requires)
        if not stated and unit_id not in self._explicit_out:
            return ()  # most units: their other edges need not be worked out
        edges = self.edges_from(unit_id)
        return tuple(edge.target for edge in edges if edge.kind == "requires" and edge.weight == 1.0)

    def lines(self, path: str) -> Sequence[str]:
        """Return the lines of a file; empty when it can no longer be read."""
        lines = self._lines.get(path)
        if lines is None:
            try:
                lines = self._read_lines(path)
            except (OSError, UnicodeError):
                lines = ()
            self._lines[path] = lines
        return lines

    def to_networkx(self) -> "nx.MultiDiGraph[str]":
        """Return all units and edges as a frozen networkx graph.

        Nodes carry `kind`, `source`, `start` and `end` (lines, 0 where there are none), `role` and `title`;
        edges carry `kind` and `weight`, and their kind is their key.
        """
        import networkx as nx

        graph: nx.MultiDiGraph[str] = nx.MultiDiGraph(instance_id=self.instance_id)
        for unit_id in self:
            graph.add_node(unit_id, **self._attributes(unit_id))
        for unit_id in self:
            for edge in self.edges_from(unit_id):
                graph.add_edge(edge.source, edge.target, key=edge.kind, kind=edge.kind, weight=edge.weight)
        frozen: nx.MultiDiGraph[str] = nx.freeze(graph)
        return frozen

    def _attributes(self, unit_id: str) -> dict[str, Any]:
        unit = self._given.get(unit_id)
        if unit is not None:
            return _node(unit.kind, unit.source, unit.span, unit.kind, "")
        found = self.corpus.find_unit(unit_id)
        assert found is not None
        file, part = found
        facts = self.corpus.facts(file)
        if part is None:
            return _node("file", facts.path, Span(1, max(1, facts.lines)), "file", facts.path)
        own = self.corpus.part_facts(part)
        return _node(own.kind, facts.path, own.span, own.role, own.title or own.name)

    def _edges_from(self, unit_id: str) -> tuple[Edge, ...]:
        explicit = self._explicit_out.get(unit_id, [])
        found = self.corpus.find_unit(unit_id)
        if found is None or unit_id in self._given:
            return _sorted(explicit)
        file, part = found
        derived = (
            edges_from_file(self.corpus, self.linker, file)
            if part is None
            else edges_from_part(self.corpus, self.linker, part)
        )
        return _sorted([*derived, *explicit])

    def _read_unit(self, unit_id: str, file: int, part: int | None) -> ContextUnit:
        facts = self.corpus.facts(file)
        if part is None:
            span, lines = Span(1, max(1, facts.lines)), self.lines(facts.path)
            unit = UnitFacts(name="", kind="file", role="file", span=span, title=facts.path)
        else:
            unit = self.corpus.part_facts(part)
            span, lines = unit.span, self.lines(facts.path)[unit.span.start - 1 : unit.span.end]
        content = "\n".join(lines)
        return ContextUnit(
            id=unit_id,
            instance_id=self.instance_id,
            kind=unit.kind,
            source=facts.path,
            content=content,
            span=span,
            confidence=unit.confidence,
            digest=digest_text(content),
            metadata=_metadata(unit, facts.marks),
        )


def _node(kind: str, source: str, span: Span | None, role: str, title: str) -> dict[str, Any]:
    """Attributes that every exporter of networkx can write: text and whole numbers."""
    start, end = span or (0, 0)
    return {"kind": kind, "source": source, "start": start, "end": end, "role": role, "title": title}


def extract_unit(unit: ContextUnit) -> Extraction:
    """Return a unit that stands in no file as an extraction, so that it is indexed like any other."""
    text = unit.content.replace("\r\n", "\n").replace("\r", "\n")
    lines = text.count("\n") + 1
    title = " ".join([unit.source, str(unit.metadata.get("title", ""))])
    facts = UnitFacts(name="", kind=unit.kind, role="unit", span=Span(1, lines), title=title)
    file = FileFacts(
        path=unit.id,
        digest=unit.digest or digest_text(unit.content),
        language="unit",
        lines=lines,
        units=(facts,),
    )
    return Extraction(file, text)


def _metadata(unit: UnitFacts, file_marks: tuple[Mark, ...]) -> Mapping[str, Any]:
    values: dict[str, Any] = {
        "name": unit.name,
        "role": unit.role,
        "title": unit.title,
        "summary": unit.summary,
        "own": unit.own,
        "doc": unit.doc,
        "scope": unit.scope,
        "marks": tuple(mark._asdict() for mark in (*unit.marks, *file_marks)),
    }
    return MappingProxyType({key: value for key, value in values.items() if value})


def _sorted(edges: Iterable[Edge]) -> tuple[Edge, ...]:
    best: dict[tuple[str, str, EdgeKind], Edge] = {}
    for edge in edges:
        key = (edge.source, edge.target, edge.kind)
        if key not in best or best[key].weight < edge.weight:
            best[key] = edge
    return tuple(best[key] for key in sorted(best, key=lambda key: (key[2], key[0], key[1])))
